//! Splits text into the pieces that a BERT model knows, by its `tokenizer.json`.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A longer word is unknown as a whole, as in the tokenizer that these models were trained with. This also bounds the
/// cost of a word, which is quadratic.
const WORD_CHARS_MAX: usize = 100;

/// The vocabulary with its special pieces: `[UNK]`, `[CLS]` and `[SEP]`.
pub(super) struct WordPiece {
    vocabulary: HashMap<String, u32>,
    unknown: u32,
    first: u32,
    last: u32,
}

#[derive(Deserialize)]
struct TokenizerFile {
    normalizer: Normalizer,
    model: Model,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(rename = "type")]
    kind: String,
    lowercase: bool,
}

#[derive(Deserialize)]
struct Model {
    vocab: HashMap<String, u32>,
}

impl WordPiece {
    /// Reads `tokenizer.json`. A cased model is refused: its vocabulary has capitals, and this reader lowers them.
    pub fn read(path: &Path) -> Result<Self, String> {
        let at = |words: String| format!("{}: {words}", path.display());
        let text = std::fs::read(path).map_err(|e| at(e.to_string()))?;
        let file: TokenizerFile = serde_json::from_slice(&text).map_err(|e| at(e.to_string()))?;
        if file.normalizer.kind != "BertNormalizer" || !file.normalizer.lowercase {
            return Err(at("is not the tokenizer of an uncased BERT model".into()));
        }
        Self::of(file.model.vocab).map_err(at)
    }

    fn of(vocabulary: HashMap<String, u32>) -> Result<Self, String> {
        let special = |piece: &str| {
            vocabulary.get(piece).copied().ok_or_else(|| format!("has no piece {piece}"))
        };
        let (unknown, first, last) = (special("[UNK]")?, special("[CLS]")?, special("[SEP]")?);
        Ok(Self { vocabulary, unknown, first, last })
    }

    /// At most `most` pieces, including the first and the last marker.
    pub fn pieces(&self, text: &str, most: usize) -> Vec<u32> {
        let mut pieces = vec![self.first];
        for word in words(text) {
            self.word(&word, &mut pieces);
            if pieces.len() >= most {
                break;
            }
        }
        // Room for the last marker, which the model expects at the end of every text.
        pieces.truncate(most.saturating_sub(1));
        pieces.push(self.last);
        pieces
    }

    /// Splits a word greedily: the longest known beginning, then the longest known continuation.
    fn word(&self, word: &str, pieces: &mut Vec<u32>) {
        let before = pieces.len();
        if word.chars().count() > WORD_CHARS_MAX {
            pieces.push(self.unknown);
            return;
        }
        let mut rest = word;
        while !rest.is_empty() {
            let inside = rest.len() < word.len();
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let known = ends.into_iter().find_map(|end| {
                let piece = &rest[..end];
                let id = match inside {
                    true => self.vocabulary.get(&format!("##{piece}")),
                    false => self.vocabulary.get(piece),
                };
                id.map(|id| (end, *id))
            });
            let Some((end, id)) = known else {
                // A word with one unknown part is unknown as a whole.
                pieces.truncate(before);
                pieces.push(self.unknown);
                return;
            };
            pieces.push(id);
            rest = &rest[end..];
        }
    }
}

/// Words without accents in lower case; every punctuation mark and every Chinese character stands alone.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let end = |word: &mut String, words: &mut Vec<String>| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    let lower = text.chars().flat_map(char::to_lowercase);
    for c in lower.nfd().filter(|c| !is_combining_mark(*c)) {
        if c.is_whitespace() {
            end(&mut word, &mut words);
        } else if c.is_control() || c == '\u{fffd}' || is_format(c) {
        } else if is_mark(c) || is_chinese(c) {
            end(&mut word, &mut words);
            words.push(c.to_string());
        } else {
            word.push(c);
        }
    }
    end(&mut word, &mut words);
    words
}

/// Invisible characters, which the tokenizer drops.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Whether a character is punctuation: all of ASCII's, and the Unicode ranges of the rest.
fn is_mark(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c, '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' | '\u{2010}'..='\u{2027}'
            | '\u{2030}'..='\u{205e}' | '\u{2308}'..='\u{230b}' | '\u{2e00}'..='\u{2e5d}'
            | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}'
            | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff3d}')
}

/// The blocks of CJK ideographs, in which words are not separated by blanks.
fn is_chinese(c: char) -> bool {
    matches!(u32::from(c), 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df
        | 0x2a700..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_as_the_model_learned_them() {
        let words = |text| words(text).join("|");
        assert_eq!(words("Héllo, WORLD!  don't"), "hello|,|world|!|don|'|t");
        assert_eq!(words("a\u{0}b\tc 日本 x\u{200b}y"), "ab|c|日|本|xy");
        assert_eq!(words("snake_case→"), "snake|_|case→");
    }

    #[test]
    fn the_longest_pieces_win() {
        let known = ["[UNK]", "[CLS]", "[SEP]", "un", "unable", "##able", "##a", "x"];
        let vocabulary = (0..).zip(known).map(|(id, piece)| (piece.to_owned(), id)).collect();
        let tokenizer = WordPiece::of(vocabulary).expect("complete");
        assert_eq!(tokenizer.pieces("unable una unb x", 99), [1, 4, 3, 6, 0, 7, 2]);
        assert_eq!(tokenizer.pieces("x x x x x", 4), [1, 7, 7, 2]);
        assert_eq!(tokenizer.pieces("", 4), [1, 2]);
        assert!(WordPiece::of(HashMap::new()).is_err());
    }
}

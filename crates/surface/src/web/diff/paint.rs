//! Classes of code: keyword `k`, type `y`, string `q`, number `n` and comment `z`. A file is read as a whole, off the
//! threads that serve requests, and its classes are kept by the id of its content. A large file, and one that takes
//! too long, stays plain.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, ScopeStackOp, SyntaxReference, SyntaxSet};

/// A larger file stays plain.
pub const PAINTED_BYTES_MAX: usize = 300 * 1024;
/// A file with more lines stays plain, too.
const PAINTED_LINES_MAX: usize = 5_000;
/// A longer line stays plain: patterns may take long on it.
const LINE_BYTES_MAX: usize = 1_000;
/// How long a page waits for its files.
/// Colour is a convenience, so a page does not wait longer for it.
const TIME_MAX: Duration = Duration::from_millis(300);
/// How long the files that did not get ready in time may take, for the next page that shows them.
const LATER_MAX: Duration = Duration::from_secs(10);
/// How many spans are kept, over all files: about 16 MB.
const KEPT_SPANS_MAX: usize = 1_000_000;
/// How many files are kept, so that files without a span are bounded too.
const KEPT_FILES_MAX: usize = 2_000;

/// A span of bytes in a line, and its class.
pub(super) type Span = (Range<u32>, &'static str);

/// The classes in a file, by line. Lines beyond its end have none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FilePaint {
    lines: Vec<Vec<Span>>,
}

impl FilePaint {
    /// The spans of a line; numbers begin with 1.
    pub(super) fn line(&self, number: u32) -> &[Span] {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| self.lines.get(index)).map_or(&[], Vec::as_slice)
    }

    /// What a file costs in the cache: its spans, and one for each line.
    fn weight(&self) -> usize {
        self.lines.iter().map(|line| 1 + line.len()).sum()
    }
}

/// A file to paint.
#[derive(Clone, Debug)]
pub struct PaintOrder {
    /// The id of its content.
    pub blob: String,
    pub path: String,
    pub text: String,
}

/// Paints files and keeps the newest results.
#[derive(Clone, Default)]
pub struct PaintShop {
    kept: Arc<Mutex<KeptPaints>>,
}

/// The cache, bounded by spans and by files.
#[derive(Default)]
struct KeptPaints {
    by_key: HashMap<PaintKey, Arc<FilePaint>>,
    /// Oldest first.
    order: VecDeque<PaintKey>,
    weight: usize,
}

/// The id of a content and the name of its language: one content may be several files.
type PaintKey = (String, &'static str);

impl PaintShop {
    /// The classes of these files, by the ids of their contents. A file that stays plain has none.
    pub async fn paint(&self, orders: Vec<PaintOrder>) -> HashMap<String, Arc<FilePaint>> {
        let shop = self.clone();
        let work = move || {
            let painted = shop.paint_within(&orders, Instant::now() + TIME_MAX);
            (shop, orders, painted)
        };
        // A panic in a pattern leaves the page plain.
        let Ok((shop, mut orders, painted)) = tokio::task::spawn_blocking(work).await else {
            return HashMap::new();
        };
        // The rest is painted for the next reader of these files, who finds it in the cache.
        orders.retain(|order| !painted.contains_key(&order.blob));
        if !orders.is_empty() {
            let later = move || shop.paint_within(&orders, Instant::now() + LATER_MAX);
            drop(tokio::task::spawn_blocking(later));
        }
        painted
    }

    /// Paints until the deadline. A file that is in the cache costs no time.
    fn paint_within(
        &self,
        orders: &[PaintOrder],
        deadline: Instant,
    ) -> HashMap<String, Arc<FilePaint>> {
        let mut painted = HashMap::new();
        for PaintOrder { blob, path, text } in orders {
            let Some(syntax) = syntax_of(path) else { continue };
            let key = (blob.clone(), syntax.name.as_str());
            let known = self.kept().by_key.get(&key).cloned();
            let paint = match known {
                Some(paint) => paint,
                // Nothing is kept of a file that took too long: the machine may only have been busy.
                None => match paint_with(syntax, text, deadline) {
                    Some(paint) => self.keep(key, Arc::new(paint)),
                    None => continue,
                },
            };
            painted.insert(blob.clone(), paint);
        }
        painted
    }

    fn keep(&self, key: PaintKey, paint: Arc<FilePaint>) -> Arc<FilePaint> {
        let mut kept = self.kept();
        // Another reader may have been faster.
        if let Some(known) = kept.by_key.get(&key) {
            return known.clone();
        }
        kept.weight += paint.weight();
        kept.by_key.insert(key.clone(), paint.clone());
        kept.order.push_back(key);
        while kept.weight > KEPT_SPANS_MAX || kept.order.len() > KEPT_FILES_MAX {
            let Some(oldest) = kept.order.pop_front() else { break };
            let dropped = kept.by_key.remove(&oldest);
            kept.weight -= dropped.map_or(0, |paint| paint.weight());
        }
        paint
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, KeptPaints> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// The language of a file by its name; `None` for plain text.
fn syntax_of(path: &str) -> Option<&'static SyntaxReference> {
    // Languages that are not in the set, and the nearest that is.
    const NEAREST: [(&str, &str); 14] = [
        ("astro", "html"),
        ("cjs", "js"),
        ("cts", "js"),
        ("jsonc", "json"),
        ("jsx", "js"),
        ("kt", "java"),
        ("kts", "java"),
        ("mjs", "js"),
        ("mts", "js"),
        ("svelte", "html"),
        ("swift", "scala"),
        ("ts", "js"),
        ("tsx", "js"),
        ("vue", "html"),
    ];
    // Whole names first: `Makefile` and `Dockerfile` have no ending.
    let name = path.rsplit('/').next()?;
    let end = name.rsplit('.').next()?;
    let nearest = NEAREST.iter().find(|(known, _)| *known == end).map(|(_, nearest)| *nearest);
    let found = [Some(name), nearest, Some(end)].into_iter().flatten();
    let found = found.filter_map(|name| SYNTAXES.find_syntax_by_extension(name)).next();
    found.filter(|syntax| syntax.name != SYNTAXES.find_syntax_plain_text().name)
}

/// The classes of a file; `None` for a file that stays plain.
pub fn paint(path: &str, text: &str, deadline: Instant) -> Option<FilePaint> {
    paint_with(syntax_of(path)?, text, deadline)
}

/// Reads a file from its first line: the class of a line may depend on any line before it.
fn paint_with(syntax: &SyntaxReference, text: &str, deadline: Instant) -> Option<FilePaint> {
    let is_large = text.len() > PAINTED_BYTES_MAX || text.lines().count() > PAINTED_LINES_MAX;
    if is_large {
        return None;
    }
    let has_types = has_types(syntax);
    let (mut state, mut stack) = (ParseState::new(syntax), ScopeStack::new());
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        // Asked for each line: one pathological file must not hold a thread for long.
        if Instant::now() > deadline {
            return None;
        }
        let mut spans = Vec::new();
        if line.len() <= LINE_BYTES_MAX {
            let steps = state.parse_line(line, &SYNTAXES).ok()?;
            let (mut from, mut class) = (0, class_of(&stack));
            // An operation that does nothing, so that the last part of the line is written as well.
            let end = (line.len(), ScopeStackOp::Noop);
            for (at, step) in steps.into_iter().chain([end]) {
                match class {
                    Some(class) => add(&mut spans, line, from..at, class),
                    None if has_types => add_types(&mut spans, line, from..at),
                    None => {}
                }
                stack.apply(&step).ok()?;
                (from, class) = (at, class_of(&stack));
            }
        }
        lines.push(spans);
    }
    Some(FilePaint { lines })
}

/// Adds a span without the line's end, joined with a neighbour of its class.
fn add(spans: &mut Vec<Span>, line: &str, span: Range<usize>, class: &'static str) {
    let end = span.end.min(line.trim_end_matches(['\r', '\n']).len());
    if span.start >= end {
        return;
    }
    let (Ok(start), Ok(end)) = (u32::try_from(span.start), u32::try_from(end)) else { return };
    match spans.last_mut() {
        Some((last, known)) if last.end == start && *known == class => last.end = end,
        _ => spans.push((start..end, class)),
    }
}

/// Whether words like `AppState` are types in this language. In prose and in scripts of a shell they are words.
fn has_types(syntax: &SyntaxReference) -> bool {
    let scope = syntax.scope.build_string();
    let words = ["source.shell", "source.yaml", "source.makefile", "source.diff", "source.css"];
    scope.starts_with("source.") && !words.iter().any(|words| scope.starts_with(words))
}

/// Adds the words that are written as types are. Most languages of the set leave such words without a scope.
fn add_types(spans: &mut Vec<Span>, line: &str, part: Range<usize>) {
    let Some(text) = line.get(part.clone()) else { return };
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    for word in text.split_inclusive(|c: char| !is_part(c)) {
        let name = word.trim_end_matches(|c: char| !is_part(c));
        let is_type = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.contains(|c: char| c.is_ascii_lowercase());
        if is_type {
            let start = part.start + at;
            add(spans, line, start..start + name.len(), "y");
        }
        at += word.len();
    }
}

/// Names of scopes and their class. The innermost scope that is named here counts; of two names for one scope, the
/// first.
static CLASSES: LazyLock<Vec<(Scope, Option<&'static str>)>> = LazyLock::new(|| {
    let named = [
        ("comment", Some("z")),
        // Code within a text.
        ("meta.interpolation", None),
        ("string", Some("q")),
        ("constant.numeric", Some("n")),
        ("constant.language", Some("k")),
        ("keyword.operator.word", Some("k")),
        ("keyword.operator.logical.python", Some("k")),
        ("keyword.operator", None),
        ("keyword", Some("k")),
        ("storage.type.class.java", Some("y")),
        ("storage", Some("k")),
        ("entity.name.type", Some("y")),
        ("entity.name.class", Some("y")),
        ("entity.name.struct", Some("y")),
        ("entity.name.enum", Some("y")),
        ("entity.name.trait", Some("y")),
        ("entity.name.interface", Some("y")),
        ("entity.name.impl", Some("y")),
        ("entity.other.inherited-class", Some("y")),
        ("entity.name.tag", Some("k")),
        ("support.type", Some("y")),
        ("support.class", Some("y")),
    ];
    named.into_iter().filter_map(|(name, class)| Some((Scope::new(name).ok()?, class))).collect()
});

/// The class of the innermost known scope.
fn class_of(stack: &ScopeStack) -> Option<&'static str> {
    let known = |scope: &Scope| CLASSES.iter().find(|(named, _)| named.is_prefix_of(*scope));
    stack.as_slice().iter().rev().find_map(known).and_then(|(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn shown(path: &str, text: &str) -> Vec<String> {
        let paint = paint(path, text, later()).expect("a known language");
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let words = paint.line(number).iter().map(|(span, class)| {
                let word = &line[span.start as usize..span.end as usize];
                format!("{class}:{word}")
            });
            lines.push(words.collect::<Vec<_>>().join(" "));
        }
        lines
    }

    #[test]
    fn code_has_five_classes() {
        let rust = "/* a\n b */ pub struct Limiter {\r\n    tries: u32, // no\n}\nlet x = \"1\\n\" + 1.5;\n";
        let wanted = [
            "z:/* a",
            "z: b */ k:pub k:struct y:Limiter",
            "k:u32 z:// no",
            "",
            "k:let q:\"1\\n\" n:1.5",
        ];
        assert_eq!(shown("src/a.rs", rust), wanted);
        let call = "fn f(a: AppState) -> Option<T> { MAX; Self::new_of(a) }\n";
        assert_eq!(shown("a.rs", call), ["k:fn y:AppState y:Option k:Self"]);
        assert_eq!(shown("a.sh", "echo Hello\n"), [""]);
        let script = "const a = 'x'; // no\nclass B {}\n";
        assert_eq!(shown("a.ts", script), ["k:const q:'x' z:// no", "k:class y:B"]);
        let python = "def f(a):\n    \"\"\"says\"\"\"\n    return None if not a else 12\n";
        let wanted = ["k:def", "z:\"\"\"says\"\"\"", "k:return k:None k:if k:not k:else n:12"];
        assert_eq!(shown("x/f.py", python), wanted);
    }

    #[test]
    fn a_file_without_a_language_or_beyond_the_limits_stays_plain() {
        let is_plain = |path: &str, text: &str| paint(path, text, later()).is_none();
        assert!(is_plain("notes.txt", "let x = 1;"));
        assert!(is_plain("no-end", "let x = 1;"));
        assert!(is_plain("", "let x = 1;"));
        assert!(is_plain("a.rs", &"x\n".repeat(PAINTED_LINES_MAX + 1)));
        assert!(is_plain("a.rs", &"x".repeat(PAINTED_BYTES_MAX + 1)));
        assert!(paint("a.rs", "let x = 1;", Instant::now() - Duration::from_secs(1)).is_none());
        let long = format!("let a = \"{}\";\nlet b = 1;\n", "x".repeat(LINE_BYTES_MAX));
        let painted = paint("a.rs", &long, later()).expect("a known language");
        assert!(painted.line(1).is_empty() && !painted.line(2).is_empty());
        assert!(painted.line(0).is_empty() && painted.line(u32::MAX).is_empty());
    }

    #[test]
    fn results_are_kept_within_a_bound() {
        let shop = PaintShop::default();
        let order = |number: usize| PaintOrder {
            blob: number.to_string(),
            path: "a.rs".into(),
            text: "let x = 1;\n".into(),
        };
        let first = shop.paint_within(&[order(0)], later());
        // A kept result costs no time.
        let again = shop.paint_within(&[order(0)], Instant::now() - Duration::from_secs(1));
        assert!(Arc::ptr_eq(&first["0"], &again["0"]));
        for number in 0..KEPT_FILES_MAX + 10 {
            shop.keep((number.to_string(), "Rust"), Arc::new(FilePaint::default()));
        }
        let heavy = Arc::new(FilePaint { lines: vec![Vec::new(); KEPT_SPANS_MAX / 2] });
        for number in 0..3 {
            shop.keep((format!("heavy {number}"), "Rust"), heavy.clone());
        }
        let kept = shop.kept();
        assert_eq!((kept.by_key.len(), kept.order.len()), (2, 2));
        assert_eq!(kept.weight, KEPT_SPANS_MAX / 2 * 2);
    }
}

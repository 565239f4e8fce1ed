//! The one message of a rejection: the reviewer's words, every comment, and the commit they are about. The worker gets
//! this text word for word.

use super::{DiffSide, ReviewComment};

/// The feedback of a rejection. Without comments and a head, the words alone.
pub fn message<'c>(
    words: &str,
    comments: impl IntoIterator<Item = &'c ReviewComment>,
    head: Option<&str>,
) -> String {
    let words = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
    let comments = comments.into_iter().enumerate().map(|(n, comment)| numbered(n + 1, comment));
    let head = head.map(|head| format!("The review is about commit {head}."));
    let parts: Vec<String> = words.into_iter().chain(comments).chain(head).collect();
    parts.join("\n\n")
}

fn numbered(number: usize, comment: &ReviewComment) -> String {
    let code: Vec<String> = comment.quote.split('\n').map(indented).collect();
    format!("{number}. {}\n\n{}\n\n{}", place(comment), code.join("\n"), comment.text.trim())
}

fn indented(line: &str) -> String {
    format!("    {}", line.trim_end()).trim_end().to_owned()
}

/// `src/a.rs:35-37`, or `src/a.rs:35` for a single line.
pub fn place(comment: &ReviewComment) -> String {
    let ReviewComment { path, first_line, last_line, .. } = comment;
    // A name of a file must not look like lines of the message.
    let path = path.replace(char::is_control, "\u{fffd}");
    let lines = match first_line == last_line {
        true => format!("{path}:{first_line}"),
        false => format!("{path}:{first_line}-{last_line}"),
    };
    match comment.side {
        DiffSide::New => lines,
        DiffSide::Old => format!("{lines} (before the change)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::work::Role;
    use crate::runs::work::prompt::{Brief, pair_prompt, prompt};

    fn comments() -> [ReviewComment; 2] {
        let first = ReviewComment {
            path: "src/a.rs".into(),
            side: DiffSide::New,
            first_line: 35,
            last_line: 37,
            blob: "3f2a1c9".into(),
            quote: "fn a() {\n\n    b();".into(),
            text: "Say why.\n\nAnd test it.".into(),
        };
        let second = ReviewComment {
            path: "b.md".into(),
            side: DiffSide::Old,
            first_line: 2,
            last_line: 2,
            quote: "```".into(),
            text: "Keep this line.".into(),
            ..first.clone()
        };
        [first, second]
    }

    #[test]
    fn a_message_is_words_comments_and_head() {
        for (words, comments, head, text) in [
            ("", &[][..], None, ""),
            (" No test \n", &[], None, "No test"),
            ("No test", &[], Some("abc1"), "No test\n\nThe review is about commit abc1."),
            (
                "Nearly.",
                &comments()[..],
                Some("abc1"),
                "Nearly.\n\n\
                 1. src/a.rs:35-37\n\n    fn a() {\n\n        b();\n\nSay why.\n\nAnd test it.\n\n\
                 2. b.md:2 (before the change)\n\n    ```\n\nKeep this line.\n\n\
                 The review is about commit abc1.",
            ),
            (
                " ",
                &comments()[1..],
                None,
                "1. b.md:2 (before the change)\n\n    ```\n\nKeep this line.",
            ),
        ] {
            assert_eq!(message(words, comments, head), text);
        }
        let [odd, _] = comments();
        let odd = ReviewComment { path: "a\n2. b".into(), last_line: 35, ..odd };
        assert_eq!(place(&odd), "a\u{fffd}2. b:35");
    }

    #[test]
    fn a_prompt_has_the_message_word_for_word() {
        let text = message("Nearly.", &comments(), Some("abc1"));
        let brief = Brief { feedback: Some(text.clone()), ..Brief::default() };
        let prompts =
            [prompt(Role::Worker, &brief), prompt(Role::Crew, &brief), pair_prompt(&brief)];
        for prompt in prompts {
            assert!(prompt.contains(&format!("## Why it came back\n\n````text\n{text}\n````")));
        }
    }
}

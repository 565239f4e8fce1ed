//! The lines of a file as a table: old number, new number, sign and code, or both sides next to each other. The sign is
//! text, never colour alone. `data-line` says which line a row or a cell is, as `R35` or `L12`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use callboard_domain::text::is_obeyed;
use maud::{Markup, PreEscaped, Render, html};

use super::file::MORE_LINES;
use super::paint::Span;
use super::words::{Marks, marks};
use super::{DiffFile, DiffHunk, DiffLine, DiffSide, DiffSign, FilePaint};

/// One line shows at most this much.
/// A line of a megabyte would make a browser slow; the cell says how much is missing.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// What stands around the lines of one file.
pub(super) struct FileTable<'t> {
    pub(super) file: &'t DiffFile,
    pub(super) is_split: bool,
    /// How many lines are shown.
    pub(super) lines_max: usize,
    /// Comments by side and line; they stand under their line.
    pub(super) said: Option<&'t BTreeMap<(DiffSide, u32), Markup>>,
    pub(super) old_paint: Option<&'t FilePaint>,
    pub(super) new_paint: Option<&'t FilePaint>,
    /// The address of the form for a comment on these lines, `R35-37`; `None` where no comment can be made.
    pub(super) comment: Option<&'t dyn Fn(&str) -> String>,
    /// The address of this file with more lines around its changes.
    pub(super) more: Option<&'t str>,
    /// The number of lines around a change.
    pub(super) context: usize,
}

/// A line with the words of it that changed.
#[derive(Clone, Copy)]
struct Marked<'l> {
    line: &'l DiffLine,
    marks: &'l Marks,
}

impl<'t> FileTable<'t> {
    /// Both sides beside each other, without numbers, colours of code, comments and links.
    pub(super) fn of_sides(file: &'t DiffFile) -> Self {
        Self {
            file,
            is_split: true,
            lines_max: 0,
            said: None,
            old_paint: None,
            new_paint: None,
            comment: None,
            more: None,
            context: 0,
        }
    }

    /// The table, and the comments whose line is not in it.
    pub(super) fn render(&self) -> (Markup, Vec<&Markup>) {
        // `placed` are comments that stand under a line already; the others are returned.
        let (mut left, mut placed, mut before) = (self.lines_max, BTreeSet::new(), None);
        let mut rows = Vec::new();
        for hunk in &self.file.hunks {
            let shown = hunk.lines.len().min(left);
            if left == 0 {
                break;
            }
            rows.push(self.head(hunk, before));
            rows.push(self.body(&hunk.lines[..shown], &mut placed));
            (left, before) = (left - shown, Some(hunk.new_start.saturating_add(hunk.new_count)));
        }
        rows.push(self.end(left));
        let class = if self.is_split { "diff sides" } else { "diff" };
        let table = html! { table class=(class) { tbody { @for row in rows { (row) } } } };
        let all = self.said.into_iter().flatten();
        let astray = all.filter(|(place, _)| !placed.contains(*place)).map(|(_, said)| said);
        (table, astray.collect())
    }

    /// The columns that a row over the whole width spans.
    fn columns(&self) -> usize {
        if self.is_split { 6 } else { 4 }
    }

    /// The row above a hunk. `before` is the line behind the hunk before it.
    fn head(&self, hunk: &DiffHunk, before: Option<u32>) -> Markup {
        let has_more = match before {
            Some(end) => hunk.new_start > end,
            // Before the first hunk there are more lines unless it begins at the top of the file.
            None => hunk.new_start > 1 && hunk.old_start > 1,
        };
        let comment = self.comment.zip(commented(hunk)).map(|(comment, lines)| comment(&lines));
        html! {
            tr.hunk { td colspan=(self.columns()) {
                "@@ " (hunk.new_start) "," (hunk.new_count) " @@"
                @if !hunk.section.is_empty() { " " bdi { (VisibleText(&hunk.section)) } }
                @if let Some(address) = comment { " " a href=(address) { "comment" } }
                @if let (true, Some(address)) = (has_more, self.more) {
                    " " a href=(address) { (MORE_LINES) " more lines around" }
                }
            } }
        }
    }

    /// The last row: more lines below the last change, if the file may have any.
    fn end(&self, left: usize) -> Markup {
        let last = self.file.hunks.last().map(|hunk| hunk.lines.as_slice()).unwrap_or_default();
        let is_context = |line: &&DiffLine| line.sign == DiffSign::Context && !line.is_unended;
        // Fewer lines of context than asked for mean that the file ends there.
        let below = last.iter().rev().take_while(is_context).count();
        let more = self.more.filter(|_| left > 0 && below > 0 && below >= self.context);
        html! { @if let Some(address) = more {
            tr.hunk.tail { td colspan=(self.columns()) { a href=(address) { (MORE_LINES) " more lines below" } } }
        } }
    }

    /// The rows of a hunk's lines, in one column or in two.
    pub(super) fn body(
        &self,
        lines: &[DiffLine],
        placed: &mut BTreeSet<(DiffSide, u32)>,
    ) -> Markup {
        let words = words_of(lines);
        let lines = lines.iter().zip(&words).map(|(line, marks)| Marked { line, marks });
        let lines: Vec<Marked<'_>> = lines.collect();
        if !self.is_split {
            return html! { @for line in &lines {
                (self.unified(*line))
                (self.comments([Some(line.line)], placed))
            } };
        }
        html! { @for (left, right) in pairs(&lines) {
            tr { (self.half(left, DiffSide::Left)) (self.half(right, DiffSide::Right)) }
            (self.comments([left, right].map(|side| side.map(|side| side.line)), placed))
        } }
    }

    fn unified(&self, marked: Marked<'_>) -> Markup {
        let line = marked.line;
        let place = line.place().map(|(side, number)| format!("{}{number}", side.letter()));
        html! {
            tr class=[row_class(line)] data-line=[place] {
                td.no { @if let Some(old) = line.old { (old) } }
                td.no { @if let Some(new) = line.new { (new) } }
                td.sign { (sign(line)) }
                td.code { (self.code(marked)) }
            }
        }
    }

    /// One side of a row; empty cells where the other side has no partner.
    fn half(&self, marked: Option<Marked<'_>>, side: DiffSide) -> Markup {
        let Some(marked) = marked else {
            return html! { td.no.none {} td.sign.none {} td.code.none {} };
        };
        let line = marked.line;
        let number = if side == DiffSide::Left { line.old } else { line.new };
        let place = number.map(|number| format!("{}{number}", side.letter()));
        let class = row_class(line).unwrap_or_default();
        html! {
            td class={ "no " (class) } { @if let Some(number) = number { (number) } }
            td class={ "sign " (class) } { (sign(line)) }
            td class={ "code " (class) } data-line=[place] { (self.code(marked)) }
        }
    }

    /// The comments on these lines. A context line has two numbers, and a comment may name it by either.
    fn comments<const N: usize>(
        &self,
        lines: [Option<&DiffLine>; N],
        placed: &mut BTreeSet<(DiffSide, u32)>,
    ) -> Markup {
        let lines = lines.into_iter().flatten();
        let places = lines.flat_map(|line| {
            [line.old.map(|old| (DiffSide::Left, old)), line.new.map(|new| (DiffSide::Right, new))]
        });
        let mut here = Vec::new();
        if let Some(said) = self.said {
            for place in places.flatten() {
                if let Some(markup) = said.get(&place).filter(|_| placed.insert(place)) {
                    here.push(markup);
                }
            }
        }
        html! { @if !here.is_empty() {
            tr.said { td colspan=(self.columns()) { @for said in here { (said) } } }
        } }
    }

    fn code(&self, Marked { line, marks }: Marked<'_>) -> Markup {
        // A context line stands in both files; the file after the change is the one that is read.
        let spans = match (self.new_paint, line.new, self.old_paint, line.old) {
            (Some(paint), Some(number), _, _) | (_, _, Some(paint), Some(number)) => {
                paint.line(number)
            }
            _ => &[],
        };
        html! {
            (code(&line.text, marks, spans))
            @if line.has_return && line.sign != DiffSign::Context {
                span.odd title="carriage return" { "␍" }
            }
            @if line.is_unended { span.odd { " no newline at the end" } }
        }
    }
}

/// The lines of a hunk as a comment names them: after the change, or before it where nothing is left.
fn commented(hunk: &DiffHunk) -> Option<String> {
    let (side, start, count) = match (hunk.new_count, hunk.old_count) {
        (0, 0) => return None,
        (0, count) => (DiffSide::Left, hunk.old_start, count),
        (count, _) => (DiffSide::Right, hunk.new_start, count),
    };
    let end = start.saturating_add(count - 1);
    let letter = side.letter();
    Some(if end == start { format!("{letter}{start}") } else { format!("{letter}{start}-{end}") })
}

/// The classes that give a row its colour.
fn row_class(line: &DiffLine) -> Option<&'static str> {
    match (line.sign, line.is_moved) {
        (DiffSign::Context, _) => None,
        (DiffSign::Added, false) => Some("add"),
        (DiffSign::Added, true) => Some("add moved"),
        (DiffSign::Removed, false) => Some("del"),
        (DiffSign::Removed, true) => Some("del moved"),
    }
}

/// The sign of a line. Moved lines say so in words, not by colour alone.
fn sign(line: &DiffLine) -> Markup {
    html! {
        (line.sign.text())
        @if line.is_moved { span.moved-word title="moved" { "moved" } }
    }
}

/// The numbers of removed lines in a block and of the added lines right behind them.
fn blocks(lines: &[DiffLine]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += lines.get(at..)?.iter().take_while(|line| line.sign == DiffSign::Context).count();
        let run = |from: usize, sign| {
            let rest = lines.get(from..).unwrap_or_default();
            from..from + rest.iter().take_while(|line| line.sign == sign).count()
        };
        let removed = run(at, DiffSign::Removed);
        let added = run(removed.end, DiffSign::Added);
        // Neither a removed nor an added line follows: only the end of the hunk does.
        let is_over = added.end == at;
        at = added.end;
        (!is_over).then_some((removed, added))
    })
}

/// The changed words of each line: a removed line is compared with the added line at its place in the block.
fn words_of(lines: &[DiffLine]) -> Vec<Marks> {
    let mut all = vec![Marks::new(); lines.len()];
    for (removed, added) in blocks(lines) {
        for (old, new) in removed.zip(added) {
            (all[old], all[new]) = marks(&lines[old].text, &lines[new].text);
        }
    }
    all
}

/// The rows of the view with two sides.
fn pairs<'l>(lines: &[Marked<'l>]) -> Vec<(Option<Marked<'l>>, Option<Marked<'l>>)> {
    let mut rows = Vec::new();
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let flush = |removed: &mut Vec<_>, added: &mut Vec<_>, rows: &mut Vec<_>| {
        let (mut left, mut right) = (removed.drain(..), added.drain(..));
        loop {
            match (left.next(), right.next()) {
                (None, None) => break,
                row => rows.push(row),
            }
        }
    };
    for line in lines {
        match line.line.sign {
            DiffSign::Removed => {
                // Removed lines behind added ones begin a new block.
                if !added.is_empty() {
                    flush(&mut removed, &mut added, &mut rows);
                }
                removed.push(*line);
            }
            DiffSign::Added => added.push(*line),
            DiffSign::Context => {
                flush(&mut removed, &mut added, &mut rows);
                rows.push((Some(*line), Some(*line)));
            }
        }
    }
    flush(&mut removed, &mut added, &mut rows);
    rows
}

/// A line with its marks and classes. Spans that do not fit the text are of another content, and are left out.
fn code(text: &str, marks: &Marks, spans: &[Span]) -> Markup {
    let whole = text;
    let text = &whole[..whole.floor_char_boundary(LINE_BYTES_MAX)];
    let spans: Vec<_> = spans
        .iter()
        .map(|(span, class)| (span.start as usize..span.end as usize, *class))
        .filter(|(span, _)| text.get(span.clone()).is_some())
        .collect();
    let (mut out, mut rest) = (String::new(), 0);
    for mark in marks.iter().filter(|mark| text.get((*mark).clone()).is_some()) {
        paint(&mut out, text, rest..mark.start, &spans);
        out.push_str("<mark>");
        paint(&mut out, text, mark.clone(), &spans);
        out.push_str("</mark>");
        rest = mark.end;
    }
    paint(&mut out, text, rest..text.len(), &spans);
    html! {
        (PreEscaped(out))
        @if text.len() < whole.len() {
            span.odd { " … " (whole.len() - text.len()) " more bytes" }
        }
    }
}

/// Writes a part of a line as HTML.
fn paint(out: &mut String, text: &str, part: Range<usize>, spans: &[(Range<usize>, &str)]) {
    let mut rest = part.start;
    // Spans are in order, so the first one that matters is found without looking at all of them.
    let first = spans.partition_point(|(span, _)| span.end <= part.start);
    for (span, class) in spans[first..].iter().take_while(|(span, _)| span.start < part.end) {
        let (start, end) = (span.start.max(rest), span.end.min(part.end));
        VisibleText(&text[rest..start]).render_to(out);
        html! { span class=(class) { (VisibleText(&text[start..end])) } }.render_to(out);
        rest = end;
    }
    VisibleText(&text[rest..part.end]).render_to(out);
}

/// Text whose control characters are visible: they could hide code from a reviewer, or show it in another order.
pub(super) struct VisibleText<'t>(pub(super) &'t str);

impl Render for VisibleText<'_> {
    fn render_to(&self, out: &mut String) {
        let mut rest = self.0;
        while let Some((at, odd)) = rest.char_indices().find(|(_, c)| is_obeyed(*c)) {
            // The rest is escaped as HTML by maud's own rule.
            rest[..at].render_to(out);
            html! { span.odd { (format!("U+{:04X}", u32::from(odd))) } }.render_to(out);
            rest = &rest[at + odd.len_utf8()..];
        }
        rest.render_to(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_classes_nest_and_hidden_characters_are_shown() {
        let spans: [Span; 2] = [(0..3, "k"), (4..9, "q")];
        for (text, marks, spans, shown) in [
            (
                "let \"a b\";",
                Some(6..8),
                &spans[..],
                "<span class=\"k\">let</span> <span class=\"q\">&quot;a</span><mark><span class=\"q\"> b</span></mark><span class=\"q\">&quot;</span>;",
            ),
            ("a<b", None, &[], "a&lt;b"),
            ("ü", Some(0..1), &[(0..1, "k")], "ü"),
            ("ab", Some(0..9), &[(1..9, "k")], "ab"),
            (
                "x\u{202e}y\u{1b}\tz",
                None,
                &[],
                "x<span class=\"odd\">U+202E</span>y<span class=\"odd\">U+001B</span>\tz",
            ),
            ("", None, &[], ""),
        ] {
            assert_eq!(
                code(text, &marks.into_iter().collect(), spans).into_string(),
                shown,
                "{text}"
            );
        }
        let long = code(&"ü".repeat(LINE_BYTES_MAX), &Marks::new(), &[]).into_string();
        assert!(long.ends_with(" … 8192 more bytes</span>") && long.len() < LINE_BYTES_MAX + 100);
    }
}

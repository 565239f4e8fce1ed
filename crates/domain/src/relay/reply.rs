//! Reads an agent's output as an answer: the last complete triple of sections DIFF, TEST_PLAN and NOTES, and the
//! diff as git can take it.

use super::patch::{self, PatchLine, Reader};
use super::spec::Section;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Empty when no change is needed; else a diff with file headers, its line ends not settled yet.
    pub diff: String,
    pub test_plan: String,
    pub notes: String,
}

/// Why an output is no answer, in words for a summary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    #[error("The output has no {} section", .0.as_str())]
    Missing(Section),
    #[error("The output has no DIFF, TEST_PLAN and NOTES sections in this order")]
    OutOfOrder,
    #[error("The DIFF section holds no unified diff")]
    NoFileHeader,
}

impl Reply {
    pub fn read(output: &str) -> Result<Self, BadReply> {
        let [diff, test_plan, notes] = last_triple(output)?;
        let diff = without_fence(diff);
        let diff = if diff.trim().is_empty() { String::new() } else { ended(diff) };
        if !diff.is_empty() && !patch::has_file_header(&diff) {
            return Err(BadReply::NoFileHeader);
        }
        let (test_plan, notes) = (test_plan.trim().to_owned(), notes.trim().to_owned());
        Ok(Self { diff, test_plan, notes })
    }

    /// The second artifact, `out.md`.
    pub fn out_md(&self) -> String {
        format!("# Test Plan\n\n{}\n\n# Notes\n\n{}\n", self.test_plan, self.notes)
    }
}

fn last_triple(output: &str) -> Result<[&str; 3], BadReply> {
    let mut headings: Vec<(Section, usize, usize)> = Vec::new();
    let mut start = 0;
    for line in output.split_inclusive('\n') {
        let end = start + line.len();
        if let Some(section) = heading(line) {
            headings.push((section, start, end));
        }
        start = end;
    }
    let is_triple = |three: &[(Section, usize, usize)]| {
        three.iter().map(|(section, ..)| *section).eq(Section::ALL)
    };
    let Some(first) = headings.windows(3).rposition(is_triple) else {
        let has = |wanted: &Section| headings.iter().any(|(section, ..)| section == wanted);
        let missing = Section::ALL.into_iter().find(|section| !has(section));
        return Err(missing.map_or(BadReply::OutOfOrder, BadReply::Missing));
    };
    let text = |index: usize| {
        let (_, _, from) = headings[first + index];
        let to = headings.get(first + index + 1).map_or(output.len(), |(_, start, _)| *start);
        &output[from..to]
    };
    Ok([text(0), text(1), text(2)])
}

/// Reads a heading: two to four `#` at the very start of a line and a section's name, perhaps bold, perhaps with a
/// colon. Lines of a diff begin with another character.
fn heading(line: &str) -> Option<Section> {
    let rest = line.trim_start_matches('#');
    if !(2..=4).contains(&(line.len() - rest.len())) {
        return None;
    }
    let name = rest.trim().trim_matches(['*', ':', '_', '`']).trim();
    Section::ALL.into_iter().find(|section| {
        let same = |given: &str| given.eq_ignore_ascii_case(section.as_str());
        same(name) || same(&name.replace([' ', '-'], "_"))
    })
}

/// The content of the code fence, if there is one; text around it is dropped, unless it is a part of the diff. A
/// line of a diff never begins with a fence: it has a mark before it.
fn without_fence(section: &str) -> &str {
    let is_fence = |line: &str| line.starts_with("```") || line.starts_with("~~~");
    let mut start = 0;
    let (mut inside, mut end) = (None, section.len());
    for line in section.split_inclusive('\n') {
        if is_fence(line) {
            match inside {
                None => inside = Some((start, start + line.len())),
                Some(_) => end = start,
            }
        }
        start += line.len();
    }
    let Some((fence, inside)) = inside else { return section };
    let outside = [&section[..fence], &section[end.min(section.len())..]];
    if outside.iter().any(|text| patch::has_file_header(text)) {
        return section;
    }
    &section[inside..end]
}

/// The diff with exactly one newline at the end. Blank lines there belong to the last hunk as long as it promises
/// more lines; those that were trimmed away are put back.
fn ended(diff: &str) -> String {
    let leading = diff.len() - diff.trim_start_matches(['\n', '\r']).len();
    let whole = &diff[leading..];
    let diff = whole.trim_end_matches(['\n', '\r']);
    let line_end = if whole[diff.len()..].starts_with('\r') { "\r\n" } else { "\n" };
    let mut reader = Reader::default();
    for line in diff.lines() {
        reader.line(line);
    }
    let mut ended = format!("{diff}{line_end}");
    let (old, new) = reader.left();
    if old == new {
        let trimmed = usize::try_from(old).unwrap_or(usize::MAX).min(BLANK_ENDS_MAX);
        ended.push_str(&format!(" {line_end}").repeat(trimmed));
    }
    ended
}

/// The most context lines that git writes.
const BLANK_ENDS_MAX: usize = 3;

/// CRLF to LF, except in the lines of files that have CRLF themselves.
pub fn settle_line_ends(diff: &str, has_crlf: &dyn Fn(&str) -> bool) -> String {
    if !diff.contains('\r') {
        return diff.to_owned();
    }
    let files = patch::files(diff);
    let mut files = files.iter();
    let mut keep = false;
    let mut reader = Reader::default();
    let mut settled = String::with_capacity(diff.len());
    for line in diff.split_inclusive('\n') {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        let kind = reader.line(bare.strip_suffix('\r').unwrap_or(bare));
        if kind == PatchLine::Start {
            keep = files.next().and_then(|file| file.old.as_deref()).is_some_and(has_crlf);
        }
        let keeps = keep && kind == PatchLine::Content && !bare.starts_with('\\');
        settled.push_str(if keeps { bare } else { bare.strip_suffix('\r').unwrap_or(bare) });
        settled.push('\n');
    }
    settled
}

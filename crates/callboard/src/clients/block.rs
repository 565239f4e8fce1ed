//! The marked block in a Markdown file for agents. Everything outside the marks is the user's.

use super::entry::{BrokenFile, StrippedText};

const BEGIN: &str = "<!-- callboard:begin";
const END: &str = "<!-- callboard:end -->";
/// Counted up when the words of the block change, so that `doctor` finds an old one.
const VERSION: u32 = 1;

/// The words of AGENTS.md.
pub const FOR_AGENTS: &str = "\
## Callboard: how work is done here

Work in this repository comes from a board. Its MCP server is `callboard`; its tool `identity` says who you are.

1. Take the next task: `list` with `ready: true`, then `begin` with the task's id, `worktree: \"new\"`, your actor and an
   idempotency key that you choose. Begin a task before you edit a file.
2. Work in the worktree that `begin` names. Edit no file outside of it.
3. Call `heartbeat` as often as `begin` says while you work. If a call answers that another actor holds the task, your
   lease is lost: stop, and write nothing more.
4. Run the task's checks with `run_checks`, mend what fails, and commit your work.
5. Call `finish` with a summary of one to three sentences. Keep 0 to 3 lessons for the next agent:
   `callboard learn \"...\"`. If you cannot go on, call `cancel` with the reason.
";

/// The words of CLAUDE.md, which Claude Code reads instead.
pub const IMPORT: &str = "@AGENTS.md\n";

/// The block around these words.
pub fn text(words: &str) -> String {
    format!("{BEGIN} v{VERSION} -->\n{words}{END}")
}

/// The block that stands in a text, with plain line ends.
pub fn found(text: &str) -> Result<Option<String>, BrokenFile> {
    Ok(split(text)?.map(|(_, block, _)| block.replace("\r\n", "\n")))
}

/// The text with another block in the place of the one that stands there.
pub fn put_back(text: &str, block: &str) -> Result<StrippedText, BrokenFile> {
    let ends = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let text = match split(text)? {
        Some((before, _, after)) => format!("{before}{}{after}", block.replace('\n', ends)),
        None => text.to_owned(),
    };
    Ok(StrippedText { text, has_others: true })
}

/// The text with the block in it: at its place, or at the end.
pub fn merge(text: &str, words: &str) -> Result<String, BrokenFile> {
    let ends = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let block = self::text(words).replace('\n', ends);
    if let Some((before, _, after)) = split(text)? {
        return Ok(format!("{before}{block}{after}"));
    }
    let gap = match text {
        "" => "",
        text if text.ends_with(&format!("{ends}{ends}")) => "",
        text if text.ends_with('\n') => ends,
        _ => &format!("{ends}{ends}"),
    };
    Ok(format!("{text}{gap}{block}{ends}"))
}

/// The text without the block.
pub fn without(text: &str) -> Result<StrippedText, BrokenFile> {
    let Some((before, _, after)) = split(text)? else {
        return Ok(StrippedText { text: text.to_owned(), has_others: true });
    };
    let after = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after);
    let trimmed = before.trim_end_matches(['\r', '\n']);
    let ends = if before.contains("\r\n") { "\r\n" } else { "\n" };
    let kept = match (trimmed.is_empty(), after.is_empty()) {
        (true, _) => after.to_owned(),
        (false, true) => format!("{trimmed}{ends}"),
        (false, false) => format!("{before}{after}"),
    };
    Ok(StrippedText { has_others: !kept.trim().is_empty(), text: kept })
}

/// Whether the block is there, and in the version of this program.
pub fn is_current(text: &str) -> Option<bool> {
    let (_, block, _) = split(text).ok().flatten()?;
    Some(block.starts_with(&format!("{BEGIN} v{VERSION} -->")))
}

fn split(text: &str) -> Result<Option<(&str, &str, &str)>, BrokenFile> {
    let Some(begin) = text.find(BEGIN) else { return Ok(None) };
    let line = 1 + text[..begin].matches('\n').count();
    let Some(length) = text[begin..].find(END) else {
        let words = format!("the block of Callboard has no end; it would be {END}");
        return Err(BrokenFile { line, words });
    };
    let end = begin + length + END.len();
    Ok(Some((&text[..begin], &text[begin..end], &text[end..])))
}

//! The tag with which an agent reports how far it came.

/// The report of an agent, read from a tag alone on a line of its last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Complete,
    Blocked { reason: String },
    Continue,
    Approve { summary: String },
    Reject { reason: String },
}

/// The last ending in a message. Tags inside code fences do not count: they quote other texts.
pub fn ending(reply: &str) -> Option<Ending> {
    let mut open: Option<Fence> = None;
    let mut last = None;
    for line in reply.lines().map(str::trim) {
        match (&open, Fence::of(line)) {
            (Some(fence), Some(end)) if fence.is_closed_by(&end) => open = None,
            (None, Some(fence)) => open = Some(fence),
            (None, None) => last = tag(line).or(last),
            (Some(_), _) => {}
        }
    }
    last
}

/// A line that opens or closes a code fence.
struct Fence {
    mark: char,
    length: usize,
    is_bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Self> {
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|c| *c == mark).count();
        (length >= 3).then_some(Self { mark, length, is_bare: line.len() == length })
    }

    /// A fence is closed by a bare line of its own mark that is at least as long.
    fn is_closed_by(&self, end: &Self) -> bool {
        end.is_bare && end.mark == self.mark && end.length >= self.length
    }
}

/// The message without its tags.
pub fn without_tags(reply: &str) -> String {
    let kept: Vec<&str> = reply.lines().filter(|line| tag(line.trim()).is_none()).collect();
    kept.join("\n").trim().to_owned()
}

fn tag(line: &str) -> Option<Ending> {
    let inner = line.strip_prefix('<')?.strip_suffix("/>")?.trim();
    let (name, rest) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
    match (name, rest.trim()) {
        ("complete", "") => Some(Ending::Complete),
        ("continue", "") => Some(Ending::Continue),
        ("blocked", rest) => Some(Ending::Blocked { reason: attribute(rest, "reason")? }),
        ("approve", rest) => Some(Ending::Approve { summary: attribute(rest, "summary")? }),
        ("reject", rest) => Some(Ending::Reject { reason: attribute(rest, "reason")? }),
        _ => None,
    }
}

/// Reads `name="…"` up to the last quote: models seldom escape the quotes inside.
fn attribute(rest: &str, name: &str) -> Option<String> {
    if rest.is_empty() {
        return Some(String::new());
    }
    let value = rest.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim_start();
    let value = value.strip_prefix('"')?.strip_suffix('"')?;
    let plain = [("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    Some(plain.iter().fold(value.to_owned(), |text, (from, to)| text.replace(from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_besides_stays() {
        assert_eq!(without_tags("Wrote a.\n\n<complete/>\n"), "Wrote a.");
        assert_eq!(without_tags("<complete/>"), "");
    }

    #[test]
    fn the_last_tag_alone_on_a_line_counts() {
        let blocked = |reason: &str| Some(Ending::Blocked { reason: reason.into() });
        for (reply, expected) in [
            ("", None),
            ("all done", None),
            ("<complete/>", Some(Ending::Complete)),
            ("done\n\n  <complete />  \n", Some(Ending::Complete)),
            ("I will print <complete/> when done", None),
            ("> <complete/>", None),
            ("`<complete/>`", None),
            ("```\n<complete/>\n```", None),
            ("```\n<complete/>\n```\n<continue/>", Some(Ending::Continue)),
            ("````\n```\n<complete/>\n```\n````", None),
            ("```\n```text\n<complete/>\n```\n<continue/>", Some(Ending::Continue)),
            ("```\n~~~\n<complete/>\n~~~\n```", None),
            ("<complete/>\n<blocked reason=\"x\"/>", blocked("x")),
            ("<blocked reason=\"needs \"a\" key\"/>", blocked("needs \"a\" key")),
            ("<blocked reason=\"a &lt; b\"/>", blocked("a < b")),
            ("<blocked/>", blocked("")),
            ("<blocked why=\"x\"/>", None),
            ("<complete>", None),
            ("<approve summary=\"fine\"/>", Some(Ending::Approve { summary: "fine".into() })),
            ("<reject reason=\"no tests\"/>", Some(Ending::Reject { reason: "no tests".into() })),
        ] {
            assert_eq!(ending(reply), expected, "{reply:?}");
        }
    }
}

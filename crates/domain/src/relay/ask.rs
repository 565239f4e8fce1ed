//! What an agent may do without asking.

/// How an agent is kept from harm, besides these rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leeway {
    /// The agent only reads (`askPolicy` untrusted).
    Looks,
    /// The agent works in a folder of its own. The system keeps its processes from writing elsewhere and from
    /// connecting to other ports, and the door of its run says what the agent may do on the board. Actions of other
    /// programs on the agent's behalf are not held.
    Confined,
    /// The agent works in a folder of its own, and only its own word keeps it there.
    OnItsWord,
}

/// The request of the agent, as far as its message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRequest {
    Read,
    Write(Reach),
    /// A command, in a process of its own.
    Run,
    /// A call of the board that its run was given.
    Board,
    Other,
}

/// Which files a write names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Files in its own folders alone.
    Inside,
    Unsaid,
    Outside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskVerdict {
    Grant,
    Refuse,
    /// The agent has to wait for an answer.
    Ask,
}

/// `command` is the one to run, when it is known.
pub fn judge(
    leeway: Leeway,
    request: ToolRequest,
    command: Option<&str>,
    trusted: &[String],
) -> AskVerdict {
    match (leeway, request, command) {
        (Leeway::Confined, ToolRequest::Read | ToolRequest::Run | ToolRequest::Board, _) => {
            AskVerdict::Grant
        }
        (Leeway::Confined, ToolRequest::Write(Reach::Inside | Reach::Unsaid), _) => {
            AskVerdict::Grant
        }
        // The system would not let it, whatever a person says.
        (Leeway::Confined, ToolRequest::Write(Reach::Outside), _) => AskVerdict::Refuse,
        (Leeway::Looks, ToolRequest::Write(_), _) => AskVerdict::Refuse,
        (Leeway::OnItsWord, ToolRequest::Write(Reach::Inside), _) => AskVerdict::Grant,
        (Leeway::OnItsWord, ToolRequest::Write(Reach::Unsaid | Reach::Outside), _) => {
            AskVerdict::Ask
        }
        (_, ToolRequest::Read, None) => AskVerdict::Grant,
        (
            _,
            ToolRequest::Read | ToolRequest::Run | ToolRequest::Board | ToolRequest::Other,
            Some(command),
        ) if is_trusted(command, trusted) => AskVerdict::Grant,
        (_, ToolRequest::Read | ToolRequest::Run | ToolRequest::Board | ToolRequest::Other, _) => {
            AskVerdict::Ask
        }
    }
}

/// Whether a command starts with a trusted one: `git log` trusts `git log -3`, not `git push`. Only one plain
/// command passes: nothing that a shell would read as more, and no option that writes a file or starts a program.
pub fn is_trusted(command: &str, trusted: &[String]) -> bool {
    let shell = |c: char| c.is_control() || ";|&$<>`(){}\\".contains(c);
    let words: Vec<&str> = command.split_whitespace().collect();
    let starts = |entry: &String| {
        let entry: Vec<&str> = entry.split_whitespace().collect();
        !entry.is_empty() && words.starts_with(&entry)
    };
    !command.trim().contains(shell)
        && trusted.iter().any(starts)
        && !words.iter().skip(1).any(|word| is_risky_option(word))
}

fn is_risky_option(word: &str) -> bool {
    let word = &word.replace(['"', '\''], "");
    let risky =
        ["--output", "--pre", "--ext-diff", "--textconv", "--open-files-in-pager", "--exec"];
    let short = word.starts_with("-O") || word == "-o" || word == "-z";
    // Options may be shortened, and may carry their value.
    let name = word.split('=').next().unwrap_or_default();
    let long = name.len() > 3 && risky.iter().any(|option| option.starts_with(name));
    let whole = risky.contains(&name) || name == "--search-zip" || name == "--hostname-bin";
    short || long || whole
}

//! What an agent is told: the task, what is known about it, and how to finish.

use super::Role;

/// What an agent has to know about its task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    pub task: String,
    pub title: String,
    pub description: String,
    pub acceptance: Vec<String>,
    pub scratchpad: String,
    /// Why the work was sent back.
    pub feedback: Option<String>,
    /// Files in which the work does not fit the branch it goes to.
    pub conflict_files: Vec<String>,
    /// What whoever finished it says about it, for a reviewer.
    pub summary: Option<String>,
    pub base_branch: Option<String>,
    pub instructions: Option<String>,
}

/// For an agent that works alone.
pub fn prompt(role: Role, brief: &Brief) -> String {
    match role {
        Role::Worker => worker(brief),
        Role::Reviewer => reviewer(brief),
    }
}

/// For an agent that somebody sits beside.
pub fn pair_prompt(brief: &Brief) -> String {
    let mut text = format!("# {}\n\nYou work with a person on task {}.\n", brief.title, brief.task);
    about(&mut text, brief);
    text.push_str(
        "\n## How to finish\n\nKeep notes with update_scratchpad. When the person agrees that the work \
         is done, commit it and call request_review with a summary.\n",
    );
    text
}

fn worker(brief: &Brief) -> String {
    let mut text = format!(
        "# {}\n\nYou work alone on task {} in this folder, a git worktree with a branch of its own.\n",
        brief.title, brief.task
    );
    about(&mut text, brief);
    text.push_str(
        "\n## How to finish\n\nCommit what you did with messages that say why. Stay in this folder. Then \
         end your last message with one of these lines, alone:\n\n\
         - `<complete/>` when the work is done and can be reviewed\n\
         - `<blocked reason=\"...\"/>` when you cannot go on without somebody\n\
         - `<continue/>` when there is more to do in another run\n\n\
         If you have the tools of Callboard, you may call request_review with a summary instead of the \
         first.\n",
    );
    text
}

fn reviewer(brief: &Brief) -> String {
    let mut text = format!(
        "# Review: {}\n\nLook at the work on task {} in this folder, a git worktree. Change nothing.\n",
        brief.title, brief.task
    );
    if let Some(base) = &brief.base_branch {
        text.push_str(&format!("\n`git diff {base}...HEAD` shows what was done.\n"));
    }
    section(&mut text, "What its author says", brief.summary.as_deref().unwrap_or_default());
    about(&mut text, brief);
    text.push_str(
        "\n## How to finish\n\nEnd your last message with one of these lines, alone:\n\n\
         - `<approve summary=\"...\"/>` when it does what is asked and nothing else\n\
         - `<reject reason=\"...\"/>` when it does not, with what has to change\n",
    );
    text
}

fn about(text: &mut String, brief: &Brief) {
    section(text, "Description", &brief.description);
    let items: Vec<String> = brief.acceptance.iter().map(|item| format!("- {item}")).collect();
    section(text, "Acceptance criteria", &items.join("\n"));
    section(text, "Notes so far", &brief.scratchpad);
    section(text, "Why it came back", brief.feedback.as_deref().unwrap_or_default());
    let files: Vec<String> = brief.conflict_files.iter().map(|file| format!("- {file}")).collect();
    section(text, "Files in conflict with the branch it goes to", &files.join("\n"));
    section(text, "Instructions for this run", brief.instructions.as_deref().unwrap_or_default());
}

fn section(text: &mut String, title: &str, words: &str) {
    let words = words.trim();
    if !words.is_empty() {
        text.push_str(&format!("\n## {title}\n\n{words}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::ending::ending;
    use super::*;

    fn brief() -> Brief {
        Brief {
            task: "CB-1".into(),
            title: "Add login".into(),
            description: "With a password.".into(),
            acceptance: vec!["tests pass".into()],
            feedback: Some("no tests".into()),
            ..Brief::default()
        }
    }

    #[test]
    fn what_is_not_there_has_no_heading() {
        let text = prompt(Role::Worker, &brief());
        for there in
            ["# Add login", "With a password.", "- tests pass", "no tests", "request_review"]
        {
            assert!(text.contains(there), "{there} in {text}");
        }
        for missing in ["Notes so far", "Instructions", "conflict"] {
            assert!(!text.contains(missing), "{missing} in {text}");
        }
    }

    #[test]
    fn an_echoed_prompt_is_no_ending() {
        for role in [Role::Worker, Role::Reviewer] {
            assert_eq!(ending(&prompt(role, &brief())), None);
        }
    }
}

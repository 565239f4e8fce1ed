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
    /// What somebody told the task's agent while none could hear it, with who said it.
    pub told: Vec<String>,
    /// For one of a crew.
    pub post: Post,
}

/// Where a worker of a crew stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Post {
    pub worker: String,
    /// Its title and id.
    pub epic: Option<String>,
    pub worktree: String,
    pub branch: String,
    /// In a crew's words.
    pub state: String,
    /// Subjects of what it has not read, the newest first.
    pub mails: Vec<String>,
    /// An earlier run of it ended without a result.
    pub goes_on: bool,
}

/// For an agent that works alone.
pub fn prompt(role: Role, brief: &Brief) -> String {
    match role {
        Role::Worker => worker(brief),
        Role::Reviewer => reviewer(brief),
        Role::Crew => crew(brief),
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

fn crew(brief: &Brief) -> String {
    let Post { worker, epic, worktree, branch, state, mails, goes_on } = &brief.post;
    let mut text = format!(
        "# {}\n\nYou are {worker}, a worker of a crew, and have task {}. It is {state}.\n\n",
        brief.title, brief.task
    );
    if let Some(epic) = epic {
        text.push_str(&format!("- Epic: {epic}\n"));
    }
    text.push_str(&format!("- Worktree: {worktree}\n- Branch: {branch}\n"));
    if let Some(base) = &brief.base_branch {
        text.push_str(&format!("- It goes to: {base}\n"));
    }
    if *goes_on {
        text.push_str(
            "\nThis is a continuation: an earlier run of yours ended without a result. What it committed \
             and what it left in this folder is still there; look at `git log` and `git status` first.\n",
        );
    }
    about(&mut text, brief);
    let mails: Vec<String> = mails.iter().map(|subject| format!("- {subject}")).collect();
    section(&mut text, "Unread mail", &mails.join("\n"));
    text.push_str(
        "\n## How to hand over\n\nRead your mail with mcp__mail__list_inbox and mcp__mail__read. Commit \
         what you do on this branch, with messages that say why, and stay in this folder. Say where the \
         task stands with mcp__task__update_status:\n\n\
         - IN_PROGRESS when you begin\n\
         - REVIEW when all of it is committed and can be looked at\n\
         - BLOCKED, with a reason, when you cannot go on without somebody\n\
         - FAILED, with a reason, when it cannot be done\n\n\
         Whoever ends while the task is ASSIGNED or IN_PROGRESS has handed over nothing. Without the tools \
         of Callboard, `callboard call mcp__task__update_status '{\"status\": \"REVIEW\"}'` does the same.\n",
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
    section(text, "Messages for you", &brief.told.join("\n\n"));
}

/// What an agent hears that is told something while it works.
pub fn interruption(by: &str, text: &str) -> String {
    format!(
        "A message from {by} about your task:\n\n{text}\n\nTake it into account, go on with the task \
         and finish as you were told.\n"
    )
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
        for role in [Role::Worker, Role::Reviewer, Role::Crew] {
            assert_eq!(ending(&prompt(role, &brief())), None);
        }
    }

    #[test]
    fn one_of_a_crew_hears_where_it_stands_and_that_it_goes_on() {
        let post = Post {
            worker: "worker-1".into(),
            epic: Some("Users (CB-0)".into()),
            state: "IN_PROGRESS".into(),
            mails: vec!["Rebase Required".into()],
            ..Post::default()
        };
        let first = Brief { post: post.clone(), base_branch: Some("epic".into()), ..brief() };
        let text = prompt(Role::Crew, &first);
        for there in [
            "You are worker-1",
            "task CB-1. It is IN_PROGRESS",
            "Epic: Users (CB-0)",
            "It goes to: epic",
            "## Why it came back\n\nno tests",
            "## Unread mail\n\n- Rebase Required",
            "BLOCKED, with a reason",
        ] {
            assert!(text.contains(there), "{there} in {text}");
        }
        assert!(!text.contains("continuation"), "{text}");
        let again = Brief { post: Post { goes_on: true, ..post }, ..brief() };
        assert!(prompt(Role::Crew, &again).contains("This is a continuation"));
    }
}

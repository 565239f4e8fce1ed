//! Names of the worktrees and branches for tasks. No other file makes them, or reads a task out of them.

use super::AgentId;
use crate::ids::{TaskId, TaskName};
use crate::task::Task;

const SLUG_CHARS_MAX: usize = 30;
const ID_CHARS: usize = 8;

/// The name of a worktree: `task-`, the end of the id, and the slug of the title.
pub fn worktree(task: TaskId, title: &str) -> String {
    match slug(title).as_str() {
        "" => format!("task-{}", end_of(task)),
        slug => format!("task-{}-{slug}", end_of(task)),
    }
}

/// The id of the `n`th worker that Callboard adds by itself.
pub fn worker(n: u64) -> AgentId {
    AgentId::parse(&format!("worker-{n}")).expect("letters and digits are a name")
}

/// The name for its `n`th user: from the second on with a number.
pub fn numbered(name: &str, n: usize) -> String {
    if n <= 1 { name.to_owned() } else { format!("{name}-{n}") }
}

pub fn branch(prefix: &str, worktree: &str) -> String {
    format!("{prefix}{worktree}")
}

/// `callboard/SHOP-12-add-version-flag`: the branch of a task outside a crew. A new title does not
/// rename the branch, so only the part before the title is looked for.
pub fn task_branch(prefix: &str, task: &Task) -> String {
    match slug(&task.title).as_str() {
        "" => format!("{prefix}{}", task.name()),
        slug => format!("{prefix}{}-{slug}", task.name()),
    }
}

/// The id of a task, or the end of it, in the name of a worktree. A crew's worktree has the end alone.
pub fn worktree_owner(worktree: &str) -> Option<String> {
    if worktree.parse::<TaskId>().is_ok() {
        return Some(worktree.to_owned());
    }
    Some(worktree.strip_prefix("task-")?.get(..ID_CHARS)?.to_owned())
}

/// The short name of a task at the beginning of the name of its branch: `SHOP-12` of `SHOP-12-add-version-flag`.
pub fn branch_owner(branch: &str) -> Option<String> {
    let ends = branch.match_indices('-').map(|(at, _)| at).chain([branch.len()]);
    let mut names = ends.filter_map(|end| TaskName::parse(&branch[..end]));
    names.next().map(|name| name.to_string())
}

/// The branch on which the work of an epic's tasks comes together.
pub fn epic_branch(prefix: &str, epic: TaskId) -> String {
    format!("{prefix}epic-{}", end_of(epic))
}

/// `worker-123-session`: the terminal of a worker's run. tmux takes neither '.' nor ':' in a name.
pub fn terminal(worker: &AgentId) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = worker.as_str().chars().map(|c| if is_plain(c) { c } else { '-' });
    name.chain("-session".chars()).collect()
}

fn end_of(task: TaskId) -> String {
    let id = task.id.to_string();
    id[id.len() - ID_CHARS..].to_owned()
}

fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(SLUG_CHARS_MAX);
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(id: &str) -> TaskId {
        format!("PROJ-{id}").parse().expect("the id is well formed")
    }

    #[test]
    fn names_are_made_of_the_end_of_the_id_and_the_title() {
        let task = task("01j8x2k7q7f3az01j8k7q7f3az");
        for (title, name) in [
            ("Add user authentication", "task-k7q7f3az-add-user-authentication"),
            ("  --Fix: the *bug*!  ", "task-k7q7f3az-fix-the-bug"),
            ("Überprüfung", "task-k7q7f3az-berpr-fung"),
            ("日本語", "task-k7q7f3az"),
            ("", "task-k7q7f3az"),
            ("abcdefghij abcdefghij abcdefg hij", "task-k7q7f3az-abcdefghij-abcdefghij-abcdefg"),
        ] {
            assert_eq!(worktree(task, title), name, "{title:?}");
        }
        let name = worktree(task, "A");
        assert_eq!(numbered(&name, 1), "task-k7q7f3az-a");
        assert_eq!(numbered(&name, 2), "task-k7q7f3az-a-2");
        assert_eq!(branch("callboard/", &name), "callboard/task-k7q7f3az-a");
        assert_eq!(epic_branch("callboard/", task), "callboard/epic-k7q7f3az");
    }

    #[test]
    fn a_terminal_has_a_name_that_tmux_takes() {
        for (worker, name) in [
            ("worker-123", "worker-123-session"),
            ("w.1_a", "w-1_a-session"),
            ("human:ana", "human-ana-session"),
        ] {
            assert_eq!(terminal(&AgentId::parse(worker).expect("an id")), name);
        }
    }

    proptest! {
        #[test]
        fn every_title_names_a_folder_and_a_branch(title in ".{0,200}") {
            let name = worktree(task("01j8x2k7q7f3az01j8k7q7f3az"), &title);
            let rest = name.strip_prefix("task-k7q7f3az").expect("it begins with the id");
            prop_assert!(rest.len() <= SLUG_CHARS_MAX + 1);
            let plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
            prop_assert!(rest.chars().all(plain), "{rest}");
            prop_assert!(!rest.ends_with('-') && !rest.contains("--"), "{rest}");
            prop_assert!(rest.is_empty() || rest.starts_with('-'), "{rest}");
        }
    }

    #[test]
    fn names_of_worktrees_and_branches_lead_to_their_task() {
        for (name, owner) in [
            ("SHOP-01jcqz00000000000000000000", Some("SHOP-01jcqz00000000000000000000")),
            ("task-abcd1234-add-login", Some("abcd1234")),
            ("task-abcd1234", Some("abcd1234")),
            ("task-abc", None),
            ("mine", None),
            (".merge-SHOP-1", None),
        ] {
            assert_eq!(worktree_owner(name).as_deref(), owner, "{name}");
        }
        for (name, owner) in [
            ("SHOP-12-add-version-flag", Some("SHOP-12")),
            ("SHOP-12", Some("SHOP-12")),
            ("SHOP-12-2", Some("SHOP-12")),
            ("epic-abcd1234", None),
            ("mine", None),
        ] {
            assert_eq!(branch_owner(name).as_deref(), owner, "{name}");
        }
    }
}

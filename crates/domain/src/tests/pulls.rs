//! Pull requests of tasks as tables: `who verb TASK options => the task's pull requests after it`, each as `number
//! status commit`, one that is awaited with `+`, one to be called off with `-`.

use super::model::{Model, task_named};
use crate::command::{Command, MergedBranch, PullOpen, PullSettle, PullStep};
use crate::policy::Policy;
use crate::pulls::LOCAL;

/// The merged branch that the board's merge reports in the tables of `model`.
pub fn merged_branch() -> MergedBranch {
    MergedBranch { repo: "/r".into(), branch: "b".into(), commit: Some("c1".into()) }
}

fn command(line: &str) -> Option<Command> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (verb, task, rest) = (words[0], task_named(words[1]), &words[2..]);
    let option = |key: &str| {
        rest.iter().find_map(|word| word.strip_prefix(&format!("{key}="))).map(str::to_owned)
    };
    let number = option("number").map(|number| number.parse().expect("a number"));
    let forge = option("forge").unwrap_or_else(|| LOCAL.into());
    match verb {
        "open" => Some(Command::PullOpen(PullOpen {
            task,
            forge,
            repo: "/r".into(),
            at: number.map(|number| (number, "https://x".into())),
            branch: option("branch").unwrap_or_else(|| "b".into()),
            base: "main".into(),
            head: option("head").unwrap_or_else(|| "h".into()),
            title: "t".into(),
            machine: None,
        })),
        "settle" => Some(Command::PullSettle(PullSettle {
            task,
            forge,
            repo: "/r".into(),
            number: number.unwrap_or(1),
            step: match rest[0] {
                "awaited" => PullStep::Awaited,
                "revoked" => PullStep::Revoked,
                "off" => PullStep::CalledOff,
                "closed" => PullStep::Closed,
                word => {
                    let (commit, asked) = (Some("c9".into()), word == "merged_as_asked");
                    PullStep::Merged { commit, asked }
                }
            },
            behind: None,
        })),
        _ => None,
    }
}

fn shown(model: &Model, task: &str) -> String {
    let of_task = model.rows.pulls.iter().filter(|pull| pull.task == Some(task_named(task)));
    let words = of_task.map(|pull| {
        let awaited = match (pull.is_awaited, pull.is_revoked) {
            (false, false) => "",
            (true, false) => "+",
            (false, true) => "-",
            (true, true) => "?",
        };
        let commit = pull.merge_commit.as_deref().unwrap_or("-");
        format!("{}{awaited} {} {commit}", pull.number, pull.status)
    });
    words.collect::<Vec<_>>().join(", ")
}

fn table(text: &str) {
    let mut model = Model::new(Policy::default());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (said, wanted) = line.split_once("=>").unwrap_or((line, "*"));
        let (who, rest) = said.trim().split_once(' ').expect("who and what");
        let rest = rest.trim();
        let events = model.events.len();
        model.now.0 += 1;
        let command = command(rest).unwrap_or_else(|| model.command(rest));
        model.act(who, &command).expect("nothing here is refused");
        let task = rest.split_whitespace().nth(1).expect("a task");
        let news: Vec<&str> =
            model.events[events..].iter().copied().filter(|name| name.starts_with("pr.")).collect();
        let found = format!("{} [{}]", shown(&model, task), news.join(" "));
        assert!(wanted.trim() == "*" || found == wanted.trim(), "{line}\n  found {found}");
    }
}

#[test]
fn the_open_pull_request_of_a_branch_is_kept() {
    table(
        "
        ana create A
        w1  open A                           => 1 open - [pr.opened]
        w1  open A                           => 1 open - []
        w1  open A head=h2                   => 1 open - [pr.updated]
        w1  open A branch=b2                 => 1 open -, 2 open - [pr.opened]
        w1  open A forge=github number=7     => 1 open -, 2 open -, 7 open - [pr.opened]
        w1  open A forge=github number=7     => 1 open -, 2 open -, 7 open - []
        ana create B
        w2  open B                           => 3 open - [pr.opened]
        r   settle B merged number=3         => 3 merged c9 [pr.merged]
        w2  open B                           => 3 merged c9, 4 open - [pr.opened]
        ana settle B merged_as_asked number=4 => 3 merged c9, 4+ merged c9 [pr.merged]
        ",
    );
}

#[test]
fn what_became_of_it_is_written_once() {
    table(
        "
        ana create A
        w1  open A                           => 1 open - [pr.opened]
        ana settle A awaited                 => 1+ open - [pr.updated]
        ana settle A awaited                 => 1+ open - []
        w1  open A head=h2                   => 1 open - [pr.updated]
        ana settle A awaited                 => 1+ open - [pr.updated]
        r   settle A merged                  => 1+ merged c9 [pr.merged]
        r   settle A merged                  => 1+ merged c9 []
        r   settle A closed                  => 1+ merged c9 []
        r   settle A merged number=5         => 1+ merged c9 []
        w1  open A                           => 1+ merged c9, 2 open - [pr.opened]
        r   settle A closed number=2         => 1+ merged c9, 2 closed - [pr.closed]
        r   settle A awaited number=2        => 1+ merged c9, 2 closed - []
        r   settle A merged number=2         => 1+ merged c9, 2 merged c9 [pr.merged]
        ",
    );
}

#[test]
fn what_nobody_wants_any_more_is_called_off_where_a_forge_may_do_it() {
    table(
        "
        ana create A
        w1  open A forge=github number=7             => 7 open - [pr.opened]
        r   settle A revoked forge=github number=7   => 7 open - []
        ana settle A awaited forge=github number=7   => 7+ open - [pr.updated]
        r   settle A off forge=github number=7       => 7+ open - []
        r   settle A revoked forge=github number=7   => 7- open - [pr.updated]
        r   settle A revoked forge=github number=7   => 7- open - []
        w1  open A forge=github number=7             => 7- open - []
        r   settle A off forge=github number=7       => 7 open - [pr.updated]
        ana settle A awaited forge=github number=7   => 7+ open - [pr.updated]
        w1  open A forge=github number=7 head=h2     => 7- open - [pr.updated]
        ana settle A awaited forge=github number=7   => 7+ open - [pr.updated]
        w1  open A forge=github number=7 head=h3     => 7- open - [pr.updated]
        r   settle A merged forge=github number=7    => 7 merged c9 [pr.merged]
        w1  open A forge=github number=8             => 7 merged c9, 8 open - [pr.opened]
        ana settle A awaited forge=github number=8   => 7 merged c9, 8+ open - [pr.updated]
        w1  open A forge=github number=8 head=h2     => 7 merged c9, 8- open - [pr.updated]
        r   settle A closed forge=github number=8    => 7 merged c9, 8 closed - [pr.closed]
        ",
    );
}

#[test]
fn a_merge_of_the_board_is_the_merge_of_its_branchs_pull_request() {
    table(
        "
        ana create A
        w1  open A branch=other              => 1 open - [pr.opened]
        w1  open A                           => 1 open -, 2 open - [pr.opened]
        w1  open A forge=github number=7     => 1 open -, 2 open -, 7 open - [pr.opened]
        ana merged A                         => 1 open -, 2 merged c1, 7 open - [pr.merged]
        ",
    );
}

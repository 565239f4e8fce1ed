//! Readers see a lease that is over in the state that is written later.

use super::model::Model;
use crate::command::Command;
use crate::policy::{Phase, Policy};
use crate::task::Task;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptState};
use crate::task::standing::{Standing, settle};

/// How a task gets under a lease, and what every reader sees when the lease is over.
const TABLE: &[(&[&str], &str)] = &[
    (&["w1 take A as=s"], "backlog, free"),
    (&["w1 take A as=s", "w1 update A"], "backlog, free"),
    (&["w1 take A as=s", "w1 move A in_review"], "in_review, nobody's"),
];

fn read(model: &Model) -> (Task, Attempt) {
    let task = model.task("A").clone();
    let newest = task.newest_attempt.expect("there was an attempt");
    (task, model.rows.attempts[&newest].clone())
}

#[test]
fn a_reader_sees_what_the_sweep_will_write() {
    for (steps, expected) in TABLE {
        let mut model = Model::new(Policy::default());
        for line in ["ana create A"].iter().chain(*steps) {
            let (who, line) = line.split_once(' ').expect("who does what");
            let command = model.command(line);
            model.act(who, &command).expect("a situation can be reached");
        }
        let (task, attempt) = read(&model);
        let until = attempt.lease().expect("it is leased").expires_at;
        model.now = until.plus_ms(-1);
        let (mut early, mut live) = read(&model);
        settle(&mut early, Some(&mut live), &model.policy, model.now);
        assert_eq!((&early, &live), (&task, &attempt), "{steps:?}: still held");

        model.now = until.plus_s(5);
        let (mut seen, mut over) = read(&model);
        settle(&mut seen, Some(&mut over), &model.policy, model.now);
        let standing = Standing::of(&seen, Some(&over), model.now);
        assert_eq!(standing, Standing::of(&task, Some(&attempt), model.now), "{steps:?}");
        let holder = match (standing.is_free(), standing.held) {
            (true, _) => "free",
            (false, true) => "held",
            (false, false) => "nobody's",
        };
        assert_eq!(format!("{}, {holder}", seen.label), *expected, "{steps:?}");
        assert_eq!(over.state, AttemptState::Ended { at: until, end: AttemptEnd::Expired });

        let expire = Command::AttemptExpire { attempt: attempt.id };
        model.act("w9", &expire).expect("the sweep writes it down");
        let (written, ended) = read(&model);
        assert_eq!(ended, over, "{steps:?}");
        let shown = |task: &Task| -> (String, Phase, Option<String>) {
            let holder = task.assignee.as_ref().map(ToString::to_string);
            (task.label.clone(), task.phase, holder)
        };
        assert_eq!(shown(&written), shown(&seen), "{steps:?}");
    }
}

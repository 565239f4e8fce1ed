//! Which ways into review start a task's command checks, and which passes still count for the files, as tables.

use super::model::{Model, task_named};
use crate::needs::check_job;
use crate::policy::{ChecksOnReview, Policy};
use crate::runs::job::JobState;

/// Steps with a task `A`, and whether its checks are queued under `runs` and under `always`.
const WAYS: &[(&[&str], bool, bool)] = &[
    (&["ana create A checks=cmd", "w1 ask A"], true, true),
    (&["ana create A checks=cmd", "w1 move A in_review"], false, true),
    (&["ana create A checks=cmd", "w1 begin A as=s", "w1 finish s"], false, true),
    (&["ana create A checks=cmd", "w1 claim A"], false, false),
    (&["ana create A checks=cmd", "w1 move A in_progress"], false, false),
    (&["ana create A checks=manual", "w1 ask A"], false, false),
    (&["ana create A", "w1 ask A"], false, false),
    // A verification that runs the commands is enough.
    (&["ana create A checks=cmd", "w1 take A as=s", "w1 complete A"], false, false),
];

fn played(on_review: ChecksOnReview, steps: &[&str]) -> Model {
    let mut model = Model::new(Policy::default());
    model.policy.checks_on_review = on_review;
    for step in steps {
        let (who, rest) = step.split_once(' ').expect("who does what");
        let command = model.command(rest);
        model.act(who, &command).unwrap_or_else(|refusal| panic!("{steps:?}: {refusal:?}"));
    }
    model
}

#[test]
fn a_way_into_review_queues_the_checks() {
    for (steps, under_runs, under_always) in WAYS {
        for (setting, expected) in [
            (ChecksOnReview::Runs, *under_runs),
            (ChecksOnReview::Always, *under_always),
            (ChecksOnReview::Never, false),
        ] {
            let model = played(setting, steps);
            let job = model.rows.jobs.get(&check_job(task_named("A")));
            assert_eq!(job.is_some(), expected, "{setting:?} {steps:?}");
            assert!(job.is_none_or(|job| matches!(job.state, JobState::Queued { .. })));
        }
    }
}

/// A command that ran on `t1` and a manual check that was attested for `w1`; the current trees, and the results a
/// reader sees.
#[test]
fn a_pass_is_shown_for_the_files_it_was_given_for() {
    let setup = ["ana create A checks=cmd,manual", "w1 ran A ran=0:pass tree=t1"];
    for (closed, tree, work, expected) in [
        (false, Some("t1"), Some("w1"), "pass pass"),
        (false, Some("t2"), Some("w1"), "stale pass"),
        (false, Some("t1"), Some("w2"), "pass stale"),
        (false, None, None, "pass pass"),
        (false, None, Some("w2"), "pass stale"),
        (true, Some("t2"), Some("w2"), "pass pass"),
    ] {
        let mut model = played(ChecksOnReview::Runs, &setup);
        let id = task_named("A");
        let attest = crate::command::Command::CheckAttest {
            task: id,
            index: 1,
            pass: true,
            tree: Some("w1".into()),
        };
        model.act("ana", &attest).expect("attests");
        let mut task = model.task_of(id).clone();
        if closed {
            task.phase = crate::policy::Phase::ClosedDone;
        }
        task.judge_passes(tree, work);
        let shown: Vec<_> = task.checks.iter().map(|check| check.result()).collect();
        assert_eq!(shown.join(" "), expected, "{closed} {tree:?} {work:?}");
    }
}

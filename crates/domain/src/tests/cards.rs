//! The board's rules, as tables.

use super::model::{Model, task_named};
use super::rules::table;
use crate::board::card::ReviewState;
use crate::policy::{Policy, parse_labels};
use crate::refusal::Refusal;

#[test]
fn any_column_follows_any_other_through_both_gates() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A
        w1  card B to=working           => DEPS_NOT_CLOSED
        w1  card B to=closed_done       => DEPS_NOT_CLOSED
        w1  card B title=x to=review    => DEPS_NOT_CLOSED
        w1  card A to=review            =>
        w1  card A to=closed_done       =>
        events 2                        => task.status_changed task.ready
        w1  card A to=closed_done       => same
        w1  card B to=closed_done       =>
        w1  card B to=initial           =>
        w1  card A to=working           =>
        ? B                             => backlog - open=1
        ana move A canceled             =>
        w1  card A to=closed_done       => same
        ",
    );
}

#[test]
fn done_waits_for_checks_and_edits_wait_with_it() {
    table(
        Policy::default(),
        "
        ana create A checks=cmd
        w1  card A to=closed_done title=x                  => CHECKS_NOT_PASSED (recorded)
        w1  card A to=closed_done title=x ran=0:fail       => CHECKS_NOT_PASSED (recorded)
        entries A                                          => created ran checks ran checks(0 fail)
        ? A                                                => backlog - checks=fail
        w1  card A to=closed_done title=x ran=0:pass       =>
        entries A                                          => created ran checks ran checks(0 fail) moved to done(checks: 0 pass)
        ? A                                                => done - checks=pass
        ",
    );
}

#[test]
fn an_edit_of_a_field_that_another_person_changed_is_refused() {
    table(
        Policy::default(),
        "
        ana create A
        bob card A title=b shown=A                  =>
        ana card A title=c mode=auto shown=A        => TASK_CHANGED
        ana card A to=review title=c shown=A        => TASK_CHANGED
        ? A                                         => backlog -
        ana card A mode=auto shown=A                =>
        ana card A title=c shown=b                  =>
        ",
    );
}

#[test]
fn the_start_frees_a_task_and_other_columns_keep_its_holder() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s                =>
        ana card A to=review            =>
        ? A                             => in_review w1
        ana card A to=working           =>
        ? A                             => in_progress w1
        ana card A to=initial           =>
        events 3                        => attempt.ended task.status_changed task.released
        ? A                             => backlog -
        w1  beat s                      => SESSION_TERMINAL
        ",
    );
}

#[test]
fn a_run_ends_when_its_task_leaves_it() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s kind=job       =>
        ana card A to=review            =>
        events 1                        => task.status_changed
        ana card A to=working           =>
        events 2                        => attempt.ended task.status_changed
        ",
    );
}

#[test]
fn a_mode_ends_what_runs_in_the_other() {
    table(
        Policy::default(),
        "
        ana create A
        ana card A mode=pair            => same
        ana card A mode=auto            =>
        w1  begin A as=s kind=job       =>
        ana card A mode=pair            =>
        events 4                        => attempt.ended task.updated task.status_changed task.released
        ? A                             => backlog -
        w1  begin A as=p kind=pair      =>
        ana card A mode=auto            =>
        events 3                        => attempt.ended task.released task.updated
        ? A                             => in_progress -
        ",
    );
}

#[test]
fn task_cannot_be_its_own_parent() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B parent=A
        ana create C parent=B
        ana card A parent=X             => TASK_NOT_FOUND
        ana card A parent=A             => PARENT_CYCLE
        ana card A parent=C             => PARENT_CYCLE
        ana card C parent=A             =>
        ana card C parent=A             => same
        ana card C parent=-             =>
        ",
    );
}

#[test]
fn reviews_are_asked_for_and_decided() {
    table(
        Policy::default(),
        "
        ana create A
        w1  approve A                   => REVIEW_NOT_READY
        w1  reject A                    => REVIEW_NOT_READY
        w1  begin A as=s                =>
        w1  ask A                       =>
        events 2                        => review.requested task.status_changed
        w1  ask A summary=more          =>
        events 1                        => review.requested
        w2  reject A                    =>
        ? A                             => in_progress w1
        w1  finish s                    =>
        w2  reject A                    =>
        ? A                             => in_progress -
        w2  take A as=l                 =>
        w2  ask A                       =>
        w1  reject A back               =>
        ? A                             => backlog -
        w1  ask A                       =>
        w1  approve A unmerged          =>
        ? A                             => in_review -
        w1  approve A                   =>
        ? A                             => done -
        w1  ask A                       =>
        ? A                             => in_review -
        ",
    );
}

#[test]
fn an_approval_passes_a_contract_and_no_check() {
    table(
        Policy::default(),
        "
        ana create A verify=manual
        w1  card A to=closed_done       => CHECKS_NOT_PASSED (recorded)
        w1  ask A                       =>
        w1  approve A plainly           => CHECKS_NOT_PASSED (recorded)
        w1  approve A                   =>
        ? A                             => done - passed
        ana create C verify=manual
        w1  ask C                       =>
        ana approve C plainly           =>
        ? C                             => done - passed
        ana create B checks=cmd
        w1  ask B                       =>
        w1  approve B                   => CHECKS_NOT_PASSED (recorded)
        w1  approve B ran=0:pass        =>
        ",
    );
}

#[test]
fn what_a_verifier_still_judges_waits_for_nobody() {
    use crate::decide::verification::{self, waits_for_person};
    use crate::task::contract::{Verification, VerificationStatus};
    let model = after(&["create A", "ask A"]);
    let task = model.task("A");
    assert!(waits_for_person(task));
    let table = [
        (VerificationStatus::Pending, None, false),
        (VerificationStatus::Pending, Some("verification.pr_not_merged"), false),
        (VerificationStatus::Pending, Some(verification::MANUAL_CHECK_PENDING), true),
        (VerificationStatus::Pending, Some(verification::BLOCKED_BY_REVIEW), true),
        (VerificationStatus::AwaitingHuman, None, true),
        (VerificationStatus::Failed, Some(verification::CHECKS_FAILED), true),
    ];
    for (status, reason, waits) in table {
        let (by, at) = (super::model::actor("w1"), task.updated_at);
        let reason = reason.map(str::to_owned);
        let (external_ref, tree) = (None, None);
        let known = Verification { status, reason, external_ref, pendings: 0, by, at, tree };
        let mut task = task.clone();
        task.verification = Some(known.clone());
        assert_eq!(waits_for_person(&task), waits, "{known:?}");
    }
    assert!(!waits_for_person(after(&["create A"]).task("A")));
}

#[test]
fn a_label_that_is_not_there_is_said_so() {
    let labels = parse_labels("open:initial, done:closed_done").expect("labels");
    let policy = Policy::with_labels(labels).expect("complete");
    table(
        policy,
        "
        ana create A
        ana card A to=working           => INVALID_INPUT
        ana ask A                       => INVALID_INPUT
        ana card A to=closed_done       =>
        ",
    );
}

#[test]
fn task_with_dependents_is_not_removed() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A
        w1  claim A                     =>
        w2  discard A                   => HAS_DEPENDENTS
        w2  discard B                   =>
        w2  discard A                   =>
        w2  scribble A text=x           => TASK_NOT_FOUND
        ",
    );
}

/// Every change of a task is later than the one before, also within one microsecond.
#[test]
fn each_change_has_its_own_moment() {
    let mut model = Model::new(Policy::default());
    let mut last = None;
    let lines = ["create A", "card A to=working", "card A title=x", "scribble A text=x", "ask A"];
    for line in lines {
        let command = model.command(line);
        model.act("ana", &command).expect("accepted");
        let moment = model.task("A").updated_at;
        if line.starts_with("scribble") {
            assert_eq!(Some(moment), last, "notes move nothing");
        } else {
            assert!(Some(moment) > last, "{line}");
        }
        last = Some(moment);
    }
}

#[test]
fn a_merge_is_cleared_by_checks_and_then_simply_true() {
    table(
        Policy::default(),
        "
        ana create A checks=cmd
        ana create B deps=A
        w1  ask A                       =>
        ana clear A                     => CHECKS_NOT_PASSED (recorded)
        ana clear A ran=0:fail          => CHECKS_NOT_PASSED (recorded)
        ana clear A ran=0:pass          =>
        ? A                             => in_review - checks=pass
        ana clear B                     => DEPS_NOT_CLOSED
        ana merged A                    =>
        events 3                        => review.merged task.status_changed task.ready
        ? A                             => done - checks=pass
        ",
    );
    let model = after(&["create A", "ask A", "merged A"]);
    let review = model.card("A").review.clone().expect("one was asked for");
    assert_eq!(review.state, ReviewState::Approved, "merging is approving");
    assert_eq!(review.merge_commit.as_deref(), Some("c1"));
}

/// `seen` is the verdict that a reviewer saw, in the form that a page carries.
#[test]
fn a_verdict_on_a_review_that_was_decided_since_is_refused() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s                                =>
        w1  ask A                                       =>
        ana approve A unmerged seen=approved.0.5        => REVIEW_DECIDED
        ana approve A unmerged seen=requested.0.0       =>
        ben approve A unmerged seen=requested.0.0       => REVIEW_DECIDED
        ben reject A seen=requested.0.0                 => REVIEW_DECIDED
        ben clear A seen=requested.0.0                  => REVIEW_DECIDED
        ben clear A approved seen=requested.0.0         => REVIEW_DECIDED
        ? A                                             => in_review w1
        ben reject A                                    =>
        ana clear A seen=requested.0.0                  => REVIEW_DECIDED
        ana approve A unmerged seen=requested.0.0       => REVIEW_DECIDED
        w1  ask A                                       =>
        ana reject A seen=requested.0.0                 => REVIEW_DECIDED
        w2  approve A unmerged plainly                  =>
        ana reject A seen=requested.1.0                 =>
        ? A                                             => in_progress w1
        ",
    );
}

/// `read` is the state of the files that a reviewer read, `work` the state of now.
#[test]
fn a_verdict_on_files_that_changed_since_is_refused() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s                                =>
        ana approve A unmerged work=w1 read=w1          => REVIEW_NOT_READY
        w1  ask A                                       =>
        ana approve A unmerged work=w2 read=w1          => WORK_MOVED
        ana approve A unmerged read=w1                  => WORK_MOVED
        ana reject A work=w2 read=w1                    => WORK_MOVED
        ana clear A work=w2 read=w1                     => WORK_MOVED
        ana clear A approved work=w2 read=w1            => WORK_MOVED
        ? A                                             => in_review w1
        ana approve A unmerged work=w1 read=w1          =>
        ben approve A work=w2 read=w1 seen=requested.0.0 => REVIEW_DECIDED
        ana clear A approved work=w1 read=w1            => same
        ana clear A approved work=w2                    => NOT_APPROVED
        ana clear A work=w2                             => same
        ana reject A work=w1 read=w1                    =>
        ? A                                             => in_progress w1
        ",
    );
}

#[test]
fn an_approval_counts_for_the_files_it_was_given_for() {
    table(
        Policy::default(),
        "
        ana create A
        w1  ask A                            =>
        ana approve A unmerged work=w1       =>
        ana clear A approved work=w1         => same
        ana clear A approved work=w2         => NOT_APPROVED
        ana clear A approved                 => NOT_APPROVED
        ana clear A work=w2                  => same
        ana card A to=working                =>
        w1  card A to=review                 =>
        ana clear A approved work=w1         => same
        ana approve A unmerged work=w2       =>
        ana clear A approved work=w2         => same
        ",
    );
}

#[test]
fn a_merge_waits_for_an_approval_and_for_whoever_works() {
    table(
        Policy::default(),
        "
        ana create A checks=manual
        w1  ask A                            =>
        ana clear A approved                 => NOT_APPROVED
        ana clear A                          => CHECKS_NOT_PASSED (recorded)
        ana attest A 0                       =>
        w2  reject A                         =>
        ana clear A approved                 => NOT_APPROVED
        w1  ask A                            =>
        ana approve A unmerged               =>
        ana clear A approved                 => same
        w1  begin A as=s kind=job            =>
        ana clear A approved                 => AGENT_AT_WORK
        ana card A to=initial                =>
        w1  ask A                            =>
        ana clear A                          => same
        ana merged A                         =>
        ana clear A approved                 => same
        ana create B
        w1  begin B as=t kind=pair           =>
        ana clear B                          => same
        ",
    );
}

#[test]
fn an_agent_is_stopped_for_a_merge_or_rebase_in_review_alone() {
    use crate::decide::{MergeGate, MergeNeeds, agent_at_work, merge_gate, rebase_gate};
    let code = |gate: Result<MergeGate, Refusal>| match gate {
        Ok(MergeGate::Open) => "open",
        Ok(MergeGate::Occupied(_)) => "stop first",
        Ok(MergeGate::Merged(_)) => "merged",
        Err(refusal) => refusal.code(),
    };
    let gates = |steps: &[&str]| {
        let model = after(steps);
        let task = model.task("A");
        let card = model.card("A").clone();
        let newest = task.newest_attempt.and_then(|id| model.rows.attempts.get(&id));
        let agent = agent_at_work(newest, &[]);
        let merge = merge_gate(task, &card, agent.clone(), MergeNeeds::default());
        (code(merge), code(rebase_gate(task, agent)))
    };
    let (job, pair) = ("begin A as=s kind=job", "begin A as=s kind=pair");
    assert_eq!(gates(&["create A"]), ("open", "REVIEW_NOT_READY"));
    assert_eq!(gates(&["create A", job]), ("AGENT_AT_WORK", "REVIEW_NOT_READY"));
    assert_eq!(gates(&["create A", pair]), ("open", "REVIEW_NOT_READY"));
    assert_eq!(gates(&["create A", "ask A"]), ("open", "open"));
    assert_eq!(gates(&["create A", job, "ask A"]), ("stop first", "stop first"));
    assert_eq!(gates(&["create A", "ask A", "merged A"]), ("merged", "REVIEW_NOT_READY"));
}

#[test]
fn a_page_knows_what_a_merge_waits_for_from_people() {
    use crate::decide::MergeWaits;
    // After these steps, with the files in this state: approved for them, an approval that is waited for, open checks.
    let table = [
        ("create A checks=manual; ask A", "", (false, true, 1)),
        ("create A checks=manual; ask A; attest A 0", "", (false, true, 0)),
        ("create A checks=cmd; ask A", "", (false, true, 0)),
        ("create A; ask A; approve A unmerged work=w1", "w1", (true, false, 0)),
        ("create A; ask A; approve A unmerged work=w1", "w2", (false, true, 0)),
    ];
    for (steps, work, wanted) in table {
        let model = after(&steps.split("; ").collect::<Vec<_>>());
        let work = Some(work).filter(|work| !work.is_empty());
        let waits = |needs| MergeWaits::of(model.task("A"), model.card("A"), needs, work);
        let (strict, lax) = (waits(true), waits(false));
        let found = (strict.is_approved, strict.for_approval(), strict.checks);
        assert_eq!(found, wanted, "{steps:?}");
        assert!(!lax.for_approval() && lax.checks == wanted.2, "{steps:?}");
    }
}

#[test]
fn failed_merge_goes_back_to_review_or_to_work() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A
        w1  card A to=working           =>
        ana unmergeable A               =>
        events 2                        => review.failed task.status_changed
        ? A                             => in_review -
        ana unmergeable B               =>
        ? B                             => backlog - open=1
        w1  ask A                       =>
        ana conflict A                  =>
        events 2                        => review.failed task.status_changed
        ? A                             => in_progress -
        ",
    );
    let model = after(&["create A", "ask A", "conflict A"]);
    let review = model.card("A").review.clone().expect("one was asked for");
    assert_eq!(review.conflict_files, ["a.rs"]);
    assert_eq!(model.rows.tasks[&task_named("A")].scratchpad, "git");
}

/// The world after these lines.
fn after(lines: &[&str]) -> Model {
    let mut model = Model::new(Policy::default());
    for line in lines {
        let command = model.command(line);
        model.act("ana", &command).expect("accepted");
    }
    model
}

#[test]
fn a_session_belongs_to_the_agent_that_works_there() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A
        ana pair B                      => DEPS_NOT_CLOSED
        ana pair A as=s                 =>
        events 3                        => session.created task.claimed task.status_changed
        ? A                             => in_progress pair
        w1  begin A as=x                => ALREADY_CLAIMED
        w1  pair A as=t                 =>
        events 2                        => attempt.ended session.created
        ana unpair A                    =>
        events 3                        => attempt.ended session.killed task.released
        ana unpair A                    => same
        ? A                             => in_progress -
        w1  claim A                     =>
        w2  pair A as=u                 => ALREADY_CLAIMED
        w1  pair A as=u                 =>
        ? A                             => in_progress pair
        ana card A mode=auto            =>
        ana pair A as=v                 => TASK_TYPE_MISMATCH
        ana card A to=closed_done       =>
        ana card A mode=pair            =>
        ana pair A as=v                 => TASK_CLOSED
        ",
    );
}

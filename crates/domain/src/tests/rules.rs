//! Rules as tables: `who verb NAME options => answer`. An answer is a refusal's code, or the task after the
//! command. `?` lines look without acting, `clock` moves time.

use super::model::Model;
use crate::policy::{AttestBy, Policy, parse_labels};

/// Runs a table and shows the first line that answers differently.
pub(super) fn table(policy: Policy, text: &str) {
    let mut model = Model::new(policy);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, expected) =
            line.split_once("=>").map_or((line, ""), |(a, b)| (a.trim(), b.trim()));
        let (who, rest) = step.split_once(' ').expect("who does what");
        let answer = match who {
            "clock" => {
                let seconds: i64 = rest.trim().trim_matches(['+', 's']).parse().expect("+60s");
                model.now = model.now.plus_ms(seconds * 1000);
                String::new()
            }
            "?" => model.summary(rest),
            "job" => model.job_of(rest),
            "entries" => model.entries_of(rest).join(" "),
            "events" => {
                let last: usize = rest.parse().expect("how many");
                model.events[model.events.len() - last..].join(" ")
            }
            who => act(&mut model, who, rest),
        };
        assert_eq!(answer, expected, "\nat: {line}");
    }
}

fn policy_with(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::default();
    change(&mut policy);
    policy
}

fn act(model: &mut Model, who: &str, rest: &str) -> String {
    let command = model.command(rest);
    match model.act(who, &command) {
        Err(refusal) => refusal.code().into(),
        Ok(change) if change.but.is_some() => {
            format!("{} (recorded)", change.but.map_or("", |refusal| refusal.code()))
        }
        Ok(change) if change.writes.is_empty() => "same".into(),
        Ok(_) => String::new(),
    }
}

#[test]
fn deps_gate_the_start() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A,A
        ? B                       => backlog - open=1
        w1  move B in_progress    => DEPS_NOT_CLOSED
        w1  begin B               => DEPS_NOT_CLOSED
        w1  claim B               =>
        w1  move B canceled       =>
        ana move B backlog        =>
        ana move A done           =>
        events 3                  => task.status_changed task.status_changed task.ready
        ? B                       => backlog w1
        ana move A backlog        =>
        ? B                       => backlog w1 open=1
        ana move A canceled       =>
        w1  begin B as=s          =>
        ? B                       => in_progress w1
        ana move A in_progress    =>
        w1  move B in_review      =>
        ? B                       => in_review w1 open=1
        ",
    );
}

#[test]
fn creating_judges_everything_before_anything() {
    table(
        Policy::default(),
        "
        ana create A title=       => INVALID_INPUT
        ana create A deps=X       => DANGLING_DEPENDENCY
        ana create A              =>
        ana create B deps=A       =>
        ana remove A              =>
        ? B                       => backlog -
        ana create C deps=A       => DANGLING_DEPENDENCY
        ana note A text=x         => TASK_NOT_FOUND
        ",
    );
}

#[test]
fn a_person_takes_a_task_from_its_holder_and_nobody_else_does() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A               =>
        w2  takeback A            => ALREADY_CLAIMED
        w1  takeback A            => SESSION_ACTIVE
        ana takeback A            =>
        ana takeback A            => same
        w2  begin A               =>
        ana create B
        w1  claim B               =>
        ana takeback B            =>
        entries B                 => created claimed released(taken from agent:w1)
        w2  claim B               =>
        ",
    );
}

#[test]
fn a_claim_has_one_winner() {
    table(
        Policy::default(),
        "
        ana create A
        w1  claim A               =>
        w1  claim A               => same
        w2  claim A               => ALREADY_CLAIMED
        w2  begin A               => ALREADY_CLAIMED
        w2  release A             => ALREADY_CLAIMED
        w1  release A             =>
        w1  release A             => same
        w2  claim A               =>
        w2  remove A              =>
        entries A                 => created claimed released claimed removed
        ",
    );
}

/// `tree` is the tree that commands ran on, `work` the task's own files; only a merge makes them differ.
#[test]
fn an_attestation_counts_for_the_files_it_was_given_for() {
    table(
        Policy::default(),
        "
        ana create A checks=manual
        ana attest A 0 work=w1                  =>
        w1  move A done work=w2                 => CHECKS_NOT_PASSED (recorded)
        w1  move A done                         => CHECKS_NOT_PASSED (recorded)
        w1  move A done work=w1                 =>
        w1  move A in_progress                  =>
        w1  move A done work=w1                 =>
        w1  move A in_progress                  =>
        w1  move A done work=w2                 => CHECKS_NOT_PASSED (recorded)
        ana attest A 0 work=w2                  =>
        w1  move A done work=w2                 =>
        ana create B checks=cmd,manual
        ana attest B 1                          =>
        w1  move B done ran=0:pass tree=t work=w => CHECKS_NOT_PASSED (recorded)
        ana attest B 1 work=w                   =>
        w1  move B done ran=0:pass tree=t work=w =>
        ",
    );
}

/// A human's approval is given for files too. Where no files are seen, it counts until the task moves.
#[test]
fn a_word_that_a_contract_waits_for_counts_for_its_files() {
    table(
        Policy::default(),
        "
        ana create A verify=manual
        ana move A done work=w1                 =>
        w1  move A in_progress                  =>
        w1  move A done work=w2                 => CHECKS_NOT_PASSED (recorded)
        w1  move A done                         => CHECKS_NOT_PASSED (recorded)
        w1  move A done work=w1                 =>
        ana create B verify=manual
        w1  ask B                               =>
        ana approve B plainly unmerged          =>
        w1  move B done                         =>
        clock +1s
        w1  move B in_progress                  =>
        w1  move B done                         => CHECKS_NOT_PASSED (recorded)
        ",
    );
}

#[test]
fn checks_gate_done() {
    table(
        Policy::default(),
        "
        ana create A checks=cmd,manual
        w1  move A done                         => CHECKS_NOT_PASSED (recorded)
        w1  move A done ran=0:fail tree=t1      => CHECKS_NOT_PASSED (recorded)
        ? A                                     => backlog - checks=fail,pending
        w1  attest A 0                          => INVALID_INPUT
        w1  attest A 9                          => INVALID_INPUT
        w1  attest A 1                          =>
        w1  move A done ran= tree=t1            => CHECKS_NOT_PASSED (recorded)
        w1  move A done ran=0:pass tree=t1      =>
        ? A                                     => done - checks=pass,pass
        w1  move A in_progress                  =>
        ? A                                     => in_progress - checks=pass,pass
        w1  move A done ran= tree=t2            => CHECKS_NOT_PASSED (recorded)
        w1  move A done ran= tree=t1            =>
        w1  attest A 1 fail                     =>
        w1  move A done ran= tree=t1            => CHECKS_NOT_PASSED (recorded)
        w1  move A canceled                     =>
        w1  move A done ran= tree=t1            => CHECKS_NOT_PASSED (recorded)
        ",
    );
}

#[test]
fn a_pass_outside_git_is_trusted() {
    table(
        Policy::default(),
        "
        ana create A checks=cmd
        w1  ran A ran=0:pass                    =>
        w1  move A done                         => CHECKS_NOT_PASSED (recorded)
        w1  move A done ran=                    =>
        entries A   => created ran checks(0 pass) ran checks transitioned to done
        ",
    );
}

#[test]
fn gating_canceled_is_a_switch() {
    let policy = policy_with(|policy| policy.gate_canceled = true);
    table(
        policy,
        "
        ana create A
        ana create B deps=A checks=manual
        w1  move B canceled       => DEPS_NOT_CLOSED
        w1  move A canceled       =>
        w1  move B canceled       => CHECKS_NOT_PASSED (recorded)
        ",
    );
}

#[test]
fn who_may_attest_is_configured() {
    let by = |attest_by| policy_with(|policy| policy.attest_by = attest_by);
    table(
        by(AttestBy::Human),
        "
        ana create A checks=manual
        w1  attest A 0            => INVALID_INPUT
        ana attest A 0            =>
        ",
    );
    table(
        by(AttestBy::NotAssignee),
        "
        ana create A checks=manual
        w1  claim A               =>
        w1  attest A 0            => INVALID_INPUT
        w2  attest A 0            =>
        ",
    );
}

#[test]
fn sessions_begin_once_per_key() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A expected=agent:x            => ACTOR_MISMATCH
        w1  begin A client=a bound=b            => CLIENT_MISMATCH
        w1  begin X                             => TASK_NOT_FOUND
        w1  begin A as=s key=k expected=agent:w1 =>
        events 3                                => attempt.started task.claimed task.status_changed
        w1  begin A key=k                       => same
        w1  begin A key=other                   => SESSION_ACTIVE
        w2  begin A key=k                       => ALREADY_CLAIMED
        w1  release A                           => SESSION_ACTIVE
        ana move A done                         =>
        w1  begin A key=k                       => same
        w2  begin A key=k2                      => TASK_CLOSED
        w1  finish s                            =>
        ? A                                     => done w1
        ",
    );
}

#[test]
fn silence_stalls_and_a_stalled_session_can_be_taken_over() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s          =>
        clock +180s
        w2  begin A takeover      => ALREADY_CLAIMED
        clock +1s
        w2  begin A               => ALREADY_CLAIMED
        w1  begin A               => SESSION_ACTIVE
        w1  beat s                =>
        w2  begin A takeover      => ALREADY_CLAIMED
        clock +181s
        w2  begin A as=t takeover =>
        ? A                       => in_progress w2
        w1  beat s                => SESSION_TERMINAL
        w1  finish s              => SESSION_TERMINAL
        w1  cancel s              => same
        w1  beat t                => NOT_SESSION_OWNER
        ",
    );
}

#[test]
fn finishing_asks_for_review_and_closes_nothing() {
    table(
        Policy::default(),
        "
        ana create A checks=cmd
        w1  begin A as=s          =>
        w1  finish s summary=     => INVALID_INPUT
        w1  finish s              =>
        ? A                       => in_review w1 checks=pending
        w1  finish s              => same
        w1  cancel s              => SESSION_TERMINAL
        w1  beat s                => SESSION_TERMINAL
        w1  begin A as=t          =>
        w1  cancel t reason=      => INVALID_INPUT
        w1  cancel t              =>
        ? A                       => in_review - checks=pending
        ",
    );
}

#[test]
fn a_finish_from_initial_looks_at_deps() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A
        ana move A done           =>
        w1  begin B as=s          =>
        ana move B backlog        =>
        ana move A backlog        =>
        w1  finish s              => DEPS_NOT_CLOSED
        ana undepend B A          =>
        w1  finish s              =>
        ? B                       => in_review w1
        ",
    );
}

#[test]
fn finishing_can_require_checks() {
    let policy = policy_with(|policy| policy.finish_requires_checks = true);
    table(
        policy,
        "
        ana create A checks=cmd,manual
        w1  begin A as=s          =>
        w1  finish s tree=t       => CHECKS_NOT_PASSED
        w1  ran A ran=0:pass tree=t =>
        w1  finish s tree=u       => CHECKS_NOT_PASSED
        w1  finish s tree=t       =>
        ",
    );
}

#[test]
fn idle_heartbeats_fold_into_one_entry() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s          =>
        w1  beat s                =>
        w1  beat s                =>
        w1  beat s progress=half  =>
        w1  beat s progress=half  =>
        w1  beat s                =>
        ana note A text=hm        =>
        w1  beat s                =>
        entries A => created began session heartbeat heartbeat(half) heartbeat note(hm) heartbeat
        ",
    );
}

#[test]
fn a_lease_that_is_over_is_over_for_everybody() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s lease    =>
        w1  move A in_progress    =>
        clock +59s
        w2  claim A               => ALREADY_CLAIMED
        w1  expire s              => same
        clock +1s
        w2  claim A               =>
        ? A                       => backlog w2
        events 4 => attempt.ended attempt.expired task.status_changed task.claimed
        ",
    );
}

#[test]
fn an_expired_lease_is_written_down_once() {
    table(
        Policy::default(),
        "
        ana create A
        w1  begin A as=s lease    =>
        clock +60s
        sys expire s              =>
        ? A                       => backlog -
        sys expire s              => same
        w1  begin A as=t lease    =>
        w1  release A             =>
        ? A                       => backlog -
        w1  begin A as=u lease    =>
        ana move A done           =>
        w1  begin A               => TASK_CLOSED
        ",
    );
}

#[test]
fn dependencies_close_no_cycle() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A
        ana create C deps=B
        ana depend A A            => DEPENDENCY_CYCLE
        ana depend A C            => DEPENDENCY_CYCLE
        ana depend A X            => DANGLING_DEPENDENCY
        ana depend C A            =>
        ana depend C A            => same
        ? C                       => backlog - open=2
        ana undepend C B          =>
        ana undepend C B          => same
        ? C                       => backlog - open=1
        ana move A done           =>
        ana move C in_progress    =>
        ana create D
        ana depend C D            => INVARIANT_VIOLATED
        ",
    );
}

#[test]
fn labels_are_words_and_phases_are_rules() {
    let labels = parse_labels("todo:initial, doing:working, fixing:working, shipped:closed_done");
    let mut policy = Policy::with_labels(labels.expect("valid")).expect("complete");
    policy.set_working("fixing").expect("a working label");
    table(
        policy,
        "
        ana create A
        w1  move A in_progress    => UNKNOWN_STATE
        w1  move A DOING          =>
        w1  move A doing          =>
        w1  move A todo           =>
        w1  begin A as=s          =>
        ? A                       => fixing w1
        w1  finish s              =>
        ? A                       => fixing w1
        w1  move A Shipped        =>
        ",
    );
}

#[test]
fn a_policy_needs_one_start_and_an_end() {
    let policy = |text: &str| parse_labels(text).and_then(Policy::with_labels).map(|_| ());
    for (text, complaint) in [
        ("a:initial", "at least one status must have the phase closed_done"),
        ("a:closed_done", "exactly one status must have the phase initial"),
        ("a:initial, b:initial, c:closed_done", "exactly one status must have the phase initial"),
        ("a:initial, A:working, c:closed_done", "status 'A' is there twice"),
        ("a", "status 'a' has no phase; write a:working"),
    ] {
        assert_eq!(policy(text), Err(complaint.to_owned()), "{text}");
    }
    assert!(policy("a:initial, b:started").is_err_and(|e| e.contains("unknown phase 'started'")));
}

#[test]
fn a_lease_is_taken_once_and_kept_by_its_holder() {
    table(
        Policy::default(),
        "
        ana create A
        w1  take A                =>
        events 2                  => attempt.started task.claimed
        ? A                       => backlog w1
        w1  take A                => same
        w2  take A                => ALREADY_CLAIMED
        w2  update A              => ALREADY_CLAIMED
        w1  update A fence=9      => ALREADY_CLAIMED
        w1  update A fence=1      =>
        ? A                       => in_progress w1
        events 2                  => task.status_changed attempt.heartbeat
        w1  update A              =>
        w1  update A              =>
        w1  update A quiet        => same
        w1  update A quiet note=x =>
        entries A                 => created claimed(for 60 s) started heartbeat heartbeat(x)
        w1  update A done         => INVARIANT_VIOLATED
        w1  update A free         =>
        ? A                       => backlog -
        w2  take A                =>
        w2  update A canceled     =>
        ? A                       => canceled -
        w2  update A              => INVARIANT_VIOLATED
        w1  update A              => ALREADY_CLAIMED
        ",
    );
}

#[test]
fn a_lease_ends_by_itself_and_the_late_are_refused() {
    table(
        Policy::default(),
        "
        ana create A
        w1  take A as=l           =>
        w1  update A              =>
        clock +59s
        w1  update A              =>
        clock +60s
        w1  update A              => ALREADY_CLAIMED
        w1  complete A            => ALREADY_CLAIMED
        ? A                       => in_progress w1
        w2  take A                =>
        events 5                  => attempt.ended attempt.expired task.status_changed attempt.started task.claimed
        ? A                       => backlog w2
        w1  complete A            => ALREADY_CLAIMED
        w2  update A fence=1      => ALREADY_CLAIMED
        w2  complete A fence=2    =>
        ? A                       => done w2 skipped
        w2  complete A            => INVARIANT_VIOLATED
        ",
    );
}

#[test]
fn what_cannot_be_taken() {
    table(
        Policy::default(),
        "
        ana create A
        ana create B deps=A
        ana create C parent=A
        w1  take A                => NOT_ACTIONABLE
        w1  take B                => DEPS_NOT_CLOSED
        w1  take X                => TASK_NOT_FOUND
        w1  begin C as=s          =>
        w1  take C                => ALREADY_CLAIMED
        w1  cancel s              =>
        ? C                       => in_progress -
        w2  take C                =>
        ? C                       => backlog w2
        ana create D
        w1  claim D               =>
        w2  take D                => ALREADY_CLAIMED
        w1  take D                =>
        ana create E
        ana move E in_progress    =>
        w1  take E                => NOT_ACTIONABLE
        ana move E done           =>
        w1  take E                => NOT_ACTIONABLE
        ana create F deps=E       =>
        w1  take F                =>
        w1  complete F            =>
        ana move E backlog        =>
        w2  take F                => NOT_ACTIONABLE
        w1  take F                => NOT_ACTIONABLE
        w1  undepend F E           => INVALID_INPUT
        ",
    );
}

#[test]
fn blockers_keep_a_task_from_being_taken() {
    table(
        Policy::default(),
        "
        ana create A
        w1  comment A blocker unsaid  => INVALID_INPUT
        w1  comment A blocker as=c    =>
        w1  comment A note to=c as=r  =>
        w1  comment A note to=r       => INVALID_INPUT
        w1  comment A note to=x       => COMMENT_NOT_FOUND
        ? A                           => backlog - blockers=1
        w2  take A                    => NOT_ACTIONABLE
        w2  resolve c                 => AUTHORIZATION_DENIED
        w1  resolve c                 =>
        events 2                      => comment.resolved task.ready
        w1  resolve c                 => same
        w2  take A                    =>
        w1  comment A blocker         =>
        w1  comment A blocker         =>
        w1  comment A blocker         =>
        w1  comment A blocker         => INVARIANT_VIOLATED
        w2  comment A blocker         =>
        w2  update A                  =>
        ? A                           => in_progress w2 blockers=4
        ",
    );
}

#[test]
fn the_contract_decides_what_complete_means() {
    table(
        Policy::default(),
        "
        ana create A verify=none checks=cmd       => INVALID_INPUT
        ana create A verify=commands              => INVALID_INPUT
        ana create A verify=manual                =>
        w1  take A                                =>
        w1  complete A                            =>
        ? A                                       => in_review w1 awaiting_human
        job A                                     => none
        w2  move A done                           => CHECKS_NOT_PASSED (recorded)
        ana move A done                           =>
        ? A                                       => done w1 passed
        ana create B verify=github_pr             =>
        w1  take B                                =>
        w1  complete B                            =>
        ? B                                       => in_review w1 pending
        job B                                     => queued +0s
        w9  taking B                              =>
        w9  judge B pending why=not_merged        =>
        ? B                                       => in_review w1 pending(not_merged)
        job B                                     => queued +30s
        w9  taking B                              => JOB_LOST
        clock +30s
        w9  taking B                              =>
        w9  judge B pending why=not_merged        =>
        job B                                     => queued +60s
        ana verify B                              =>
        job B                                     => queued +0s
        w9  taking B                              =>
        w8  judge B pass                          => JOB_LOST
        clock +60s
        w9  judge B pass                          => JOB_LOST
        w8  taking B                              =>
        w8  judge B pass                          =>
        ? B                                       => done w1 passed
        job B                                     => done
        ",
    );
}

#[test]
fn a_verdict_still_needs_the_checks() {
    table(
        Policy::default(),
        "
        ana create A checks=cmd,manual            =>
        w1  take A                                =>
        w1  complete A                            =>
        ? A                                       => in_review w1 pending checks=pending,pending
        w9  taking A                              =>
        w9  judge A pass ran=0:fail tree=t        =>
        ? A                                       => in_review w1 failed(verification.checks_failed) checks=fail,pending
        job A                                     => done
        ana verify A                              =>
        w9  taking A                              =>
        w9  judge A pass ran=0:pass tree=t        =>
        ? A                                       => in_review w1 pending(verification.manual_check_pending) checks=pass,pending
        ",
    );
    table(
        policy_with(|policy| policy.verify_pendings_max = 3),
        "
        ana create A checks=cmd,manual            =>
        w1  take A                                =>
        w1  complete A                            =>
        w9  taking A                              =>
        w9  judge A pass ran=0:pass tree=t        =>
        ? A                                       => in_review w1 pending(verification.manual_check_pending) checks=pass,pending
        job A                                     => queued +30s
        ana attest A 1                            =>
        job A                                     => queued +0s
        w9  taking A                              =>
        w1  comment A blocker as=c                =>
        w9  judge A pass ran=0:pass tree=t        =>
        ? A                                       => in_review w1 blockers=1 pending(verification.blocked_by_review) checks=pass,pass
        clock +60s
        w9  taking A                              =>
        w9  judge A pass ran=0:pass tree=t        =>
        ? A                                       => in_review w1 blockers=1 failed(verification.timeout) checks=pass,pass
        w1  resolve c                             =>
        ana reopen A                              =>
        ? A                                       => backlog - checks=pass,pass
        ana reopen A                              => INVARIANT_VIOLATED
        ",
    );
}

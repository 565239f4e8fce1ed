//! An agent confined by the system writes in its own folders and nowhere else.

use std::fs;

use callboard_domain::relay::{FailReason, RunVerdict};
use callboard_runner::{AgentSettings, SandboxMode};

use super::bed::{Bed, DIFF, answer, run};
use crate::skipped::skipped;

#[tokio::test]
async fn writes_elsewhere_fail() {
    let bed = Bed::new();
    fs::write(bed.file("words"), answer(DIFF)).expect("writes");
    fs::write(bed.file("victim"), "whole").expect("writes");
    fs::create_dir(bed.file("state")).expect("a folder");
    let tries = "cat > /dev/null
        echo x > \"$TMPDIR/mine\" && echo y > \"$BED/state/mine\" && echo own-folders-ok
        echo z > \"$BED/first/use/mine\" && echo missing-folder-made
        echo x >> a.txt || echo worktree-closed
        touch \"$BED/new\" || echo elsewhere-closed
        sh -c ': > \"$0\"' \"$BED/victim\" || echo no-cutting
        rm -f \"$BED/victim\" || echo no-removing
        mv \"$BED/victim\" \"$TMPDIR/victim\" || echo no-moving
        sh -c 'echo x > sub/new' || echo children-too
        echo z > /dev/null && echo devices-ok
        cat \"$BED/words\"";
    let mut agent = bed.script(tries);
    let at = |name: &str| bed.file(name).display().to_string();
    agent.writable = vec![at("state"), at("first/use/"), at("new")];
    let settings = AgentSettings { sandbox: SandboxMode::Os, ..bed.settings(agent) };
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    if report.verdict == RunVerdict::Failed(FailReason::ExecutorError) {
        // A kernel without Landlock: the run must not go on unconfined.
        assert!(report.summary.contains("relay.sandbox = os"), "{}", report.logs);
        skipped("this kernel has no Landlock");
        return;
    }
    assert_eq!(report.verdict, RunVerdict::Succeeded, "{}", report.logs);
    for seen in [
        "own-folders-ok",
        "missing-folder-made",
        "worktree-closed",
        "elsewhere-closed",
        "no-cutting",
        "no-removing",
        "no-moving",
        "children-too",
        "devices-ok",
    ] {
        assert!(report.logs.contains(&format!("{seen}\n")), "{seen} in {}", report.logs);
    }
    assert!(!report.logs.contains("discarded"), "{}", report.logs);
    assert_eq!(fs::read_to_string(bed.file("victim")).expect("still there"), "whole");
    assert!(bed.file("state/mine").exists() && !bed.file("new").exists());
}

#[tokio::test]
async fn an_agent_with_a_sandbox_of_its_own_is_left_to_it() {
    let bed = Bed::new();
    fs::write(bed.file("words"), answer(DIFF)).expect("writes");
    let mut agent = bed.script("cat > /dev/null; echo x >> a.txt; cat \"$BED/words\"");
    agent.own_sandbox = true;
    let report = run(bed.settings(agent), bed.order(bed.spec(&[]))).await;
    assert_eq!(report.verdict, RunVerdict::Succeeded, "{}", report.logs);
    assert!(
        report.logs.contains("sandbox: only the agent's own switches confine it"),
        "{}",
        report.logs
    );
    assert!(report.logs.contains("discarded: a.txt"), "{}", report.logs);
}

//! Answers of agents, end to end: a good patch is stored and applies, whatever surrounds it.

use std::fs;

use callboard_domain::relay::FailReason;
use serde_json::json;

use super::bed::{Bed, DIFF, answer, assert_failed, assert_succeeded};
use crate::fixture::{Repo, git_in};

#[tokio::test]
async fn a_good_patch_survives_what_surrounds_it() {
    let bed = Bed::new();
    let draft = "## DIFF\n--- a/x\n+++ b/x\n## TEST_PLAN\nold\n## NOTES\nold\n\n";
    let fenced = answer(DIFF);
    let replies = [
        fenced.clone(),
        fenced.replace("```diff\n", "").replace("```\n", ""),
        fenced.replace('\n', "\r\n"),
        format!("{draft}{fenced}"),
        format!("Let me think.\n\n{fenced}\n\n"),
    ];
    for reply in replies {
        let report = bed.run(bed.saying(&reply)).await;
        assert_succeeded(&report);
        assert_eq!(report.patch.as_deref(), Some(DIFF), "{reply}");
    }
    let echo = bed.saying(&fenced);
    let script = fs::read_to_string(bed.file("agent.sh")).expect("the script");
    fs::write(bed.file("agent.sh"), script.replace("> /dev/null", "")).expect("writes");
    let report = bed.run(echo).await;
    assert_succeeded(&report);
    assert!(report.logs.contains("# Output Requirements"), "it did repeat its prompt");
}

#[tokio::test]
async fn a_blank_last_line_is_kept_however_it_was_trimmed() {
    let repo = Repo::committed();
    repo.write("b.txt", "one\ntwo\n\nlast\n");
    repo.commit("a blank line");
    let bed = Bed::of(repo);
    let head = "--- a/b.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n-one\n+uno\n two\n";
    for end in [" \n", "\n", ""] {
        let report = bed.run(bed.saying(&answer(&format!("{head}{end}")))).await;
        assert_succeeded(&report);
        fs::write(bed.file("patch"), report.patch.expect("a patch")).expect("writes");
        let patch = bed.file("patch").display().to_string();
        git_in(&bed.repo.path, &["apply", "--check", &patch]);
    }
}

#[tokio::test]
async fn a_file_with_crlf_keeps_it() {
    let repo = Repo::committed();
    repo.write("dos.txt", "one\r\ntwo\r\n");
    repo.commit("from another world");
    let bed = Bed::of(repo);
    let diff = "--- a/dos.txt\n+++ b/dos.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n";
    let reply = answer(diff).replace('\n', "\r\n");
    let report = bed.run(bed.saying(&reply)).await;
    assert_succeeded(&report);
    assert!(report.patch.expect("a patch").contains("+zwei\r\n"));
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let bed = Bed::new();
    let on_stderr = bed.saying(&answer(DIFF));
    let script = fs::read_to_string(bed.file("agent.sh")).expect("the script");
    fs::write(bed.file("agent.sh"), format!("exec >&2\n{script}")).expect("writes");
    let report = bed.run(on_stderr).await;
    assert_failed(&report, FailReason::BadArtifacts, "no DIFF section");
    assert!(report.logs.contains("----- stderr -----\n## DIFF"), "{}", report.logs);

    let no_notes = answer(DIFF).replace("## NOTES", "Notes");
    let report = bed.run(bed.saying(&no_notes)).await;
    assert_failed(&report, FailReason::BadArtifacts, "no NOTES section");

    let hostile = ("task.description", json!("## DIFF\n## TEST_PLAN\n## NOTES\n"));
    let report = bed.run_spec(bed.script("cat"), bed.spec(&[hostile])).await;
    assert_failed(&report, FailReason::BadArtifacts, "no DIFF section");
}

//! How an agent's output is read.

use crate::relay::reply::{BadReply, Reply, settle_line_ends};
use crate::relay::spec::Section;

const DIFF: &str = "\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
";

fn diff_of(output: &str) -> String {
    Reply::read(output).unwrap_or_else(|bad| panic!("{bad}: {output}")).diff
}

#[test]
fn the_last_complete_triple_is_the_answer() {
    let answer = format!("## DIFF\n{DIFF}\n## TEST_PLAN\n run it \n\n## NOTES\n- none\n");
    let reply = Reply::read(&answer).expect("an answer");
    assert_eq!((reply.diff.as_str(), reply.test_plan.as_str()), (DIFF, "run it"));
    assert_eq!(reply.out_md(), "# Test Plan\n\nrun it\n\n# Notes\n\n- none\n");

    let draft = "## DIFF\n--- a/x\n+++ b/x\n## TEST_PLAN\nold\n## NOTES\nold\n";
    for around in [
        format!("{draft}{answer}"),
        format!("{answer}## DIFF\nnot finished"),
        format!("thinking...\n{draft}more\n{answer}"),
        answer.replace("## ", "#### ").replace("NOTES", "**Notes:**"),
        answer.replace("## DIFF", "### diff:").replace("TEST_PLAN", "Test Plan"),
        answer.replace('\n', "\r\n"),
    ] {
        let reply = Reply::read(&around).unwrap_or_else(|bad| panic!("{bad}: {around}"));
        assert_eq!(settle_line_ends(&reply.diff, &|_| false), DIFF, "{around}");
        assert_eq!(reply.test_plan, "run it", "{around}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let table = [
        ("", BadReply::Missing(Section::Diff)),
        ("nothing to say", BadReply::Missing(Section::Diff)),
        ("## DIFF\n## NOTES\n", BadReply::Missing(Section::TestPlan)),
        ("## DIFF\n## TEST_PLAN\n", BadReply::Missing(Section::Notes)),
        ("## NOTES\n## TEST_PLAN\n## DIFF\n", BadReply::OutOfOrder),
        ("# DIFF\n# TEST_PLAN\n# NOTES\n", BadReply::Missing(Section::Diff)),
        ("##### DIFF\n## TEST_PLAN\n## NOTES\n", BadReply::Missing(Section::Diff)),
        ("> ## DIFF\n## TEST_PLAN\n## NOTES\n", BadReply::Missing(Section::Diff)),
        ("## DIFFS\n## TEST_PLAN\n## NOTES\n", BadReply::Missing(Section::Diff)),
        ("## DIFF\nno change\n## TEST_PLAN\n## NOTES\n", BadReply::NoFileHeader),
    ];
    for (output, expected) in table {
        assert_eq!(Reply::read(output), Err(expected), "{output}");
    }
}

#[test]
fn a_diff_is_taken_out_of_its_fence() {
    for section in [
        format!("```diff\n{DIFF}```\n"),
        format!("\n```\n{DIFF}\n\n```\n\n"),
        format!("~~~~ diff\n{DIFF}~~~~"),
        format!("Here it is:\n\n```diff\n{DIFF}```\nThat was it.\n"),
        format!("```diff\n{DIFF}"),
        format!("\n\n{DIFF}\n\n\n"),
        DIFF.trim_end().to_owned(),
    ] {
        let output = format!("## DIFF\n{section}\n## TEST_PLAN\n## NOTES");
        assert_eq!(diff_of(&output), DIFF, "{section}");
    }
    for blank in ["", "\n \n", "```diff\n```\n", "```\n\n```"] {
        assert_eq!(diff_of(&format!("## DIFF\n{blank}\n## TEST_PLAN\n## NOTES\n")), "", "{blank}");
    }
    // Fences and headings that are part of a changed file have a mark before them.
    let markdown = "--- a/x.md\n+++ b/x.md\n@@ -1,2 +1,4 @@\n ```\n+## NOTES\n+```\n-x\n+## DIFF\n";
    let fenced = format!("## DIFF\n```diff\n{markdown}```\n## TEST_PLAN\n## NOTES\n");
    assert_eq!(diff_of(&fenced), markdown);
}

#[test]
fn a_blank_last_line_of_a_hunk_stays() {
    let head = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-one\n+uno\n two\n";
    for (given, wanted) in [
        (format!("{head} \n"), format!("{head} \n")),
        (format!("{head} \n\n\n"), format!("{head} \n")),
        (format!("{head}\n"), format!("{head} \n")),
        (head.to_owned(), format!("{head} \n")),
        (head.trim_end().to_owned(), format!("{head} \n")),
    ] {
        let output = format!("## DIFF\n{given}## TEST_PLAN\n## NOTES\n");
        let output = output.replace("two## TEST", "two\n## TEST");
        assert_eq!(diff_of(&output), wanted, "{given:?}");
    }
}

#[test]
fn line_ends_follow_the_file() {
    let crlf = DIFF.replace('\n', "\r\n");
    assert_eq!(diff_of(&format!("## DIFF\n{crlf}\r\n## TEST_PLAN\n## NOTES")), crlf);
    assert_eq!(settle_line_ends(&crlf, &|_| false), DIFF);
    let kept = settle_line_ends(&crlf, &|path| path == "a.txt");
    assert_eq!(
        kept,
        DIFF.replace("one\n", "one\r\n")
            .replace("two\n", "two\r\n")
            .replace("zwei\n", "zwei\r\n")
            .replace("three\n", "three\r\n")
    );
    let two = format!("{crlf}{}", crlf.replace("a.txt", "b.txt"));
    let settled = settle_line_ends(&two, &|path| path == "b.txt");
    assert!(settled.starts_with(DIFF), "{settled}");
    assert!(settled.contains("+++ b/b.txt\n@@ -1,3 +1,3 @@\n one\r\n"), "{settled}");
}

//! Every row of the table of verdicts.

use std::fs;
use std::os::unix::fs::symlink;

use callboard_domain::relay::FailReason;
use callboard_runner::{ExecutorSettings, Executors, OutputFrom, PromptBy};
use serde_json::json;

use super::bed::{Bed, DIFF, answer, assert_failed, assert_succeeded, run};
use crate::fixture::Repo;

#[tokio::test]
async fn a_patch_that_applies_succeeds() {
    let bed = Bed::new();
    let report = bed.run(bed.saying(&answer(DIFF))).await;
    assert_succeeded(&report);
    assert_eq!(report.summary, "Completed successfully with 6 line diff");
    assert_eq!(report.patch.as_deref(), Some(DIFF));
    let out = report.out.expect("a test plan and notes");
    assert_eq!(out, "# Test Plan\n\nRun it.\n\n# Notes\n\nNone.\n");
    assert!(report.logs.contains("executor script"), "{}", report.logs);
    assert!(report.logs.contains("----- stdout -----\n## DIFF"), "{}", report.logs);
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn an_empty_diff_is_no_change() {
    let bed = Bed::new();
    let report = bed.run(bed.saying(&answer(""))).await;
    assert_succeeded(&report);
    assert_eq!(report.summary, "Completed successfully with 0 line diff");
    assert_eq!(report.patch.as_deref(), Some(""));
}

#[tokio::test]
async fn a_patch_against_other_content_is_a_conflict_and_stays_readable() {
    let bed = Bed::new();
    let other = DIFF.replace(" one", " eins");
    let report = bed.run(bed.saying(&answer(&other))).await;
    assert_failed(&report, FailReason::Conflict, "Patch does not apply cleanly");
    assert_eq!(report.patch, Some(other));
    assert!(report.out.is_some() && report.logs.contains("a.txt"), "{}", report.logs);
}

#[tokio::test]
async fn a_patch_stays_in_its_scope() {
    let repo = Repo::committed();
    symlink("sub", repo.path.join("link")).expect("a link");
    repo.commit("a link");
    let bed = Bed::of(repo);
    let new_file = |name: &str| {
        format!(
            "diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n"
        )
    };
    let absolute = "--- /etc/x\n+++ /etc/x\n@@ -1 +1 @@\n-a\n+b\n".to_owned();
    let new_link = new_file("sub/new").replace("100644", "120000");
    let renamed = "diff --git a/a.txt b/sub/a.txt\nsimilarity index 100%\nrename from a.txt\nrename to sub/a.txt\n";
    let quoted =
        new_file("x").replace("b/x", "\"b/\\056git/x\"").replace("a/x", "\"a/\\056git/x\"");
    let offences = [
        (DIFF.to_owned(), "a.txt is outside the scope"),
        (new_file("sub/x.rs"), "sub/x.rs is outside the scope"),
        (renamed.to_owned(), "a.txt is outside the scope"),
        (new_file(".git/config"), ".git/config is git's own"),
        (quoted, ".git/x is git's own"),
        (absolute, "/etc/x is absolute"),
        (new_file("../x"), "../x leaves the repository"),
        (new_link, "sub/new is outside the scope"),
        (new_file("link/b.txt"), "link/b.txt is, or lies behind, a symbolic link"),
    ];
    let scope = (
        "scope",
        json!({
            "readPaths": ["sub/", "link", "tsconfig.json"],
            "fileGlobs": ["**/*.txt"],
            "disallowReformatting": true
        }),
    );
    for (diff, words) in offences {
        let report =
            bed.run_spec(bed.saying(&answer(&diff)), bed.spec(std::slice::from_ref(&scope))).await;
        assert_failed(&report, FailReason::Policy, words);
        assert!(report.patch.is_some() && report.out.is_some(), "kept all the same");
    }
    let new_link = new_file("sub/new").replace("100644", "120000");
    let report = bed.run(bed.saying(&answer(&new_link))).await;
    assert_failed(&report, FailReason::Policy, "sub/new is a symbolic link");
    // Named in readPaths, not matched by a glob.
    let named = new_file("tsconfig.json");
    let report = bed.run_spec(bed.saying(&answer(&named)), bed.spec(&[scope])).await;
    assert_succeeded(&report);
}

#[tokio::test]
async fn a_program_that_fails_is_an_executor_error() {
    let bed = Bed::new();
    let report = bed.run(bed.script("echo out; echo 'no quota' >&2; echo >&2; exit 3")).await;
    assert_failed(&report, FailReason::ExecutorError, "exited with code 3: no quota");
    assert!(report.logs.contains("----- stderr -----\nno quota"), "{}", report.logs);
    assert_eq!((report.patch, report.out), (None, None));

    let report = bed.run(bed.script("kill -KILL $$")).await;
    assert_failed(&report, FailReason::ExecutorError, "was ended by signal 9");

    let lenient = ExecutorSettings { success_codes: vec![0, 3], ..bed.saying(&answer(DIFF)) };
    let script = fs::read_to_string(bed.file("agent.sh")).expect("the script");
    fs::write(bed.file("agent.sh"), format!("{script}exit 3\n")).expect("writes a script");
    assert_succeeded(&bed.run(lenient).await);
}

#[tokio::test]
async fn a_missing_program_is_an_executor_error() {
    let bed = Bed::new();
    let missing = ExecutorSettings::command("mine", vec!["/nowhere/at/all".into()]);
    let report = bed.run(missing).await;
    assert_failed(&report, FailReason::ExecutorError, "No executor for model any");
    // The program is found, but cannot be started.
    fs::write(bed.file("broken"), "#!/nowhere/at/all\n").expect("writes a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bed.file("broken"), mode).expect("chmod");
    let broken = bed.file("broken").display().to_string();
    let report = bed.run(ExecutorSettings::command("mine", vec![broken])).await;
    assert_failed(&report, FailReason::ExecutorError, "broken not found");
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn a_commit_that_is_not_there_is_an_internal_error() {
    let bed = Bed::new();
    let commit = json!("0123456789012345678901234567890123456789");
    let spec = bed.spec(&[("repo.baselineCommit", commit)]);
    let report = bed.run_spec(bed.saying(&answer(DIFF)), spec).await;
    assert_failed(&report, FailReason::InternalError, "is not in the repository");
}

#[tokio::test]
async fn what_is_too_large_is_no_artifact() {
    let bed = Bed::new();
    let mut settings = bed.settings(bed.saying(&answer(DIFF)));
    settings.artifact_bytes_max = 40;
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    let summary = "patch.diff has more than 40 bytes";
    assert_eq!(report.summary, summary);

    let flood = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; cat \"$BED/words\"";
    fs::write(bed.file("words"), answer(DIFF)).expect("writes a file");
    let mut settings = bed.settings(bed.script(flood));
    settings.artifact_bytes_max = 1000;
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    assert_succeeded(&report);
    assert!(report.logs.len() < 1200, "{}", report.logs.len());
    let (head, tail) = (report.logs.contains("line 0\n"), report.logs.contains("Run it."));
    assert!(head && tail && report.logs.contains("bytes left out"), "{}", report.logs);
}

#[tokio::test]
async fn prompts_and_outputs_go_the_configured_way() {
    let bed = Bed::new();
    let words = bed.saying(&answer(DIFF));
    let lines = "test -n \"$1\" && prompt=$1 || prompt=$(cat)\n\
                 case $prompt in *'# Output Requirements'*) ;; *) exit 9;; esac\n";
    let by_arg = ExecutorSettings { prompt: PromptBy::Arg, ..words.clone() };
    let lines_of = |end: &str| bed.script(&format!("{lines}{end}"));
    let script = lines_of("cat \"$BED/words\"").command;
    assert_succeeded(&bed.run(ExecutorSettings { command: script.clone(), ..by_arg }).await);
    assert_succeeded(&bed.run(ExecutorSettings { command: script, ..words.clone() }).await);

    bed.script("case $(cat \"$2\") in *Requirements*) cp \"$BED/words\" \"$3\";; esac; echo no");
    let mut command = words.command.clone();
    command.extend(["--model", "{model}", "{prompt_file}", "{output_file}"].map(String::from));
    let by_file = ExecutorSettings {
        prompt: PromptBy::File,
        output: OutputFrom::File,
        command,
        ..words.clone()
    };
    // Without a model, its flag is missing too.
    let script = fs::read_to_string(bed.file("agent.sh")).expect("the script");
    let shifted = script.replace("$2", "$1").replace("$3", "$2");
    fs::write(bed.file("agent.sh"), shifted).expect("writes a script");
    assert_succeeded(&bed.run(by_file).await);

    let object = json!({"type": "result", "result": answer(DIFF)}).to_string();
    let as_json = ExecutorSettings {
        output: OutputFrom::Json("result".into()),
        ..bed.saying(&format!("starting\n{object}\n"))
    };
    assert_succeeded(&bed.run(as_json.clone()).await);
    let other = ExecutorSettings { output: OutputFrom::Json("response".into()), ..as_json };
    let report = bed.run(other).await;
    assert_failed(&report, FailReason::BadArtifacts, "text field 'response'");
}

#[tokio::test]
async fn an_output_file_is_a_plain_file() {
    let bed = Bed::new();
    for lines in ["true", "mkfifo \"$1\"", "ln -s \"$BED/words\" \"$1\""] {
        fs::write(bed.file("words"), answer(DIFF)).expect("writes a file");
        let mut agent = bed.script(lines);
        agent.command.push("{output_file}".into());
        let report = bed.run(ExecutorSettings { output: OutputFrom::File, ..agent }).await;
        assert_failed(&report, FailReason::BadArtifacts, "wrote no output file");
    }
}

#[tokio::test]
async fn no_executor_at_all_is_an_executor_error() {
    let bed = Bed::new();
    let mut settings = bed.settings(bed.saying(""));
    settings.executors = Executors::only(Vec::new());
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    assert_failed(&report, FailReason::ExecutorError, "No executor for model any");
}

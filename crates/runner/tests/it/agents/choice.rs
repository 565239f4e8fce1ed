//! Which executor runs a job, and with which variables and arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use callboard_runner::{Executors, RawExecutor};
use serde_json::json;

use super::bed::{Bed, DIFF, answer, assert_succeeded, run};

/// A folder of programs that record their arguments and answer.
fn programs(bed: &Bed, names: &[&str]) -> String {
    let folder = bed.file("bin");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(bed.file("words"), answer(DIFF)).expect("writes");
    fs::write(bed.file("words.json"), json!({"result": answer(DIFF)}).to_string()).expect("writes");
    for name in names {
        let words = if *name == "claude" { "words.json" } else { "words" };
        let bed = bed.home.display();
        let script = format!(
            "#!/bin/sh\ncat > /dev/null\necho \"$0 $*\" >&2\n\
             while [ $# -gt 0 ]; do\n\
             case $1 in --output-last-message) cp '{bed}/{words}' \"$2\";; esac; shift; done\n\
             cat '{bed}/{words}'\n"
        );
        let file = folder.join(name);
        fs::write(&file, script).expect("writes");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    folder.display().to_string()
}

#[tokio::test]
async fn the_model_chooses_the_executor() {
    let table = "
        claude codex mine | claude-sonnet-4 => claude .*--model claude-sonnet-4
        claude codex mine | gpt-4           => codex exec --sandbox read-only .*--model gpt-4
        claude opencode   | open/gpt-4      => opencode run --agent plan --model open/gpt-4
        claude codex mine | mine:x          => mine --with x
        claude codex mine | unheard-of      => mine --with own-model
        codex mine        | claude-sonnet-4 => mine --with own-model
        codex             | unheard-of      => codex exec .*--color never --output-last
        mine              | mine:           => mine
    ";
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (given, wanted) = line.split_once("=>").expect("a => b");
        let (names, model) = given.split_once('|').expect("programs | model");
        let names: Vec<&str> = names.split_whitespace().collect();
        let bed = Bed::new();
        let bin = programs(&bed, &names);
        let mine = RawExecutor {
            command: Some(["mine", "--with", "{model}"].map(str::to_owned).into()),
            default_model: Some("own-model".into()),
            ..RawExecutor::default()
        };
        let mut settings = bed.settings(bed.saying(&answer(DIFF)));
        settings.executors = Executors::new(vec![("mine".into(), mine)]).expect("good settings");
        settings.environment = vec![("PATH".into(), format!("{bin}:/usr/bin:/bin").into())];
        let spec = bed.spec(&[("execution.preferredModel", json!(model.trim()))]);
        let report = run(settings, bed.order(spec)).await;
        assert_succeeded(&report);
        let stderr = report.logs.split("----- stderr -----").nth(1).expect("it said how");
        let mut at = stderr;
        for part in wanted.trim().split(".*") {
            let found = at.find(part);
            at = &at[found.unwrap_or_else(|| panic!("{line}: {}", report.logs))..];
        }
        let fallback = report.logs.contains("the default executor is used");
        assert_eq!(fallback, wanted.contains("own-model") || given.contains("unheard"), "{line}");
    }
}

#[test]
fn settings_change_what_they_name() {
    let fault = |name: &str, raw| Executors::new(vec![(name.into(), raw)]).err();
    let no_command = fault("mine", RawExecutor::default());
    assert!(no_command.is_some_and(|words| words.contains("executors.mine.command")));
    let ours = RawExecutor { env: Some(vec!["CALLBOARD_STORE".into()]), ..RawExecutor::default() };
    assert!(fault("claude", ours).is_some_and(|words| words.contains("CALLBOARD_STORE")));
    let set = [("CALLBOARD_TOKEN".into(), "x".into())].into();
    let ours = RawExecutor { set: Some(set), ..RawExecutor::default() };
    assert!(fault("claude", ours).is_some_and(|words| words.contains("claude.set")));
    let raw: RawExecutor = serde_json::from_value(json!({
        "kind": "acp", "command": ["x"], "prompt": "file", "output": "json:answer"
    }))
    .expect("as a file says it");
    assert!(Executors::new(vec![("x".into(), raw)]).is_ok());
    for bad in [json!({"output": "jsonl"}), json!({"kind": "magic"}), json!({"comand": []})] {
        assert!(serde_json::from_value::<RawExecutor>(bad.clone()).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn an_agent_sees_its_own_variables_and_no_secret_is_told() {
    let bed = Bed::new();
    let mut agent = bed.script(
        "cat > /dev/null; env > \"$TMPDIR/env\"; cat \"$TMPDIR/env\"; echo \"$MY_KEY\" >&2; \
         echo \"failed with $MY_KEY\" >&2; exit 1",
    );
    agent.env = vec!["MY_KEY".into(), "CALLBOARD_TOKEN".into()];
    let mut settings = bed.settings(agent);
    settings.environment.retain(|(name, _)| name == "PATH");
    for (name, value) in [
        ("HOME", "/home/of/somebody"),
        ("LANG", "C"),
        ("MY_KEY", "hunter2-hunter2"),
        ("OTHER_KEY", "not-passed"),
        ("CALLBOARD_TOKEN", "never-passed"),
        ("CALLBOARD_STORE", "postgres://never"),
    ] {
        settings.environment.push((name.into(), value.into()));
    }
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    let logs = &report.logs;
    for there in ["HOME=/home/of/somebody", "LANG=C", "MY_KEY=[MY_KEY]", "TMPDIR=/"] {
        assert!(logs.contains(there), "{there} in {logs}");
    }
    for there in ["CALLBOARD_JOB_ID=job_01\n", "CALLBOARD_ATTEMPT=1\n"] {
        assert!(logs.contains(there), "{there} in {logs}");
    }
    for absent in ["hunter2", "not-passed", "never-passed", "postgres://never"] {
        assert!(!logs.contains(absent), "{absent} in {logs}");
    }
    assert!(report.summary.ends_with("failed with [MY_KEY]"), "{}", report.summary);
}

//! Backlogs with random damage: read or refused with the place of the fault, and a refused one leaves the board as it
//! was.

use callboard_domain::import::plan::{ImportChoice, plan};
use callboard_domain::import::{ImportFormat, SourceFile, read};
use serde_json::Value;

use crate::backlogs::{BACKLOG_1, BACKLOG_2, BEADS, PLAN, TASK_MASTER, VIBE, VIBE_EXPORT};
use crate::ground::Ground;
use crate::seeded::{Rng, Round, seeds};
use crate::wild;

const ROUNDS: u64 = 2_000;
/// Each starts the program, so there are fewer.
const ROUNDS_OF_PROGRAM: u64 = 24;

const SOURCES: &[(ImportFormat, &str, &str)] = &[
    (ImportFormat::Markdown, "plan.md", PLAN),
    (ImportFormat::Beads, "issues.jsonl", BEADS),
    (ImportFormat::Backlog, "task-1.md", BACKLOG_1),
    (ImportFormat::Backlog, "task-2.md", BACKLOG_2),
    (ImportFormat::TaskMaster, "tasks.json", TASK_MASTER),
    (ImportFormat::VibeKanban, "tasks.json", VIBE),
    (ImportFormat::VibeKanban, "issues.csv", VIBE_EXPORT),
    (ImportFormat::Jsonl, "tasks.jsonl", JSONL),
    (ImportFormat::GitHub, "github.json", FORGE),
    (ImportFormat::GitLab, "gitlab.json", FORGE),
    (ImportFormat::Html, "export.html", "<!-- callboard-export sha256:00\n{}\n-->"),
];
const JSONL: &str = r#"{"reference":"a","title":"A","body":"b","state":"open","priority":5,"deps":["b"],"checks":[{"desc":"d","cmd":"true","timeout_s":5}],"criteria":["c"],"labels":["l"],"notes":["n"]}
{"reference":"b","title":"B","parent":"c","is_epic":false}
{"reference":"c","title":"C","is_epic":true,"state":"done"}
"#;
const FORGE: &str = r#"[{"number":1,"iid":1,"title":"A","body":"b","description":"b","state":"open","labels":[{"name":"x"},"y"],"html_url":"https://x/1","web_url":"https://x/1"}]"#;

#[test]
fn a_damaged_backlog_is_read_or_refused() {
    let mut fine = 0;
    for seed in seeds(ROUNDS) {
        let _round = Round(seed);
        let mut rng = Rng::of(seed);
        let (format, name, text) = *rng.pick(SOURCES);
        let text = String::from_utf8_lossy(&wild::mutated(&mut rng, text)).into_owned();
        let file = SourceFile { name: name.to_owned(), text };
        match read(format, &[file]).and_then(|tasks| {
            plan(tasks, &[], &ImportChoice { closed: true, ..ImportChoice::default() })
        }) {
            Ok(_) => fine += 1,
            Err(fault) => assert!(fault.to_string().len() < 2_000, "{fault}"),
        }
    }
    assert!(fine > 0, "some damage does not matter");
}

#[test]
fn a_refused_import_writes_nothing() {
    let ground = Ground::new(None);
    let mut before = tasks(&ground);
    for seed in seeds(ROUNDS_OF_PROGRAM) {
        let _round = Round(seed);
        let mut rng = Rng::of(seed);
        // Forges are asked over the network, and Backlog.md is a folder.
        let (format, name, text) = *rng.pick(&SOURCES[..8]);
        std::fs::write(ground.path().join(name), wild::mutated(&mut rng, text)).unwrap();
        let ran = ground
            .program()
            .args(["import", name, "--from", format.as_str(), "--yes", "--closed"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!said.contains("panicked") && ran.status.code().is_some(), "{said}");
        let after = tasks(&ground);
        if !ran.status.success() {
            assert_eq!(ran.status.code(), Some(2), "{said}");
            assert_eq!(after, before, "a refused import made tasks: {said}");
        }
        before = after;
    }
    ground.judge_store();
}

/// The board as an export shows it.
fn tasks(ground: &Ground) -> Vec<Value> {
    let text = ground.ok(&["export", "-", "--format", "jsonl", "--closed"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

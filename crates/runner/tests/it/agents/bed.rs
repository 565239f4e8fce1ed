//! A repository, a folder for runs, and an agent that is a shell script.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::relay::{FailReason, JobSpec, RunVerdict};
use callboard_engine::ports::{AgentRunner, Answer, Asks, Question, RunOrder, RunReport};
use callboard_runner::{AgentSettings, ExecutorSettings, Executors, LocalAgents};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::fixture::Repo;

pub struct Bed {
    pub repo: Repo,
    pub home: PathBuf,
    _folder: TempDir,
}

/// Adds a line to `a.txt` of `Repo::committed`.
pub const DIFF: &str = "\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1,2 @@
 one
+more
";

pub fn answer(diff: &str) -> String {
    format!("## DIFF\n```diff\n{diff}```\n\n## TEST_PLAN\nRun it.\n\n## NOTES\nNone.\n")
}

impl Bed {
    pub fn new() -> Self {
        Self::of(Repo::committed())
    }

    pub fn of(repo: Repo) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().canonicalize().expect("it was just made");
        Self { repo, home, _folder: folder }
    }

    pub fn head(&self) -> String {
        self.repo.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// A file beside the runs that scripts read and write.
    pub fn file(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// An agent that runs these lines of shell. `$BED` is the bed's folder.
    pub fn script(&self, lines: &str) -> ExecutorSettings {
        let file = self.file("agent.sh");
        let bed = self.home.display();
        fs::write(&file, format!("BED='{bed}'\n{lines}\n")).expect("writes a script");
        ExecutorSettings::script(&file.display().to_string())
    }

    /// An agent that prints these words.
    pub fn saying(&self, words: &str) -> ExecutorSettings {
        fs::write(self.file("words"), words).expect("writes a file");
        self.script("cat > /dev/null; cat \"$BED/words\"")
    }

    pub fn settings(&self, executor: ExecutorSettings) -> AgentSettings {
        AgentSettings {
            executors: Executors::only(vec![executor]),
            kill_grace: Duration::from_millis(300),
            server_args: |url, token_file| {
                ["mcp", "--server", url, "--token-file", token_file].map(str::to_owned).into()
            },
            ..AgentSettings::new(self.home.clone(), self.home.clone())
        }
    }

    /// A valid spec on the local repository, with these fields replaced.
    pub fn spec(&self, changes: &[(&str, Value)]) -> JobSpec {
        let mut spec = json!({
            "repo": {
                "type": "local",
                "path": self.repo.path,
                "baseBranch": "main",
                "baselineCommit": self.head()
            },
            "task": {"title": "T", "description": "D", "acceptance": []},
            "scope": {"readPaths": [], "disallowReformatting": false},
            "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
            "execution": {
                "preferredModel": "any",
                "sandbox": "read-only",
                "askPolicy": "untrusted",
                "priority": "P1",
                "ttlS": 60
            },
            "idempotencyKey": "k"
        });
        for (path, value) in changes {
            let place = path.split('.').fold(&mut spec, |at, name| &mut at[name]);
            *place = value.clone();
        }
        serde_json::from_value(spec).unwrap_or_else(|problem| panic!("{problem}"))
    }

    pub fn order(&self, spec: JobSpec) -> RunOrder {
        let timeout = Duration::from_secs(30);
        RunOrder { job: "job_01".into(), attempt: 1, spec, has_tokens: false, timeout }
    }

    /// Runs an agent on the plain spec.
    pub async fn run(&self, executor: ExecutorSettings) -> RunReport {
        self.run_spec(executor, self.spec(&[])).await
    }

    pub async fn run_spec(&self, executor: ExecutorSettings, spec: JobSpec) -> RunReport {
        run(self.settings(executor), self.order(spec)).await
    }

    /// The remains of runs on disk, without caches and locks.
    pub fn left_behind(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home.join("jobs")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with('.')).collect()
    }
}

pub async fn run(settings: AgentSettings, order: RunOrder) -> RunReport {
    let agents = LocalAgents::new(settings);
    agents.run(order, Arc::new(Nobody), CancellationToken::new()).await
}

pub struct Nobody;

#[async_trait]
impl Asks for Nobody {
    async fn ask(&self, question: Question) -> Answer {
        panic!("nobody was to be asked: {question:?}");
    }
}

#[track_caller]
pub fn assert_failed(report: &RunReport, reason: FailReason, words: &str) {
    assert_eq!(report.verdict, RunVerdict::Failed(reason), "{}\n{}", report.summary, report.logs);
    assert!(report.summary.contains(words), "{}", report.summary);
    assert!(report.logs.contains(&report.summary), "{}", report.logs);
}

#[track_caller]
pub fn assert_succeeded(report: &RunReport) {
    assert_eq!(report.verdict, RunVerdict::Succeeded, "{}\n{}", report.summary, report.logs);
}

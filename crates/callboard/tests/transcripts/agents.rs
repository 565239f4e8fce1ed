//! An agent that answers as the transcript says, and the base spec of transcripts.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::crew::state::TaskState;
use callboard_domain::crew::{AgentId, MailId};
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{FailReason, Problem, RunVerdict};
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ports::{
    AgentRunner, Answer, Asks, Branch, BranchState, EarlierRuns, PatchOrder, Question, RunOrder,
    RunReport, Saying, Up, WorkCall, WorkReport, Worked, Workers,
};
use callboard_engine::{CrewSaid, Engine};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::world::git_identity;

/// Succeeds with a one-line patch unless told otherwise: `agent> fails CONFLICT words`, `agent> waits` (until it is
/// stopped), `agent> asks make`; with `agent> branchless words` no branch can be made, `agent> merged` and `agent>
/// gone` set the state of branches.
///
/// On a task of the board: `agent> commits FILE TEXT` and `agent> leaves FILE TEXT` change its worktree and report
/// completion, `agent> says WORDS` (`|` ends a line), `agent> breaks WORDS` fails, `agent> missing WORDS` never starts,
/// `agent> stalls` does not start either until it is stopped, `agent> runs` works until then, `agent> runs FILE TEXT`
/// on a file, `agent> asks make` goes on with either answer. A reviewing agent says the words of `reviewer> WORDS`.
/// `left> PROCESS` holds runs back as a process of an earlier run would, until `left>` says that there is none.
///
/// As a worker of a crew `agent> submits FILE TEXT` commits the file and sets REVIEW.
#[derive(Default)]
pub struct ScriptedAgent {
    next: Mutex<String>,
    at_work: Arc<Notify>,
    told: Mutex<String>,
    review: Mutex<String>,
    /// The process of an earlier run that cannot be ended, and the number of tries.
    left: Mutex<(String, u32)>,
    engine: Mutex<Weak<Engine>>,
}

impl ScriptedAgent {
    pub fn next(&self, line: &str) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = line.trim().to_owned();
    }

    /// Whether the next agent asks a question first.
    pub fn asks(&self) -> bool {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).starts_with("asks")
    }

    /// Whether the next agent works on a task until it is stopped.
    pub fn runs(&self) -> bool {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).starts_with("runs")
    }

    /// Sets the engine of these agents.
    pub fn belongs_to(&self, engine: &Arc<Engine>) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(engine);
    }

    /// Hands over as the worker that the agent is.
    async fn hand_over(&self, call: &WorkCall) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let engine = engine.expect("an agent runs in an engine");
        let who = call.variables.iter().find(|(name, _)| name == "CALLBOARD_ACTOR");
        let who: Actor = who.expect("a worker knows who it is").1.parse().expect("an actor");
        let op = OpContext::new(Principal::local(who.clone()), "mcp__task__update_status");
        let agent = engine.agent_get(&op, &AgentId::of(&who)).await.expect("it is known");
        for to in [TaskState::InProgress, TaskState::Review] {
            let mail = MailId(engine.fresh_id());
            let said = CrewSaid { to, reason: None, url: None, mail };
            engine.crew_move(&op, &agent, said).await.expect("it may");
        }
    }

    pub fn reviews(&self, words: &str) {
        *self.review.lock().unwrap_or_else(PoisonError::into_inner) = words.trim().to_owned();
    }

    pub fn leaves_behind(&self, words: &str) {
        let words = words.trim().to_owned();
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = (words, 0);
    }

    /// The prompt of the last agent on a task of the board.
    pub fn told(&self) -> String {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves when an agent has begun.
    pub fn at_work(&self) -> impl Future<Output = ()> + 'static {
        let at_work = self.at_work.clone();
        async move { at_work.notified().await }
    }
}

fn report(verdict: RunVerdict, summary: &str, patch: Option<&str>) -> RunReport {
    RunReport {
        verdict,
        summary: summary.to_owned(),
        patch: patch.map(str::to_owned),
        out: patch.map(|_| "# Test Plan\n\nRun it.\n\n# Notes\n\nNone.\n".into()),
        logs: "worked\n".into(),
        usage: None,
    }
}

const PATCH: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

#[async_trait]
impl AgentRunner for ScriptedAgent {
    async fn repo_problems(&self, repo: &Repo) -> Vec<Problem> {
        match repo {
            Repo::Git { .. } => Vec::new(),
            Repo::Local { path, .. } if path == "/repo" => Vec::new(),
            Repo::Local { .. } => vec![Problem {
                path: "repo.path".into(),
                problem: "must be a git repository".into(),
            }],
        }
    }

    async fn run(
        &self,
        _order: RunOrder,
        asks: Arc<dyn Asks>,
        stop: CancellationToken,
    ) -> RunReport {
        let line = self.next.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let done = "Completed successfully with 6 line diff";
        match verb {
            "fails" => {
                let (reason, words) = rest.split_once(' ').unwrap_or((rest, ""));
                let reason = FailReason::parse(reason).expect("a reason");
                let patch = (reason == FailReason::Conflict).then_some(PATCH);
                report(RunVerdict::Failed(reason), words, patch)
            }
            "writes" => {
                let bytes = rest.parse().expect("so many bytes");
                report(RunVerdict::Succeeded, done, Some(&"+".repeat(bytes)))
            }
            "waits" => {
                self.at_work.notify_one();
                stop.cancelled().await;
                report(RunVerdict::Stopped, "Stopped", None)
            }
            "asks" => {
                let command = Some(rest.to_owned());
                let question = Question { text: format!("Run {rest}?"), command };
                let answer = tokio::select! {
                    answer = asks.ask(question) => answer,
                    () = stop.cancelled() => return report(RunVerdict::Stopped, "Stopped", None),
                };
                match answer {
                    Answer::Granted => report(RunVerdict::Succeeded, done, Some(PATCH)),
                    Answer::Refused => {
                        report(RunVerdict::Succeeded, "Completed without it", Some(""))
                    }
                }
            }
            _ => report(RunVerdict::Succeeded, done, Some(PATCH)),
        }
    }

    async fn branch(&self, order: PatchOrder) -> Result<Branch, String> {
        let line = self.next.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(words) = line.strip_prefix("branchless ") {
            return Err(words.to_owned());
        }
        let (repo, remote) = match order.repo {
            Repo::Git { url, .. } => (url.clone(), Some(url)),
            Repo::Local { path, .. } => (path, None),
        };
        Ok(Branch { name: order.name, head: "c0ffee".into(), repo, remote })
    }

    async fn branch_state(&self, _branch: &Branch, _base: &str) -> Option<BranchState> {
        let line = self.next.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(match line.as_str() {
            "merged" => BranchState::Merged { commit: None },
            "gone" => BranchState::Gone,
            _ => BranchState::Open,
        })
    }

    async fn clean_up(&self) {}

    /// Notifies at the second try: by then the first is recorded.
    async fn end_earlier(&self, _runs: Vec<EarlierRuns>) -> Vec<String> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.0.is_empty() {
            return Vec::new();
        }
        left.1 += 1;
        if left.1 == 2 {
            self.at_work.notify_one();
        }
        vec![left.0.clone()]
    }
}

#[allow(clippy::disallowed_methods, reason = "tests play the agent at a terminal")]
fn shell(folder: &Path, script: &str) {
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .envs(git_identity(folder))
        .status();
    assert!(done.is_ok_and(|done| done.success()), "{script}");
}

#[async_trait]
impl Workers for ScriptedAgent {
    async fn work(
        &self,
        call: WorkCall,
        up: oneshot::Sender<Up>,
        _printed: watch::Sender<String>,
        asks: Arc<dyn Asks>,
        _says: mpsc::Receiver<Saying>,
        stop: CancellationToken,
    ) -> WorkReport {
        let line = self.next.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = call.prompt.clone();
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let logs = format!("attempt {} by {}\n", call.attempt, call.executor);
        if verb == "missing" {
            return WorkReport { end: Worked::NotStarted(rest.into()), logs, usage: None };
        }
        if verb == "stalls" {
            self.at_work.notify_one();
            stop.cancelled().await;
            return WorkReport { end: Worked::Stopped, logs, usage: None };
        }
        let (file, text) = rest.split_once(' ').unwrap_or((rest, ""));
        if verb == "runs" && !file.is_empty() {
            shell(&call.folder, &format!("echo '{text}' > '{file}'"));
        }
        let _ = up.send(Up::default());
        if call.worktrees.is_empty() {
            let review = self.review.lock().unwrap_or_else(PoisonError::into_inner).clone();
            return WorkReport { end: Worked::Replied(review), logs, usage: None };
        }
        let end = match verb {
            "runs" => {
                stop.cancelled().await;
                Worked::Stopped
            }
            "asks" => {
                let (text, command) = (format!("Run {rest}?"), Some(rest.to_owned()));
                let answer = tokio::select! {
                    answer = asks.ask(Question { text, command }) => answer,
                    () = stop.cancelled() => return WorkReport { end: Worked::Stopped, logs, usage: None },
                };
                match answer {
                    Answer::Granted => Worked::Replied(format!("Ran {rest}\n<complete/>")),
                    Answer::Refused => Worked::Replied(format!("No {rest}\n<continue/>")),
                }
            }
            "breaks" => Worked::Failed(rest.into()),
            "says" => Worked::Replied(rest.replace('|', "\n")),
            "submits" => {
                shell(&call.folder, &format!("echo '{text}' > '{file}' && git add '{file}'"));
                shell(&call.folder, &format!("git commit -qm 'Add {file}'"));
                self.hand_over(&call).await;
                Worked::Replied("Handed over".into())
            }
            "commits" | "leaves" => {
                let mut script = format!("echo '{text}' > '{file}'");
                if verb == "commits" {
                    script += &format!(" && git add '{file}' && git commit -qm 'Add {file}'");
                }
                shell(&call.folder, &script);
                Worked::Replied(format!("Wrote {file}\n<complete/>"))
            }
            _ => Worked::Replied("<complete/>".into()),
        };
        WorkReport { end, logs, usage: None }
    }
}

/// The reference document's example, with these changes; `null` removes a key.
pub fn example_with(changes: Value) -> Value {
    let mut spec = json!({
        "repo": {
            "type": "git",
            "url": "https://github.com/facebook/react.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        },
        "task": {
            "title": "Add TypeScript strict mode",
            "description": "Enable strict mode in tsconfig.json and fix type errors",
            "acceptance": [
                "tsconfig.json has strict: true",
                "All TypeScript files compile without errors",
            ],
        },
        "scope": {
            "readPaths": ["src/", "tsconfig.json"],
            "fileGlobs": ["**/*.ts", "**/*.tsx"],
            "disallowReformatting": false,
        },
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "gpt-4",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 1800,
        },
        "idempotencyKey": "react-strict-mode-v1",
    });
    merge(&mut spec, changes);
    spec
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    into.shift_remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), change);
                }
            }
        }
        (into, change) => *into = change,
    }
}

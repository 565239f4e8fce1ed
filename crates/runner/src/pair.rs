//! A place where a person and an agent work together: a worktree with a prompt, and a terminal in tmux or an editor
//! that the person opens.
//!
//! Files written there are hidden from git and never change a tracked file. Sessions live in the user's own tmux, so
//! that `tmux attach-session -t callboard-<task>` finds them as printed.

mod agent;
mod files;
mod open_with;
mod tmux;

use std::ffi::OsString;

use async_trait::async_trait;
use callboard_engine::ports::{
    PairBackend, PairFault, PairOrder, PairSession, PairSessions, SESSION_RECORD as RECORD,
    Worktree,
};
use serde::{Deserialize, Serialize};

use crate::environment::{self, Variables};
use files::Files;

const PROMPT: &str = "start_prompt.md";

#[derive(Default)]
pub struct LocalPairs {
    /// Variables besides the inherited ones.
    extra: Variables,
}

impl LocalPairs {
    /// Sets a variable for started programs too.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    fn environment(&self) -> Variables {
        let mut env = environment::inherited();
        // The user's usual tmux, not the one that the server may run in.
        env.retain(|(name, _)| name != "TMUX" && name != "TMUX_PANE");
        env.extend(self.extra.iter().cloned());
        env
    }
}

/// `.callboard/session.json`: marks a session.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    task_id: String,
    session_name: String,
    backend: String,
    agent: String,
    worktree_path: String,
    prompt_path: String,
    project_root: String,
}

impl Record {
    fn backend(&self) -> Option<PairBackend> {
        PairBackend::ALL.into_iter().find(|backend| backend.as_str() == self.backend)
    }
}

#[async_trait]
impl PairSessions for LocalPairs {
    async fn pair_open(&self, order: PairOrder) -> Result<PairSession, PairFault> {
        let name = session_name(&order.task)?;
        let files = Files::of(&order.worktree);
        let is_open = self.pair_find(&order.worktree, &order.task).await == Some(order.backend);
        let agent = agent::PairAgent::of(&order);
        let mut written = agent.files(&order);
        let left_alone = files.hide_and_sift(&mut written).await?;
        if !is_open {
            // A session in another terminal, or the rest of one that died, ends first.
            self.pair_end(&order.worktree, &order.task).await?;
            files.write_ours(PROMPT, order.prompt.as_bytes())?;
            for (path, text) in &written {
                files.write(path, text.as_bytes())?;
            }
            if order.backend == PairBackend::Tmux {
                self.start(&name, &order, &agent).await?;
            }
            // Last: a record stands for a session that was opened whole.
            files.write_ours(RECORD, record(&name, &order).as_bytes())?;
        }
        let prompt_path = order.worktree.path.join(".callboard").join(PROMPT);
        let (primary_command, commands) =
            open_with::commands(order.backend, &name, &order.worktree.path, &prompt_path);
        Ok(PairSession {
            links: open_with::links(order.backend, &order.worktree.path, &prompt_path),
            backend: order.backend,
            already_exists: is_open,
            name,
            prompt_path,
            primary_command,
            commands,
            left_alone,
        })
    }

    async fn pair_find(&self, worktree: &Worktree, task: &str) -> Option<PairBackend> {
        let backend = Files::of(worktree).record()?.backend()?;
        let lives = match backend {
            PairBackend::Tmux => {
                let name = session_name(task).ok()?;
                let exists = tmux::exists(&self.environment(), &name).await;
                exists.inspect_err(|fault| tracing::warn!(%fault, name, "tmux cannot say whether a session exists")).ok()?
            }
            // An editor cannot be asked, so the record alone counts.
            PairBackend::Vscode | PairBackend::Cursor => true,
        };
        lives.then_some(backend)
    }

    async fn pair_end(&self, worktree: &Worktree, task: &str) -> Result<bool, PairFault> {
        let (name, env) = (session_name(task)?, self.environment());
        let has_terminal = tmux::exists(&env, &name).await?;
        // The record goes first, because this process may run in the session that ends.
        let had_record = Files::of(worktree).remove_ours(RECORD)?;
        if has_terminal {
            tmux::end(&env, &name, worktree.path.as_os_str()).await?;
        }
        Ok(has_terminal || had_record)
    }
}

impl LocalPairs {
    async fn start(
        &self,
        name: &str,
        order: &PairOrder,
        agent: &agent::PairAgent,
    ) -> Result<(), PairFault> {
        let place = &order.worktree.path;
        let mut variables: Variables = vec![
            ("CALLBOARD_TASK_ID".into(), order.task.clone().into()),
            ("CALLBOARD_TASK_TITLE".into(), one_line(&order.title).into()),
            ("CALLBOARD_WORKTREE_PATH".into(), place.into()),
            ("CALLBOARD_PROJECT_ROOT".into(), order.project_root.clone().into()),
        ];
        let of_task = order.variables.iter().map(|(name, value)| (name.into(), value.into()));
        variables.extend(of_task);
        variables.extend(agent.variables(place));
        let session = tmux::New { name, place, variables, typed: agent.command_line() };
        tmux::start(&self.environment(), session).await
    }
}

/// A session name without characters that tmux would replace.
fn session_name(task: &str) -> Result<String, PairFault> {
    let is_char = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if task.is_empty() || !task.chars().all(is_char) {
        return Err(PairFault::Failed(format!("{task:?} is not a valid name for a session")));
    }
    Ok(format!("callboard-{task}"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn record(name: &str, order: &PairOrder) -> String {
    let place = &order.worktree.path;
    let record = Record {
        task_id: order.task.clone(),
        session_name: name.into(),
        backend: order.backend.as_str().into(),
        agent: order.agent.clone(),
        worktree_path: place.display().to_string(),
        prompt_path: place.join(".callboard").join(PROMPT).display().to_string(),
        project_root: order.project_root.display().to_string(),
    };
    let text = serde_json::to_string_pretty(&record).expect("a record of strings is JSON");
    format!("{text}\n")
}

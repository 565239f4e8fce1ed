//! The start parameters of an agent that works on a task: its prompt, its worktrees, its own door to the board, and a
//! terminal in which people see it. Its run is in `start.rs`.

use std::time::Duration;

use callboard_domain::board::card::ReviewState;
use callboard_domain::crew::{AgentId, names};
use callboard_domain::policy::Phase;
use callboard_domain::runs::work::Role;
use callboard_domain::runs::work::prompt::{Brief, CrewPlace, prompt};

use crate::board::card::CardSeen;
use crate::board::workspace::WorkspacePart;
use crate::ports::{TerminalWish, WorkCall, Worktree};
use crate::runs::start::LeasedWork;
use crate::runs::tell;
use crate::{Engine, EngineError};

/// The terminal in which a person sees a crew's agent at work.
/// `crew.terminal` of the settings. An agent without one prints into its log all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrewTerminal {
    #[default]
    None,
    Tmux,
}

impl Engine {
    /// Everything that `Workers::work` needs for this run. The door is added later: its token lives only as long as the
    /// run.
    pub(crate) async fn work_call(
        &self,
        leased: &LeasedWork,
        parts: &[WorkspacePart],
        left: Duration,
    ) -> Result<WorkCall, EngineError> {
        let LeasedWork { taken, order, .. } = leased;
        let places: Vec<Worktree> = parts.iter().filter_map(|part| part.worktree.clone()).collect();
        let folder = places.first().map(|place| place.path.clone()).unwrap_or_default();
        let brief = self.brief(leased, parts).await?;
        // A model in the order goes before the board's usual one; an empty name leaves the choice to the executor.
        let usual = leased.settings.default_model(&leased.executor);
        let model = order.model.as_deref().or(usual).unwrap_or_default().to_owned();
        // Scripts and hooks in the worktree learn from these variables which task they work for.
        let mut variables = vec![
            ("CALLBOARD_TASK_ID".to_owned(), brief.task.clone()),
            ("CALLBOARD_TASK_TITLE".to_owned(), brief.title.clone()),
            ("CALLBOARD_WORKTREE_PATH".to_owned(), folder.display().to_string()),
        ];
        if order.role == Role::Crew {
            variables.push(("CALLBOARD_ACTOR".into(), leased.agent.to_string()));
        }
        let shop = self.parts.workshop.as_ref();
        if let Some(root) = shop.and_then(|shop| shop.root.as_ref()) {
            variables.push(("CALLBOARD_PROJECT_ROOT".into(), root.display().to_string()));
        }
        let (of_workspace, ports) = self.workspace_variables(&leased.record.task, &folder).await;
        variables.extend(of_workspace);
        Ok(WorkCall {
            ports,
            job: taken.job.to_string(),
            attempt: leased.run.attempt,
            executor: leased.executor.clone(),
            model,
            prompt: prompt(order.role, &brief),
            variables,
            folder,
            worktrees: match order.role {
                Role::Worker | Role::Crew => places,
                // A reviewer gets no worktree to write in.
                Role::Reviewer => Vec::new(),
            },
            door: None,
            timeout: left,
            terminal: self.terminal(leased),
        })
    }

    /// The terminal of a crew's agent, with a title that says how a person speaks to the agent and leaves it.
    fn terminal(&self, leased: &LeasedWork) -> Option<TerminalWish> {
        let is_wanted = match (leased.order.role, self.parts.crew.terminal) {
            (Role::Crew, CrewTerminal::Tmux) => true,
            (Role::Crew, CrewTerminal::None) | (Role::Worker | Role::Reviewer, _) => false,
        };
        let (worker, task) = (AgentId::of(&leased.agent), &leased.record.task);
        is_wanted.then(|| TerminalWish {
            session: names::terminal(&worker),
            title: format!(
                "{worker} on {name} ({}). callboard tell {name} TEXT speaks to it; Ctrl-b d leaves.",
                task.title,
                name = task.name(),
            ),
        })
    }

    /// What the prompt tells the agent of its task: the text, the notes of earlier runs, and open feedback.
    async fn brief(
        &self,
        leased: &LeasedWork,
        parts: &[WorkspacePart],
    ) -> Result<Brief, EngineError> {
        let LeasedWork { taken, order, record, card, .. } = leased;
        let review = card.review.as_ref();
        // Feedback is settled once the worker of a crew has handed its work over again.
        let is_open = order.role != Role::Crew || record.task.phase != Phase::Review;
        let rejected =
            review.filter(|review| review.state == ReviewState::Rejected).filter(|_| is_open);
        let crew = match order.role {
            Role::Crew => self.crew_part(leased, parts).await?,
            Role::Worker | Role::Reviewer => CrewPlace::default(),
        };
        let notes = self.parts.store.scratchpad(&taken.org, record.task.id).await?;
        Ok(Brief {
            task: record.task.id.to_string(),
            title: record.task.title.clone(),
            description: record.body.clone(),
            acceptance: card.criteria.clone(),
            scratchpad: notes.unwrap_or_default(),
            feedback: rejected.and_then(|review| review.feedback.clone()),
            conflict_files: review.map(|review| review.conflict_files.clone()).unwrap_or_default(),
            summary: card.summary(record.newest.as_ref()).map(str::to_owned),
            base_branch: parts.first().map(|part| part.target.clone()),
            instructions: order.instructions.clone(),
            told: match order.role {
                Role::Worker | Role::Crew => tell::in_prompt(card),
                Role::Reviewer => Vec::new(),
            },
            crew,
        })
    }

    /// The part of the prompt that only a worker of a crew has: its epic, its mail and its place.
    async fn crew_part(
        &self,
        leased: &LeasedWork,
        parts: &[WorkspacePart],
    ) -> Result<CrewPlace, EngineError> {
        let LeasedWork { taken, record, card, .. } = leased;
        let seen = CardSeen { record: record.clone(), card: card.clone() };
        let worker = AgentId::of(&leased.agent);
        let told = self.crew_told(&taken.org, &seen, &worker, leased.run.attempt).await?;
        let place = parts.iter().find_map(|part| part.worktree.as_ref());
        Ok(CrewPlace {
            worktree: place.map(|place| place.path.display().to_string()).unwrap_or_default(),
            branch: place.map(|place| place.branch.clone()).unwrap_or_default(),
            ..told
        })
    }
}

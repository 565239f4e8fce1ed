//! Pull requests of tasks from end to end: an engine, real repositories, and forges on loopback.

mod crew;
mod forges;
mod local;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::forge::ForgeKind;
use callboard_domain::ids::TaskId;
use callboard_domain::pulls::Pull;
use callboard_domain::rights::Lane;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{
    BaseFrom, BranchOrder, TaskBranch, Worktree, WorktreeOrder, Worktrees,
};
use callboard_engine::store::clock::SystemClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{EventQuery, Place, RepoPlace, Store};
use callboard_engine::{
    Engine, Parts, PullDraft, PullEnd, PullFault, RunRule, TaskDraft, Workshop,
};
use callboard_runner::{
    AgentSettings, ForgeClient, LocalAgents, LocalChecks, LocalPairs, LocalWorktrees,
};

use crate::fixture::Repo;
use crate::forge::settings;
use crate::workspaces::commit;

const EPIC: &str = "callboard/epic-1";

/// A server beside a repository, with an epic's branch in it.
struct Crew {
    engine: Arc<Engine>,
    repo: Repo,
}

impl Crew {
    async fn open(repo: Repo, forge: Option<(ForgeKind, &str)>) -> Self {
        let path = repo.path.with_file_name("test.db");
        let store = SqliteStore::open(&path, Arc::new(SystemClock)).expect("opens");
        let store: Arc<dyn Store> = Arc::new(store);
        let place = RepoPlace { machine: "here".into(), path: repo.path.clone() };
        let place = Place { repo: Some(place), ..Place::of_org("default") };
        let url = forge.map_or("http://127.0.0.1:1", |(_, url)| url);
        let worktrees = Arc::new(LocalWorktrees::default());
        let agents_home = repo.path.with_file_name("home");
        let folder = repo.path.with_file_name("jobs");
        let home = store.settle(place).await.expect("settles");
        let engine = Engine::new(Parts {
            checks: Some(Arc::new(LocalChecks::new(true))),
            forge: Some(Arc::new(ForgeClient::new(&settings(url)).expect("good settings"))),
            runs: RunRule {
                forge: forge.map(|(kind, _)| kind),
                merge_wait: Duration::from_secs(2),
                ..RunRule::default()
            },
            agents: Some(Arc::new(LocalAgents::new(AgentSettings::new(agents_home, folder)))),
            workshop: Some(Workshop {
                worktrees: worktrees.clone(),
                merges: worktrees,
                pairs: Arc::new(LocalPairs::default()),
                root: Some(repo.path.clone()),
                workers: None,
                door: None,
                server: Arc::new(|_| Vec::new()),
                programs: HashMap::new(),
            }),
            ..Parts::bare(home, store, Arc::new(TimeOrderedIds))
        });
        let epic = BranchOrder {
            repo: repo.path.clone(),
            branch: EPIC.into(),
            base: "main".into(),
            base_from: BaseFrom::Local,
            fetch: false,
        };
        LocalWorktrees::default().branch_make(epic).await.expect("makes a branch");
        Self { engine, repo }
    }

    fn op(&self) -> OpContext {
        let mut supervisor = Principal::local("agent:super".parse().expect("an actor"));
        supervisor.rights.lane = Lane::KaganAdmin;
        OpContext::new(supervisor, "test")
    }

    /// A task with a worktree that starts at the epic's branch.
    async fn task(&self, title: &str) -> (TaskId, Worktree) {
        let draft = TaskDraft { title: title.into(), ..TaskDraft::default() };
        let task = self.engine.task_create(&self.op(), draft).await.expect("creates").it.task.id;
        let order = WorktreeOrder {
            repo: self.repo.path.clone(),
            name: task.to_string(),
            branch: TaskBranch::named(format!("callboard/{task}")),
            base: EPIC.into(),
            base_from: BaseFrom::Local,
            fetch: false,
        };
        let made = LocalWorktrees::default().worktree_make(order).await.expect("makes a worktree");
        (task, made.worktree)
    }

    /// A task with a worktree and one commit.
    async fn worked(&self, title: &str, file: &str, text: &str) -> (TaskId, Worktree) {
        let (task, worktree) = self.task(title).await;
        commit(&worktree, file, text);
        (task, worktree)
    }

    async fn try_open(&self, task: TaskId, branch: &str, base: &str) -> Result<Pull, PullFault> {
        let draft = PullDraft {
            task,
            branch: branch.into(),
            base: base.into(),
            title: "Add login".into(),
            body: "With a form.".into(),
            may_rewrite: base == EPIC,
        };
        self.engine.pull_open_for_task(&self.op(), draft).await
    }

    async fn pull(&self, task: TaskId, worktree: &Worktree) -> Pull {
        let opened = self.try_open(task, &worktree.branch, EPIC).await;
        opened.expect("opens")
    }

    async fn merge(&self, pull: &Pull) -> PullEnd {
        self.engine.pull_merge(&self.op(), pull, None).await.expect("an answer")
    }

    /// The pull as the store has it.
    async fn known(&self, pull: &Pull) -> Pull {
        let task = pull.task.expect("a task's");
        let known = self.engine.pulls_of_task(&self.op(), task).await.expect("reads");
        known.into_iter().find(|known| known.is(pull)).expect("is there")
    }

    /// The names of the events of a task's pull requests.
    async fn news(&self, task: TaskId) -> Vec<&'static str> {
        let query = EventQuery { task: Some(task), limit: 100, ..EventQuery::default() };
        let events = self.engine.store().events(query).await.expect("reads");
        let names = events.iter().map(|event| event.name.as_str());
        names.filter(|name| name.starts_with("pr.")).collect()
    }
}

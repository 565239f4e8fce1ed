//! A crew with pull requests at a forge: only an approved task is finished.

use callboard_domain::command::{AgentAdd, NewCheck, TaskEdit};
use callboard_domain::crew::state::{EpicState, TaskState};
use callboard_domain::crew::{Agent, AgentId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::pulls::{MERGED, OPEN, Pull};
use callboard_domain::rights::AgentType;
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{IdSource, Worktree};
use callboard_engine::{CrewSaid, EngineError, MailFilter, TaskDraft, task_state};
use serde_json::json;

use super::Crew;
use super::forges::{PULL, PULLS, at_origin, crew, find, stands};
use crate::fixture::git_in;
use crate::forge::server::{FakeForge, Reply};
use crate::workspaces::commit;

/// A supervisor, and a task of its epic for which a worker requests a review.
struct Review {
    crew: Crew,
    lead: Agent,
    task: TaskId,
    worker: AgentId,
    worktree: Worktree,
    epic_branch: String,
}

fn mail() -> MailId {
    MailId(TimeOrderedIds.next_id())
}

impl Review {
    async fn of(forge: &FakeForge) -> Self {
        let crew = crew(forge).await;
        let (engine, op) = (&crew.engine, crew.op());
        let draft = TaskDraft { title: "Users".into(), ..TaskDraft::default() };
        let epic = engine.task_create(&op, draft).await.expect("creates").it.task.id;
        let add = AgentAdd {
            agent: AgentId::parse("super").expect("a name"),
            kind: AgentType::Supervisor,
            epic: Some(epic),
            task: None,
            or_keep: false,
            workers_max: None,
        };
        let lead = engine.agent_add(&op, add).await.expect("adds");
        let text = ("Login".to_owned(), "With a form.".to_owned());
        let made = engine.epic_task_add(&op, &lead, epic, TimeOrderedIds.next_id(), text).await;
        let task = made.expect("adds").task;
        let seen = engine.card_get(&op, task).await.expect("reads").it;
        let newest = seen.record.newest.expect("a worker has it");
        let worktree = Worktree {
            repo: crew.repo.path.clone(),
            path: newest.worktree.expect("in a worktree").into(),
            branch: newest.branch.expect("on a branch"),
        };
        let epic_branch = seen.card.base_branch.expect("towards the epic");
        commit(&worktree, "login.txt", "one\n");
        forge.on(find(&worktree.branch, &epic_branch), Reply::ok("[]"));
        let page = json!({"number": 7, "html_url": "https://github.com/acme/shop/pull/7"});
        forge.on(PULLS, Reply::new(201, page.to_string()));
        let worker = AgentId::of(&newest.actor);
        let review = Self { crew, lead, task, worker, worktree, epic_branch };
        for to in [TaskState::InProgress, TaskState::Review] {
            review.says(to).await.expect("moves");
        }
        review
    }

    async fn state(&self) -> TaskState {
        let seen = self.crew.engine.card_get(&self.crew.op(), self.task).await.expect("reads");
        task_state(&seen.it, seen.now)
    }

    /// The task is approved, and the forge waits for its checks.
    async fn awaited(&self, forge: &FakeForge) {
        let sha = json!({"sha": self.crew.repo.commit_of(&self.worktree.branch)});
        forge.on(PULL, stands(json!({"mergeable_state": "blocked", "head": sha})));
        forge.on("/graphql", Reply::ok(r#"{"data": {}}"#));
        let approved = self.crew.engine.crew_approve(&self.crew.op(), &self.lead, self.task).await;
        assert!(!approved.expect("answers").merged);
        let waits = json!({"mergeable_state": "blocked", "head": sha, "auto_merge": {}});
        forge.on(PULL, stands(waits));
        forge.seen();
    }

    async fn sent_back(&self) {
        let (engine, op) = (&self.crew.engine, self.crew.op());
        let back = engine.crew_return(&op, &self.lead, self.task, "Not yet.".into(), mail()).await;
        back.expect("goes back");
        assert_eq!(self.state().await, TaskState::InProgress);
    }

    async fn says(&self, to: TaskState) -> Result<(), EngineError> {
        let (engine, op) = (&self.crew.engine, self.crew.op());
        let worker = engine.agent_get(&op, &self.worker).await.expect("is there");
        let reason = (to == TaskState::Blocked).then(|| "stuck".to_owned());
        let said = CrewSaid { to, reason, url: None, mail: mail() };
        engine.crew_move(&op, &worker, said).await.map(drop)
    }

    async fn pull(&self) -> Pull {
        let pulls = self.crew.engine.pulls_of_task(&self.crew.op(), self.task).await;
        pulls.expect("reads").into_iter().next().expect("it has one")
    }

    /// The subjects of the worker's mail, the newest first.
    async fn letters(&self) -> Vec<String> {
        let to = Some(self.worker.clone());
        let all = MailFilter { to, include_read: true, before: None, limit: 100 };
        let page = self.crew.engine.mail_list(&self.crew.op(), all).await.expect("reads");
        page.mails.into_iter().map(|seen| seen.mail.subject).collect()
    }

    /// Runs the background work.
    async fn later(&self) {
        self.crew.engine.pulls_look(true).await.expect("looks");
        self.crew.engine.crew_sweep().await.expect("sweeps");
    }

    /// The forge squashes the branch into the epic's.
    fn merged_there(&self, forge: &FakeForge) -> String {
        let place = self.crew.repo.path.with_file_name("remotes").join("shop.git");
        let tree = format!("{}^{{tree}}", self.worktree.branch);
        let parent = at_origin(&self.crew, &self.epic_branch);
        let words = ["commit-tree", &tree, "-p", &parent, "-m", "Login (#7)"];
        let squash = git_in(&place, &words).trim().to_owned();
        git_in(&place, &["update-ref", &format!("refs/heads/{}", self.epic_branch), &squash]);
        forge.on(
            PULL,
            stands(json!({"state": "closed", "merged": true, "merge_commit_sha": squash})),
        );
        squash
    }
}

#[tokio::test]
async fn what_waits_is_finished_when_the_forge_has_merged_it() {
    let forge = FakeForge::start().await;
    let review = Review::of(&forge).await;
    let (crew, op) = (&review.crew, review.crew.op());
    let sha = json!({"sha": crew.repo.commit_of(&review.worktree.branch)});
    let blocked = json!({"mergeable_state": "blocked", "head": sha});
    forge.on(PULL, stands(blocked));
    forge.on("/graphql", Reply::ok(r#"{"data": {}}"#));
    let approved = crew.engine.crew_approve(&op, &review.lead, review.task).await.expect("answers");
    assert!(!approved.merged);
    assert_eq!(review.state().await, TaskState::Review);
    let squash = review.merged_there(&forge);
    review.later().await;
    assert_eq!(review.state().await, TaskState::Completed);
    assert_eq!(crew.repo.commit_of(&review.epic_branch), squash, "the next one starts there");
    // The whole epic goes to people, though its task was merged elsewhere.
    forge.on(find(&review.epic_branch, "main"), Reply::ok("[]"));
    let page = json!({"number": 8, "html_url": "https://github.com/acme/shop/pull/8"});
    forge.on(PULLS, Reply::new(201, page.to_string()));
    let finished = crew.engine.epic_finish(&op, &review.lead, (None, None), mail()).await;
    assert_eq!(finished.expect("finishes").number, 8);
}

/// A person merged it at the forge; that is no supervisor's approval, and no check ran.
#[tokio::test]
async fn what_nobody_approved_stays_in_review() {
    let forge = FakeForge::start().await;
    let review = Review::of(&forge).await;
    let (crew, op) = (&review.crew, review.crew.op());
    let fails =
        NewCheck { desc: "tests".into(), cmd: Some("test -e done".into()), ..NewCheck::default() };
    let edit = TaskEdit {
        task: review.task,
        title: None,
        body: None,
        priority: None,
        checks: Some(vec![fails]),
    };
    crew.engine.task_edit(&op, edit).await.expect("edits");
    review.merged_there(&forge);
    review.later().await;
    assert_eq!(review.state().await, TaskState::Review);
    let refused = crew.engine.crew_approve(&op, &review.lead, review.task).await;
    let words = refused.expect_err("its check fails").to_string();
    assert!(words.contains("checks"), "{words}");
    assert_eq!(review.state().await, TaskState::Review);
    let edit = TaskEdit {
        task: review.task,
        title: None,
        body: None,
        priority: None,
        checks: Some(Vec::new()),
    };
    crew.engine.task_edit(&op, edit).await.expect("edits");
    let approved = crew.engine.crew_approve(&op, &review.lead, review.task).await.expect("answers");
    assert!(approved.merged);
    assert_eq!(review.state().await, TaskState::Completed);
}

/// Work after the merge is not lost.
#[tokio::test]
async fn work_behind_a_merge_gets_a_pull_request_of_its_own() {
    let forge = FakeForge::start().await;
    let review = Review::of(&forge).await;
    let (crew, op) = (&review.crew, review.crew.op());
    review.merged_there(&forge);
    review.later().await;
    let more = commit(&review.worktree, "more.txt", "two\n");
    let page = json!({"number": 9, "html_url": "https://github.com/acme/shop/pull/9"});
    forge.on(PULLS, Reply::new(201, page.to_string()));
    forge.on("/repos/acme/shop/pulls/9", stands(json!({"head": {"sha": more}})));
    forge.on("/repos/acme/shop/pulls/9/merge", Reply::ok(r#"{"sha": "abc", "merged": true}"#));
    let approved = crew.engine.crew_approve(&op, &review.lead, review.task).await.expect("answers");
    assert!(approved.merged && approved.url.ends_with("/9"), "{approved:?}");
    assert_eq!(at_origin(crew, &review.worktree.branch), more);
}

/// How often auto-merge was disabled over GitHub's GraphQL API.
fn called_off(forge: &FakeForge) -> usize {
    let seen = forge.seen();
    let off = |body: &[u8]| String::from_utf8_lossy(body).contains("disablePullRequestAutoMerge");
    seen.iter().filter(|seen| seen.path == "/graphql" && off(&seen.body)).count()
}

#[tokio::test]
async fn what_is_sent_back_is_not_merged_behind_its_back() {
    for way in ["sent back", "withdrawn", "blocked", "cancelled"] {
        let forge = FakeForge::start().await;
        let review = Review::of(&forge).await;
        review.awaited(&forge).await;
        match way {
            "sent back" => review.sent_back().await,
            "withdrawn" => review.says(TaskState::InProgress).await.expect("moves"),
            "blocked" => review.says(TaskState::Blocked).await.expect("moves"),
            _ => {
                let (engine, op) = (&review.crew.engine, review.crew.op());
                let end = engine.epic_move(&op, &review.lead, EpicState::Cancelled).await;
                assert_eq!(end.expect("ends").skipped, []);
            }
        }
        assert_eq!(called_off(&forge), 0, "{way}: nobody waits for a forge");
        assert!(review.pull().await.is_revoked, "{way}");
        review.later().await;
        assert_eq!(called_off(&forge), 1, "{way}");
        let pull = review.pull().await;
        let stands = (pull.status.as_str(), pull.is_awaited, pull.is_revoked);
        assert_eq!(stands, (OPEN, false, false), "{way}");
        review.later().await;
        assert_eq!(called_off(&forge), 0, "{way}: once");
    }
}

/// An unreachable forge gets the request when it is back; no new request goes there before that.
#[tokio::test]
async fn a_forge_that_is_away_hears_later_that_nobody_wants_a_merge() {
    let forge = FakeForge::start().await;
    let review = Review::of(&forge).await;
    review.awaited(&forge).await;
    forge.on("/graphql", Reply::new(502, "{}"));
    review.sent_back().await;
    review.later().await;
    assert!(review.pull().await.is_revoked);
    let more = commit(&review.worktree, "more.txt", "two\n");
    let early = review.says(TaskState::Review).await.expect_err("the forge may merge it unseen");
    assert!(matches!(early, EngineError::Unavailable(_)), "{early:?}");
    assert_ne!(at_origin(&review.crew, &review.worktree.branch), more);
    forge.on("/graphql", Reply::ok(r#"{"data": {}}"#));
    forge.seen();
    review.says(TaskState::Review).await.expect("it knows now");
    assert_eq!(called_off(&forge), 1);
    assert_eq!(at_origin(&review.crew, &review.worktree.branch), more);
    let pull = review.pull().await;
    assert_eq!((pull.is_awaited, pull.is_revoked), (false, false));
}

/// Too late: the merged work is on the epic's branch, but the task is not done by that.
#[tokio::test]
async fn a_merge_in_spite_of_it_finishes_nothing() {
    let forge = FakeForge::start().await;
    let review = Review::of(&forge).await;
    review.awaited(&forge).await;
    review.sent_back().await;
    let squash = review.merged_there(&forge);
    review.later().await;
    assert_eq!(called_off(&forge), 0);
    let pull = review.pull().await;
    assert_eq!((pull.status.as_str(), pull.is_revoked), (MERGED, false));
    assert_eq!(review.state().await, TaskState::InProgress);
    assert_eq!(review.crew.repo.commit_of(&review.epic_branch), squash);
    assert_eq!(review.letters().await, ["Rebase Required", "Changes Requested", "Task Assignment"]);
    review.later().await;
    assert_eq!(review.letters().await.len(), 3, "told once");
    // Further work goes into a separate pull request.
    commit(&review.worktree, "more.txt", "two\n");
    let page = json!({"number": 8, "html_url": "https://github.com/acme/shop/pull/8"});
    forge.on(PULLS, Reply::new(201, page.to_string()));
    review.says(TaskState::Review).await.expect("asks again");
    review.later().await;
    assert_eq!(review.state().await, TaskState::Review, "nobody approved it");
    assert_eq!(review.pull().await.number, 8);
}

/// A merge that is requested again is not called off.
#[tokio::test]
async fn what_is_approved_again_is_not_called_off() {
    let forge = FakeForge::start().await;
    let review = Review::of(&forge).await;
    review.awaited(&forge).await;
    review.says(TaskState::InProgress).await.expect("moves");
    review.says(TaskState::Review).await.expect("as it was");
    review.awaited(&forge).await;
    review.later().await;
    assert_eq!(called_off(&forge), 0);
    let pull = review.pull().await;
    assert_eq!((pull.is_awaited, pull.is_revoked), (true, false));
    review.merged_there(&forge);
    review.later().await;
    assert_eq!(review.state().await, TaskState::Completed);
}

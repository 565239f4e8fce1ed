//! A crew whose pull requests are at a forge: what a supervisor approved is finished, and nothing else.

use callboard_domain::command::{AgentAdd, NewCheck, TaskEdit};
use callboard_domain::crew::state::TaskState;
use callboard_domain::crew::{Agent, AgentId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::rights::AgentType;
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{IdSource, Worktree};
use callboard_engine::{CrewSaid, TaskDraft, task_state};
use serde_json::json;

use super::Crew;
use super::forges::{PULL, PULLS, at_origin, crew, find, stands};
use crate::fixture::git_in;
use crate::forge::server::{FakeForge, Reply};
use crate::workspaces::commit;

/// A supervisor, and a task of its epic that a worker asks a review of.
struct Review {
    crew: Crew,
    lead: Agent,
    task: TaskId,
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
        let review = Self { crew, lead, task, worktree, epic_branch };
        for to in [TaskState::InProgress, TaskState::Review] {
            let worker = AgentId::of(&newest.actor);
            let worker = review.crew.engine.agent_get(&op, &worker).await.expect("is there");
            let said = CrewSaid { to, reason: None, url: None, mail: mail() };
            review.crew.engine.crew_move(&op, &worker, said).await.expect("moves");
        }
        review
    }

    async fn state(&self) -> TaskState {
        let seen = self.crew.engine.card_get(&self.crew.op(), self.task).await.expect("reads");
        task_state(&seen.it, seen.now)
    }

    /// What follows from the time that passes.
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
    // All of it goes to people, though it was merged elsewhere.
    forge.on(find(&review.epic_branch, "main"), Reply::ok("[]"));
    let page = json!({"number": 8, "html_url": "https://github.com/acme/shop/pull/8"});
    forge.on(PULLS, Reply::new(201, page.to_string()));
    let finished = crew.engine.epic_finish(&op, &review.lead, (None, None), mail()).await;
    assert_eq!(finished.expect("finishes").number, 8);
}

/// A person merged it at the forge; that is no supervisor's word, and no check ran.
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

/// Work that came after the merge is not lost with it.
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

//! What every store must do, written against the trait.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use callboard_domain::command::{Command, NewCheck};
use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::TaskId;
use callboard_domain::rights::{Rights, Scope};
use callboard_domain::task::attempt::{ExecutionState, Health};
use callboard_domain::token::{TokenId, TokenState};
use callboard_store::{
    Applied, AttemptQuery, ClaimedTask, EventQuery, EventSink, FILE_BYTES_MAX, FileError, FilePart,
    FileSpan, NewFile, Place, RepoPlace, TaskQuery, TasksByState, TokenGrant,
};
use tokio::sync::Notify;

use crate::fixture::{Fixture, attempt_of, next_id, place, task_of};

/// Runs each of these tests on every database.
macro_rules! conformance {
    ($($name:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::fixture::Fixture::sqlite().await).await;
            })*
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(fixture) = crate::fixture::Fixture::postgres().await {
                    super::$name(fixture).await;
                }
            })*
        }

        mod pooled {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(fixture) = crate::fixture::Fixture::pooled().await {
                    super::$name(fixture).await;
                }
            })*
        }
    };
}
pub(crate) use conformance;

conformance! {
    what_is_created_is_read_back,
    a_refusal_leaves_nothing_behind,
    of_many_claims_at_once_one_wins,
    events_are_numbered_without_gaps_and_tell_the_story,
    a_retry_key_answers_with_the_first_result,
    lists_filter_and_page,
    the_next_task_is_the_most_urgent_that_is_free,
    a_removed_task_no_longer_counts_its_deps,
    tasks_are_counted_by_state,
    a_task_waits_from_when_it_became_free,
    attempts_are_found_by_key_and_by_health,
    a_lease_that_is_over_frees_its_task,
    another_org_does_not_exist,
    ids_are_found_by_their_beginning,
    time_never_goes_back,
    every_process_hears_every_event_once_and_in_order,
    settling_twice_is_settling_once,
    folders_find_their_project,
    tokens_are_found_until_they_are_revoked,
    a_file_is_kept_whole_and_read_in_spans,
    a_file_is_never_overwritten_nor_too_large,
    files_belong_to_their_org_and_are_forgotten_in_time,
}

async fn what_is_created_is_read_back(f: Fixture) {
    let dep = f.create("first", &[]).await;
    let mut new = f.new_task("second", &[dep]);
    new.body = "prose".into();
    new.priority = 100;
    new.parent = Some(dep);
    new.checks = vec![NewCheck {
        desc: "tests".into(),
        cmd: Some("true".into()),
        timeout_s: Some(5),
        ..NewCheck::default()
    }];
    let applied = f.done("human:ana", Command::TaskCreate(new.clone())).await;
    let record = f.record(new.task).await;
    assert_eq!(*task_of(&applied), record, "the answer is what a later read sees");
    assert_eq!(record.body, "prose");
    assert_eq!(record.task.priority, 100);
    assert_eq!(record.task.parent, Some(dep));
    assert_eq!(record.task.open_deps, 1);
    assert_eq!(record.deps.iter().map(|d| d.id).collect::<Vec<_>>(), vec![dep]);
    assert_eq!(record.task.checks[0].desc, "tests");
    assert_eq!(record.entries.len(), 1);
    f.assert_sound().await;
}

async fn a_refusal_leaves_nothing_behind(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", Command::TaskClaim { task }).await;
    let before = (f.store.last_seq().await.unwrap(), f.record(task).await);
    assert_eq!(f.code("agent:w2", Command::TaskClaim { task }).await, "ALREADY_CLAIMED");
    assert_eq!(f.code("agent:w1", f.to(task, "nowhere")).await, "UNKNOWN_STATE");
    let again = f.done("agent:w1", Command::TaskClaim { task }).await;
    assert_eq!(again.last_seq, None, "a repeat appends nothing");
    assert_eq!((f.store.last_seq().await.unwrap(), f.record(task).await), before);
}

async fn of_many_claims_at_once_one_wins(f: Fixture) {
    let f = Arc::new(f);
    let task = f.create("wanted", &[]).await;
    let claims: Vec<_> = (0..64)
        .map(|n| {
            let f = f.clone();
            let claim = Command::TaskClaim { task };
            tokio::spawn(async move { f.code(&format!("agent:w{n}"), claim).await })
        })
        .collect();
    let mut won = 0;
    for claim in claims {
        match claim.await.unwrap() {
            "" => won += 1,
            code => assert_eq!(code, "ALREADY_CLAIMED"),
        }
    }
    assert_eq!(won, 1);
    f.assert_sound().await;
}

async fn events_are_numbered_without_gaps_and_tell_the_story(f: Fixture) {
    let a = f.create("a", &[]).await;
    let b = f.create("b", &[a]).await;
    f.done("agent:w1", f.begin(a, "k", None)).await;
    f.done("human:ana", f.to(a, "done")).await;
    let all =
        f.store.events(EventQuery { org: None, after: 0, task: None, limit: 100 }).await.unwrap();
    let numbers: Vec<u64> = all.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    assert_eq!(f.store.last_seq().await.unwrap(), all.len() as u64);
    let names: Vec<&str> = all.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "task.created",
            "task.created",
            "attempt.started",
            "task.claimed",
            "task.status_changed",
            "task.status_changed",
            "task.ready"
        ]
    );
    let of_b =
        f.store.events(EventQuery { org: None, after: 2, task: Some(b), limit: 10 }).await.unwrap();
    assert_eq!(of_b.len(), 1, "only what happened to b after the second event");
    assert_eq!(of_b[0].task(), Some(b));
}

async fn a_retry_key_answers_with_the_first_result(f: Fixture) {
    let keyed = |who: &str, key: &str| {
        let mut op = f.op(who, Command::TaskCreate(f.new_task("once", &[])));
        op.retry_key = f.key(key);
        f.store.apply(op)
    };
    let first = task_of(&keyed("agent:w1", "k").await.unwrap()).task.id;
    let again = keyed("agent:w1", "k").await.unwrap();
    assert_eq!(task_of(&again).task.id, first);
    assert_eq!(again.last_seq, None);
    assert_ne!(
        task_of(&keyed("agent:w2", "k").await.unwrap()).task.id,
        first,
        "keys are per actor"
    );
    let day = 24 * 3600 * 1000;
    f.clock.advance_ms(day - 1);
    assert_eq!(task_of(&keyed("agent:w1", "k").await.unwrap()).task.id, first);
    f.clock.advance_ms(1);
    let second = task_of(&keyed("agent:w1", "k").await.unwrap()).task.id;
    assert_ne!(second, first, "forgotten after a day");
    assert_eq!(task_of(&keyed("agent:w1", "k").await.unwrap()).task.id, second, "and begins anew");
    f.clock.advance_ms(day);
    f.store.prune_retries(f.store.now().plus_ms(1 - day)).await.unwrap();
    let third = task_of(&keyed("agent:w1", "k").await.unwrap()).task.id;
    assert_ne!(third, second);
}

async fn titles(f: &Fixture, change: impl FnOnce(&mut TaskQuery)) -> Vec<String> {
    let mut query = TaskQuery::of(f.home.project.id, f.policy.clone());
    change(&mut query);
    let rows = f.store.tasks(query).await.unwrap();
    rows.into_iter().map(|row| row.task.title).collect()
}

async fn lists_filter_and_page(f: Fixture) {
    let a = f.create("a", &[]).await;
    let b = f.create("b", &[a]).await;
    let c = f.create("c", &[]).await;
    f.done("agent:w1", Command::TaskClaim { task: c }).await;
    f.done("agent:w2", f.begin(a, "k", None)).await;

    assert_eq!(titles(&f, |_| {}).await, ["a", "b", "c"]);
    assert_eq!(titles(&f, |q| q.newest_first = true).await, ["c", "b", "a"]);
    assert_eq!(titles(&f, |q| q.limit = 2).await, ["a", "b"]);
    assert_eq!(titles(&f, |q| q.after = Some(b.id)).await, ["c"]);
    assert_eq!(titles(&f, |q| q.label = Some("backlog".into())).await, ["b", "c"]);
    assert_eq!(titles(&f, |q| q.ready = Some(false)).await, ["b"]);
    let startable = |q: &mut TaskQuery| {
        q.ready = Some(true);
        q.label = Some("backlog".into());
    };
    assert_eq!(titles(&f, startable).await, ["c"]);
    assert_eq!(titles(&f, |q| q.assignee = Some(None)).await, ["b"]);
    assert_eq!(titles(&f, |q| q.assignee = Some(Some("agent:w1".into()))).await, ["c"]);

    let in_state = |state| move |q: &mut TaskQuery| q.execution = Some(state);
    assert_eq!(titles(&f, in_state(ExecutionState::Active)).await, ["a"]);
    f.clock.advance_ms(180_000);
    assert_eq!(titles(&f, in_state(ExecutionState::Stalled)).await, Vec::<String>::new());
    f.clock.advance_ms(1);
    assert_eq!(titles(&f, in_state(ExecutionState::Stalled)).await, ["a"]);
    assert_eq!(titles(&f, in_state(ExecutionState::Active)).await, Vec::<String>::new());
    let attempt = f.record(a).await.newest.expect("began").id;
    let finish = Command::AttemptFinish { attempt, summary: "did".into(), head: None, tree: None };
    f.done("agent:w2", finish).await;
    assert_eq!(titles(&f, in_state(ExecutionState::AwaitingReview)).await, ["a"]);
}

async fn the_next_task_is_the_most_urgent_that_is_free(f: Fixture) {
    let low = f.create("low", &[]).await;
    let mut urgent = f.new_task("urgent", &[]);
    urgent.priority = 10;
    f.done("human:ana", Command::TaskCreate(urgent.clone())).await;
    let mut blocked = f.new_task("blocked", &[low]);
    blocked.priority = 0;
    f.done("human:ana", Command::TaskCreate(blocked.clone())).await;
    let next = || f.free(|query| query.project = Some(f.home.project.id));
    assert_eq!(next().await, ["urgent", "low"]);
    f.done("agent:w1", Command::TaskClaim { task: urgent.task }).await;
    assert_eq!(next().await, ["low"]);
    f.done("human:ana", f.to(low, "canceled")).await;
    assert_eq!(next().await, ["blocked"]);
    f.done("human:ana", Command::TaskRemove { task: blocked.task }).await;
    assert_eq!(next().await, Vec::<String>::new());
    f.assert_sound().await;
}

async fn a_removed_task_no_longer_counts_its_deps(f: Fixture) {
    let a = f.create("a", &[]).await;
    let b = f.create("b", &[a]).await;
    f.done("human:ana", f.to(a, "done")).await;
    f.done("human:ana", Command::TaskRemove { task: b }).await;
    f.done("human:ana", f.to(a, "backlog")).await;
    f.assert_sound().await;
    let c = f.create("c", &[a]).await;
    f.done("human:ana", f.to(a, "done")).await;
    assert!(f.record(c).await.task.is_ready());
    f.assert_sound().await;
}

async fn tasks_are_counted_by_state(f: Fixture) {
    assert_eq!(f.store.tasks_by_state().await.unwrap(), TasksByState::default());
    let ready = f.create("ready", &[]).await;
    f.create("blocked", &[ready]).await;
    f.create("blocked too", &[ready]).await;
    for (title, to) in [
        ("working", "in_progress"),
        ("review", "in_review"),
        ("done", "done"),
        ("done too", "done"),
        ("canceled", "canceled"),
    ] {
        let task = f.create(title, &[]).await;
        f.done("human:ana", f.to(task, to)).await;
    }
    let gone = f.create("removed", &[]).await;
    f.done("human:ana", Command::TaskRemove { task: gone }).await;
    let other = f.store.settle(place("other")).await.unwrap();
    let mut elsewhere = f.new_task("ready elsewhere", &[]);
    elsewhere.project = other.project.id;
    let mut op = f.op("human:ana", Command::TaskCreate(elsewhere));
    op.org = other.org;
    f.store.apply(op).await.unwrap();
    let expected =
        TasksByState { ready: 2, blocked: 2, working: 1, review: 1, done: 2, canceled: 1 };
    assert_eq!(f.store.tasks_by_state().await.unwrap(), expected);
}

async fn a_task_waits_from_when_it_became_free(f: Fixture) {
    let first = f.create("first", &[]).await;
    let second = f.create("second", &[first]).await;
    let created_at = f.store.now();
    let since = async |applied: &Applied| {
        let (taken, seq) = (applied.taken.expect("was free"), applied.last_seq.expect("wrote"));
        f.store.task_free_since(taken.task, seq).await.unwrap().expect("in the log")
    };

    f.clock.advance_ms(1000);
    let fresh = f.done("agent:w1", Command::TaskClaim { task: first }).await;
    let taken = ClaimedTask { task: first, free_since: Some(created_at) };
    assert_eq!(fresh.taken, Some(taken), "its row says so");
    assert_eq!(since(&fresh).await, created_at, "and so does the log");
    let begun = f.done("agent:w1", f.begin(first, "k", None)).await;
    assert_eq!(begun.taken, None, "who holds it does not take it again");

    f.clock.advance_ms(1000);
    let ready_at = f.done("human:ana", f.to(first, "done")).await.at;
    f.clock.advance_ms(1000);
    let unblocked = f.done("agent:w2", f.begin(second, "k", Some(60))).await;
    assert_eq!(unblocked.taken, Some(ClaimedTask { task: second, free_since: None }));
    assert_eq!(since(&unblocked).await, ready_at);

    f.clock.advance_ms(61_000);
    let expired = f.done("agent:w3", Command::TaskClaim { task: second }).await;
    assert_eq!(since(&expired).await, expired.at, "a lease was over, and nobody waited since");
    let released_at = f.done("agent:w3", Command::TaskRelease { task: second }).await.at;
    f.clock.advance_ms(1000);
    let again = f.done("agent:w4", Command::TaskClaim { task: second }).await;
    assert_eq!(since(&again).await, released_at);
}

async fn attempts_are_found_by_key_and_by_health(f: Fixture) {
    let (a, b) = (f.create("a", &[]).await, f.create("b", &[]).await);
    let first = f.done("agent:w1", f.begin(a, "k", None)).await;
    let again = f.done("agent:w1", f.begin(a, "k", None)).await;
    assert_eq!(attempt_of(&first).id, attempt_of(&again).id);
    assert_eq!(f.code("agent:w1", f.begin(a, "other", None)).await, "SESSION_ACTIVE");
    f.clock.advance_ms(1000);
    let second = f.done("agent:w2", f.begin(b, "k", None)).await;
    let reason = "no".to_owned();
    let cancel = Command::AttemptCancel { attempt: attempt_of(&second).id, reason };
    f.done("agent:w2", cancel).await;

    let find = |health: Vec<Health>, limit| AttemptQuery {
        org: f.home.org.clone(),
        task: None,
        actor: None,
        health,
        policy: f.policy.clone(),
        after: None,
        limit,
    };
    let all = f.store.attempts(find(Vec::new(), 10)).await.unwrap();
    assert_eq!(all.iter().map(|a| a.task).collect::<Vec<_>>(), [b, a], "newest first");
    let page = f.store.attempts(find(Vec::new(), 1)).await.unwrap();
    let rest =
        AttemptQuery { after: Some((page[0].started_at, page[0].id.0)), ..find(Vec::new(), 10) };
    assert_eq!(f.store.attempts(rest).await.unwrap().len(), 1);
    for (health, tasks) in [
        (Health::Active, vec![a]),
        (Health::Stalled, vec![]),
        (Health::Canceled, vec![b]),
        (Health::Finished, vec![]),
    ] {
        let found = f.store.attempts(find(vec![health], 10)).await.unwrap();
        assert_eq!(found.iter().map(|a| a.task).collect::<Vec<_>>(), tasks, "{health:?}");
    }
    let both = f.store.attempts(find(vec![Health::Active, Health::Canceled], 10)).await.unwrap();
    assert_eq!(both.len(), 2);
}

async fn a_lease_that_is_over_frees_its_task(f: Fixture) {
    let task = f.create("a", &[]).await;
    let leased = f.done("agent:w1", f.begin(task, "k", Some(60))).await;
    assert_eq!(f.store.attempts_overdue(10).await.unwrap().len(), 0);
    f.clock.advance_ms(60_000);
    assert_eq!(f.store.attempts_overdue(10).await.unwrap().len(), 1);
    let expire = Command::AttemptExpire { attempt: attempt_of(&leased).id };
    f.done("system:clock", expire.clone()).await;
    assert_eq!(f.store.attempts_overdue(10).await.unwrap().len(), 0);
    assert_eq!(f.done("system:clock", expire).await.last_seq, None, "once is enough");
    let newer = f.done("agent:w2", f.begin(task, "k", Some(60))).await;
    assert_eq!(attempt_of(&newer).fence, attempt_of(&leased).fence + 1);
    f.assert_sound().await;
}

async fn another_org_does_not_exist(f: Fixture) {
    let task = f.create("ours", &[]).await;
    f.store.settle(place("other")).await.unwrap();
    assert!(f.store.task("other", task).await.unwrap().is_none());
    let mut op = f.op("agent:x", Command::TaskClaim { task });
    op.org = "other".into();
    assert!(f.store.apply(op).await.is_err());
    assert!(f.store.task_ids("other", "DEMO", 10).await.unwrap().is_empty());
    let of_other = EventQuery { org: Some("other".into()), after: 0, task: None, limit: 9 };
    assert!(f.store.events(of_other).await.unwrap().is_empty());
    let mut prefixed = task;
    prefixed.prefix = callboard_domain::ids::Prefix::fallback();
    assert!(
        f.store.task("default", prefixed).await.unwrap().is_none(),
        "a prefix is part of the id"
    );
}

async fn ids_are_found_by_their_beginning(f: Fixture) {
    let task = f.create("a", &[]).await;
    let text = task.to_string();
    for typed in [&text[..], &text[..text.len() - 1], &text[5..], &text[25..], "DEMO-", "demo", ""]
    {
        let found = f.store.task_ids("default", typed, 10).await.unwrap();
        assert_eq!(found, [task], "typed {typed:?}");
    }
    let found: Vec<TaskId> = f.store.task_ids("default", "DEMO-z", 10).await.unwrap();
    assert!(found.is_empty());
}

async fn time_never_goes_back(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.clock.advance_ms(-5_000);
    let noted = f.done("human:ana", Command::TaskNote { task, text: "later".into() }).await;
    assert_eq!(noted.at, f.record(task).await.task.created_at);
    let neighbour = f.neighbour().await;
    neighbour.clock.advance_ms(-60_000);
    assert!(neighbour.store.now() >= noted.at, "also for a process that just started");
}

/// Collects events and lets tests wait for a number of them.
#[derive(Default)]
pub struct Heard {
    events: Mutex<Vec<LoggedEvent>>,
    more: Notify,
}

impl EventSink for Heard {
    fn publish(&self, events: &[LoggedEvent]) {
        self.events.lock().unwrap().extend_from_slice(events);
        self.more.notify_one();
    }

    fn is_listening(&self) -> bool {
        true
    }
}

impl Heard {
    pub async fn wait_for(&self, count: usize) -> Vec<u64> {
        loop {
            let seqs: Vec<u64> = self.events.lock().unwrap().iter().map(|e| e.seq).collect();
            if seqs.len() >= count {
                return seqs;
            }
            self.more.notified().await;
        }
    }
}

async fn every_process_hears_every_event_once_and_in_order(f: Fixture) {
    let f = Arc::new(f);
    let neighbour = Arc::new(f.neighbour().await);
    let task = f.create("a", &[]).await;
    let mut listeners = Vec::new();
    for process in [&f, &neighbour] {
        let heard = Arc::new(Heard::default());
        process.store.publish_to(heard.clone());
        process.store.listen().await.unwrap();
        listeners.push(heard);
    }
    let writes: Vec<_> = (0..50)
        .map(|n| {
            let process = if n % 2 == 0 { f.clone() } else { neighbour.clone() };
            tokio::spawn(async move {
                process.done("human:ana", Command::TaskNote { task, text: format!("{n}") }).await;
            })
        })
        .collect();
    for write in writes {
        write.await.unwrap();
    }
    for heard in listeners {
        let seqs = heard.wait_for(50).await;
        assert_eq!(seqs, (2..=51).collect::<Vec<u64>>());
    }
}

async fn settling_twice_is_settling_once(f: Fixture) {
    let again = f.store.settle(place("default")).await.unwrap();
    assert_eq!(again, f.home);
    let ids: HashSet<i64> = [f.home.project.id, again.project.id].into();
    assert_eq!(ids.len(), 1);
}

async fn folders_find_their_project(f: Fixture) {
    let at = |org: &str, machine: &str, path: &str, inside: bool| Place {
        project_name: path.rsplit('/').next().unwrap_or_default().into(),
        repo: Some(RepoPlace { machine: machine.into(), path: path.into() }),
        store_is_inside: inside,
        ..Place::of_org(org)
    };
    let settle = async |place: Place| f.store.settle(place).await.unwrap().project;
    let shop = settle(at("team", "laptop", "/src/shop", false)).await;
    assert_eq!((shop.name.as_str(), shop.prefix.as_str()), ("shop", "SHOP"));
    let same = settle(at("team", "server", "/home/ana/shop", false)).await;
    assert_eq!(same, shop, "a checkout of the same name on another machine");
    let site = settle(at("team", "laptop", "/src/site", false)).await;
    assert_ne!(site.id, shop.id, "another folder is another project");
    let moved = settle(at("team", "laptop", "/src/store", true)).await;
    assert_eq!(moved, shop, "a folder that was renamed with the store in it");
    let other = settle(at("rivals", "laptop", "/src/shop", false)).await;
    assert_ne!(other.id, shop.id, "the same folder in another org");
    assert_eq!(settle(at("team", "laptop", "/src/shop", false)).await, shop);
    let repo = f.store.repo(site.id).await.unwrap().unwrap();
    assert_eq!(f.store.project_of_repo("team", repo.id).await.unwrap(), Some(site.clone()));
    assert_eq!(f.store.project_of_repo("rivals", repo.id).await.unwrap(), None);
    let owned = f.store.repos_on("team", "laptop").await.unwrap();
    assert!(owned.iter().any(|owned| owned.repo == repo && owned.project.id == site.id));
    assert!(owned.iter().any(|owned| owned.project == shop), "{owned:?}");
    assert!(owned.is_sorted_by_key(|owned| owned.repo.id), "{owned:?}");
    for (org, machine) in [("team", "elsewhere"), ("strangers", "laptop")] {
        assert_eq!(f.store.repos_on(org, machine).await.unwrap(), []);
    }
    let org = f.store.project_of_org("team").await.unwrap();
    assert_eq!(org, Some(shop.clone()), "the oldest");
    let path = f.store.repo_path(shop.id, "laptop").await.unwrap();
    assert_eq!(path.as_deref(), Some(std::path::Path::new("/src/store")), "where it went last");
    let prefix = callboard_domain::ids::Prefix::parse("NEW");
    let named = settle(Place { prefix, ..at("team", "laptop", "/src/shop", false) }).await;
    assert_eq!((named.id, named.prefix), (shop.id, prefix.unwrap()));
    assert_eq!(settle(at("team", "laptop", "/src/shop", false)).await, named, "it keeps it");
}

async fn tokens_are_found_until_they_are_revoked(f: Fixture) {
    assert!(!f.store.has_tokens().await.unwrap());
    let rights = Rights { scopes: vec![Scope::TasksRead], ..Rights::default() };
    let grant = TokenGrant {
        id: TokenId(next_id()),
        hash: [7; 32],
        org: "newcomers".into(),
        actor: "agent:a".parse().unwrap(),
        rights,
        lives: Some(std::time::Duration::from_secs(60)),
        by: "human:ana".parse().unwrap(),
    };
    let id = grant.id;
    let token = f.store.token_add(grant).await.unwrap();
    assert!(f.store.has_tokens().await.unwrap());
    let kept = f.neighbour().await.store.token(id).await.unwrap().unwrap();
    assert_eq!((&kept.token, kept.hash), (&token, [7; 32]));
    assert_eq!((&*kept.token.org, kept.token.rights.scopes.len()), ("newcomers", 1));
    assert_eq!(token.state(f.store.now()), TokenState::Live);
    f.clock.advance_ms(60_000);
    assert_eq!(token.state(f.store.now()), TokenState::Expired);
    assert!(f.store.token(TokenId(next_id())).await.unwrap().is_none());
    let by = "human:ben".parse().unwrap();
    let revoked = f.store.token_revoke(id, by).await.unwrap().unwrap();
    let first = revoked.revoked.clone().unwrap();
    assert_eq!(first.by.as_str(), "human:ben");
    let again = f.store.token_revoke(id, "human:cat".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(again.revoked, Some(first), "the first word counts");
    assert_eq!(f.store.tokens().await.unwrap(), [again]);
    assert!(f.store.has_tokens().await.unwrap(), "a revoked token still closes the door");
    assert!(f.store.project_of_org("newcomers").await.unwrap().is_none());
}

fn new_file(f: &Fixture, name: &str, bytes: &[u8]) -> NewFile {
    NewFile {
        org: f.home.org.clone(),
        task: None,
        name: name.into(),
        media_type: "text/plain".into(),
        bytes: bytes.to_vec(),
    }
}

async fn file(f: &Fixture, name: &str, span: FileSpan) -> Option<FilePart> {
    f.store.file_get(&f.home.org, name, span).await.unwrap()
}

async fn a_file_is_kept_whole_and_read_in_spans(f: Fixture) {
    // Several rows, the last one not full, every byte different from its neighbours.
    let bytes: Vec<u8> = (0..700_001u32).map(|n| (n % 251) as u8).collect();
    let task = f.create("a", &[]).await;
    let new = NewFile { task: Some(task), ..new_file(&f, "runs/a.log", &bytes) };
    let at = f.store.now();
    f.store.file_put(new).await.unwrap();
    f.store.file_put(new_file(&f, "runs/empty.log", b"")).await.unwrap();
    f.clock.advance_ms(1000);
    let whole = file(&f, "runs/a.log", FileSpan::WHOLE).await.unwrap();
    assert_eq!((whole.media_type.as_str(), whole.at), ("text/plain", at));
    assert_eq!((whole.size, whole.start), (700_001, 0));
    assert!(whole.bytes == bytes);
    let part = 256 * 1024;
    for (start, bytes_max) in
        [(0, 1), (part - 1, 2), (part, part), (1, 3 * part), (700_000, 5), (0, 0), (900_000, 1)]
    {
        let seen = file(&f, "runs/a.log", FileSpan::From { start, bytes_max }).await.unwrap();
        let from = (start as usize).min(bytes.len());
        let to = (from + bytes_max as usize).min(bytes.len());
        assert_eq!((seen.size, seen.start), (700_001, from as u64));
        assert!(seen.bytes == bytes[from..to], "{bytes_max} bytes from {start}");
    }
    for bytes_max in [0, 1, part, 700_001, u64::MAX] {
        let seen = file(&f, "runs/a.log", FileSpan::Tail { bytes_max }).await.unwrap();
        let from = bytes.len() - bytes.len().min(bytes_max.min(1 << 40) as usize);
        assert_eq!(seen.start, from as u64);
        assert!(seen.bytes == bytes[from..], "the last {bytes_max}");
    }
    let empty = file(&f, "runs/empty.log", FileSpan::Tail { bytes_max: 9 }).await.unwrap();
    assert_eq!((empty.size, empty.bytes), (0, Vec::new()));
    assert_eq!(file(&f, "runs/none.log", FileSpan::WHOLE).await, None);
}

async fn a_file_is_never_overwritten_nor_too_large(f: Fixture) {
    f.store.file_put(new_file(&f, "a", b"first")).await.unwrap();
    let again = f.store.file_put(new_file(&f, "a", b"second")).await;
    assert!(matches!(again, Err(FileError::Taken(name)) if name == "a"));
    assert_eq!(file(&f, "a", FileSpan::WHOLE).await.unwrap().bytes, b"first");

    let f = Arc::new(f);
    let puts = (0..8u8).map(|n| {
        let f = f.clone();
        tokio::spawn(async move { f.store.file_put(new_file(&f, "raced", &[n])).await.is_ok() })
    });
    let kept = futures_util::future::join_all(puts).await;
    assert_eq!(kept.into_iter().filter(|kept| *kept.as_ref().unwrap()).count(), 1);

    let mut large = vec![7; FILE_BYTES_MAX];
    f.store.file_put(new_file(&f, "largest", &large)).await.unwrap();
    let end = file(&f, "largest", FileSpan::Tail { bytes_max: 3 }).await.unwrap();
    assert_eq!((end.size, end.bytes), (FILE_BYTES_MAX as u64, vec![7; 3]));
    large.push(7);
    let refused = f.store.file_put(new_file(&f, "larger", &large)).await;
    assert!(matches!(refused, Err(FileError::TooLarge { bytes, .. }) if bytes == large.len()));
    assert_eq!(file(&f, "larger", FileSpan::WHOLE).await, None);
}

async fn files_belong_to_their_org_and_are_forgotten_in_time(f: Fixture) {
    f.store.settle(place("other")).await.unwrap();
    f.store.file_put(new_file(&f, "runs/a", b"ours")).await.unwrap();
    assert_eq!(f.store.file_get("other", "runs/a", FileSpan::WHOLE).await.unwrap(), None);
    let theirs = NewFile { org: "other".into(), ..new_file(&f, "runs/a", b"theirs") };
    f.store.file_put(theirs).await.unwrap();
    assert_eq!(file(&f, "runs/a", FileSpan::WHOLE).await.unwrap().bytes, b"ours");
    let nowhere = NewFile { org: "nowhere".into(), ..new_file(&f, "runs/a", b"") };
    assert!(matches!(f.store.file_put(nowhere).await, Err(FileError::Store(_))));

    f.store.file_put(new_file(&f, "artifacts/a", b"stays")).await.unwrap();
    f.clock.advance_ms(1000);
    f.store.file_put(new_file(&f, "runs/new", b"stays")).await.unwrap();
    let before = f.store.now();
    let prune = async || f.store.files_prune("runs/", before).await.unwrap();
    assert_eq!((prune().await, prune().await), (2, 0), "of every org, older and so called");
    assert_eq!(file(&f, "runs/a", FileSpan::WHOLE).await, None);
    for kept in ["artifacts/a", "runs/new"] {
        assert_eq!(file(&f, kept, FileSpan::WHOLE).await.unwrap().bytes, b"stays");
    }
    f.store.file_put(new_file(&f, "runs/a", b"again")).await.unwrap();
    assert_eq!(file(&f, "runs/a", FileSpan::WHOLE).await.unwrap().bytes, b"again");
}

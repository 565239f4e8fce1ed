//! The board and the inbox of a person, over a store with a clock that stands still.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use callboard_domain::board::column::Column;
use callboard_domain::board::filter::FilterText;
use callboard_domain::board::inbox::InboxWanted;
use callboard_domain::board::view::BoardView;
use callboard_domain::command::{
    AttemptBegin, CardUpdate, Command, ReviewDecide, ReviewSends, ReviewVerdict,
};
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::review::mark::ReviewMark;
use callboard_domain::task::attempt::AttemptKind;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ports::IdSource;
use callboard_engine::store::clock::ManualClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{Op, Place, Store};
use callboard_engine::{
    BoardProjects, BoardQuery, Engine, InboxQuery, NavCounts, Parts, TaskDraft,
};

struct Counting(AtomicU64);

impl IdSource for Counting {
    fn next_id(&self) -> Id {
        Id(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) << 64)
    }
}

struct World {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000_000)));
    let store = SqliteStore::open(&folder.path().join("test.db"), clock.clone()).expect("opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let place = Place {
        org: "default".into(),
        project_name: "demo".into(),
        prefix: Some(Prefix::parse("DEMO").expect("a prefix")),
        repo: None,
        store_is_inside: false,
    };
    let home = store.settle(place).await.expect("settles");
    let engine = Engine::new(Parts::bare(home, store, Arc::new(Counting(AtomicU64::new(1)))));
    World { engine, clock, _folder: folder }
}

fn op(who: &str) -> OpContext {
    OpContext::new(Principal::local(who.parse().expect("an actor")), "test")
}

impl World {
    async fn task(&self, title: &str, deps: &[TaskId], parent: Option<TaskId>) -> TaskId {
        let (title, deps) = (title.into(), deps.to_vec());
        let draft = TaskDraft { title, deps, parent, ..TaskDraft::default() };
        self.engine.task_create(&op("human:ana"), draft).await.expect("created").it.task.id
    }

    /// Leases a task, as other toolsets do.
    async fn lease(&self, task: TaskId, seconds: u32) {
        let begin = AttemptBegin {
            attempt: AttemptId(Id(task.id.0 + 1)),
            task,
            kind: AttemptKind::Execution,
            key: None,
            expected_actor: None,
            client: None,
            bound_client: None,
            model: None,
            worktree: None,
            branch: None,
            head: None,
            lease_s: Some(seconds),
            takeover: false,
        };
        self.act("agent:w1", Command::AttemptBegin(begin)).await;
    }

    async fn act(&self, who: &str, command: Command) {
        let done = self.engine.store().apply(Op {
            org: "default".into(),
            actor: who.parse().expect("an actor"),
            tool: "test",
            retry_key: None,
            policy: self.engine.policy().clone(),
            command,
        });
        done.await.expect("accepted");
    }

    /// The lines of the board: `column count: NAME title, why`.
    async fn board(&self, filter: &str) -> Vec<String> {
        let terms = FilterText::parse(filter).terms;
        let query = BoardQuery { terms, by_epic: true, ..BoardQuery::default() };
        let seen = self.engine.board_columns(&op("human:ana"), query).await.expect("readable");
        let mut lines = Vec::new();
        for column in seen.it.columns {
            assert_eq!(column.count.number(), column.cards.len() + column.more);
            for card in column.cards {
                let epic = card
                    .epic
                    .map(|epic| format!(" [{} {}/{}]", epic.name, epic.closed, epic.tasks));
                lines.push(format!(
                    "{} {}{}: {}",
                    column.column.as_str(),
                    card.task.name(),
                    epic.unwrap_or_default(),
                    card.why.line()
                ));
            }
        }
        lines
    }

    /// The numbers of the navigation.
    async fn counts(&self, snoozed: Vec<(String, Timestamp)>) -> NavCounts {
        let ana = op("human:ana");
        self.engine.nav_counts(&ana, BoardProjects::All, snoozed).await.expect("readable")
    }

    async fn inbox(&self, snoozed: Vec<(String, Timestamp)>) -> Vec<String> {
        let wanted = InboxWanted { snoozed, ..InboxWanted::default() };
        let query = InboxQuery { projects: BoardProjects::All, wanted };
        let seen = self.engine.inbox_list(&op("human:ana"), query).await.expect("readable");
        let line = |row: callboard_domain::board::inbox::InboxRow| {
            format!("{}: {}", row.key, row.consequence)
        };
        seen.it.rows.into_iter().map(line).collect()
    }
}

#[tokio::test]
async fn each_card_says_why_it_waits() {
    let w = world().await;
    let epic = w.task("epic", &[], None).await;
    let work = w.task("work", &[], Some(epic)).await;
    w.task("after", &[work], Some(epic)).await;
    w.task("next", &[], None).await;
    w.task("later", &[], None).await;
    let review = w.task("review", &[], None).await;
    let mut to_review = CardUpdate::of(review);
    to_review.to = Some(Phase::Review);
    w.act("human:ana", Command::CardUpdate(Box::new(to_review))).await;
    w.lease(work, 7000).await;
    assert_eq!(
        w.board("").await,
        [
            "blocked DEMO-3 [DEMO-1 0/2]: Waits for DEMO-2",
            "ready DEMO-4: Next in the queue",
            "ready DEMO-5: Free. Place 2 in the queue",
            "working DEMO-2 [DEMO-1 0/2]: w1 works on it",
            "review DEMO-6: Your review",
        ]
    );
    // A filter changes no place in the queue.
    assert_eq!(w.board("later").await, ["ready DEMO-5: Free. Place 2 in the queue"]);
    assert_eq!(w.board("phase:review").await, ["review DEMO-6: Your review"]);
    let counts = w.counts(Vec::new()).await;
    let places = counts.places;
    assert!(places > 0);
    let expected = NavCounts { inbox: 1, agents_at_work: 1, places, ..NavCounts::default() };
    assert_eq!(counts, expected);
    assert_eq!(
        w.inbox(Vec::new()).await,
        ["review:DEMO-6: no checks; the work waits for a verdict"]
    );

    let stale_ms = i64::from(w.engine.policy().stale_after_s) * 1000 + 60_000;
    w.clock.advance_ms(stale_ms);
    let board = w.board("").await;
    assert_eq!(board[0], "blocked DEMO-3 [DEMO-1 0/2]: Waits for DEMO-2, whose agent is silent");
    assert!(board[3].starts_with("working DEMO-2 [DEMO-1 0/2]: Silent for "), "{board:?}");
    let inbox = w.inbox(Vec::new()).await;
    assert!(inbox[0].starts_with("silent:DEMO-2: lease ends in "), "{inbox:?}");
    assert!(inbox.len() == 2 && inbox[1].starts_with("review:DEMO-6"), "{inbox:?}");
    let until = w.engine.store().now().plus_ms(1);
    assert_eq!(w.inbox(vec![("silent:DEMO-2".into(), until)]).await, inbox[1..]);
    let counts = w.counts(Vec::new()).await;
    assert_eq!((counts.inbox, counts.agents_at_work), (2, 0));

    w.clock.advance_ms(7_000_000);
    let board = w.board("").await;
    assert_eq!(board[1], "ready DEMO-2 [DEMO-1 0/2]: Next in the queue");
    assert_eq!(board.len(), 5, "{board:?}");
    assert!(w.board("phase:working").await.is_empty());
    assert_eq!(w.inbox(Vec::new()).await.len(), 1);
    let columns = w.engine.board_columns(&op("human:ana"), BoardQuery::default()).await;
    let columns = columns.expect("readable").it.columns;
    assert!(columns.iter().map(|column| column.column).eq(Column::ALL));
}

/// The tabs count what their views show: from the rows of a small board, and from the database for a column with more
/// tasks than cards.
#[tokio::test]
async fn tabs_count_the_tasks_of_their_views() {
    let w = world().await;
    let epic = w.task("epic", &[], None).await;
    let silent = w.task("silent", &[], Some(epic)).await;
    w.lease(silent, 100_000).await;
    w.clock.advance_ms(i64::from(w.engine.policy().stale_after_s) * 1000 + 60_000);
    for parent in [Some(epic), None] {
        let mut to_review = CardUpdate::of(w.task("review", &[], parent).await);
        to_review.to = Some(Phase::Review);
        w.act("human:ana", Command::CardUpdate(Box::new(to_review))).await;
    }
    for _ in 0..2 {
        let seen = async |view| {
            let query = BoardQuery { view, ..BoardQuery::default() };
            w.engine.board_columns(&op("human:ana"), query).await.expect("readable").it
        };
        let views = seen(BoardView::All).await.views;
        for view in BoardView::ALL {
            let shown = seen(view).await;
            let cards: usize = shown.columns.iter().map(|column| column.count.number()).sum();
            assert_eq!(views.of(view).map(|count| count.number()), Some(cards), "{view:?}");
            assert_eq!(shown.views.of(view), views.of(view), "{view:?}");
        }
        let numbers = [views.you, views.failing, views.silent].map(|count| count.unwrap().number());
        assert_eq!(numbers, [3, 0, 1]);
        for n in 0..60 {
            w.task(&format!("more {n}"), &[], None).await;
        }
    }
}

/// The navigation counts the inbox without reading all of it; the number is that of the list all the same.
#[tokio::test]
async fn the_navigation_counts_the_rows_of_the_inbox() {
    let w = world().await;
    let mut tasks = Vec::new();
    for n in 0..6 {
        tasks.push(w.task(&format!("task {n}"), &[], None).await);
    }
    for task in &tasks[..4] {
        let mut to_review = CardUpdate::of(*task);
        to_review.to = Some(Phase::Review);
        w.act("human:ana", Command::CardUpdate(Box::new(to_review))).await;
    }
    let approval = ReviewDecide {
        task: tasks[1],
        verdict: ReviewVerdict::Approve { unmerged: true, as_reviewer: false },
        feedback: String::new(),
        checked: None,
        work: None,
        sends: ReviewSends::default(),
        seen: ReviewMark::default(),
    };
    w.act("human:ana", Command::ReviewDecide(approval)).await;
    w.lease(tasks[4], 100_000).await;
    w.clock.advance_ms(i64::from(w.engine.policy().stale_after_s) * 1000 + 60_000);
    let until = w.engine.store().now().plus_ms(1);
    let causes = ["review", "merge", "conflict", "checks", "silent", "question", "run"];
    let mut numbers = BTreeSet::new();
    for cause in causes {
        for others in [&[][..], &["review:DEMO-3"], &["silent:DEMO-5", "merge:DEMO-2"]] {
            for number in 1..=6 {
                let keys = [format!("{cause}:DEMO-{number}"), format!("{cause}:DEMO-{number}.1")];
                let keys = keys.into_iter().chain(others.iter().map(|key| (*key).to_owned()));
                let snoozed: Vec<_> = keys.map(|key| (key, until)).collect();
                let listed = w.inbox(snoozed.clone()).await.len();
                assert_eq!(w.counts(snoozed.clone()).await.inbox, listed, "{snoozed:?}");
                numbers.insert(listed);
            }
        }
    }
    // Some of these snoozes put rows off, and some do not.
    assert_eq!(Vec::from_iter(numbers), [2, 3, 4, 5]);
}

/// The log is shared by the orgs of a store; a reader learns only the numbers of its own events.
#[tokio::test]
async fn the_newest_event_is_that_of_the_org() {
    let w = world().await;
    let (here, there): (Arc<str>, Arc<str>) = ("default".into(), "other".into());
    let newest = async |org| w.engine.last_seq_in(org).await.expect("readable");
    w.engine.store().settle(Place::of_org("other")).await.expect("settles");
    assert_eq!(newest(&there).await, 0);
    w.task("first", &[], None).await;
    let first = newest(&here).await;
    assert_eq!((first, newest(&there).await), (w.engine.last_seq().await.expect("readable"), 0));
    let mut other = op("human:ana");
    other.principal.org = there.clone();
    let draft = TaskDraft { title: "elsewhere".into(), ..TaskDraft::default() };
    w.engine.task_create(&other, draft).await.expect("created");
    let elsewhere = newest(&there).await;
    assert!(elsewhere > first);
    // Asked again, with nothing new and with news.
    assert_eq!((newest(&here).await, newest(&here).await), (first, first));
    w.task("second", &[], None).await;
    assert!(newest(&here).await > elsewhere);
    assert_eq!(newest(&there).await, elsewhere);
}

//! No read of the board's pages goes through all tasks or all events. The reads run on some thousand tasks; every
//! statement that they sent is then explained, on each database.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, Once, PoisonError};
use std::thread::ThreadId;

use callboard_domain::board::column::Column;
use callboard_domain::board::filter::FilterText;
use callboard_domain::command::{Command, NewCheck, TaskCreate};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::runs::job::JobKind;
use callboard_store::{
    AgentQuery, AttemptQuery, AttemptSpan, BackQuery, ColumnsQuery, EpicQuery, EventQuery,
    FreeQuery, JobQuery, MailQuery, RunOrder, RunQuery, STATEMENTS, StuckQuery, TaskQuery,
};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::fixture::{Database, Fixture};

/// So many that PostgreSQL finds it cheaper to look rows up than to read them all.
const TASKS: usize = 8_000;
const EPICS: usize = 20;
/// Tasks of one transaction.
const BATCH: usize = 100;

/// A statement with the thread that sent it and, for SQLite, its file.
#[derive(Clone, Debug, Default)]
struct Sent {
    file: String,
    sql: String,
}

static SENT: Mutex<Vec<(ThreadId, Sent)>> = Mutex::new(Vec::new());

struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut sent = Sent::default();
        event.record(&mut sent);
        let mut all = SENT.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((std::thread::current().id(), sent));
    }
}

impl Visit for Sent {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "sql" {
            self.sql = value.to_owned();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "file" {
            self.file = format!("{value:?}");
        }
    }
}

/// Traces the statements of every store that this process opens from now on.
fn listen() {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let only = tracing_subscriber::filter::Targets::new()
            .with_target(STATEMENTS, tracing::Level::TRACE);
        let all = tracing_subscriber::registry().with(Listener.with_filter(only));
        tracing::subscriber::set_global_default(all).expect("no other test listens");
    });
}

/// The statements that a store sent since the last call. Reads of PostgreSQL are sent by the test's own thread; those of
/// SQLite name their file.
fn taken(f: &Fixture) -> BTreeSet<String> {
    let mut all = SENT.lock().unwrap_or_else(PoisonError::into_inner);
    let here = std::thread::current().id();
    let (own, others) =
        all.drain(..).partition(|(thread, sent): &(ThreadId, Sent)| match &*f.place {
            Database::Folder(folder) => sent.file.contains(&*folder.path().to_string_lossy()),
            Database::Schema(_) => sent.file.is_empty() && *thread == here,
        });
    *all = others;
    let own: Vec<(ThreadId, Sent)> = own;
    own.into_iter().map(|(_, sent)| sent.sql).collect()
}

/// Tasks in every state, of two projects of the org's; returns one that others wait for, and an epic.
async fn filled(f: &Fixture) -> (TaskId, TaskId) {
    let mut epics = Vec::new();
    for n in 0..EPICS {
        let epic = TaskCreate { is_plan: true, ..f.new_task(&format!("epic {n}"), &[]) };
        epics.push(epic.task);
        f.done("human:ana", Command::TaskCreate(epic)).await;
    }
    let root = f.create("root", &[]).await;
    for batch in 0..TASKS / BATCH {
        let new = |n: usize| {
            let n = batch * BATCH + n;
            let deps = if n.is_multiple_of(2) { vec![root] } else { Vec::new() };
            let phase = match n % 200 {
                17 => Phase::Review,
                19 => Phase::Working,
                n if n % 10 == 5 => Phase::ClosedDone,
                _ => Phase::Initial,
            };
            let check = NewCheck { desc: "t".into(), cmd: Some("t".into()), ..NewCheck::default() };
            let has_check = n.is_multiple_of(5) && phase != Phase::ClosedDone;
            TaskCreate {
                priority: u16::try_from(n % 4).unwrap(),
                parent: n.is_multiple_of(7).then(|| epics[n % EPICS]),
                checks: if has_check { vec![check] } else { Vec::new() },
                phase,
                ..f.new_task(&format!("task {n}"), &deps)
            }
        };
        f.done("human:ana", Command::TaskCreateAll((0..BATCH).map(new).collect())).await;
    }
    for n in 0..20 {
        let task = f.create(&format!("held {n}"), &[]).await;
        f.done("agent:w1", f.begin(task, "k", Some(60))).await;
    }
    (root, epics[0])
}

/// The reads of the pages, each with the statements that it sent.
async fn reads(f: &Fixture) -> Vec<(String, BTreeSet<String>)> {
    let (root, epic) = filled(f).await;
    let (store, org, policy) = (&f.store, &f.home.org, &f.policy);
    let mut all = Vec::new();
    taken(f);
    macro_rules! read {
        ($verb:ident($($argument:expr),*), $about:expr) => {{
            store.$verb($($argument),*).await.expect("readable");
            all.push((format!("{} {}", stringify!($verb), $about), taken(f)));
        }};
    }
    let limit = 50;
    for filter in [
        "",
        "word",
        "-word",
        "actor:w1",
        "check:fail",
        "check:open",
        "label:x",
        "priority:P1",
        "epic:epic",
        "epic:DEMO-1",
        "-epic:epic",
        "project:demo",
        "DEMO-7",
        "phase:ready",
    ] {
        for project in [None, Some(f.home.project.id)] {
            let query = ColumnsQuery {
                org: org.clone(),
                project,
                columns: Column::ALL.to_vec(),
                terms: FilterText::parse(filter).terms,
                done_since: f.store.now().plus_ms(-1000),
                policy: policy.clone(),
                limit,
            };
            read!(board_columns(query), filter);
        }
    }
    let project = Some(f.home.project.id);
    let stuck = StuckQuery { org: org.clone(), project, policy: policy.clone(), limit };
    read!(tasks_stuck(stuck.clone()), "");
    read!(tasks_silent(stuck.clone()), "");
    read!(epics_in_review(stuck), "");
    read!(board_tasks(org, &[root, epic], policy), "");
    read!(board_around(org, &[root, epic], policy), "");
    read!(board_cards(org, &[root, epic]), "");
    read!(epics_progress(org, &[epic]), "");
    read!(comments_open(org, limit), "");
    read!(checks_ran(org, root), "");
    read!(plans_open(org, limit), "");
    read!(plans(org, limit), "");
    read!(epics(org, limit), "");
    let free = FreeQuery { org: org.clone(), project, below: None, priority_max: None, limit };
    read!(tasks_free(free), "");
    read!(task(org, root), "");
    read!(card(org, root), "");
    let parts = EpicQuery { org: org.clone(), epic, phases: Vec::new(), after: None, limit };
    read!(epic_tasks(parts), "");
    for label in ["todo", "in_review"] {
        let tasks = TaskQuery {
            project: f.home.project.id,
            label: Some(label.into()),
            assignee: None,
            ready: None,
            blocked: false,
            execution: None,
            policy: policy.clone(),
            after: None,
            newest_first: false,
            as_work: None,
            limit,
        };
        read!(tasks(tasks), label);
    }
    for (task, actor) in [(Some(root), None), (None, Some("agent:w1".to_owned()))] {
        let about = format!("{actor:?}");
        let (health, policy) = (Vec::new(), policy.clone());
        let attempts =
            AttemptQuery { org: org.clone(), task, actor, health, policy, after: None, limit };
        read!(attempts(attempts), about);
    }
    let (from, until) = (f.store.now().plus_ms(-3_600_000), f.store.now());
    read!(attempts_within(AttemptSpan { org: org.clone(), actor: None, from, until, limit }), "");
    for (is_over, state) in [(false, None), (true, Some("failed"))] {
        let kinds = JobKind::ALL.to_vec();
        read!(jobs(JobQuery { org: org.clone(), is_over, kinds, state, limit }), is_over);
    }
    let order = RunOrder::NewestFirst { after: None };
    read!(runs(RunQuery { org: org.clone(), state: None, order, limit }), "");
    read!(works_open(org, limit), "");
    read!(works(org, &[root], 1), "");
    read!(agents(AgentQuery { org: org.clone(), kind: None, epic: None, limit }), "");
    let (to, before) = (None, None);
    read!(mails(MailQuery { org: org.clone(), to, unread_only: true, before, limit }), "");
    read!(mails_unread(org, None), "");
    read!(events_back(BackQuery::of(org.clone(), limit)), "");
    read!(events_back(BackQuery { task: Some(root), ..BackQuery::of(org.clone(), 1) }), "task");
    let events = EventQuery { org: Some(org.clone()), after: 10, task: Some(root), limit };
    read!(events(events), "");
    read!(days(org, 0), "");
    all
}

/// The steps of a statement's plan that go through all tasks or all events.
fn scans<'p>(sql: &str, plan: &'p [String]) -> Vec<&'p String> {
    // SQLite names a table by its alias.
    let grows = |name: &str| {
        ["tasks", "events"].iter().any(|table| {
            name == *table || sql.split(&format!("{table} {name}")).nth(1).is_some_and(ends_word)
        })
    };
    let goes_through = |step: &&String| {
        let step = step.trim_start_matches([' ', '-', '>']);
        let scans = ["SCAN ", "Seq Scan on ", "Parallel Seq Scan on "];
        let rest = scans.iter().find_map(|word| step.strip_prefix(word));
        rest.and_then(|rest| rest.split(' ').next()).is_some_and(grows)
    };
    plan.iter().filter(goes_through).collect()
}

fn ends_word(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
}

fn assert_no_scan(explained: &[(String, String, Vec<String>)]) {
    assert!(explained.len() > 40, "the reads were not heard: {}", explained.len());
    let faults: Vec<String> = explained
        .iter()
        .filter(|(_, sql, plan)| !scans(sql, plan).is_empty())
        .map(|(read, sql, plan)| {
            format!("{read}: {:#?}\n{sql}\n{}", scans(sql, plan), plan.join("\n"))
        })
        .collect();
    assert!(faults.is_empty(), "{} full scans:\n{}", faults.len(), faults.join("\n\n"));
}

#[tokio::test]
async fn sqlite_finds_every_page_by_an_index() {
    listen();
    let f = Fixture::sqlite().await;
    let reads = reads(&f).await;
    let db = rusqlite::Connection::open(f.folder().join("test.db")).unwrap();
    // The plans must hold without statistics and with them: the store itself makes none.
    for statistics in ["", "ANALYZE"] {
        db.execute_batch(statistics).unwrap();
        let mut explained = Vec::new();
        for (read, statements) in &reads {
            for sql in statements {
                let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
                let mut rows = plan.raw_query();
                let mut steps = Vec::new();
                while let Some(row) = rows.next().unwrap() {
                    steps.push(row.get::<_, String>(3).unwrap());
                }
                explained.push((format!("{read} {statistics}"), sql.clone(), steps));
            }
        }
        assert_no_scan(&explained);
    }
}

#[tokio::test]
async fn postgres_finds_every_page_by_an_index() {
    listen();
    let Some(f) = Fixture::postgres().await else { return };
    let reads = reads(&f).await;
    let Database::Schema(schema) = &*f.place else { panic!("a schema") };
    let client = schema.connect().await;
    // A kept plan, as a server that runs for a while uses, whatever the values are.
    client.batch_execute("ANALYZE; SET plan_cache_mode = force_generic_plan").await.unwrap();
    let mut explained = Vec::new();
    for (read, statements) in &reads {
        for sql in statements {
            let values = client.prepare(sql).await.unwrap().params().len();
            let values = vec!["NULL"; values].join(", ");
            let values = if values.is_empty() { values } else { format!("({values})") };
            client.batch_execute(&format!("PREPARE one AS {sql}")).await.unwrap();
            let rows = client.query(&format!("EXPLAIN EXECUTE one{values}"), &[]).await.unwrap();
            client.batch_execute("DEALLOCATE one").await.unwrap();
            let steps = rows.iter().map(|row| row.get(0)).collect();
            explained.push((read.clone(), sql.clone(), steps));
        }
    }
    assert_no_scan(&explained);
}

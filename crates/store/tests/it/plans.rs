//! No read goes through all tasks, events, jobs, mail, decisions or knowledge. Every read of the store runs on some
//! thousand rows of each; every statement that they sent is then explained, on each database. A new read has to be
//! added here: a test compares the reads with the traits.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, Once, PoisonError};
use std::thread::ThreadId;

use callboard_domain::board::column::Column;
use callboard_domain::board::filter::FilterText;
use callboard_domain::command::{Command, NewCheck, TaskCreate};
use callboard_domain::crew::AgentId;
use callboard_domain::event::{EventName, EventTerms};
use callboard_domain::ids::{AttemptId, Id, IdKind, TaskId};
use callboard_domain::knowledge::KnowledgeId;
use callboard_domain::policy::Phase;
use callboard_domain::retention::Growing;
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_domain::task::attempt::{ExecutionState, Health};
use callboard_domain::task::comment::CommentId;
use callboard_domain::time::Timestamp;
use callboard_store::knowledge::KnowledgeQuery;
use callboard_store::{
    AgentQuery, AsWork, AttemptQuery, AttemptSpan, BackQuery, CardQuery, ColumnsQuery,
    DecisionQuery, EpicQuery, EventQuery, FreeQuery, JobQuery, MailQuery, OpenPulls, PruneStep,
    PullQuery, PullsOf, RunOrder, RunQuery, STATEMENTS, StuckQuery, TaskQuery, TaskScope,
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

/// Every read, each with the statements that it sent.
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
    f.grow().await;
    if let Database::Schema(schema) = &*f.place {
        schema.connect().await.batch_execute("ANALYZE").await.unwrap();
    }
    let last = store.last_seq().await.unwrap();
    taken(f);
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
            read!(board_columns(query.clone()), filter);
            read!(tasks_failing(query), filter);
        }
    }
    let project = Some(f.home.project.id);
    let stuck = StuckQuery { org: org.clone(), project, policy: policy.clone(), limit };
    read!(tasks_stuck(stuck.clone()), "");
    read!(tasks_silent(stuck.clone()), "");
    read!(deps_open(stuck.clone()), "");
    read!(tasks_with_failing(stuck.clone()), "");
    read!(actors_at_work(stuck.clone()), "");
    read!(tasks_in_review(stuck.clone()), "");
    read!(epics_in_review(stuck), "");
    read!(board_tasks(org, &[root, epic], policy), "");
    read!(task_titles(org, &[root, epic]), "");
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
            label: Some(label.into()),
            limit,
            ..TaskQuery::of(f.home.project.id, policy.clone())
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
    let (every, in_workspaces) = (JobKind::ALL.to_vec(), JobKind::IN_WORKSPACES.to_vec());
    for (is_over, kinds, state) in [
        (false, &every, None),
        (true, &every, Some("failed")),
        (true, &in_workspaces, Some("failed")),
    ] {
        let (kinds, about) = (kinds.clone(), format!("{is_over} {kinds:?}"));
        read!(jobs(JobQuery { org: org.clone(), is_over, kinds, state, limit }), about);
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
    // The page of the log: all names but renewals, within a range of numbers.
    let names = Some(EventTerms::default().names());
    let page =
        BackQuery { before: Some(9_000), after: 10, names, ..BackQuery::of(org.clone(), 101) };
    read!(events_back(page), "page");
    let events = EventQuery { org: Some(org.clone()), after: 10, task: Some(root), limit };
    read!(events(events), "");
    read!(days(org, 0), "");
    read!(days_attributed(org, 10, 60), "");
    for query in task_queries(f, root) {
        let about = format!("{query:?}");
        read!(tasks(query), about);
    }
    for query in card_queries(f, root) {
        let about = format!("{query:?}");
        read!(cards(query), about);
    }
    for query in attempt_queries(f, root) {
        let about = format!("{query:?}");
        read!(attempts(query), about);
    }
    for state in [None, Some("failed"), Some("queued")] {
        let order = RunOrder::Queue { offset: 1000 };
        read!(runs(RunQuery { org: org.clone(), state, order, limit }), format!("{state:?}"));
    }
    let to = Some(AgentId::parse("w2").unwrap());
    for unread_only in [false, true] {
        let (org, to) = (org.clone(), to.clone());
        read!(mails(MailQuery { org, to, unread_only, before: None, limit }), unread_only);
    }
    read!(mails_unread(org, to.as_ref()), "of an agent");
    for agent in [None, to.clone()] {
        let about = format!("{agent:?}");
        let query = DecisionQuery { org: org.clone(), agent, before: None, limit };
        read!(decisions(query), about);
    }
    let mail = MailQuery { org: org.clone(), to, unread_only: false, before: None, limit: 1 };
    let mail = store.mails(mail).await.unwrap().remove(0).mail;
    taken(f);
    read!(mail(org, mail.id), "");
    read!(mail_answers(org, &mail, limit), "");
    read!(knowledge_newest(org, limit), "");
    read!(knowledge_search(KnowledgeQuery::of(org.clone(), "word other")), "");
    read!(knowledge_version(org), "");
    read!(knowledge_orgs_unembedded("m", limit), "");
    read!(knowledge_unembedded(org, "m", limit), "");
    read!(knowledge(org, KnowledgeId(Id(7))), "");
    read!(knowledge_uses(vec![KnowledgeId(Id(7))], limit), "");
    read!(assignees(f.home.project.id), "");
    for typed in ["DEMO-7", "DEMO-01", "DEMO-zz", "DE", "zzzz"] {
        read!(task_ids(org, typed, 10), typed);
    }
    for kind in [IdKind::Decision, IdKind::Job, IdKind::Knowledge, IdKind::Mail, IdKind::Plan] {
        read!(ids(org, kind, (Id(1), Id(9)), limit), format!("{kind:?}"));
    }
    read!(tasks_by_state(), "");
    read!(task_free_since(root, last), "");
    read!(attempts_overdue(limit), "");
    read!(last_seq(), "");
    let all_events = EventQuery { org: Some(org.clone()), after: last - 10, task: None, limit };
    read!(events(all_events), "of an org");
    let used = Some(vec![EventName::JobUsed]);
    read!(events_back(BackQuery { names: used, ..BackQuery::of(org.clone(), limit) }), "used");
    for name in [EventName::CallRefused, EventName::SettingsUpdated] {
        let query = BackQuery { names: Some(vec![name]), ..BackQuery::of(org.clone(), limit) };
        read!(events_count(query.clone()), name.as_str());
        read!(events_back(query), name.as_str());
    }
    read!(days_ahead(org, last - 10, last), "");
    for kind in Growing::ALL {
        let step = PruneStep::first(kind, store.now(), limit);
        read!(prune(PruneStep { removes: false, ..step }), kind.as_str());
    }
    read!(log_floor(), "");
    read!(comments(org, root), "");
    read!(comment(org, CommentId(root.id)), "");
    read!(output(AttemptId(root.id)), "");
    read!(attempt(org, AttemptId(root.id)), "");
    read!(job(org, JobId(Id(7))), "");
    read!(verify_job(org, root), "");
    for kind in JobKind::ALL {
        read!(jobs_due(kind, limit), kind.as_str());
    }
    for kind in [JobKind::Run, JobKind::Work, JobKind::Crew] {
        read!(runs_due(kind, "here", limit), kind.as_str());
    }
    read!(run(org, JobId(Id(7))), "");
    read!(runs_overdue(limit), "");
    read!(runs_on("here"), "");
    read!(run_is_followed(JobId(Id(7))), "");
    read!(run_tail(org, JobId(Id(7))), "");
    read!(runners(), "");
    read!(delivery(org, JobId(Id(7))), "");
    read!(deliveries(org, limit), "");
    read!(deliveries_below(org, JobId(Id(7)), limit), "");
    for (status, task, url) in
        [(None, None, None), (Some("open"), Some(root), None), (None, None, Some("u".to_owned()))]
    {
        let about = format!("{status:?} {task:?} {url:?}");
        read!(pulls(PullQuery { org: Some(org.clone()), status, task, url, limit }), about);
    }
    for of in
        [PullsOf::Machine("here".into()), PullsOf::Forges { awaited: true }, PullsOf::Unwanted]
    {
        let about = format!("{of:?}");
        read!(pulls_open(OpenPulls { of, after: None, limit }), about);
    }
    read!(epic_pulls(org, epic), "");
    read!(crew_waiting(limit), "");
    read!(crew_orphans(limit), "");
    read!(crew_merged(limit), "");
    read!(crew_adrift(limit), "");
    read!(crew_posts(limit), "");
    read!(crew_strays(limit), "");
    read!(workers_for(org, root), "");
    read!(workers_count(org), "");
    read!(workspace_is_taken(org, "w"), "");
    read!(tasks_waiting_for(org, root, policy, limit), "");
    read!(scratchpad(org, root), "");
    read!(removed(org, root), "");
    all
}

/// Every filter and order of the list of tasks.
fn task_queries(f: &Fixture, task: TaskId) -> Vec<TaskQuery> {
    let of = || TaskQuery { limit: 50, ..TaskQuery::of(f.home.project.id, f.policy.clone()) };
    let work = Some(AsWork { after_priority: None });
    let label = |label: &str| Some(label.to_owned());
    let mut all = vec![
        of(),
        TaskQuery { newest_first: true, ..of() },
        TaskQuery { label: label("done"), ..of() },
        TaskQuery { ready: Some(true), ..of() },
        TaskQuery { ready: Some(true), as_work: work, ..of() },
        TaskQuery { ready: Some(false), ..of() },
        TaskQuery { blocked: true, ..of() },
        TaskQuery { parent: Some(task), ..of() },
        TaskQuery { parent: Some(task), scope: TaskScope::Open, ..of() },
        TaskQuery { parent: Some(task), ready: Some(true), ..of() },
        TaskQuery { parent: Some(task), label: label("done"), ..of() },
        TaskQuery { scope: TaskScope::Open, ..of() },
        TaskQuery { scope: TaskScope::Held, ..of() },
        TaskQuery { scope: TaskScope::Live, ..of() },
        TaskQuery { label: label("backlog"), ready: Some(true), ..of() },
        TaskQuery { label: label("backlog"), ready: Some(true), as_work: work, ..of() },
    ];
    for assignee in [None, Some("agent:w1".to_owned())] {
        let assignee = Some(assignee);
        all.push(TaskQuery { assignee: assignee.clone(), ..of() });
        all.push(TaskQuery { assignee: assignee.clone(), scope: TaskScope::Open, ..of() });
        all.push(TaskQuery { assignee: assignee.clone(), label: label("done"), ..of() });
        let ready = Some(true);
        all.push(TaskQuery { assignee, label: label("backlog"), ready, as_work: work, ..of() });
    }
    for execution in
        [ExecutionState::Active, ExecutionState::Stalled, ExecutionState::AwaitingReview]
    {
        all.push(TaskQuery { execution: Some(execution), ..of() });
    }
    all
}

/// Every filter of the board's list.
fn card_queries(f: &Fixture, task: TaskId) -> Vec<CardQuery> {
    let of = || CardQuery {
        org: f.home.org.clone(),
        project: None,
        phases: Vec::new(),
        without: Vec::new(),
        words: Vec::new(),
        with_scratchpad: true,
        policy: f.policy.clone(),
        offset: 0,
        limit: 50,
    };
    let project = Some(f.home.project.id);
    vec![
        of(),
        CardQuery { project, ..of() },
        CardQuery { offset: TASKS - 100, ..of() },
        CardQuery { without: vec![task], ..of() },
        CardQuery { phases: vec![Phase::Initial], ..of() },
        CardQuery { phases: vec![Phase::ClosedDone, Phase::ClosedCanceled], ..of() },
        CardQuery { words: vec!["word".into()], ..of() },
        CardQuery { words: vec!["word".into()], project, ..of() },
    ]
}

fn attempt_queries(f: &Fixture, task: TaskId) -> Vec<AttemptQuery> {
    let of = || AttemptQuery {
        org: f.home.org.clone(),
        task: None,
        actor: None,
        health: Vec::new(),
        policy: f.policy.clone(),
        after: None,
        limit: 50,
    };
    let mut all = vec![
        of(),
        AttemptQuery { task: Some(task), ..of() },
        AttemptQuery { actor: Some("agent:w1".into()), ..of() },
        AttemptQuery { after: Some((Timestamp(100), task.id)), ..of() },
    ];
    for health in [Health::Active, Health::Stalled, Health::Finished, Health::Canceled] {
        all.push(AttemptQuery { health: vec![health], ..of() });
    }
    all
}

/// Tables that grow with the use of a board.
const GROWING: [&str; 7] =
    ["tasks", "events", "jobs", "mails", "decisions", "knowledge", "knowledge_uses"];

/// Statements that may go through an index from one end, each with its reason.
const BOUNDED: &[(&str, &str)] = &[
    (
        "removed_at IS NULL ORDER BY id DESC LIMIT",
        "the typed end of an id: the newest 100,000 ids at most, in the order of their index",
    ),
    ("lower(substr(prefix, 1,", "a typed prefix: stops at the limit, in the order of ids"),
    (
        "ORDER BY t.id DESC LIMIT 10000",
        "a search for words: the newest 10,000 tasks at most, in the order of their index",
    ),
];

/// The steps of a statement's plan that go through a whole growing table.
fn scans<'p>(sql: &str, plan: &'p [String]) -> Vec<&'p String> {
    if BOUNDED.iter().any(|(part, _)| sql.contains(part)) {
        return Vec::new();
    }
    // SQLite names a table by its alias.
    let grows = |name: &str| {
        GROWING.iter().any(|table| {
            name == *table || sql.split(&format!("{table} {name}")).nth(1).is_some_and(ends_word)
        })
    };
    // A partial index has only the open jobs: a scan of it is a list of those.
    let is_of_open = |step: &str| {
        let open = ["jobs_by_due", "jobs_open_runs", "jobs_open_work", "jobs_open_crew"];
        open.iter().any(|index| step.ends_with(&format!("USING INDEX {index}")))
    };
    let goes_through = |step: &&String| {
        let step = step.trim_start_matches([' ', '-', '>']);
        let scans = ["SCAN ", "Seq Scan on ", "Parallel Seq Scan on "];
        let rest = scans.iter().find_map(|word| step.strip_prefix(word));
        let name = rest.and_then(|rest| rest.split(' ').next());
        name.is_some_and(grows) && !is_of_open(step)
    };
    plan.iter().filter(goes_through).collect()
}

fn ends_word(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
}

fn assert_no_scan(explained: &[(String, String, Vec<String>)]) {
    assert!(explained.len() > 200, "the reads were not heard: {}", explained.len());
    let faults: Vec<String> = explained
        .iter()
        .filter(|(_, sql, plan)| !scans(sql, plan).is_empty())
        .map(|(read, sql, plan)| {
            format!("{read}: {:#?}\n{sql}\n{}", scans(sql, plan), plan.join("\n"))
        })
        .collect();
    assert!(faults.is_empty(), "{} full scans:\n{}", faults.len(), faults.join("\n\n"));
}

/// The steps in which tasks that a statement joins by their ids are found in another way: for each row of the other table
/// SQLite would go through all tasks of a project or an org. An index that the statement asks for is meant.
fn long_ways<'p>(sql: &str, plan: &'p [String]) -> Vec<&'p String> {
    let is_long = |step: &&String| {
        let index = step.split(" INDEX ").nth(1).and_then(|rest| rest.split(' ').next());
        let is_meant = index.is_some_and(|index| sql.contains(&format!("INDEXED BY {index}")));
        step.starts_with("SEARCH t ") && !step.contains("id=?") && !is_meant
    };
    let joins = sql.matches(" JOIN tasks t ").count() - sql.matches("LEFT JOIN tasks t ").count();
    plan.iter().filter(|_| joins > 0).filter(is_long).collect()
}

#[tokio::test]
async fn sqlite_finds_every_read_by_an_index() {
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
                // Every page counts the runs that failed, among all that ended.
                if sql.contains("'work', 'crew') AND j.state = 'failed'") {
                    assert!(steps[0].contains("INDEX jobs_work_over ("), "{read}: {steps:#?}");
                }
                // An id that was typed in part, or as a whole, is a range of ids.
                if sql.contains("WHERE id >= ?1 AND id <= ?2") {
                    assert!(steps[0].contains("(id>? AND id<?)"), "{read}: {steps:#?}");
                }
                let long = long_ways(sql, &steps);
                assert!(long.is_empty(), "{read} {statistics}: {long:#?}\n{sql}");
                explained.push((format!("{read} {statistics}"), sql.clone(), steps));
            }
        }
        assert_no_scan(&explained);
    }
}

#[tokio::test]
async fn postgres_finds_every_read_by_an_index() {
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

/// Verbs of the traits that are no reads of growing tables, or that write: they find their rows by key.
const NO_LISTS: &[&str] = &[
    "agent",
    "answer_keep",
    "apply",
    "apply_all",
    "backup",
    "day_counts",
    "days_count",
    "file_get",
    "file_put",
    "files_prune",
    "grown",
    "handle",
    "handle_add",
    "handle_change",
    "handles_change",
    "handles_prune",
    "has_tokens",
    "listen",
    "pages_give_back",
    "page_code_take",
    "page_key_add",
    "page_keys_prune",
    "page_session",
    "page_session_end",
    "ping",
    "plan",
    "project",
    "project_in",
    "project_of_org",
    "project_of_repo",
    "project_opened",
    "projects",
    "prune_retries",
    "quota_add",
    "quota_used",
    "repo",
    "repo_path",
    "repos",
    "repos_on",
    "retry",
    "review_comments",
    "review_draft_put",
    "review_draft_remove",
    "review_drafts",
    "review_look",
    "review_look_put",
    "review_viewed",
    "review_viewed_put",
    "review_viewed_remove",
    "run_follow",
    "run_tail_drop",
    "run_tail_put",
    "runner_gone",
    "runner_seen",
    "runs_forget",
    "secret",
    "settings",
    "settle",
    "snooze_put",
    "snooze_remove",
    "snoozes",
    "space",
    "tick",
    "token",
    "token_add",
    "token_revoke",
    "tokens",
    "verify",
    "knowledge_use",
    "knowledge_vectors_put",
];

/// A verb that is added to a trait of the store is read above, or stands in `NO_LISTS`.
#[test]
fn no_read_is_forgotten() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let own = include_str!("plans.rs");
    let files = [
        "lib.rs",
        "board/cards.rs",
        "board/columns.rs",
        "board/org.rs",
        "board/stats.rs",
        "crew/mod.rs",
        "crew/epics.rs",
        "runs/mod.rs",
        "runs/deliveries.rs",
        "pulls.rs",
        "retention.rs",
        "retries.rs",
        "pages.rs",
        "review.rs",
        "task/span.rs",
    ];
    let mut forgotten = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let verbs = text.lines().filter_map(|line| line.strip_prefix("    async fn "));
        for verb in verbs.filter_map(|verb| verb.split(['(', '<']).next()) {
            let is_read = own.contains(&format!("read!({verb}("));
            if !is_read && !NO_LISTS.contains(&verb) {
                forgotten.push(format!("{file}: {verb}"));
            }
        }
    }
    assert!(forgotten.is_empty(), "reads without a plan: {forgotten:#?}");
}

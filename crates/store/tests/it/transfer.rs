//! Moves of whole stores: nothing is lost on the way, and nothing half-moved is ever used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use callboard_domain::board::card::{AgentMessage, Card, Failed, Mode, Terminal};
use callboard_domain::command::{Command, CommentAdd, KnowledgeStore, NewCheck};
use callboard_domain::handle::{HandleChange, HandleEnd};
use callboard_domain::ids::Prefix;
use callboard_domain::knowledge::EdgeKind;
use callboard_domain::runs::delivery::Receipt;
use callboard_domain::task::comment::CommentKind;
use callboard_domain::time::Timestamp;
use callboard_store::clock::ManualClock;
use callboard_store::knowledge::Embedded;
use callboard_store::postgres::PostgresStore;
use callboard_store::sqlite::SqliteStore;
use callboard_store::transfer::{Address, LEFT_OUT, Moved, TABLES, Tell, TransferError, transfer};
use callboard_store::{FileSpan, NewFile, Place, RepoPlace};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;

use crate::fixture::{Database, Fixture, attempt_of, place, task_of};
use crate::schema::Schema;
use crate::{crew, deliveries, handles, leases, org, review, runs};

/// The target of a move.
enum Target {
    File(tempfile::TempDir),
    Schema(Schema),
}

impl Target {
    fn sqlite() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    /// A file, a schema when there is a PostgreSQL, and a schema behind a pooler when there is one.
    fn all() -> Vec<Self> {
        let schemas = [Schema::new(), Schema::pooled()].map(|schema| schema.map(Self::Schema));
        [Some(Self::sqlite())].into_iter().chain(schemas).flatten().collect()
    }

    fn address(&self) -> Address {
        match self {
            Self::File(folder) => Address::Sqlite(folder.path().join("test.db")),
            Self::Schema(schema) => Address::Postgres(schema.url().to_owned()),
        }
    }

    async fn open(self) -> Fixture {
        Fixture::at(Arc::new(match self {
            Self::File(folder) => Database::Folder(folder),
            Self::Schema(schema) => Database::Schema(schema),
        }))
        .await
    }

    /// Why the target cannot be opened.
    async fn refusal(&self) -> String {
        let opened = match self.address() {
            Address::Sqlite(path) => SqliteStore::open(&path, clock()).map(|_| ()),
            Address::Postgres(url) => PostgresStore::open(&url, None).await.map(|_| ()),
        };
        opened.unwrap_err().to_string()
    }

    /// Creates an empty store and runs a statement in it.
    async fn prepared(&self, sqlite: &str, postgres: &str) {
        match self {
            Self::File(folder) => {
                let path = folder.path().join("test.db");
                drop(SqliteStore::open(&path, clock()).unwrap());
                Connection::open(&path).unwrap().execute_batch(sqlite).unwrap();
            }
            Self::Schema(schema) => {
                drop(PostgresStore::open(schema.url(), None).await.unwrap());
                schema.connect().await.batch_execute(postgres).await.unwrap();
            }
        }
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp(1)))
}

fn quiet() -> Tell {
    Arc::new(|_| {})
}

fn address(f: &Fixture) -> Address {
    match &*f.place {
        Database::Folder(folder) => Address::Sqlite(folder.path().join("test.db")),
        Database::Schema(schema) => Address::Postgres(schema.url().to_owned()),
    }
}

async fn go(from: &Address, to: &Address) -> Result<Moved, TransferError> {
    transfer(from, to, clock(), quiet()).await
}

/// A store with everything that can be in one, and texts and numbers at their limits.
async fn rich(f: &Fixture) {
    let odd = "e\u{301} 𝔘𝔫𝔦 \u{200d} \u{1} \u{7f} \u{fffd} \u{10ffff} \\N \\. \t\r\n '\"";
    let open = f.create(odd, &[]).await;
    let dep = f.create("dep", &[]).await;
    let mut new = f.new_task("with everything", &[open, dep]);
    new.body = format!("{odd}\n").repeat(5000);
    new.parent = Some(open);
    new.priority = 0;
    new.execution_contract = Some(odd.into());
    *new.card = Card {
        mode: Mode::Auto,
        criteria: vec![odd.into()],
        terminal: Some(Terminal::Tmux),
        created_by: Some(odd.into()),
        workspace: Some("task-1-a".into()),
        branch: Some("callboard/task-1-a".into()),
        failed: Some(Failed { reason: odd.into(), at: Timestamp(2) }),
        told: vec![AgentMessage {
            by: "human:ana".parse().unwrap(),
            at: Timestamp(3),
            text: odd.into(),
        }],
        ..Card::default()
    };
    new.checks = vec![
        NewCheck { desc: odd.into(), cmd: Some("true".into()), ..NewCheck::default() },
        NewCheck { desc: "reads well".into(), manual: true, ..NewCheck::default() },
    ];
    f.done("human:ana", Command::TaskCreate(new.clone())).await;
    let attest = Command::CheckAttest { task: new.task, index: 1, pass: true, tree: None };
    f.done("human:ana", attest).await;
    f.done("human:ana", f.to(dep, "done")).await;
    f.done("agent:w1", Command::ReviewRequest { task: dep, summary: odd.into() }).await;
    f.done("agent:w1", Command::ScratchpadAppend { task: dep, text: odd.into() }).await;
    f.done("human:ana", f.to(dep, "done")).await;
    // A removed task that still has an open dep: its counter no longer matters.
    let closes = f.create("closes", &[]).await;
    let gone = f.create("gone", &[closes]).await;
    f.done("human:ana", Command::TaskRemove { task: gone }).await;
    f.done("human:ana", f.to(closes, "done")).await;
    let removed = f.create("removed", &[dep]).await;
    f.done("human:ana", Command::TaskRemove { task: removed }).await;

    let learned = KnowledgeStore {
        task: Some((dep, EdgeKind::Produced)),
        ..crate::knowledge::new("learned", odd)
    };
    f.done("agent:w1", Command::KnowledgeStore(learned)).await;
    let waiting = f.store.knowledge_unembedded("default", "m", 1).await.unwrap().remove(0);
    let parts = vec![vec![0.5, -0.5]];
    let vectors = Embedded { org: waiting.org, number: waiting.number, parts };
    f.store.knowledge_vectors_put("m", vec![vectors]).await.unwrap();

    let leased = f.create("leased", &[]).await;
    let first = f.done("agent:w1", f.begin(leased, "k", Some(60))).await;
    f.clock.advance_ms(60_000);
    f.done("system:clock", Command::AttemptExpire { attempt: attempt_of(&first).id }).await;
    f.done("agent:w2", f.begin(leased, "k", Some(3600))).await;
    let worked = f.create("worked", &[]).await;
    let began = f.done("agent:w1", f.begin(worked, "k", None)).await;
    let attempt = attempt_of(&began).id;
    let finish = Command::AttemptFinish {
        attempt,
        summary: odd.into(),
        head: Some("def".into()),
        tree: None,
    };
    f.done("agent:w1", finish).await;
    let mut keyed = f.op("agent:w1", Command::TaskCreate(f.new_task("once", &[])));
    keyed.retry_key = f.key(&format!("ключ {odd}").replace(char::is_control, ""));
    f.store.apply(keyed).await.unwrap();
    let mut other = place("other");
    other.prefix = Prefix::parse("OTHER");
    let path = "/home/änä/shop".into();
    other.repo = Some(RepoPlace { machine: "host-1".into(), path });
    f.store.settle(other).await.unwrap();
    let kept = NewFile { task: Some(worked), ..file(f, "runs/worked", log()) };
    f.store.file_put(kept).await.unwrap();
    f.store.file_put(file(f, odd, Vec::new())).await.unwrap();

    let (judged, job) = leases::judged(f, "judged").await;
    f.done("system:r1", Command::JobTake { job: job.id, lease_s: 60 }).await;
    for kind in [CommentKind::Blocker, CommentKind::Note] {
        let comment = leases::comment(judged, kind);
        let id = comment.comment;
        f.done("agent:w1", Command::CommentAdd(CommentAdd { body: odd.into(), ..comment })).await;
        if kind == CommentKind::Note {
            let words = Some(odd.into());
            f.done("human:ana", Command::CommentResolve { comment: id, words }).await;
        }
    }
    runs::told(f).await;
    review::filled(f, odd).await;
    org::filled(f).await;
    crew::fill(f).await;
    let told = deliveries::canceled(f, "told").await;
    deliveries::tried(f, told, 1, Receipt::Failed(odd.into())).await;
    f.store.secret("default", odd, odd).await.unwrap();
    let asking = handles::opened(f).await.id;
    let questions = handles::map(json!({"ask_1": odd, "ask_2": odd}));
    f.store.handle_change(asking, HandleChange::Ask { questions }).await.unwrap();
    let answers = handles::map(json!({"ask_2": odd}));
    f.store.handle_change(asking, HandleChange::Answer { answers }).await.unwrap();
    let ended = handles::opened(f).await.id;
    let end = HandleChange::End(HandleEnd::Completed(json!({"text": odd})));
    f.store.handle_change(ended, end).await.unwrap();
    f.store.quota_add("default", "calls", "2026-05", 7).await.unwrap();
    f.store.tick().await.unwrap();
    f.assert_sound().await;
}

fn file(f: &Fixture, name: &str, bytes: Vec<u8>) -> NewFile {
    let (org, media_type) = (f.home.org.clone(), "text/plain".into());
    NewFile { org, task: None, name: name.into(), media_type, bytes }
}

/// More bytes than one row holds, with every value.
fn log() -> Vec<u8> {
    (0..600_000u32).map(|n| (n % 257) as u8).collect()
}

/// Rows that no command writes and both schemas allow.
fn extremes(db: &Connection) {
    let (low, high) = (i64::MIN, i64::MAX);
    db.execute_batch(&format!(
        "INSERT INTO tasks (id, prefix, org, project, title, label, phase, priority, checks, \
             open_deps, fence, entries, created_at, updated_at, removed_at) \
         VALUES (x'00000000000000000000000000000000', 'A', 1, 1, '', '', 'initial', 0, '[]', 0, \
             {low}, 0, {low}, {high}, {low}), \
             (x'ffffffffffffffffffffffffffffffff', '', 1, 1, '', '', 'working', 1000, '[]', 0, \
             {high}, 0, {high}, {low}, NULL); \
         INSERT INTO entries (task, number, who, at, did) \
         VALUES (x'ffffffffffffffffffffffffffffffff', 2147483647, '', {low}, ''); \
         UPDATE tasks SET entries = 1 WHERE prefix = ''; \
         INSERT INTO retries VALUES ({low}, 'Z', 'a', 'ä', '', {high}, NULL, NULL), \
             ({low}, 'a', 'Z', 'B', 'ä', {low}, '', ''), \
             ({low}, 'ä', 'Z', 'b', 'Z', {low}, 'ä', NULL), \
             ({low}, '_', 'Z', '', 'a', {low}, NULL, 'ä'); \
         INSERT INTO tokens VALUES (zeroblob(16), zeroblob(32), 1, 'ä', '{{}}', {low}, '', {high}, \
             NULL, NULL); \
         INSERT INTO quotas VALUES (1, 'Z', 'ä', {high}), (1, 'a', 'Z', {low}), (1, 'ä', '', 0); \
         INSERT INTO jobs (id, org, kind, key, tries, created_at, state, ended_at) \
         VALUES (zeroblob(16), 1, '', '', 2147483647, {low}, 'done', {high}); \
         INSERT INTO events VALUES ((SELECT max(seq) + 1 FROM events), {high}, 1, '', '', NULL, NULL, \
             NULL, '')"
    ))
    .unwrap();
}

/// Every row of every table, as SQLite has it.
fn rows(path: &Path) -> BTreeMap<String, Vec<Vec<Value>>> {
    let db = Connection::open(path).unwrap();
    let read = |table: &str| {
        let mut select = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = select.column_count();
        let rows = select
            .query_map([], |row| (0..columns).map(|column| row.get(column)).collect())
            .unwrap();
        let mut rows: Vec<Vec<Value>> = rows.collect::<Result<_, _>>().unwrap();
        rows.sort_by_cached_key(|row| format!("{row:?}"));
        rows
    };
    tables_of(&db).into_iter().map(|table| (table.clone(), read(&table))).collect()
}

fn tables_of(db: &Connection) -> Vec<String> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut select = db.prepare(sql).unwrap();
    select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn listed() -> BTreeMap<String, BTreeSet<String>> {
    let listed = TABLES.iter();
    listed.map(|t| (t.name.to_owned(), t.columns().map(str::to_owned).collect())).collect()
}

fn is_moved(table: &str) -> bool {
    LEFT_OUT.iter().all(|(name, _)| *name != table)
}

#[test]
fn every_table_and_column_of_sqlite_is_in_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    drop(SqliteStore::open(&path, clock()).unwrap());
    let db = Connection::open(&path).unwrap();
    let columns = |table: &str| -> BTreeSet<String> {
        let mut select = db.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
        select.query_map([table], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let found: BTreeMap<_, _> = tables_of(&db)
        .into_iter()
        .filter(|table| is_moved(table))
        .map(|table| (table.clone(), columns(&table)))
        .collect();
    assert_eq!(found, listed(), "add a line to crates/store/src/transfer/tables.rs");
}

#[tokio::test]
async fn every_table_and_column_of_postgres_is_in_the_list() {
    let Some(f) = Fixture::postgres().await else { return };
    let Database::Schema(schema) = &*f.place else { panic!("this one is in PostgreSQL") };
    let sql = "SELECT table_name::text, column_name::text, data_type::text \
               FROM information_schema.columns WHERE table_schema = current_schema()";
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in schema.connect().await.query(sql, &[]).await.unwrap() {
        let (table, column, kind): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        if !is_moved(&table) {
            continue;
        }
        let known = ["text", "bigint", "integer", "boolean", "uuid", "bytea"];
        assert!(
            known.contains(&kind.as_str()),
            "{table}.{column} is {kind}: teach it to crates/store/src/postgres/transfer.rs"
        );
        found.entry(table).or_default().insert(column);
    }
    assert_eq!(found, listed(), "add a line to crates/store/src/transfer/tables.rs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_arrives_as_it_left() {
    let f = Fixture::sqlite().await;
    rich(&f).await;
    let start = f.folder().join("test.db");
    extremes(&Connection::open(&start).unwrap());
    let left = rows(&start);
    for between in Target::all() {
        let end = Target::sqlite();
        let there = go(&address(&f), &between.address()).await.unwrap();
        let back = go(&between.address(), &end.address()).await.unwrap();
        assert_eq!(there, back);
        assert_eq!(there.findings, []);
        let counted: Vec<_> = there.tables.iter().map(|sum| (sum.name, sum.rows)).collect();
        let expected: Vec<_> =
            TABLES.iter().map(|table| (table.name, left[table.name].len() as u64)).collect();
        assert_eq!(counted, expected);
        let Target::File(folder) = &end else { unreachable!("the end is a file") };
        for (table, arrived) in rows(&folder.path().join("test.db")) {
            let mut left = left[&table].clone();
            // A count of 0 is left where the last row of a state was. A store without such a row has no count.
            if table == "list_counts" {
                left.retain(|row| row.last() != Some(&Value::Integer(0)));
            }
            assert_eq!(arrived, left, "{table}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_moved_goes_on() {
    for target in Target::all() {
        let f = Fixture::sqlite().await;
        rich(&f).await;
        let once = |f: &Fixture| {
            let mut op = f.op("agent:w9", Command::TaskCreate(f.new_task("retried", &[])));
            op.retry_key = f.key("k");
            op
        };
        let before = task_of(&f.store.apply(once(&f)).await.unwrap()).task.id;
        let last = f.store.last_seq().await.unwrap();
        go(&address(&f), &target.address()).await.unwrap();

        let moved = target.open().await;
        assert_eq!(moved.home, f.home);
        assert!(moved.store.now() >= f.record(before).await.task.updated_at, "time goes on");
        assert_eq!(moved.store.last_seq().await.unwrap(), last);
        let again = moved.store.apply(once(&moved)).await.unwrap();
        assert_eq!((task_of(&again).task.id, again.last_seq), (before, None), "a retry is known");
        let task = moved.create("after the move", &[before]).await;
        assert_eq!(moved.store.last_seq().await.unwrap(), last + 1);
        moved.done("agent:w1", Command::TaskClaim { task: before }).await;
        moved.done("human:ana", moved.to(before, "done")).await;
        assert!(moved.record(task).await.task.is_ready());

        let new = moved.store.settle(Place { org: "new".into(), ..place("new") }).await.unwrap();
        let repo = RepoPlace { machine: "host-2".into(), path: "/new".into() };
        let here = Place { repo: Some(repo), ..place("new") };
        assert_eq!(moved.store.settle(here).await.unwrap(), new);
        assert_eq!(new.project.id, f.home.project.id + 3, "behind those that came along");
        let read = async |name| moved.store.file_get(&f.home.org, name, FileSpan::WHOLE).await;
        assert!(read("runs/worked").await.unwrap().unwrap().bytes == log());
        moved.store.file_put(file(&moved, "runs/new", log())).await.unwrap();
        assert!(read("runs/new").await.unwrap().unwrap().bytes == log());
        moved.assert_sound().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_holds_something_is_refused_and_left_alone() {
    let f = Fixture::sqlite().await;
    rich(&f).await;
    for target in Target::all() {
        let to = target.address();
        let taken = target.open().await;
        let refused = go(&address(&f), &to).await.unwrap_err();
        assert_eq!(refused, TransferError::NotEmpty("projects"));
        let task = taken.create("own", &[]).await;
        assert!(go(&address(&f), &to).await.is_err());
        assert_eq!(taken.record(task).await.task.title, "own");
        assert_eq!(taken.store.last_seq().await.unwrap(), 1);
        taken.assert_sound().await;
    }
    let here = address(&f);
    assert_eq!(go(&here, &here).await.unwrap_err(), TransferError::NotEmpty("orgs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_meanwhile_is_whole_or_not_there() {
    let mut sources = vec![Fixture::sqlite().await];
    sources.extend(Fixture::postgres().await);
    sources.extend(Fixture::pooled().await);
    for f in sources {
        let f = Arc::new(f);
        for n in 0..200 {
            f.create(&format!("before {n}"), &[]).await;
        }
        let before = f.store.last_seq().await.unwrap();
        for target in Target::all() {
            let over = Arc::new(AtomicBool::new(false));
            let (writing, stop) = (f.clone(), over.clone());
            let writer = tokio::spawn(async move {
                let mut last = writing.create("first", &[]).await;
                while !stop.load(Ordering::SeqCst) {
                    let waits = writing.create("waits", &[last]).await;
                    writing.done("agent:w1", writing.begin(last, "k", Some(60))).await;
                    writing.done("human:ana", writing.to(last, "done")).await;
                    writing.done("human:ana", Command::TaskRemove { task: waits }).await;
                    last = writing.create("free", &[]).await;
                }
            });
            let moved = go(&address(&f), &target.address()).await;
            over.store(true, Ordering::SeqCst);
            writer.await.unwrap();
            assert_eq!(moved.unwrap().findings, []);
            let copy = target.open().await;
            let (then, now) =
                (copy.store.last_seq().await.unwrap(), f.store.last_seq().await.unwrap());
            assert!((before..now).contains(&then), "{before} <= {then} < {now}");
            copy.assert_sound().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_in_the_middle_leaves_the_target_empty() {
    let f = Fixture::sqlite().await;
    rich(&f).await;
    for target in Target::all() {
        // PostgreSQL loses the connection at the fifth event.
        let (sqlite, postgres) = (
            "CREATE TRIGGER fail BEFORE INSERT ON events WHEN NEW.seq = 5
             BEGIN SELECT raise(ABORT, 'no room for this one'); END",
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
             CREATE TRIGGER fail BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.seq = 5)
                 EXECUTE FUNCTION fail()",
        );
        target.prepared(sqlite, postgres).await;
        let failed = go(&address(&f), &target.address()).await.unwrap_err();
        assert!(matches!(failed, TransferError::Target(_)), "{failed}");
        let said = ["table events is refused", "PostgreSQL cannot be reached"];
        assert!(said.iter().any(|words| failed.to_string().contains(words)), "{failed}");
        let fixed = ("DROP TRIGGER fail", "DROP TRIGGER fail ON events");
        target.prepared(fixed.0, fixed.1).await;
        // The target takes everything now, so the failed move left it empty.
        assert_eq!(go(&address(&f), &target.address()).await.unwrap().findings, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_lost_in_the_middle_leaves_the_target_empty() {
    let Some(f) = Fixture::postgres().await else { return };
    let Database::Schema(schema) = &*f.place else { panic!("this one is in PostgreSQL") };
    rich(&f).await;
    let cut = schema.connect().await;
    cut.batch_execute(
        "ALTER TABLE retries RENAME TO kept;
         CREATE FUNCTION cut() RETURNS bigint LANGUAGE sql VOLATILE
             AS $$ SELECT pg_terminate_backend(pg_backend_pid())::int::bigint $$;
         CREATE VIEW retries AS SELECT cut() AS org, actor, tool, key, step, at, digest, kept FROM kept",
    )
    .await
    .unwrap();
    let target = Target::sqlite();
    let failed = go(&address(&f), &target.address()).await.unwrap_err();
    assert!(matches!(failed, TransferError::Source(_)), "{failed}");
    cut.batch_execute("DROP VIEW retries; ALTER TABLE kept RENAME TO retries").await.unwrap();
    go(&address(&f), &target.address()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_differs_is_found_and_nobody_opens_it() {
    let f = Fixture::sqlite().await;
    rich(&f).await;
    for target in Target::all() {
        let (sqlite, postgres) = (
            "CREATE TRIGGER bend AFTER INSERT ON entries WHEN NEW.did = 'noted' OR NEW.number = 1
             BEGIN UPDATE entries SET text = 'bent' WHERE task = NEW.task AND number = NEW.number; END",
            "CREATE FUNCTION bend() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 NEW.text = 'bent'; RETURN NEW; END $$;
             CREATE TRIGGER bend BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION bend()",
        );
        target.prepared(sqlite, postgres).await;
        let failed = go(&address(&f), &target.address()).await.unwrap_err();
        assert_eq!(failed, TransferError::Differs("entries"));
        assert!(target.refusal().await.contains("a move that did not finish"));
        let again = go(&address(&f), &target.address()).await.unwrap_err();
        assert!(again.to_string().contains("move again"), "{again}");
        let as_source = go(&target.address(), &Target::sqlite().address()).await.unwrap_err();
        assert!(matches!(as_source, TransferError::Source(_)), "{as_source}");
    }
}

#[tokio::test]
async fn a_source_that_is_no_store_is_refused_and_not_made() {
    let target = Target::sqlite();
    let Address::Sqlite(nothing) = Target::sqlite().address() else { unreachable!("a file") };
    let found = go(&Address::Sqlite(nothing.clone()), &target.address()).await.unwrap_err();
    assert_eq!((found, nothing.exists()), (TransferError::NoSource, false));
    let f = Fixture::sqlite().await;
    let path = f.folder().join("test.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let newer = go(&address(&f), &target.address()).await.unwrap_err().to_string();
    assert!(newer.starts_with("the source: the database has schema 99, newer"), "{newer}");
    let Address::Sqlite(path) = target.address() else { unreachable!("a file") };
    assert!(!path.exists(), "nothing was made for it either");
    let Some(schema) = Schema::new() else { return };
    let url = Address::Postgres(schema.url().to_owned());
    assert_eq!(go(&url, &target.address()).await.unwrap_err(), TransferError::NoSource);
    let made = schema.connect().await.query_one("SELECT current_schema()::text", &[]).await;
    assert_eq!(made.unwrap().get::<_, Option<String>>(0), None);
}

#[tokio::test]
async fn what_postgres_cannot_keep_is_named() {
    let Some(schema) = Schema::new() else { return };
    let f = Fixture::sqlite().await;
    let task = f.create("nul \0 here", &[]).await;
    let target = Target::Schema(schema);
    let said = go(&address(&f), &target.address()).await.unwrap_err().to_string();
    let hex = callboard_domain::hex::hex(task.id.to_bytes());
    for words in ["title of table tasks holds U+0000", "change it in the source", &hex] {
        assert!(said.contains(words), "{said}");
    }
    // SQLite can store the text.
    go(&address(&f), &Target::sqlite().address()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_postgres_is_a_whole_store_in_a_file() {
    let Some(f) = Fixture::postgres().await else { return };
    rich(&f).await;
    let target = Target::sqlite();
    let Target::File(folder) = &target else { unreachable!("a file") };
    let file = folder.path().join("test.db");
    f.store.backup(file.clone()).await.unwrap();
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["test.db"], "nothing is left beside it");
    let bytes = std::fs::read(&file).unwrap();
    assert!(f.store.backup(file.clone()).await.is_err());
    assert_eq!(std::fs::read(&file).unwrap(), bytes, "what is there stays");
    assert!(f.store.backup("/no/such/folder/copy.db".into()).await.is_err());

    let copy = target.open().await;
    assert_eq!(copy.home, f.home);
    assert_eq!(copy.store.last_seq().await.unwrap(), f.store.last_seq().await.unwrap());
    copy.assert_sound().await;
    let Some(schema) = Schema::new() else { return };
    let restored = Address::Postgres(schema.url().to_owned());
    go(&address(&copy), &restored).await.unwrap();
}

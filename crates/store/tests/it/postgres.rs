//! What only the shared store can show: several processes on one database, connections that break.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use callboard_domain::command::{Command, JobEnd};
use callboard_domain::ids::{Prefix, TaskId};
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_store::postgres::PostgresStore;
use callboard_store::{ApplyError, EventQuery, Store, StoreError, TaskQuery};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::conformance::Heard;
use crate::fixture::{Database, Fixture, next_id, place, task_of};
use crate::leases;
use crate::proxy::Proxy;
use crate::schema::Schema;

pub fn schema(f: &Fixture) -> &Schema {
    match &*f.place {
        Database::Schema(schema) => schema,
        Database::Folder(_) => panic!("this one is in PostgreSQL"),
    }
}

async fn numbers(f: &Fixture) -> Vec<u64> {
    let all = EventQuery { org: None, after: 0, task: None, limit: usize::MAX };
    f.store.events(all).await.unwrap().iter().map(|event| event.seq).collect()
}

pub async fn assert_no_gaps(f: &Fixture) {
    let numbers = numbers(f).await;
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

/// There are many rounds, because two servers meet on the same rows only for a moment in each.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_race_and_every_task_is_claimed_once() {
    const ROUNDS: u64 = 20;
    const TASKS: u64 = 50;
    let Some(f) = Fixture::postgres().await else { return };
    let f = Arc::new(f);
    let servers = [f.clone(), Arc::new(f.neighbour().await)];
    for round in 0..ROUNDS {
        let titles = (0..TASKS).map(|n| format!("{round}-{n}"));
        let create = |title: String| {
            let f = f.clone();
            async move { f.create(&title, &[]).await }
        };
        let tasks = futures_util::future::join_all(titles.map(create)).await;
        let mut claims = Vec::new();
        for worker in 0..64 {
            for (server, process) in servers.iter().cloned().enumerate() {
                let claim = Command::TaskClaim { task: tasks[worker % tasks.len()] };
                let who = format!("agent:s{server}-{worker}");
                claims.push(tokio::spawn(async move { process.code(&who, claim).await }));
            }
        }
        let mut won = 0;
        for claim in claims {
            match claim.await.unwrap() {
                "" => won += 1,
                code => assert_eq!(code, "ALREADY_CLAIMED"),
            }
        }
        assert_eq!(won, TASKS, "round {round}");
    }
    assert_no_gaps(&f).await;
    let events = f.store.last_seq().await.unwrap();
    assert_eq!(events, ROUNDS * TASKS * 2, "each task created once and claimed once");
    f.assert_sound().await;
}

/// Returns once the call waits for a lock of `holder`.
async fn waits_for<T>(holder: &Client, f: &Fixture, call: &JoinHandle<T>) {
    let pid: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let beside = schema(f).connect().await;
    let sql = "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
    while beside.query_opt(sql, &[&pid]).await.unwrap().is_none() {
        assert!(!call.is_finished(), "it did not wait");
    }
}

/// Two servers, one job without a task: only its own row can be locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_no_task_is_taken_once() {
    let Some(f) = Fixture::postgres().await else { return };
    let f = Arc::new(f);
    let servers = [f.clone(), Arc::new(f.neighbour().await)];
    let beside = schema(&f).connect().await;
    for round in 0..10 {
        let job = JobId(next_id());
        beside
            .execute(
                "INSERT INTO jobs (id, org, kind, key, tries, created_at, state, due_at) \
                 SELECT $1, id, 'embed', 'embed', 0, 0, 'queued', 0 FROM orgs",
                &[&uuid::Uuid::from_u128(job.0.0)],
            )
            .await
            .unwrap();
        let takes: Vec<_> = (0..32)
            .map(|n| {
                let server = servers[n % 2].clone();
                let take = Command::JobTake { job, lease_s: 60 };
                tokio::spawn(async move { server.code(&format!("system:r{n}"), take).await })
            })
            .collect();
        let mut won = None;
        for (n, taken) in takes.into_iter().enumerate() {
            match taken.await.unwrap() {
                "" => assert_eq!(won.replace(n), None, "round {round}"),
                code => assert_eq!(code, "JOB_LOST"),
            }
        }
        let winner = format!("system:r{}", won.expect("somebody won"));
        let end = Command::JobEnd { job, tries: 1, end: JobEnd::Done };
        f.done(&winner, end).await;
    }
    assert_no_gaps(&f).await;
}

/// A process that does not lock the task makes a job with this key at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn who_loses_a_job_key_to_another_process_takes_its_job() {
    let Some(f) = Fixture::postgres().await else { return };
    let f = Arc::new(f);
    let (task, job) = leases::judged(&f, "a").await;
    f.done("system:r1", Command::JobTake { job: job.id, lease_s: 60 }).await;
    f.done("system:r1", Command::JobEnd { job: job.id, tries: 1, end: JobEnd::Done }).await;
    let beside = schema(&f).connect().await;
    let theirs = JobId(next_id());
    beside.batch_execute("BEGIN").await.unwrap();
    beside
        .execute(
            "INSERT INTO jobs (id, org, kind, key, task, tries, created_at, state, due_at) \
             SELECT $1, org, kind, key, task, 0, 0, 'queued', 0 FROM jobs",
            &[&uuid::Uuid::from_u128(theirs.0.0)],
        )
        .await
        .unwrap();
    let queue = Command::VerificationQueue { task, job: JobId(next_id()) };
    let queued = tokio::spawn({
        let f = f.clone();
        async move { f.code("agent:w1", queue).await }
    });
    waits_for(&beside, &f, &queued).await;
    beside.batch_execute("COMMIT").await.unwrap();
    assert_eq!(queued.await.unwrap(), "");
    let due = f.store.jobs_due(JobKind::Verify, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.job.id).collect::<Vec<_>>(), [theirs]);
    f.assert_sound().await;
}

/// A writer that comes while leases get grace decides on them before or after that, never across.
#[tokio::test(flavor = "multi_thread")]
async fn time_given_to_a_lease_is_not_taken_back_by_a_writer() {
    let Some(f) = Fixture::postgres().await else { return };
    let f = Arc::new(f);
    let task = f.create("a", &[]).await;
    f.done("agent:w1", leases::take(task, 90)).await;
    f.clock.sleep_ms(61_000);
    let beside = schema(&f).connect().await;
    beside.batch_execute("BEGIN; SELECT 1 FROM tasks FOR NO KEY UPDATE").await.unwrap();
    let ticked = tokio::spawn({
        let f = f.clone();
        async move { f.store.tick().await }
    });
    waits_for(&beside, &f, &ticked).await;
    beside.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ticked.await.unwrap().unwrap(), 1);
}

/// A batch that decided first and committed last gets the later time: times rise with the numbers.
#[tokio::test(flavor = "multi_thread")]
async fn times_of_events_rise_with_their_numbers() {
    let Some(f) = Fixture::postgres().await else { return };
    let f = Arc::new(f);
    let task = f.create("a", &[]).await;
    // The retry key is there, not committed yet: the batch waits here after it decided.
    let beside = schema(&f).connect().await;
    let step = Command::TaskNote { task, text: String::new() }.name();
    let in_the_way = format!(
        "BEGIN; INSERT INTO retries (org, actor, tool, key, at, step) \
         SELECT id, 'agent:w1', 'test', 'k', 0, '{step}' FROM orgs"
    );
    beside.batch_execute(&in_the_way).await.unwrap();
    let early = tokio::spawn({
        let f = f.clone();
        async move {
            let mut op = f.op("agent:w1", Command::TaskNote { task, text: "early".into() });
            op.retry_key = f.key("k");
            f.store.apply(op).await
        }
    });
    waits_for(&beside, &f, &early).await;
    let neighbour = f.neighbour().await;
    neighbour.clock.advance_ms(5_000);
    neighbour.create("late", &[]).await;
    beside.batch_execute("ROLLBACK").await.unwrap();
    early.await.unwrap().unwrap();
    let all = EventQuery { org: None, after: 0, task: None, limit: usize::MAX };
    let events = f.store.events(all).await.unwrap();
    let noted = events.last().expect("there are some");
    assert_eq!(noted.name.as_str(), "task.noted", "it committed last");
    assert!(events.is_sorted_by_key(|event| event.at), "{events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_nobody_heard_of_is_found_again_by_its_key() {
    let Some(f) = Fixture::postgres().await else { return };
    let proxy = Proxy::to(schema(&f).server()).await;
    let url = schema(&f).url_via(proxy.address());
    let store = PostgresStore::open(&url, Some(f.clock.clone())).await.unwrap();
    let keyed = || {
        let mut op = f.op("agent:w", Command::TaskCreate(f.new_task("once", &[])));
        op.retry_key = f.key("k");
        op
    };
    proxy.cut_after_next_commit();
    let error = store.apply(keyed()).await.unwrap_err();
    assert!(proxy.has_cut());
    let said = matches!(&error, ApplyError::Store(StoreError::Unavailable(words))
        if words.contains("may or may not be there"));
    assert!(said, "{error}");
    let again = store.apply(keyed()).await.unwrap();
    assert_eq!(again.last_seq, None, "the second call changed nothing");
    let query = TaskQuery::of(f.home.project.id, f.policy.clone());
    let found: Vec<TaskId> =
        store.tasks(query).await.unwrap().into_iter().map(|row| row.task.id).collect();
    assert_eq!(found, [task_of(&again).task.id]);
    f.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_closing_and_adding_deps_keep_the_counters() {
    let Some(f) = Fixture::postgres().await else { return };
    let servers = [Arc::new(f.neighbour().await), Arc::new(f.neighbour().await)];
    let mut deps = Vec::new();
    for n in 0..10 {
        deps.push(f.create(&format!("dep {n}"), &[]).await);
    }
    let mut work = Vec::new();
    for n in 0..120 {
        let (server, deps) = (servers[n % 2].clone(), deps.clone());
        work.push(tokio::spawn(async move {
            match n % 4 {
                0 => server.code("human:ana", server.to(deps[n % 10], "done")).await,
                1 => server.code("human:ana", server.to(deps[n % 10], "backlog")).await,
                2 => {
                    let waits = server.create(&format!("waits {n}"), &[deps[n % 10]]).await;
                    let dep = deps[(n + 3) % 10];
                    server.code("human:ana", Command::DependencyAdd { task: waits, dep }).await
                }
                _ => {
                    let (task, dep) = (deps[n % 10], deps[(n * 7 + 1) % 10]);
                    server.code("human:ana", Command::DependencyAdd { task, dep }).await
                }
            }
        }));
    }
    let mut said = HashSet::new();
    for one in work {
        said.insert(one.await.unwrap());
    }
    let known = ["", "DEPS_NOT_CLOSED", "DEPENDENCY_CYCLE", "INVALID_INPUT"];
    assert!(said.iter().all(|code| known.contains(code)), "{said:?}");
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

/// "x needs y" and "z needs w" close the cycle x, y, z, w only together; no row is in both.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_never_close_a_cycle_together() {
    let Some(f) = Fixture::postgres().await else { return };
    let servers = [Arc::new(f.neighbour().await), Arc::new(f.neighbour().await)];
    for round in 0..30 {
        let (x, z) = (f.create("x", &[]).await, f.create("z", &[]).await);
        let (y, w) = (f.create("y", &[z]).await, f.create("w", &[x]).await);
        let add = |server: &Arc<Fixture>, task, dep| {
            let server = server.clone();
            let add = Command::DependencyAdd { task, dep };
            tokio::spawn(async move { server.code("human:ana", add).await })
        };
        let adds = [add(&servers[0], x, y), add(&servers[1], z, w)];
        let mut said = Vec::new();
        for add in adds {
            said.push(add.await.unwrap());
        }
        said.sort_unstable();
        assert_eq!(said, ["", "DEPENDENCY_CYCLE"], "round {round}");
    }
    f.assert_sound().await;
}

/// Far more commands than one batch holds; those of one task are carried out in the order they were given.
#[tokio::test(flavor = "multi_thread")]
async fn commands_on_one_task_keep_their_order() {
    const NOTES: usize = 400;
    let Some(f) = Fixture::postgres().await else { return };
    let (task, other) = (f.create("a", &[]).await, f.create("b", &[]).await);
    let note = |n: usize| {
        let task = if n % 10 == 9 { other } else { task };
        let text = n.to_string();
        f.done("agent:w", Command::TaskNote { task, text })
    };
    let noted = futures_util::future::join_all((0..NOTES).map(note)).await;
    for on in [task, other] {
        let query = EventQuery { org: None, after: 0, task: Some(on), limit: usize::MAX };
        let events = f.store.events(query).await.unwrap();
        let texts: Vec<usize> =
            events.iter().filter_map(|event| event.data["text"].as_str()?.parse().ok()).collect();
        let asked: Vec<usize> = (0..NOTES).filter(|n| (n % 10 == 9) == (on == other)).collect();
        assert_eq!(texts, asked);
        let numbers: Vec<Option<u64>> = asked.iter().map(|n| noted[*n].last_seq).collect();
        let logged: Vec<Option<u64>> = events[1..].iter().map(|event| Some(event.seq)).collect();
        assert_eq!(numbers, logged, "each answer names its own event");
    }
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

/// Rows, events and commit are sent together; when a row fails, nothing of that batch may stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_be_stored_harms_nobody_beside_it() {
    const TASKS: usize = 60;
    let Some(f) = Fixture::postgres().await else { return };
    let create = |n: usize| {
        let nul = if n % 20 == 7 { "\0" } else { "" };
        let create = Command::TaskCreate(f.new_task(&format!("{n}{nul}"), &[]));
        f.code("human:ana", create)
    };
    let said = futures_util::future::join_all((0..TASKS).map(create)).await;
    let refused: Vec<usize> = (0..TASKS).filter(|n| said[*n] == "INVALID_INPUT").collect();
    assert_eq!(refused, [7, 27, 47]);
    assert_eq!(said.iter().filter(|code| code.is_empty()).count(), TASKS - refused.len());
    let mut query = TaskQuery::of(f.home.project.id, f.policy.clone());
    query.limit = TASKS;
    assert_eq!(f.store.tasks(query).await.unwrap().len(), TASKS - refused.len());
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

/// Many single reads at once form one group; each caller still gets its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn reads_that_travel_together_are_answered_apart() {
    let Some(f) = Fixture::postgres().await else { return };
    let dep = f.create("dep", &[]).await;
    let mut tasks = Vec::new();
    for n in 0..40 {
        tasks.push(f.create(&n.to_string(), &[dep]).await);
        let task = tasks[n];
        f.done("agent:w", Command::TaskNote { task, text: format!("note {n}") }).await;
    }
    f.done("human:ana", Command::TaskRemove { task: tasks[5] }).await;
    let other = schema(&f).connect().await;
    let damage = "UPDATE tasks SET checks = '{' WHERE title = '6'";
    other.batch_execute(damage).await.unwrap();
    let misnamed = TaskId { prefix: Prefix::parse("OTHER").unwrap(), ..tasks[7] };
    let asked = tasks.iter().map(|task| ("default", *task));
    let asked: Vec<_> =
        asked.chain([("nobody", tasks[8]), ("default", misnamed), ("default", dep)]).collect();
    let found =
        futures_util::future::join_all(asked.iter().map(|(org, id)| f.store.task(org, *id))).await;
    for (n, found) in found.iter().enumerate().take(tasks.len()) {
        match n {
            5 => assert!(matches!(found, Ok(None)), "a removed task"),
            6 => assert!(found.is_err(), "a damaged row"),
            _ => {
                let record = found.as_ref().unwrap().as_ref().expect("there is such a task");
                assert_eq!((record.task.id, &record.task.title), (tasks[n], &n.to_string()));
                let deps: Vec<TaskId> = record.deps.iter().map(|dep| dep.id).collect();
                assert_eq!(deps, [dep]);
                let said: Vec<_> = record.entries.iter().map(|e| e.text.as_deref()).collect();
                assert_eq!(said, [None, Some(format!("note {n}").as_str())]);
            }
        }
    }
    let [nobody, misnamed, alone] = &found[tasks.len()..] else { panic!("three more") };
    assert!(nobody.as_ref().unwrap_err().to_string().contains("'nobody'"));
    assert!(matches!(misnamed, Ok(None)));
    assert!(alone.as_ref().unwrap().as_ref().unwrap().deps.is_empty());
}

/// Creates a task under a retry key and repeats the call until the store knows the outcome.
async fn create_once(f: &Fixture, title: &str) -> (TaskId, usize) {
    let mut repeats = 0;
    loop {
        let mut op = f.op("agent:w", Command::TaskCreate(f.new_task(title, &[])));
        op.retry_key = f.key(title);
        match f.store.apply(op).await {
            Ok(applied) => return (task_of(&applied).task.id, repeats),
            Err(ApplyError::Store(StoreError::Unavailable(_))) => repeats += 1,
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_lose_nothing_and_do_nothing_twice() {
    const WRITERS: usize = 16;
    const EACH: usize = 40;
    let Some(f) = Fixture::postgres().await else { return };
    let f = Arc::new(f);
    let (acknowledged, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (f, acknowledged) = (f.clone(), acknowledged.clone());
            tokio::spawn(async move {
                for n in 0..EACH {
                    let title = format!("{writer}-{n}");
                    let (id, _) = create_once(&f, &title).await;
                    acknowledged.send((id, title)).unwrap();
                }
            })
        })
        .collect();
    drop(acknowledged);
    // Connections are killed after every 25 acknowledged writes, while others are under way.
    let killer = schema(&f).connect().await;
    let (mut kept, mut killed) = (Vec::new(), 0);
    while let Some(done) = seen.recv().await {
        kept.push(done);
        if kept.len() % 25 == 0 {
            killed += schema(&f).end_connections(&killer).await;
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(killed > 10, "only {killed} connections were ended");
    let ids: HashSet<TaskId> = kept.iter().map(|(id, _)| *id).collect();
    assert_eq!((kept.len(), ids.len()), (WRITERS * EACH, WRITERS * EACH));
    let mut query = TaskQuery::of(f.home.project.id, f.policy.clone());
    query.limit = 10_000;
    let found: HashMap<_, _> = f
        .store
        .tasks(query)
        .await
        .unwrap()
        .into_iter()
        .map(|row| (row.task.id, row.task.title))
        .collect();
    assert_eq!(found, kept.into_iter().collect(), "all that was acknowledged, and nothing else");
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_whose_connections_break_hears_everything() {
    let Some(f) = Fixture::postgres().await else { return };
    let neighbour = f.neighbour().await;
    let heard = Arc::new(Heard::default());
    neighbour.store.publish_to(heard.clone());
    neighbour.store.listen().await.unwrap();
    let killer = schema(&f).connect().await;
    let mut expected = 0;
    for round in 0..5 {
        for n in 0..4 {
            f.create(&format!("{round}-{n}"), &[]).await;
        }
        expected += 4;
        heard.wait_for(expected).await;
        schema(&f).end_connections(&killer).await;
    }
    f.create("last", &[]).await;
    assert_eq!(heard.wait_for(21).await, (1..=21).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_processes_may_open_an_empty_database_at_once() {
    let Some(schema) = Schema::new() else { return };
    let url = schema.url();
    let opened = futures_util::future::join_all((0..6).map(|_| async move {
        let store = PostgresStore::open(url, None).await.unwrap();
        store.settle(place("default")).await.unwrap()
    }))
    .await;
    let homes: HashSet<i64> = opened.iter().map(|home| home.project.id).collect();
    assert_eq!(homes.len(), 1, "one project for all of them");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let Some(f) = Fixture::postgres().await else { return };
    let task = f.create("a", &[]).await;
    let other = schema(&f).connect().await;
    other.batch_execute("INSERT INTO migrations VALUES (99, 'later', 'x')").await.unwrap();
    let words = PostgresStore::open(schema(&f).url(), None).await.err().unwrap().to_string();
    assert!(words.contains("schema 99, newer than this callboard knows"), "{words}");
    // A process that was running when the newer version came refuses to write, and lives on.
    let claim = f.act("agent:w1", Command::TaskClaim { task }).await;
    assert!(claim.unwrap_err().to_string().contains("newer"));
    assert!(f.store.ping().await.is_err());
    other.batch_execute("DELETE FROM migrations WHERE version = 99").await.unwrap();
    f.done("agent:w1", Command::TaskClaim { task }).await;
    f.store.ping().await.unwrap();
    other.batch_execute("UPDATE migrations SET checksum = 'x'").await.unwrap();
    let words = PostgresStore::open(schema(&f).url(), None).await.err().unwrap().to_string();
    assert!(words.contains("made by a different build"), "{words}");
}

#[tokio::test]
async fn doctor_sees_damage_and_lists_live_with_it() {
    let Some(f) = Fixture::postgres().await else { return };
    f.create("good", &[]).await;
    let bad = f.create("bad", &[]).await;
    let other = schema(&f).connect().await;
    let damage = "UPDATE tasks SET checks = '{', open_deps = 3, label = 'done', \
                      assignee = 'agent:x' WHERE title = 'bad'";
    other.batch_execute(damage).await.unwrap();
    let query = TaskQuery::of(f.home.project.id, f.policy.clone());
    let titles: Vec<_> =
        f.store.tasks(query).await.unwrap().into_iter().map(|row| row.task.title).collect();
    assert_eq!(titles, ["good"]);
    assert!(f.store.task("default", bad).await.is_err());
    let found: Vec<_> = f.store.verify().await.unwrap().into_iter().map(|f| f.what).collect();
    for what in ["open-deps counter", "status differs", "assignee differs", "cannot be read"] {
        assert!(found.iter().any(|finding| finding.contains(what)), "{what} not in {found:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_stored_or_reached_is_said() {
    let Some(f) = Fixture::postgres().await else { return };
    let create = Command::TaskCreate(f.new_task("nul \0 here", &[]));
    assert_eq!(f.code("human:ana", create).await, "INVALID_INPUT");
    let nobody = "postgres://ana:secret@127.0.0.1:1/board";
    let words = PostgresStore::open(nobody, None).await.err().unwrap().to_string();
    assert!(words.contains("cannot be reached") && !words.contains("secret"), "{words}");
}

#[tokio::test]
async fn the_database_has_the_only_clock() {
    let Some(f) = Fixture::postgres().await else { return };
    let store = PostgresStore::open(schema(&f).url(), None).await.unwrap();
    let other = schema(&f).connect().await;
    let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let before: i64 = other.query_one(clock, &[]).await.unwrap().get(0);
    let task = f.create("a", &[]).await;
    let applied = store.apply(f.op("agent:w", Command::TaskClaim { task })).await.unwrap();
    let after: i64 = other.query_one(clock, &[]).await.unwrap().get(0);
    assert!((before..=after).contains(&applied.at.0), "{before} {:?} {after}", applied.at);
    assert!(store.now() >= applied.at);
    // The server's clock was set back: the store's time goes on from its newest time.
    let ahead = after + 3_600_000_000;
    let newest = "UPDATE events SET at = $1 WHERE seq = (SELECT max(seq) FROM events)";
    other.execute(newest, &[&ahead]).await.unwrap();
    let text = "later".to_owned();
    let noted = store.apply(f.op("agent:w", Command::TaskNote { task, text })).await.unwrap();
    assert!((ahead..ahead + 60_000_000).contains(&noted.at.0), "{ahead} {:?}", noted.at);
    assert!(store.now() > noted.at);
}

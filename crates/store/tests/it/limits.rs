//! A PostgreSQL that does not answer, or not soon: callers still get an answer in time.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;
use callboard_store::postgres::PostgresStore;
use callboard_store::transfer::{Address, transfer};
use callboard_store::{ApplyError, Store, StoreError};
use futures_util::future;
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::fixture::Fixture;
use crate::postgres::schema;
use crate::proxy::Proxy;
use crate::schema::Schema;

fn assert_unavailable<T>(done: Result<T, StoreError>) {
    match done {
        Err(StoreError::Unavailable(words)) => assert!(words.contains("in time"), "{words}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("an answer from nowhere"),
    }
}

/// Time stands still while bytes move and leaps ahead when everything waits.
#[tokio::test]
async fn silence_ends_in_an_answer_and_passes() {
    let Some(f) = Fixture::postgres().await else { return };
    let proxy = Proxy::to(schema(&f).server()).await;
    let url = schema(&f).url_via(proxy.address());
    let store = PostgresStore::open(&url, Some(f.clock.clone())).await.unwrap();
    let task = f.create("a", &[]).await;
    store.apply(f.op("agent:w", Command::TaskClaim { task })).await.unwrap();
    proxy.swallow();
    tokio::time::pause();

    let began = Instant::now();
    assert_unavailable(store.last_seq().await);
    assert!(began.elapsed() <= Duration::from_secs(20), "{:?}", began.elapsed());
    // There are more readers than connections, and each would hang. No reader hangs twice, first with the group
    // before it and then with its own.
    let began = Instant::now();
    let readers = async {
        tokio::task::yield_now().await;
        future::join_all((0..40).map(|_| store.task("default", task))).await
    };
    let (first, others) = future::join(store.task("default", task), readers).await;
    assert_unavailable(first);
    others.into_iter().for_each(assert_unavailable);
    assert!(began.elapsed() <= Duration::from_secs(20), "{:?}", began.elapsed());
    let began = Instant::now();
    for attempt in 0..2 {
        let text = format!("{attempt}");
        match store.apply(f.op("agent:w", Command::TaskNote { task, text })).await {
            Err(ApplyError::Store(StoreError::Unavailable(_))) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(began.elapsed() <= Duration::from_secs(90), "{:?}", began.elapsed());
    assert_unavailable(PostgresStore::open(&url, None).await);

    tokio::time::resume();
    proxy.carry_on();
    let text = "again".to_owned();
    store.apply(f.op("agent:w", Command::TaskNote { task, text })).await.unwrap();
    assert_eq!(store.last_seq().await.unwrap(), 3);
    f.assert_sound().await;
}

/// The address of a store whose statements time out after 200 ms.
fn hasty(schema: &Schema) -> String {
    format!("{}&options=-c%20statement_timeout%3D200", schema.url())
}

/// A client that locks a whole table.
struct Holder<'a> {
    schema: &'a Schema,
    held: Client,
}

impl<'a> Holder<'a> {
    async fn of(schema: &'a Schema) -> Self {
        let held = schema.connect().await;
        held.batch_execute("BEGIN; LOCK tasks").await.unwrap();
        Self { schema, held }
    }

    /// Releases the lock once a statement has waited for so long that a later read timed out.
    async fn let_go_late(self, store: &PostgresStore, task: TaskId) {
        let watcher = self.schema.connect().await;
        let waits =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tasks'::regclass";
        while watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        let error = store.task("default", task).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert!(error.to_string().contains("took too long; try again"), "{error}");
        self.held.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_statement_is_given_up_and_a_long_look_is_not() {
    let Some(f) = Fixture::postgres().await else { return };
    let store = Arc::new(PostgresStore::open(&hasty(schema(&f)), None).await.unwrap());
    let task = f.create("a", &[]).await;
    let holder = Holder::of(schema(&f)).await;
    let looking = store.clone();
    let looking = tokio::spawn(async move { looking.verify().await });
    holder.let_go_late(&store, task).await;
    assert_eq!(looking.await.unwrap().unwrap(), Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_move_is_not_given_up_at_either_end() {
    let (Some(f), Some(target)) = (Fixture::postgres().await, Schema::new()) else { return };
    let task = f.create("a", &[]).await;
    let urls = [hasty(schema(&f)), hasty(&target)];
    let from = PostgresStore::open(&urls[0], None).await.unwrap();
    let to = PostgresStore::open(&urls[1], None).await.unwrap();
    let (left, right) = (Holder::of(schema(&f)).await, Holder::of(&target).await);
    let clock = f.clock.clone();
    let moving = tokio::spawn(async move {
        let [from, to] = urls.map(Address::Postgres);
        transfer(&from, &to, clock, Arc::new(|_| {})).await
    });
    // The reader comes to this table only when the writer takes rows again.
    right.let_go_late(&to, task).await;
    left.let_go_late(&from, task).await;
    assert_eq!(moving.await.unwrap().unwrap().findings, []);
    assert_eq!(to.task("default", task).await.unwrap().unwrap().task.title, "a");
}

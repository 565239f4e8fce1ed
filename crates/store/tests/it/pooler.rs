//! What only a pooler in transaction mode can show: whatever is left on a server reaches another client.

use std::sync::Arc;

use callboard_domain::command::Command;
use callboard_store::Store;
use callboard_store::postgres::PostgresStore;
use futures_util::future;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::fixture::{Fixture, place};
use crate::postgres::{assert_no_gaps, schema};
use crate::schema::Schema;

/// Two boards, each with several processes, on the few servers that the pooler lends.
#[tokio::test(flavor = "multi_thread")]
async fn boards_that_share_servers_do_not_mix() {
    const ROUNDS: usize = 10;
    const TASKS: usize = 20;
    let (Some(ours), Some(theirs)) = (Fixture::pooled().await, Fixture::pooled().await) else {
        return;
    };
    let boards = [Arc::new(ours), Arc::new(theirs)];
    let work = boards.iter().map(|board| async move {
        let servers = [board.clone(), Arc::new(board.neighbour().await)];
        for round in 0..ROUNDS {
            let create = |n| async move { board.create(&format!("{round}-{n}"), &[]).await };
            let tasks = future::join_all((0..TASKS).map(create)).await;
            let claims = (0..TASKS * 4).map(|n| {
                let (server, task) = (servers[n % 2].clone(), tasks[n % TASKS]);
                tokio::spawn(async move {
                    server.record(task).await;
                    server.code(&format!("agent:{n}"), Command::TaskClaim { task }).await
                })
            });
            let said = future::join_all(claims).await;
            let won = said.iter().filter(|said| said.as_ref().unwrap().is_empty()).count();
            assert_eq!(won, TASKS, "round {round}");
        }
    });
    future::join_all(work).await;
    for board in &boards {
        assert_eq!(board.store.last_seq().await.unwrap(), (ROUNDS * TASKS * 2) as u64);
        assert_no_gaps(board).await;
        board.assert_sound().await;
    }
    // Each of these has a server for itself until all are done.
    let (address, _) = schema(&boards[0]).url().split_once('?').expect("a query");
    let mut lines = Vec::new();
    for _ in 0..4 {
        let line = connect(address).await;
        let said = line.simple_query("BEGIN; SELECT name FROM pg_prepared_statements").await;
        let rows = said.unwrap().into_iter().filter(|m| matches!(m, SimpleQueryMessage::Row(_)));
        assert_eq!(rows.count(), 0, "a statement was left behind");
        lines.push(line);
    }
}

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// PgBouncer refuses the options of a connection, or drops them when it is told to.
#[tokio::test]
async fn a_pooler_is_noticed_by_what_it_does_with_options() {
    let Some(pooled) = Schema::pooled() else { return };
    let with_options = format!("{}&options=-c%20jit%3Doff", pooled.url());
    let words = PostgresStore::open(&with_options, None).await.err().unwrap().to_string();
    assert!(words.contains("leave them out of store.url"), "{words}");
    let (base, _) = pooled.url().split_once("/postgres?").expect("a database and a query");
    let console = format!("{base}/pgbouncer");
    let admin = connect(&console).await;
    admin.batch_execute("SET ignore_startup_parameters = 'options'").await.unwrap();
    let opened = PostgresStore::open(pooled.url(), None).await;
    admin.batch_execute("SET ignore_startup_parameters = ''").await.unwrap();
    opened.unwrap().settle(place("default")).await.unwrap();
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    let made = pooled.connect().await.query_one(tables, &[]).await.unwrap().get::<_, i64>(0);
    assert!(made > 5, "{made} tables in the schema that was asked for");
}

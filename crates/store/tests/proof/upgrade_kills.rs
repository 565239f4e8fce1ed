//! A migration of PostgreSQL whose server process is killed after any step goes on at the next start.

use callboard_store::postgres::PostgresStore;

use crate::schema::Schema;
use crate::upgrade_board::{
    BOARDS, Board, LATEST, assert_kept, assert_moved, assert_sound, clock, rows_of_schema,
};

/// How often a store tries work again whose connection broke.
const TRIES: u32 = 3;

/// Ends the server's own process right after this step of a migration, so many times. A sequence counts what a rollback
/// would forget.
fn killer(step: u32, times: u32) -> String {
    format!(
        "CREATE SEQUENCE kills; \
         CREATE FUNCTION kill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF nextval('kills') <= {times} THEN \
                 PERFORM pg_terminate_backend(pg_backend_pid()); \
                 PERFORM pg_sleep(60); \
             END IF; \
             RETURN NULL; \
         END $$; \
         CREATE TRIGGER kill AFTER INSERT ON migrations FOR EACH ROW WHEN (NEW.version = {step}) \
             EXECUTE FUNCTION kill()"
    )
}

/// Migrates a board whose server process is killed so often. Returns how often the store had to be opened.
async fn migrate(board: &Board, schema: &Schema, step: u32, times: u32) -> u32 {
    let place = format!("from {}, killed {times} times after step {step}", board.version);
    let old = board.load(schema).await;
    let by = schema.connect().await;
    by.batch_execute(&killer(step, times)).await.unwrap();
    let mut opened = 0;
    let store = loop {
        opened += 1;
        match PostgresStore::open(schema.url(), Some(clock())).await {
            Ok(store) => break store,
            Err(error) => assert!(opened <= times, "{place}: {error}"),
        }
        // Every step is undone: all of them are one transaction.
        assert!(rows_of_schema(&by).await == old, "{place}: a step is left");
    };
    assert_sound(&store, &place).await;
    let new = rows_of_schema(&by).await;
    assert_eq!(new["migrations"].len() as u32, *LATEST, "{place}");
    assert_kept(&old, &new, &place);
    assert_moved(&old, &new, &place);
    let kills = by.query_one("SELECT last_value FROM kills", &[]).await.unwrap();
    assert_eq!(kills.get::<_, i64>(0), i64::from(times) + 1, "{place}");
    opened
}

#[tokio::test]
async fn a_migration_of_postgresql_that_is_killed_after_any_step_goes_on() {
    for board in BOARDS {
        for step in board.version + 1..=*LATEST {
            let Some(schema) = Schema::new() else { return };
            assert_eq!(migrate(board, &schema, step, TRIES).await, 2);
        }
    }
}

#[tokio::test]
async fn a_migration_of_postgresql_that_is_killed_once_goes_on_by_itself() {
    for board in BOARDS {
        let Some(schema) = Schema::new() else { return };
        assert_eq!(migrate(board, &schema, *LATEST, 1).await, 1);
    }
}

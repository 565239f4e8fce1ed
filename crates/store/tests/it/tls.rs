//! Encrypted connections, against the server of `scripts/postgres` and the certificates it made.

use std::sync::Arc;

use callboard_domain::command::Command;
use callboard_store::clock::SystemClock;
use callboard_store::postgres::PostgresStore;
use callboard_store::transfer::{Address, transfer};
use callboard_store::{Store, StoreError};

use crate::conformance::Heard;
use crate::fixture::Fixture;
use crate::postgres::schema;
use crate::proxy::Proxy;
use crate::schema::Schema;
use crate::skipped::skipped;

/// A board on a server whose certificate is for `localhost`, and the folder of its certificates.
struct Encrypted {
    f: Fixture,
    folder: String,
}

impl Encrypted {
    /// `None` when the server was not started by `scripts/postgres`: its certificates are unknown.
    async fn new() -> Option<Self> {
        let f = Fixture::postgres().await?;
        let shown = schema(&f).connect().await.query_one("SHOW ssl_cert_file", &[]).await.unwrap();
        let Some(folder) = shown.get::<_, String>(0).strip_suffix("/server.crt").map(str::to_owned)
        else {
            skipped("the server was not started by scripts/postgres");
            return None;
        };
        Some(Self { f, folder })
    }

    /// The application name of a store with these parameters, by which the server knows it.
    fn name(&self, asked: &str) -> String {
        asked.chars().filter(char::is_ascii_alphabetic).collect()
    }

    fn url(&self, host: &str, asked: &str) -> String {
        let port = schema(&self.f).server().rsplit_once(':').expect("HOST:PORT").1;
        let url = schema(&self.f).url_via(&format!("{host}:{port}")).replacen('@', ":secret@", 1);
        let (name, asked) = (self.name(asked), asked.replace("FOLDER", &self.folder));
        format!("{url}&application_name={name}&{asked}")
    }

    /// How many connections such a store has, and how many of them are encrypted.
    async fn connections(&self, asked: &str) -> (i64, i64) {
        let sql = "SELECT count(*), count(*) FILTER (WHERE s.ssl) \
             FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid) WHERE application_name = $1";
        let client = schema(&self.f).connect().await;
        let row = client.query_one(sql, &[&self.name(asked)]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

async fn words(url: &str) -> String {
    match PostgresStore::open(url, None).await {
        Ok(_) => String::new(),
        Err(StoreError::Unavailable(words)) => words,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_is_encrypted_that_should_be() {
    let Some(server) = Encrypted::new().await else { return };
    for (asked, encrypted) in [
        ("sslmode=disable", false),
        ("sslmode=prefer", true),
        ("sslmode=require", true),
        ("sslmode=require&sslrootcert=FOLDER/ca.crt", true),
        ("sslmode=verify-ca&sslrootcert=FOLDER/ca.crt", true),
        ("sslmode=verify-full&sslrootcert=FOLDER/ca.crt", true),
        // A server's own certificate is its own authority.
        ("sslmode=verify-full&sslrootcert=FOLDER/server.crt", true),
    ] {
        let store = PostgresStore::open(&server.url("localhost", asked), None).await.unwrap();
        let heard = Arc::new(Heard::default());
        store.publish_to(heard.clone());
        store.listen().await.unwrap();
        let task = server.f.create("by another process", &[]).await;
        heard.wait_for(1).await;
        store.apply(server.f.op("agent:w", Command::TaskClaim { task })).await.unwrap();
        let (all, with_tls) = server.connections(asked).await;
        assert!(all > 1, "{asked}: one works, one listens");
        assert_eq!(with_tls, if encrypted { all } else { 0 }, "{asked}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_the_right_one_is_refused() {
    let Some(server) = Encrypted::new().await else { return };
    for (host, asked, said) in [
        ("localhost", "sslmode=verify-ca&sslrootcert=FOLDER/stranger.crt", "not signed by"),
        ("localhost", "sslmode=verify-full&sslrootcert=FOLDER/stranger.crt", "not signed by"),
        ("localhost", "sslmode=require&sslrootcert=FOLDER/stranger.crt", "not signed by"),
        ("localhost", "sslmode=verify-full", "not signed by"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=FOLDER/ca.crt", "for another host"),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=FOLDER/ca.crt", ""),
        ("localhost", "sslmode=verify-ca&sslrootcert=FOLDER/no-such.crt", "cannot be read"),
        ("localhost", "sslmode=verify-ca&sslrootcert=FOLDER/ca.key", "must be a PEM file"),
    ] {
        let words = words(&server.url(host, asked)).await;
        assert!(words.contains(said) && words.is_empty() == said.is_empty(), "{asked}: {words}");
        assert!(!words.contains("secret"), "{words}");
    }
}

/// A proxy on the way claims that the server does not encrypt.
#[tokio::test(flavor = "multi_thread")]
async fn who_requires_tls_is_not_talked_out_of_it() {
    let Some(schema) = Schema::new() else { return };
    let proxy = Proxy::to(schema.server()).await;
    let url = schema.url_via(proxy.address());
    let said = words(&format!("{url}&sslmode=require")).await;
    assert!(said.contains("does not encrypt: turn ssl on there"), "{said}");
    let (clock, file) = (Arc::new(SystemClock), Address::Sqlite("none.db".into()));
    let from = Address::Postgres(format!("{url}&sslmode=require"));
    let said = transfer(&from, &file, clock, Arc::new(|_| {})).await.unwrap_err().to_string();
    assert!(said.contains("the source: this PostgreSQL does not encrypt"), "{said}");
    let said = words(&format!("{url}&sslmode=prefer")).await;
    assert_eq!(said, "", "who only prefers it goes on without");
}

//! Where the database is: a `postgres://` address, and the schema in it.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::StoreError;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unanswered until the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(20);

const NO_TLS: &str = "this callboard cannot speak TLS to PostgreSQL yet; use sslmode=disable inside \
     a trusted network, or a tunnel";

pub(super) struct Address {
    pub config: Config,
    /// Named by `search_path=…` in the address; made when missing. `None`: the user's default.
    pub schema: Option<String>,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let (url, schema) = without_schema(url)?;
        // The driver knows no `verify-ca` and `verify-full`.
        if url.contains("sslmode=verify") {
            return Err(unusable(NO_TLS));
        }
        // The driver's words may repeat parts of the address, so they are not passed on.
        let mut config: Config = url.parse().map_err(|_| {
            unusable("it is no address like postgres://USER:PASSWORD@HOST:5432/DATABASE")
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(unusable(NO_TLS));
        }
        if let Some(schema) = &schema {
            let before = config.get_options().map(|o| format!("{o} ")).unwrap_or_default();
            config.options(format!("{before}-c search_path={schema}"));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        if config.get_application_name().is_none() {
            config.application_name("callboard");
        }
        Ok(Self { config, schema })
    }
}

fn unusable(words: &str) -> StoreError {
    StoreError::Unavailable(format!("store.url cannot be used: {words}"))
}

/// Takes `search_path=NAME` out of the address; the driver knows no such key.
fn without_schema(url: &str) -> Result<(String, Option<String>), StoreError> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
    let mut schema = None;
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.strip_prefix("search_path=") {
            None => kept.push(pair),
            Some(name) if is_plain(name) => schema = Some(name.to_owned()),
            Some(_) => {
                return Err(unusable(
                    "search_path names one schema: small letters, digits and '_', at most 63",
                ));
            }
        }
    }
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    Ok((format!("{base}{query}"), schema))
}

/// A name that needs no quotes anywhere.
fn is_plain(name: &str) -> bool {
    let mut characters = name.bytes();
    let first = characters.next().is_some_and(|c| c.is_ascii_lowercase() || c == b'_');
    let rest = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    first && name.len() <= 63 && characters.all(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(url: &str) -> String {
        Address::parse(url).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_schema_is_taken_out_of_the_address() {
        let address = Address::parse(
            "postgres://ana:secret@db.example:5433/board?search_path=team_1&connect_timeout=3",
        )
        .expect("an address");
        assert_eq!(address.schema.as_deref(), Some("team_1"));
        assert_eq!(address.config.get_options(), Some("-c search_path=team_1"));
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert!(Address::parse("postgresql://ana@db.example/board").expect("one").schema.is_none());
    }

    #[test]
    fn what_cannot_be_used_is_said_without_the_password() {
        for url in [
            "postgres://ana:secret@db.example:port/board",
            "postgres://ana:secret@db.example/board?sslmode=require",
            "postgres://ana:secret@db.example/board?sslmode=verify-full",
            "postgres://ana:secret@db.example/board?search_path=a;drop",
            "postgres://ana:secret@db.example/board?nonsense=1",
        ] {
            let words = words(url);
            assert!(words.starts_with("store.url cannot be used") && !words.contains("secret"));
        }
    }
}

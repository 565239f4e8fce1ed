//! The database's address: `postgres://`, the schema in it, and how the connection is encrypted.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::StoreError;
use crate::postgres::connections::STATEMENT_MS;
use crate::postgres::tls::{self, Mode, Roots};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged until the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(20);
/// The keepalive interval of an idle connection; the driver's own two hours outlast most routers.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_UNSET: Duration = Duration::from_secs(2 * 60 * 60);

/// A setting among a connection's startup options. A server that has it is reached directly: poolers refuse startup
/// options or drop them.
pub(crate) const MARK: &str = "callboard.line";
pub(crate) const MARKED: &str = "own";

pub(crate) struct Address {
    /// Without the options that a pooler may refuse.
    pub config: Config,
    pub tls: MakeRustlsConnect,
    /// Named by `search_path=…` in the address; created when missing. `None`: the user's default.
    pub schema: Option<String>,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let Asked { url, schema, mode, roots } = Asked::of(url)?;
        // The driver's message may repeat parts of the address, so it is not passed on.
        let mut config: Config = url.parse().map_err(|_| {
            unusable("it is no address like postgres://USER:PASSWORD@HOST:5432/DATABASE")
        })?;
        // `system` is libpq's own word, so an address for `psql` works here as it is.
        let named = match &roots {
            None => Roots::Unnamed,
            Some(path) if path.as_os_str() == "system" => Roots::System,
            Some(path) => Roots::File(path),
        };
        let tls = tls::connector(mode, named).map_err(|words| unusable(&words))?;
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            // The driver knows no stricter word. The checks of a certificate are in the connector that `tls` made.
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        // An address that names a limit of its own keeps it.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        // The driver has no `None` for this value, so its default is taken for "not set".
        if config.get_keepalives_idle() == KEEPALIVE_UNSET {
            config.keepalives_idle(KEEPALIVE);
        }
        if config.get_application_name().is_none() {
            config.application_name("callboard");
        }
        Ok(Self { config, tls, schema })
    }

    /// The configuration for a connection without a pooler: its startup options hold the mark, and everything that
    /// each transaction would have to set otherwise.
    pub fn direct(&self) -> Config {
        let mut options = format!("-c {MARK}={MARKED} -c statement_timeout={STATEMENT_MS}");
        // After ours, so that an address may set a `statement_timeout` of its own: the last one counts.
        options.extend(self.config.get_options().map(|own| format!(" {own}")));
        options.extend(self.schema.as_ref().map(|schema| format!(" -c search_path={schema}")));
        let mut config = self.config.clone();
        config.options(options);
        config
    }
}

fn unusable(words: &str) -> StoreError {
    StoreError::Unavailable(format!("store.url cannot be used: {words}"))
}

/// An address without the parameters that the driver does not know; these are beside it.
struct Asked {
    url: String,
    schema: Option<String>,
    mode: Mode,
    roots: Option<PathBuf>,
}

impl Asked {
    fn of(url: &str) -> Result<Self, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut mode, mut roots) = (None, Mode::Prefer, None);
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                // The name goes into SQL and startup options as it is, so only one that needs no quotes is accepted.
                Some(("search_path", name)) if is_plain(name) => schema = Some(name.to_owned()),
                Some(("search_path", _)) => {
                    return Err(unusable(
                        "search_path names one schema: small letters, digits and '_', at most 63",
                    ));
                }
                Some(("sslmode", word)) => {
                    mode = Mode::parse(word).ok_or_else(|| {
                        let known = "disable, prefer, require, verify-ca or verify-full";
                        unusable(&format!("sslmode must be {known}"))
                    })?;
                }
                Some(("sslrootcert", path)) => {
                    let path = percent_decode_str(path).decode_utf8();
                    let path = path.map_err(|_| unusable("sslrootcert must be UTF-8"))?;
                    roots = Some(PathBuf::from(path.as_ref()));
                }
                _ => kept.push(pair),
            }
        }
        let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
        Ok(Self { url: format!("{base}{query}"), schema, mode, roots })
    }
}

/// Whether a name needs no quotes anywhere.
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
            "postgres://ana:secret@db.example:5433/board?search_path=team_1&options=-c%20jit%3Doff&connect_timeout=3",
        )
        .expect("an address");
        assert_eq!(address.schema.as_deref(), Some("team_1"));
        assert_eq!(address.config.get_options(), Some("-c jit=off"));
        let direct = address.direct();
        let options = direct.get_options().expect("some");
        assert!(options.starts_with("-c callboard.line=own -c statement_timeout=10000 "));
        assert!(options.ends_with(" -c jit=off -c search_path=team_1"), "{options}");
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert!(Address::parse("postgresql://ana@db.example/board").expect("one").schema.is_none());
    }

    #[test]
    fn what_is_asked_of_the_server_is_taken_out_of_the_address() {
        for (asked, mode) in [
            ("", SslMode::Prefer),
            ("?sslmode=disable", SslMode::Disable),
            ("?sslmode=require", SslMode::Require),
            ("?sslmode=verify-full&sslrootcert=system", SslMode::Require),
        ] {
            let address = Address::parse(&format!("postgres://ana@db.example/board{asked}"));
            assert_eq!(address.expect(asked).config.get_ssl_mode(), mode, "{asked}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_said_without_the_password() {
        for url in [
            "postgres://ana:secret@db.example:port/board",
            "postgres://ana:secret@db.example/board?sslmode=always",
            "postgres://ana:secret@db.example/board?sslmode=verify-ca",
            "postgres://ana:secret@db.example/board?sslmode=require&sslrootcert=system",
            "postgres://ana:secret@db.example/board?sslmode=verify-full&sslrootcert=no%20such.crt",
            "postgres://ana:secret@db.example/board?sslrootcert=ca.crt",
            "postgres://ana:secret@db.example/board?search_path=a;drop",
            "postgres://ana:secret@db.example/board?nonsense=1",
        ] {
            let words = words(url);
            assert!(words.starts_with("store.url cannot be used") && !words.contains("secret"));
        }
    }
}

//! PostgreSQL's errors in words that a caller can act on. Passwords never get this far: the driver leaves them out
//! of its messages.

use std::error::Error as _;
use std::io;

use deadpool_postgres::PoolError;
use rustls::CertificateError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::StoreError;

pub(crate) type Result<T, E = Trouble> = std::result::Result<T, E>;

/// An error inside this backend, before the decision whether to retry.
#[derive(Debug)]
pub(crate) enum Trouble {
    Database(Error),
    Store(StoreError),
}

impl Trouble {
    fn state(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.code(),
            Self::Store(_) => None,
        }
    }

    /// Whether another process was faster; the work may succeed when it is retried.
    pub fn is_conflict(&self) -> bool {
        const CONFLICTS: [SqlState; 4] = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_SCHEMA,
        ];
        self.state().is_some_and(|state| CONFLICTS.contains(state))
    }

    /// Whether the connection is gone or about to be.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Database(error) => is_lost(error),
            Self::Store(_) => false,
        }
    }

    /// Whether the server is a standby, or set to read only.
    pub fn is_read_only(&self) -> bool {
        self.state() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    pub fn is_of_a_pooler(&self) -> bool {
        matches!(self, Self::Database(error) if is_of_a_pooler(error))
    }

    /// Whether a text holds U+0000, which PostgreSQL cannot store.
    pub fn is_unstorable_text(&self) -> bool {
        const UNSTORABLE: [SqlState; 2] =
            [SqlState::CHARACTER_NOT_IN_REPERTOIRE, SqlState::UNTRANSLATABLE_CHARACTER];
        self.state().is_some_and(|state| UNSTORABLE.contains(state))
    }
}

/// Whether this is PgBouncer's answer to options it cannot pass on; PostgreSQL has no such message.
fn is_of_a_pooler(error: &Error) -> bool {
    let said = error.as_db_error().map(|said| said.message());
    said.is_some_and(|words| words.contains("unsupported startup parameter"))
}

fn is_lost(error: &Error) -> bool {
    match error.code() {
        _ if is_of_a_pooler(error) => false,
        // Class 57P: shut down, crashed, starting; class 08: the connection itself; 25P03: idle in
        // a transaction for too long.
        Some(state) => ["57P", "08", "25P03"].iter().any(|class| state.code().starts_with(class)),
        None if handshake(error).is_some() => false,
        None => error.is_closed() || error.source().is_some_and(|cause| cause.is::<io::Error>()),
    }
}

/// The TLS error of either side.
fn handshake(error: &Error) -> Option<&rustls::Error> {
    error.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

/// Whether the server has no TLS. The driver has no type for this error, only its text.
fn speaks_no_tls(error: &Error) -> bool {
    error.source().is_some_and(|cause| cause.to_string() == "server does not support TLS")
}

fn advice_on_tls(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(fault) => match fault {
            CertificateError::UnknownIssuer => {
                "PostgreSQL's certificate is not signed by an authority that is trusted here; name \
                 the right one with sslrootcert=PATH in store.url"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "PostgreSQL's certificate is for another host; use the name it is for in store.url, \
                 or sslmode=verify-ca"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "PostgreSQL's certificate is too old; give the server a new one"
            }
            _ => "PostgreSQL's certificate cannot be checked; give the server another one",
        },
        _ => {
            "PostgreSQL and this side do not agree on TLS; look at the server's ssl settings, or \
             use sslmode=disable in a network you trust"
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PoolError> for Trouble {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Database(error),
            PoolError::Timeout(_) => Self::Store(StoreError::Unavailable(
                "no connection to PostgreSQL became free in time; try again".into(),
            )),
            other => Self::Store(StoreError::Internal(other.to_string())),
        }
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Database(error) => from_postgres(&error),
            Trouble::Store(error) => error,
        }
    }
}

/// The driver's short message with the cause that it leaves out.
fn words(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} [{}]", said.message(), said.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

fn from_postgres(error: &Error) -> StoreError {
    let unavailable =
        |advice: &str| StoreError::Unavailable(format!("{advice} ({})", words(error)));
    let state = error.code().map_or("", SqlState::code);
    if let Some(refused) = handshake(error) {
        return unavailable(advice_on_tls(refused));
    }
    match state {
        _ if is_of_a_pooler(error) => unavailable(
            "the pooler in front of PostgreSQL hands no options on; leave them out of store.url",
        ),
        _ if speaks_no_tls(error) => unavailable(
            "this PostgreSQL does not encrypt: turn ssl on there, or use sslmode=prefer in a \
             network you trust",
        ),
        _ if is_lost(error) => unavailable(
            "PostgreSQL cannot be reached; check that it runs and that store.url names it, then \
             try again",
        ),
        state if state.starts_with("28") => {
            unavailable("PostgreSQL refuses the user or password of store.url")
        }
        "3D000" => unavailable("PostgreSQL has no such database; create it first"),
        "42501" => unavailable("the user of store.url may not do this in PostgreSQL"),
        "25006" => unavailable("this PostgreSQL is read-only; name the primary in store.url"),
        "57014" => unavailable("PostgreSQL took too long; try again"),
        "55P03" => unavailable("another server holds the same rows; try again"),
        state if state.starts_with("53") => unavailable("PostgreSQL is out of room or connections"),
        state if state.starts_with("40") => unavailable("too many writers at once; try again"),
        state if state.starts_with("XX00") => StoreError::Corrupt(format!(
            "the database is damaged; restore a backup ({})",
            words(error)
        )),
        _ => StoreError::Internal(words(error)),
    }
}

//! Where the keys of an issuer come from, and how long they count. Callers decide when a key is unknown, so the number of
//! fetches is bounded by time, whatever callers send.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callboard_domain::issuer::IssuerFault;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use tokio::io::AsyncReadExt;
use tokio::sync::OnceCell;

use super::keys::KeySet;
use crate::wire::{self, Wire, chain};

/// From the first byte of a connection to the last of the answer.
const FETCH_TIME_MAX: Duration = Duration::from_secs(5);
const KEYS_BYTES_MAX: usize = 256 * 1024;

/// The place where an issuer publishes its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerKeys {
    Url(Uri),
    File(PathBuf),
}

impl IssuerKeys {
    /// Reads an address or a path. The error says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "write the https URL of the issuer's JWKS, an http URL on loopback, or an absolute path";
        if !text.contains("://") {
            let path = PathBuf::from(text);
            return match path.is_absolute() {
                true => Ok(Self::File(path)),
                false => Err(format!("'{text}' is not an absolute path; {expected}")),
            };
        }
        // The text may hold a password, so the error does not repeat it.
        let uri: Uri = text.parse().map_err(|_| format!("is no URL; {expected}"))?;
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        if authority.is_empty() || authority.contains('@') {
            return Err(format!("must have a host, and no user or password; {expected}"));
        }
        match uri.scheme_str() {
            Some("https") => Ok(Self::Url(uri)),
            // Who can change an answer on its way can sign tokens.
            Some("http") if uri.host().is_some_and(is_loopback) => Ok(Self::Url(uri)),
            _ => Err(expected.to_owned()),
        }
    }

    /// Refuses a file that has no keys. An address is asked at the first token: an issuer that is down must not keep the
    /// server from starting.
    pub async fn judge(&self) -> Result<(), String> {
        let Self::File(_) = self else { return Ok(()) };
        let source = KeySource::new(self.clone(), KeyTimes::default());
        let found = source.fetch().await;
        let words = match found {
            Ok(keys) if !keys.is_empty() => return Ok(()),
            Ok(_) => "it has no key that verifies signatures".to_owned(),
            Err(words) => words,
        };
        Err(format!("cannot use the keys in {self}: {words}"))
    }
}

impl std::fmt::Display for IssuerKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(uri) => uri.fmt(f),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

/// How long keys count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTimes {
    /// Keys of this age are fetched again.
    pub fresh: Duration,
    /// The shortest time between two fetches.
    pub again: Duration,
    /// Keys of this age no longer count, also while the issuer cannot be reached.
    pub held: Duration,
}

impl Default for KeyTimes {
    fn default() -> Self {
        Self {
            fresh: Duration::from_secs(10 * 60),
            again: Duration::from_secs(30),
            held: Duration::from_secs(24 * 3600),
        }
    }
}

/// The keys of one issuer, fetched when they are needed.
pub(super) struct KeySource {
    from: IssuerKeys,
    times: KeyTimes,
    wire: OnceCell<Wire>,
    /// Held during a fetch. A caller that waited for the lock finds the result of that fetch.
    turn: tokio::sync::Mutex<()>,
    kept: Mutex<KeptKeys>,
}

#[derive(Clone, Default)]
struct KeptKeys {
    set: Option<Arc<KeySet>>,
    /// The end of the last fetch, successful or not.
    tried: Option<Instant>,
}

impl KeySource {
    pub(super) fn new(from: IssuerKeys, times: KeyTimes) -> Self {
        let (wire, turn) = (OnceCell::new(), tokio::sync::Mutex::new(()));
        Self { from, times, wire, turn, kept: Mutex::default() }
    }

    /// The keys that count now.
    pub(super) async fn keys(self: &Arc<Self>) -> Result<Arc<KeySet>, IssuerFault> {
        let age = |set: &Arc<KeySet>| set.fetched.elapsed();
        let known = self.kept().set.clone().filter(|set| age(set) < self.times.held);
        match known {
            Some(set) if age(&set) < self.times.fresh => return Ok(set),
            // Another caller fetches; old keys count meanwhile.
            Some(set) if self.turn.try_lock().is_err() => return Ok(set),
            _ => self.refresh().await,
        }
        let known = self.kept().set.clone().filter(|set| age(set) < self.times.held);
        known.ok_or(IssuerFault::Unreachable)
    }

    /// The keys after those that have not the one that a token names.
    pub(super) async fn after(self: &Arc<Self>, seen: &Arc<KeySet>) -> Arc<KeySet> {
        self.refresh().await;
        self.kept().set.clone().unwrap_or_else(|| seen.clone())
    }

    /// Fetches the keys, unless that was done a moment ago.
    async fn refresh(self: &Arc<Self>) {
        if self.was_tried() {
            return;
        }
        let source = self.clone();
        // In a task: a caller that hangs up must not end the fetch that others wait for.
        let fetch = tokio::spawn(async move {
            let _turn = source.turn.lock().await;
            if source.was_tried() {
                return;
            }
            let fetched = source.fetch().await;
            let mut kept = source.kept();
            kept.tried = Some(Instant::now());
            match fetched {
                Ok(set) => kept.set = Some(Arc::new(set)),
                Err(words) => {
                    tracing::warn!(from = %source.from, reason = words, "cannot fetch the keys of the token issuer");
                }
            }
        });
        if let Err(error) = fetch.await {
            tracing::error!(%error, "a fetch of keys failed");
        }
    }

    fn was_tried(&self) -> bool {
        self.kept().tried.is_some_and(|at| at.elapsed() < self.times.again)
    }

    /// One fetch, bounded in time and size. The error is for the log.
    async fn fetch(&self) -> Result<KeySet, String> {
        let bytes = async {
            match &self.from {
                IssuerKeys::Url(uri) => self.download(uri).await,
                IssuerKeys::File(path) => {
                    let mut bytes = Vec::new();
                    let file = tokio::fs::File::open(path).await.map_err(|e| e.to_string())?;
                    let mut file = file.take(KEYS_BYTES_MAX as u64 + 1);
                    file.read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
                    match bytes.len() > KEYS_BYTES_MAX {
                        true => Err(too_long()),
                        false => Ok(bytes.into()),
                    }
                }
            }
        };
        let bytes: Result<Bytes, String> = tokio::time::timeout(FETCH_TIME_MAX, bytes)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", FETCH_TIME_MAX.as_secs())));
        KeySet::read(&bytes?)
    }

    /// Redirects are not followed: the keys are those at the address that the operator wrote.
    async fn download(&self, uri: &Uri) -> Result<Bytes, String> {
        let wire = self.wire.get_or_try_init(|| wire::wire(uri.scheme_str() == Some("https")));
        let wire = wire.await.map_err(|error| chain(&error))?;
        let request = Request::get(uri)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::new()))
            .expect("a parsed URI and constant headers make a request");
        let response = wire.request(request).await.map_err(|error| chain(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("it answered {}", response.status()));
        }
        let body = Limited::new(response.into_body(), KEYS_BYTES_MAX).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => too_long(),
            None => chain(&*error),
        })?;
        Ok(body.to_bytes())
    }

    fn kept(&self) -> MutexGuard<'_, KeptKeys> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_long() -> String {
    format!("it has more than {} KiB", KEYS_BYTES_MAX / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_tls_from_this_machine_or_from_a_file() {
        for good in [
            "https://id.example/jwks",
            "http://127.0.0.1:8080/jwks",
            "http://[::1]:8080/jwks",
            "http://localhost/jwks",
            "/etc/callboard/jwks.json",
        ] {
            IssuerKeys::parse(good).unwrap_or_else(|words| panic!("{good}: {words}"));
        }
        for wrong in [
            "http://id.example/jwks",
            "http://127.0.0.1.evil.example/jwks",
            "http://localhost.example/jwks",
            "https://ana:secret@id.example/jwks",
            "https:///jwks",
            "ftp://id.example/jwks",
            "jwks.json",
        ] {
            let words = IssuerKeys::parse(wrong).expect_err("not accepted");
            assert!(words.contains("https URL") && !words.contains("secret"), "{wrong}: {words}");
        }
    }
}

//! One request to one forge: with the token, bounded in time, size and redirects, answered with JSON or a fault. The
//! token goes to the API root's own host and nowhere else. Text of a forge is cut and cleaned of the token before it is
//! shown.

use std::time::Duration;

use callboard_domain::forge::ForgeKind;
use callboard_engine::ports::ForgeFault;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, LOCATION, USER_AGENT,
};
use hyper::{Method, Request, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::rate;
use super::{ForgeSettingsError, ForgeToken};
use crate::wire::{self, Wire, chain};

/// GitHub's answer to a mutation.
pub(super) enum Mutation {
    Done,
    /// Refused, in GitHub's words.
    Refused(String),
}

/// From the first byte of a connection to the last of the answer, including redirects.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
const REDIRECTS_MAX: usize = 3;
const PER_PAGE: usize = 100;
/// GitHub lists at most 3,000 files, so 30 pages are enough for any list.
const PAGES_MAX: usize = 30;
/// A forge may answer with a whole page of HTML.
const WORDS_CHARS_MAX: usize = 300;

/// One forge: its API root, its token, and the connection pool, which is made at the first request.
pub(super) struct Api {
    kind: ForgeKind,
    /// The root without a trailing slash.
    root: String,
    origin: TokenOrigin,
    token: ForgeToken,
    authorization: HeaderValue,
    wire: OnceCell<Wire>,
}

/// The origin to which a token may go.
#[derive(PartialEq, Eq)]
struct TokenOrigin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

/// The pages of a list, each as the forge answered it.
pub(super) struct Pages<P> {
    pub pages: Vec<P>,
    /// Whether there are more items than were read.
    pub cut: bool,
}

struct ForgeResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Api {
    pub(super) fn new(
        kind: ForgeKind,
        url: &str,
        token: &ForgeToken,
    ) -> Result<Self, ForgeSettingsError> {
        let uri: Uri = url.parse().map_err(|_| ForgeSettingsError::Url(kind))?;
        let is_root = uri.query().is_none() && !url.contains('#');
        let origin =
            TokenOrigin::of(&uri).filter(|_| is_root).ok_or(ForgeSettingsError::Url(kind))?;
        let authorization = HeaderValue::try_from(format!("Bearer {}", token.reveal()));
        let mut authorization = authorization.map_err(|_| ForgeSettingsError::Token(kind))?;
        // Debug output of headers then hides the value.
        authorization.set_sensitive(true);
        let root = url.trim_end_matches('/').to_owned();
        let (token, wire) = (token.clone(), OnceCell::new());
        Ok(Self { kind, root, origin, token, authorization, wire })
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ForgeFault> {
        self.read(&self.ask(Method::GET, path, Bytes::new()).await?)
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, ForgeFault> {
        self.read(&self.ask(Method::POST, path, body.to_string().into()).await?)
    }

    pub(super) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, ForgeFault> {
        self.read(&self.ask(Method::PUT, path, body.to_string().into()).await?)
    }

    /// A mutation of GitHub's GraphQL API, for requests that REST does not have.
    pub(super) async fn mutate(
        &self,
        query: &str,
        variables: Value,
    ) -> Result<Mutation, ForgeFault> {
        #[derive(Deserialize)]
        struct Mutated {
            #[serde(default)]
            errors: Vec<Fault>,
        }
        #[derive(Deserialize)]
        struct Fault {
            #[serde(rename = "type")]
            kind: Option<String>,
            message: String,
        }
        // A GitHub server of one's own has `/api/v3` and `/api/graphql`.
        let root = self.root.strip_suffix("/v3").unwrap_or(&self.root);
        let body = json!({"query": query, "variables": variables}).to_string();
        let answer = self.ask_at(Method::POST, &format!("{root}/graphql"), body.into()).await?;
        let Mutated { errors } = self.read(&answer)?;
        let limited = |fault: &Fault| fault.kind.as_deref() == Some("RATE_LIMITED");
        match errors.into_iter().next() {
            None => Ok(Mutation::Done),
            Some(fault) if limited(&fault) => Err(ForgeFault::Unavailable {
                words: self.words(&format!("rate limited: {}", fault.message)),
                retry_after: rate::retry_after(&answer.headers),
            }),
            Some(fault) => Ok(Mutation::Refused(self.words(&fault.message))),
        }
    }

    /// Creates an item that the list does not have yet. The item may exist already: from an earlier call whose answer
    /// was lost, or from a caller just now.
    pub(super) async fn find_or_post<T: DeserializeOwned>(
        &self,
        list: &str,
        at: &str,
        wish: &Value,
    ) -> Result<T, ForgeFault> {
        if let Some(found) = self.first(list).await? {
            return Ok(found);
        }
        match self.post(at, wish).await {
            Err(refused @ ForgeFault::Refused(_)) => self.first(list).await?.ok_or(refused),
            made => made,
        }
    }

    async fn first<T: DeserializeOwned>(&self, list: &str) -> Result<Option<T>, ForgeFault> {
        let found: Vec<T> = self.get(list).await?;
        Ok(found.into_iter().next())
    }

    /// Every page of a list that belongs to an item already read.
    pub(super) async fn pages<P: DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
    ) -> Result<Pages<P>, ForgeFault> {
        let mut pages = Vec::new();
        for page in 1..=PAGES_MAX {
            let sign = if path.contains('?') { '&' } else { '?' };
            let at = format!("{path}{sign}per_page={PER_PAGE}&page={page}");
            let asked = self.ask(Method::GET, &at, Bytes::new()).await;
            let answer = asked.map_err(|fault| match fault {
                ForgeFault::NotFound => self.refused(&format!("the token may not see {what}")),
                other => other,
            })?;
            pages.push(self.read(&answer)?);
            if !has_next(&answer.headers) {
                return Ok(Pages { pages, cut: false });
            }
        }
        Ok(Pages { pages, cut: true })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<ForgeResponse, ForgeFault> {
        self.ask_at(method, &format!("{}{path}", self.root), body).await
    }

    async fn ask_at(
        &self,
        method: Method,
        url: &str,
        body: Bytes,
    ) -> Result<ForgeResponse, ForgeFault> {
        let answer = tokio::time::timeout(REQUEST_TIME_MAX, self.follow(method, url, body)).await;
        let late = format!("no answer within {} s", REQUEST_TIME_MAX.as_secs());
        let answer = answer.unwrap_or_else(|_| Err(self.unavailable(&late)))?;
        tracing::debug!(forge = %self.kind, url, status = answer.status.as_u16(), "asked a forge");
        if answer.status.is_success() { Ok(answer) } else { Err(self.fault(&answer)) }
    }

    /// Follows redirects, as GitHub answers for renamed repositories. `hop` refuses another origin, so the token stays
    /// where it belongs.
    async fn follow(
        &self,
        method: Method,
        url: &str,
        body: Bytes,
    ) -> Result<ForgeResponse, ForgeFault> {
        let mut uri: Uri = url.parse().map_err(|_| ForgeFault::NotFound)?;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.exchange(&method, uri, body.clone()).await?;
            // Other redirects would turn a write into a GET.
            let keeps_method = matches!(
                answer.status,
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            let moves = answer.status.is_redirection() && (method == Method::GET || keeps_method);
            match answer.headers.get(LOCATION) {
                Some(location) if moves => uri = self.hop(location)?,
                _ => return Ok(answer),
            }
        }
        Err(self.unavailable("it redirects too often"))
    }

    /// One request and its whole answer, at most `ANSWER_BYTES_MAX`.
    async fn exchange(
        &self,
        method: &Method,
        uri: Uri,
        body: Bytes,
    ) -> Result<ForgeResponse, ForgeFault> {
        let wire = self.wire.get_or_try_init(|| wire::wire(self.origin.scheme == "https"));
        let wire = wire.await.map_err(|error| self.unavailable(&chain(&error)))?;
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, &self.authorization)
            .header(USER_AGENT, concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, self.accepted())
            .body(Full::new(body))
            .expect("a parsed URI and constant headers make a request");
        let response = wire.request(request).await;
        let response = response.map_err(|error| self.unavailable(&chain(&error)))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => self.unavailable("its answer is too long"),
            None => self.unavailable(&chain(&*error)),
        })?;
        Ok(ForgeResponse { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    fn accepted(&self) -> &'static str {
        match self.kind {
            ForgeKind::GitHub => "application/vnd.github+json",
            ForgeKind::GitLab => "application/json",
        }
    }

    /// The target of a redirect: a renamed repository answers with its new place. Another host is never asked: it would
    /// need the token, and its answer is worth nothing without one.
    fn hop(&self, location: &HeaderValue) -> Result<Uri, ForgeFault> {
        let location = String::from_utf8_lossy(location.as_bytes());
        let is_path = location.starts_with('/') && !location.starts_with("//");
        let whole = if is_path { self.origin.with(&location) } else { location.into_owned() };
        let uri: Option<Uri> = whole.parse().ok();
        let uri = uri.filter(|uri| TokenOrigin::of(uri).is_some_and(|there| there == self.origin));
        uri.ok_or_else(|| {
            self.refused("it redirects to another address; if the forge moved, change its API root")
        })
    }

    fn read<T: DeserializeOwned>(&self, answer: &ForgeResponse) -> Result<T, ForgeFault> {
        serde_json::from_slice(&answer.body)
            .map_err(|error| self.unavailable(&format!("an answer that cannot be read: {error}")))
    }

    fn fault(&self, answer: &ForgeResponse) -> ForgeFault {
        let ForgeResponse { status, headers, body } = answer;
        let said = complaint(body);
        let words = match &said {
            Some(said) => format!("{} {said}", status.as_u16()),
            None => status.to_string(),
        };
        if let Some(wait) = rate::limit(*status, headers, said.as_deref()) {
            let words = self.words(&format!("rate limited: {words}"));
            return ForgeFault::Unavailable { words, retry_after: Some(wait) };
        }
        match *status {
            // Forges also answer 404 for what the token may not see.
            StatusCode::NOT_FOUND | StatusCode::GONE => ForgeFault::NotFound,
            StatusCode::UNAUTHORIZED => {
                self.refused(&format!("it does not accept the token: {words}"))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => self.unavailable(&words),
            status if status.is_client_error() => {
                self.refused(&format!("it refused the request: {words}"))
            }
            _ => {
                let words = self.words(&words);
                ForgeFault::Unavailable { words, retry_after: rate::retry_after(headers) }
            }
        }
    }

    fn refused(&self, words: &str) -> ForgeFault {
        ForgeFault::Refused(self.words(words))
    }

    fn unavailable(&self, words: &str) -> ForgeFault {
        ForgeFault::Unavailable { words: self.words(words), retry_after: None }
    }

    fn words(&self, words: &str) -> String {
        // The token goes first: a cut in the middle of it would leave a part.
        let clean = words.replace(self.token.reveal(), "(secret)");
        let clean = clean.chars().map(|c| if c.is_control() { ' ' } else { c });
        let clean: String = clean.take(WORDS_CHARS_MAX).collect();
        format!("{} at {}: {clean}", self.kind, self.origin.host)
    }
}

impl TokenOrigin {
    fn of(uri: &Uri) -> Option<Self> {
        // An address such as `https://github.com@other.example` shows a host that it does not reach.
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let port = authority.port_u16().filter(|port| *port != usual);
        Some(Self { scheme, host: authority.host().to_ascii_lowercase(), port })
    }

    fn with(&self, path: &str) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}{path}", self.scheme, self.host)
    }
}

fn has_next(headers: &HeaderMap) -> bool {
    let links = headers.get_all(LINK).iter().filter_map(|links| links.to_str().ok());
    links.flat_map(|links| links.split(',')).any(|link| link.contains("rel=\"next\""))
}

/// The forge's own error message: GitHub's is in `message`, GitLab's in any of the three fields.
fn complaint(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Complaint {
        message: Option<Value>,
        error_description: Option<String>,
        error: Option<Value>,
    }
    let complaint: Complaint = serde_json::from_slice(body).ok()?;
    let plain = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let Complaint { message, error_description, error } = complaint;
    message.map(plain).or(error_description).or(error.map(plain))
}

/// Escapes a value for a query.
pub(super) fn quoted(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

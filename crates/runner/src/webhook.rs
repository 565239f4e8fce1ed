//! Sends letters as webhooks: one POST, signed by the Standard Webhooks specification. Redirects are not followed.
//! Addresses are checked before a connection: one of this machine or its network is refused, unless allowed.

mod addresses;

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_domain::runs::delivery::Receipt;
use callboard_engine::ports::{Courier, Letter};
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use ring::hmac;
use tokio::sync::OnceCell;

use addresses::{Addresses, literal};

use crate::wire::{self, Wire, cause, chain};

/// From the look-up of the address to the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The prefix of a secret in its readable form.
const SECRET_MARK: &str = "whsec_";

/// Clients for `http` and `https`, made at the first letter of each.
pub struct Webhooks {
    secret: Option<String>,
    addresses: Addresses,
    plain: OnceCell<Wire<Addresses>>,
    encrypted: OnceCell<Wire<Addresses>>,
}

impl Webhooks {
    /// Without a secret of its own, the client signs with the secret of each call.
    pub fn new(allow_private: bool, secret: Option<String>) -> Self {
        let addresses = Addresses { allow_private };
        Self { secret, addresses, plain: OnceCell::new(), encrypted: OnceCell::new() }
    }

    /// Sends one letter. A literal address is judged here, a name when it is resolved, at the moment of the connection.
    async fn post(&self, letter: &Letter, secret: &str) -> Result<StatusCode, String> {
        let uri: Uri = letter.url.parse().map_err(|_| "the webhook URL is not valid".to_owned())?;
        if let Some(address) = uri.host().and_then(literal) {
            self.addresses.judge(address)?;
        }
        let is_tls = uri.scheme_str() == Some("https");
        let wire = if is_tls { &self.encrypted } else { &self.plain };
        let wire = wire.get_or_try_init(|| wire::by_way_of(self.addresses, is_tls)).await;
        let wire = wire.map_err(|error| chain(&error))?;
        let request = Request::post(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("callboard/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &letter.id)
            .header("webhook-timestamp", letter.sent_at)
            .header("webhook-signature", signature(letter, secret)?)
            .body(Full::from(letter.body.clone()))
            .map_err(|error| chain(&error))?;
        let answer = wire.request(request).await.map_err(|error| cause(&error))?;
        Ok(answer.status())
    }
}

#[async_trait]
impl Courier for Webhooks {
    fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    fn new_secret(&self) -> Result<String, String> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|error| format!("the system gave no random bytes: {error}"))?;
        Ok(format!("{SECRET_MARK}{}", STANDARD.encode(key)))
    }

    async fn deliver(&self, letter: &Letter, secret: &str) -> Receipt {
        match tokio::time::timeout(PATIENCE, self.post(letter, secret)).await {
            Ok(Ok(status)) if status.is_success() => Receipt::Taken,
            Ok(Ok(StatusCode::GONE)) => Receipt::Unwanted,
            Ok(Ok(status)) => Receipt::Failed(format!("answered {status}")),
            Ok(Err(words)) => Receipt::Failed(words),
            Err(_) => Receipt::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }
}

/// The signature covers id, time and body, so that none of them can be changed or replayed as another letter.
fn signature(letter: &Letter, secret: &str) -> Result<String, String> {
    let key = key_of(secret)?;
    let signed = format!("{}.{}.{}", letter.id, letter.sent_at, letter.body);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), signed.as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(tag)))
}

/// The bytes of a secret like `whsec_…`.
fn key_of(secret: &str) -> Result<Vec<u8>, String> {
    let key = STANDARD.decode(secret.trim_start_matches(SECRET_MARK)).unwrap_or_default();
    if key.is_empty() {
        return Err("must be whsec_ and base64".into());
    }
    Ok(key)
}

/// Checks a secret that a user chose.
pub fn judge_secret(secret: &str) -> Result<(), String> {
    match key_of(secret)?.len() {
        24..=64 => Ok(()),
        bytes => Err(format!("must hold 24 to 64 bytes, not {bytes}")),
    }
}

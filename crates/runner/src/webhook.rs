//! Letters as webhooks: one POST, signed after the Standard Webhooks specification. Redirects are not
//! followed, and an address is looked at before it is connected to: one of this machine or its
//! network is not, unless that is allowed.

mod addresses;

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_engine::ports::{Courier, Delivery, Letter};
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use ring::hmac;
use tokio::sync::OnceCell;

use addresses::{Addresses, literal};

use crate::wire::{self, Wire, chain};

const PATIENCE: Duration = Duration::from_secs(10);
/// What a secret begins with when somebody reads it.
const SECRET_MARK: &str = "whsec_";

pub struct Webhooks {
    addresses: Addresses,
    plain: OnceCell<Wire<Addresses>>,
    encrypted: OnceCell<Wire<Addresses>>,
}

impl Webhooks {
    pub fn new(allow_private: bool) -> Self {
        let addresses = Addresses { allow_private };
        Self { addresses, plain: OnceCell::new(), encrypted: OnceCell::new() }
    }

    async fn post(&self, letter: &Letter, secret: &str) -> Result<StatusCode, String> {
        let uri: Uri = letter.url.parse().map_err(|_| "its address is none".to_owned())?;
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
        let answer = wire.request(request).await.map_err(|error| chain(&error))?;
        Ok(answer.status())
    }
}

#[async_trait]
impl Courier for Webhooks {
    async fn deliver(&self, letter: &Letter, secret: &str) -> Delivery {
        match tokio::time::timeout(PATIENCE, self.post(letter, secret)).await {
            Ok(Ok(status)) if status.is_success() => Delivery::Taken,
            Ok(Ok(StatusCode::GONE)) => Delivery::Unwanted,
            Ok(Ok(status)) => Delivery::Failed(format!("answered {status}")),
            Ok(Err(words)) => Delivery::Failed(words),
            Err(_) => Delivery::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }
}

/// Over id, time and body, so that neither can be changed nor sent again as something else.
fn signature(letter: &Letter, secret: &str) -> Result<String, String> {
    let key = STANDARD.decode(secret.trim_start_matches(SECRET_MARK));
    let key = key.map_err(|_| "relay.webhook_secret is not whsec_ and base64".to_owned())?;
    let signed = format!("{}.{}.{}", letter.id, letter.sent_at, letter.body);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), signed.as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(tag)))
}

/// A new secret, as it is kept and shown.
pub fn new_secret() -> Result<String, String> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| format!("no randomness: {error}"))?;
    Ok(format!("{SECRET_MARK}{}", STANDARD.encode(key)))
}

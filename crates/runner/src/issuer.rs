//! Access tokens of an external issuer: JWTs in the compact form of RFC 7515, verified with the keys that the issuer
//! publishes. The claims are judged in `domain`; no claim is read before the signature was verified, and neither a token
//! nor a claim is logged.

mod keys;
mod source;

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_domain::issuer::IssuerFault;
use callboard_engine::ports::TokenIssuer;
use serde::Deserialize;
use serde_json::Value;

use keys::Algorithm;
use source::KeySource;
pub use source::{IssuerKeys, KeyTimes};

const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The issuer with these keys.
pub struct JwtIssuer {
    source: Arc<KeySource>,
}

impl JwtIssuer {
    pub fn new(keys: IssuerKeys, times: KeyTimes) -> Self {
        Self { source: Arc::new(KeySource::new(keys, times)) }
    }
}

#[async_trait]
impl TokenIssuer for JwtIssuer {
    async fn claims(&self, token: &str) -> Result<Value, IssuerFault> {
        let token = SignedToken::read(token)?;
        let known = self.source.keys().await?;
        match known.verify(&token) {
            // The issuer may have a new key.
            Err(IssuerFault::UnknownKey) => self.source.after(&known).await.verify(&token)?,
            verified => verified?,
        }
        token.claims()
    }
}

/// A token in its parts. Its signature is not verified.
struct SignedToken<'a> {
    algorithm: Algorithm,
    /// The name of the key.
    kid: Option<String>,
    /// The text that was signed: header and payload.
    signed: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> SignedToken<'a> {
    fn read(token: &'a str) -> Result<Self, IssuerFault> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(IssuerFault::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(IssuerFault::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(IssuerFault::Malformed)?;
        let header: Header = json(header)?;
        // RFC 7515: a token with an extension that its reader does not know is invalid.
        if header.crit.is_some() {
            return Err(IssuerFault::Malformed);
        }
        let algorithm = Algorithm::parse(&header.alg).ok_or(IssuerFault::Algorithm)?;
        Ok(Self { algorithm, kid: header.kid, signed, payload, signature: decoded(signature)? })
    }

    /// The claims; only for a token whose signature was verified.
    fn claims(&self) -> Result<Value, IssuerFault> {
        let claims: Value = json(self.payload)?;
        if claims.is_object() { Ok(claims) } else { Err(IssuerFault::Malformed) }
    }
}

fn decoded(part: &str) -> Result<Vec<u8>, IssuerFault> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| IssuerFault::Malformed)
}

fn json<T: for<'de> Deserialize<'de>>(part: &str) -> Result<T, IssuerFault> {
    serde_json::from_slice(&decoded(part)?).map_err(|_| IssuerFault::Malformed)
}

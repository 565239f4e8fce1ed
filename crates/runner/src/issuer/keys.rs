//! The keys of an issuer (JWKS, RFC 7517). The algorithm of a signature is a property of the key; the header of a token
//! only has to agree with it. Otherwise a token could choose to be verified with a public key as a shared secret.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_domain::issuer::IssuerFault;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use super::SignedToken;

/// The signatures that are accepted. `none` and the algorithms with a shared secret are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Es256,
    Es384,
    Ed25519,
}

impl Algorithm {
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // RFC 9864 gives the signature of this curve a name of its own.
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }

    fn is_rsa(self) -> bool {
        matches!(self, Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256)
    }
}

struct IssuerKey {
    kid: Option<String>,
    public: PublicKey,
}

enum PublicKey {
    /// An RSA key may not say which of its algorithms it is for.
    Rsa { n: Vec<u8>, e: Vec<u8>, algorithm: Option<Algorithm> },
    /// A point of a curve, whose algorithm the curve decides.
    Point { bytes: Vec<u8>, algorithm: Algorithm },
}

/// The keys of an issuer at one moment.
pub(super) struct KeySet {
    keys: Vec<IssuerKey>,
    pub(super) fetched: Instant,
}

impl KeySet {
    /// Reads a JWKS. Keys that verify no accepted signature are left out.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let document: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        let keys = document["keys"].as_array().ok_or("it has no list \"keys\"")?;
        let keys = keys.iter().filter_map(IssuerKey::read).collect();
        Ok(Self { keys, fetched: Instant::now() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Verifies a signature with the key that the token names. A token that names none is tried with the only key that
    /// fits; whether that key was replaced cannot be told from a wrong signature.
    pub(super) fn verify(&self, token: &SignedToken<'_>) -> Result<(), IssuerFault> {
        let Some(kid) = &token.kid else {
            let mut fitting = self.keys.iter().filter(|key| key.fits(token.algorithm));
            return match (fitting.next(), fitting.next()) {
                (Some(key), None) if key.verifies(token) => Ok(()),
                _ => Err(IssuerFault::UnknownKey),
            };
        };
        let mut named = self.keys.iter().filter(|key| key.kid.as_ref() == Some(kid)).peekable();
        if named.peek().is_none() {
            return Err(IssuerFault::UnknownKey);
        }
        let key = named.find(|key| key.fits(token.algorithm)).ok_or(IssuerFault::Algorithm)?;
        if key.verifies(token) { Ok(()) } else { Err(IssuerFault::Signature) }
    }
}

impl IssuerKey {
    /// `None` for a key that is not for signatures, or for others than the accepted ones.
    fn read(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk[name].as_str();
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let named = text("alg").map(|word| Algorithm::parse(word).ok_or(())).transpose().ok()?;
        let point = |algorithm: Algorithm, bytes: Vec<u8>| {
            let agrees = named.is_none_or(|named| named == algorithm);
            agrees.then_some(PublicKey::Point { bytes, algorithm })
        };
        // 4 is the form of a point with both coordinates.
        let uncompressed = || Some([vec![4], bytes("x")?, bytes("y")?].concat());
        let public = match (text("kty")?, text("crv")) {
            ("RSA", _) if named.is_none_or(Algorithm::is_rsa) => {
                PublicKey::Rsa { n: bytes("n")?, e: bytes("e")?, algorithm: named }
            }
            ("EC", Some("P-256")) => point(Algorithm::Es256, uncompressed()?)?,
            ("EC", Some("P-384")) => point(Algorithm::Es384, uncompressed()?)?,
            ("OKP", Some("Ed25519")) => point(Algorithm::Ed25519, bytes("x")?)?,
            _ => return None,
        };
        Some(Self { kid: text("kid").map(str::to_owned), public })
    }

    fn fits(&self, wanted: Algorithm) -> bool {
        match &self.public {
            PublicKey::Rsa { algorithm, .. } => {
                algorithm.map_or(wanted.is_rsa(), |it| it == wanted)
            }
            PublicKey::Point { algorithm, .. } => *algorithm == wanted,
        }
    }

    /// Whether the key made the signature; asked only for an algorithm that fits the key.
    fn verifies(&self, token: &SignedToken<'_>) -> bool {
        let (signed, signature) = (token.signed.as_bytes(), token.signature.as_slice());
        match &self.public {
            PublicKey::Rsa { n, e, .. } => {
                let parameters = match token.algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::Ed25519 => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
            }
            PublicKey::Point { bytes, algorithm } => {
                let how: &'static dyn signature::VerificationAlgorithm = match algorithm {
                    Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
                    Algorithm::Ed25519 => &signature::ED25519,
                    _ => return false,
                };
                UnparsedPublicKey::new(how, bytes).verify(signed, signature).is_ok()
            }
        }
    }
}

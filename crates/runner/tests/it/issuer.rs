//! Tokens of an issuer against real keys and a real key server: what is accepted, what is refused, and how often the keys
//! are fetched.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_domain::issuer::IssuerFault;
use callboard_engine::ports::TokenIssuer;
use callboard_runner::{IssuerKeys, JwtIssuer, KeyTimes};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use ring::{hmac, rsa};
use serde_json::{Value, json};

use crate::skipped::skipped;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A text in the form of a JWT, signed by `sign`.
fn token(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = sign(signed.as_bytes());
    format!("{signed}.{}", encoded(signature))
}

fn claims() -> Value {
    json!({"sub": "ci-1", "exp": 1})
}

/// A key pair of an issuer.
struct Signer {
    pair: Ed25519KeyPair,
    kid: &'static str,
}

impl Signer {
    fn new(kid: &'static str) -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self { pair: Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("a key"), kid }
    }

    fn jwk(&self) -> Value {
        let x = encoded(self.pair.public_key());
        json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.kid, "x": x})
    }

    fn token(&self) -> String {
        self.token_of(&json!({"alg": "EdDSA", "kid": self.kid}))
    }

    fn token_of(&self, header: &Value) -> String {
        token(header, &claims(), |signed| self.pair.sign(signed).as_ref().to_vec())
    }
}

/// A server with the keys of an issuer; it counts its requests.
#[derive(Clone, Default)]
struct KeyServer {
    /// The status and the body of the next answers.
    says: Arc<Mutex<(u16, String)>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    async fn start(keys: &[Value]) -> (Self, String) {
        async fn answer(State(server): State<KeyServer>) -> impl IntoResponse {
            server.asked.fetch_add(1, Ordering::SeqCst);
            let (status, body) = server.says.lock().expect("free").clone();
            (StatusCode::from_u16(status).expect("a status"), body)
        }
        let server = Self::default();
        server.publish(keys);
        let app = Router::new()
            .route("/jwks", get(answer))
            .route("/moved", get(|| async { Redirect::temporary("/jwks") }))
            .with_state(server.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, app).await });
        (server, format!("http://{address}"))
    }

    fn publish(&self, keys: &[Value]) {
        self.say(200, json!({"keys": keys}).to_string());
    }

    fn say(&self, status: u16, body: String) {
        *self.says.lock().expect("free") = (status, body);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn issuer(url: &str, times: KeyTimes) -> JwtIssuer {
    JwtIssuer::new(IssuerKeys::parse(url).expect("an address"), times)
}

/// An issuer with these keys, and their server.
async fn issuer_of(keys: &[Value], times: KeyTimes) -> (JwtIssuer, KeyServer) {
    let (server, url) = KeyServer::start(keys).await;
    (issuer(&format!("{url}/jwks"), times), server)
}

/// Times that let every unknown key be looked up.
fn at_once() -> KeyTimes {
    KeyTimes { again: Duration::ZERO, ..KeyTimes::default() }
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("a key")
}

fn ec_jwk(pair: &EcdsaKeyPair, curve: &str, kid: &str) -> Value {
    let point = &pair.public_key().as_ref()[1..];
    let (x, y) = point.split_at(point.len() / 2);
    json!({"kty": "EC", "crv": curve, "kid": kid, "x": encoded(x), "y": encoded(y)})
}

#[tokio::test]
async fn signatures_of_every_curve_are_accepted() {
    let (p256, p384) =
        (ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING), ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING));
    let ed = Signer::new("ed");
    let keys = [ec_jwk(&p256, "P-256", "p256"), ec_jwk(&p384, "P-384", "p384"), ed.jwk()];
    let (issuer, server) = issuer_of(&keys, KeyTimes::default()).await;
    let sign = |pair: &EcdsaKeyPair, signed: &[u8]| {
        pair.sign(&SystemRandom::new(), signed).expect("a signature").as_ref().to_vec()
    };
    for (alg, kid, pair) in [("ES256", "p256", &p256), ("ES384", "p384", &p384)] {
        let header = json!({"alg": alg, "kid": kid});
        let good = token(&header, &claims(), |signed| sign(pair, signed));
        assert_eq!(issuer.claims(&good).await, Ok(claims()), "{alg}");
        // Without a name the only key of the algorithm is tried.
        let unnamed = token(&json!({"alg": alg}), &claims(), |signed| sign(pair, signed));
        assert_eq!(issuer.claims(&unnamed).await, Ok(claims()), "{alg}");
    }
    assert_eq!(issuer.claims(&ed.token()).await, Ok(claims()));
    let fully_named = ed.token_of(&json!({"alg": "Ed25519", "kid": "ed", "typ": "at+jwt"}));
    assert_eq!(issuer.claims(&fully_named).await, Ok(claims()));
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn signatures_of_rsa_keys_are_accepted() {
    let made = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .args(["-outform", "DER"])
        .output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return skipped("openssl 3 makes the RSA key");
    };
    // openssl writes PKCS #1 or PKCS #8, depending on its version.
    let read = RsaKeyPair::from_pkcs8(&made.stdout);
    let pair = read.or_else(|_| RsaKeyPair::from_der(&made.stdout)).expect("a key");
    let public = rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
    let jwk = |kid: &str| json!({"kty": "RSA", "kid": kid, "n": encoded(&public.n), "e": encoded(&public.e)});
    let mut only_256 = jwk("only-256");
    only_256["alg"] = "RS256".into();
    let (issuer, _) = issuer_of(&[jwk("any"), only_256], KeyTimes::default()).await;
    let signed_with = |padding: &'static dyn RsaEncoding, header: Value| {
        token(&header, &claims(), |signed| {
            let mut signature = vec![0; pair.public().modulus_len()];
            let random = SystemRandom::new();
            pair.sign(padding, &random, signed, &mut signature).expect("a signature");
            signature
        })
    };
    let paddings: [(&str, &'static dyn RsaEncoding); 4] = [
        ("RS256", &RSA_PKCS1_SHA256),
        ("RS384", &RSA_PKCS1_SHA384),
        ("RS512", &RSA_PKCS1_SHA512),
        ("PS256", &RSA_PSS_SHA256),
    ];
    for (alg, padding) in paddings {
        let good = signed_with(padding, json!({"alg": alg, "kid": "any"}));
        assert_eq!(issuer.claims(&good).await, Ok(claims()), "{alg}");
        let bound = signed_with(padding, json!({"alg": alg, "kid": "only-256"}));
        let expected = if alg == "RS256" { Ok(claims()) } else { Err(IssuerFault::Algorithm) };
        assert_eq!(issuer.claims(&bound).await, expected, "{alg}");
    }
    // Two keys fit, so an unnamed token is not tried.
    let unnamed = signed_with(&RSA_PKCS1_SHA256, json!({"alg": "RS256"}));
    assert_eq!(issuer.claims(&unnamed).await, Err(IssuerFault::UnknownKey));
    // The public key as a shared secret: the attack that a header's word must not decide.
    let secret = hmac::Key::new(hmac::HMAC_SHA256, pair.public().as_ref());
    let header = json!({"alg": "HS256", "kid": "any"});
    let forged = token(&header, &claims(), |signed| hmac::sign(&secret, signed).as_ref().to_vec());
    assert_eq!(issuer.claims(&forged).await, Err(IssuerFault::Algorithm));
}

#[tokio::test]
async fn forged_and_broken_tokens_are_refused() {
    let (ours, theirs) = (Signer::new("k"), Signer::new("k"));
    let (mut encrypts, mut shared) = (Signer::new("enc").jwk(), ours.jwk());
    encrypts["use"] = "enc".into();
    shared["kid"] = "oct".into();
    shared["kty"] = "oct".into();
    let (issuer, _) = issuer_of(&[ours.jwk(), encrypts, shared], at_once()).await;
    let good = ours.token();
    assert_eq!(issuer.claims(&good).await, Ok(claims()));
    let parts: Vec<&str> = good.split('.').collect();
    let other_claims = encoded(json!({"sub": "boss", "exp": 1}).to_string());
    let with_header = |header: Value| ours.token_of(&header);
    let none = token(&json!({"alg": "none", "kid": "k"}), &claims(), |_| Vec::new());
    let secret = hmac::Key::new(hmac::HMAC_SHA256, ours.pair.public_key().as_ref());
    let confused = token(&json!({"alg": "HS256", "kid": "k"}), &claims(), |signed| {
        hmac::sign(&secret, signed).as_ref().to_vec()
    });
    let scalar = token(&json!({"alg": "EdDSA", "kid": "k"}), &json!(1), |signed| {
        ours.pair.sign(signed).as_ref().to_vec()
    });
    let cases = [
        ("signed by another", theirs.token(), IssuerFault::Signature),
        (
            "other claims",
            format!("{}.{other_claims}.{}", parts[0], parts[2]),
            IssuerFault::Signature,
        ),
        ("no signature", format!("{}.{}.", parts[0], parts[1]), IssuerFault::Signature),
        ("none", none, IssuerFault::Algorithm),
        ("the public key as a secret", confused, IssuerFault::Algorithm),
        (
            "an algorithm of another key",
            with_header(json!({"alg": "ES256", "kid": "k"})),
            IssuerFault::Algorithm,
        ),
        (
            "an unknown algorithm",
            with_header(json!({"alg": "XS256", "kid": "k"})),
            IssuerFault::Algorithm,
        ),
        (
            "an unknown key",
            with_header(json!({"alg": "EdDSA", "kid": "x"})),
            IssuerFault::UnknownKey,
        ),
        (
            "a key for encryption",
            with_header(json!({"alg": "EdDSA", "kid": "enc"})),
            IssuerFault::UnknownKey,
        ),
        (
            "a shared key",
            with_header(json!({"alg": "EdDSA", "kid": "oct"})),
            IssuerFault::UnknownKey,
        ),
        ("unnamed, by another", theirs.token_of(&json!({"alg": "EdDSA"})), IssuerFault::UnknownKey),
        (
            "a critical extension",
            with_header(json!({"alg": "EdDSA", "kid": "k", "crit": ["b64"], "b64": false})),
            IssuerFault::Malformed,
        ),
        ("no object", scalar, IssuerFault::Malformed),
        ("no base64", "%.%.%".into(), IssuerFault::Malformed),
        ("padding", format!("{good}="), IssuerFault::Malformed),
        ("no JSON", format!("{}.{}.{}", encoded("x"), parts[1], parts[2]), IssuerFault::Malformed),
        ("two parts", format!("{}.{}", parts[0], parts[1]), IssuerFault::Malformed),
        ("8 KiB and more", format!("{good}{}", "A".repeat(8192)), IssuerFault::TooLong),
    ];
    for (what, shown, fault) in cases {
        assert_eq!(issuer.claims(&shown).await, Err(fault), "{what}");
    }
}

#[tokio::test]
async fn a_new_key_of_the_issuer_is_found_and_an_old_one_forgotten() {
    let (first, second) = (Signer::new("1"), Signer::new("2"));
    let (issuer, server) = issuer_of(&[first.jwk()], at_once()).await;
    assert_eq!(issuer.claims(&first.token()).await, Ok(claims()));
    assert_eq!(issuer.claims(&second.token()).await, Err(IssuerFault::UnknownKey));
    server.publish(&[second.jwk()]);
    assert_eq!(
        issuer.claims(&first.token()).await,
        Ok(claims()),
        "known keys are not fetched again"
    );
    assert_eq!(server.asked(), 2);
    assert_eq!(issuer.claims(&second.token()).await, Ok(claims()));
    assert_eq!(server.asked(), 3);
    assert_eq!(issuer.claims(&first.token()).await, Err(IssuerFault::UnknownKey));
}

#[tokio::test]
async fn a_flood_of_unknown_keys_is_one_fetch() {
    let known = Signer::new("known");
    let (issuer, server) = issuer_of(&[known.jwk()], KeyTimes::default()).await;
    let issuer = Arc::new(issuer);
    let mut flood = tokio::task::JoinSet::new();
    for n in 0..200 {
        let (issuer, header) = (issuer.clone(), json!({"alg": "EdDSA", "kid": format!("k{n}")}));
        let shown = known.token_of(&header);
        flood.spawn(async move { issuer.claims(&shown).await });
    }
    let good = known.token();
    assert_eq!(issuer.claims(&good).await, Ok(claims()));
    while let Some(refused) = flood.join_next().await {
        assert_eq!(refused.expect("no panic"), Err(IssuerFault::UnknownKey));
    }
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn known_keys_count_while_the_issuer_is_away() {
    let signer = Signer::new("k");
    let always = KeyTimes { fresh: Duration::ZERO, ..at_once() };
    let (issuer, server) = issuer_of(&[signer.jwk()], always).await;
    assert_eq!(issuer.claims(&signer.token()).await, Ok(claims()));
    for (status, body) in [
        (500, String::new()),
        (200, "{}".into()),
        (200, "no JSON".into()),
        (200, format!("{{\"keys\": [{}]}}", " ".repeat(256 * 1024))),
    ] {
        let asked = server.asked();
        server.say(status, body);
        assert_eq!(issuer.claims(&signer.token()).await, Ok(claims()));
        assert_eq!(server.asked(), asked + 1);
    }
    server.publish(&[]);
    assert_eq!(issuer.claims(&signer.token()).await, Err(IssuerFault::UnknownKey));
    // Keys of this age count no more.
    let none = KeyTimes { held: Duration::ZERO, ..always };
    let (short, _server) = issuer_of(&[signer.jwk()], none).await;
    assert_eq!(short.claims(&signer.token()).await, Err(IssuerFault::Unreachable));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_failed_fetches_are_not_repeated() {
    let signer = Signer::new("k");
    let (server, url) = KeyServer::start(&[signer.jwk()]).await;
    let moved = issuer(&format!("{url}/moved"), KeyTimes::default());
    assert_eq!(moved.claims(&signer.token()).await, Err(IssuerFault::Unreachable));
    assert_eq!(server.asked(), 0);
    server.say(500, String::new());
    let broken = issuer(&format!("{url}/jwks"), KeyTimes::default());
    for _ in 0..3 {
        assert_eq!(broken.claims(&signer.token()).await, Err(IssuerFault::Unreachable));
    }
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn keys_are_read_from_a_file() {
    let signer = Signer::new("k");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    let keys = IssuerKeys::parse(path.to_str().expect("plain")).expect("a path");
    let words = keys.judge().await.expect_err("there is no file");
    assert!(words.contains("jwks.json"), "{words}");
    std::fs::write(&path, "{\"keys\": []}").expect("written");
    let words = keys.judge().await.expect_err("it has no key");
    assert!(words.contains("no key"), "{words}");
    std::fs::write(&path, json!({"keys": [signer.jwk()]}).to_string()).expect("written");
    keys.judge().await.expect("it has a key");
    let issuer = JwtIssuer::new(keys, KeyTimes::default());
    assert_eq!(issuer.claims(&signer.token()).await, Ok(claims()));
}

//! Tokens of an external issuer over HTTP: who acts with them, what they allow, and when they end.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::handles::{Client, HANGS, look_away, until_gone};
use crate::http::{Server, agent};
use crate::peer::{board, command, until_exists};
use crate::tokens::{Door, door, token};

const GRANTS: &str =
    "work=tasks:read, work=tasks:write, work=commands:run, look=tasks:read, boss=maintainer";

/// Names and values of variables.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// An issuer: a key pair, and a server on loopback with the public key.
struct Issuer {
    pair: Ed25519KeyPair,
    keys: String,
}

impl Issuer {
    fn start() -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let jwks = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let keys = format!("http://{}/jwks", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // The request of the server fits into one read.
                let _ = stream.read(&mut [0; 4096]).unwrap();
                let body = jwks.to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        });
        Self { pair, keys }
    }

    fn settings(&self) -> [(&str, &str); 4] {
        [
            ("CALLBOARD_HTTP_ISSUER", "https://id.example"),
            ("CALLBOARD_HTTP_ISSUER_KEYS", &self.keys),
            ("CALLBOARD_HTTP_ISSUER_AUDIENCE", "callboard"),
            ("CALLBOARD_HTTP_ISSUER_GRANTS", GRANTS),
        ]
    }

    fn door(&self) -> Door {
        door(&self.settings())
    }

    /// A token that ends in so many seconds, with these claims beside or instead of the usual ones.
    fn token(&self, lives_s: i64, claims: &Value) -> String {
        let exp = jiff::Timestamp::now().as_second() + lives_s;
        let mut all = json!({"iss": "https://id.example", "aud": ["callboard"], "exp": exp});
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "k"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&all));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

#[test]
fn an_issued_token_acts_as_its_actor_with_the_granted_rights() {
    let issuer = Issuer::start();
    let door = issuer.door();
    // The server is closed before any token was added.
    let missing = door.send("/mcp", "", "tools/list", json!({}));
    assert_eq!(missing.status(), 401);
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", door.server.url);
    let document: Value = agent().get(metadata).call().unwrap().body_mut().read_json().unwrap();
    assert_eq!(document["authorization_servers"], json!(["https://id.example"]));

    let works = issuer.token(600, &json!({"sub": "ci-1", "scope": "openid work"}));
    let who = door.call(&works, "identity", json!({})).unwrap();
    assert_eq!(who["actor"], "agent:ci-1");
    let task = door.call(&works, "create", json!({"title": "ours"})).unwrap();
    let task = json!({"id": task["id"]});
    assert_eq!(door.call(&works, "claim", task.clone()).unwrap()["assignee"], "agent:ci-1");
    let looks = issuer.token(600, &json!({"sub": "human:ana", "roles": ["look"]}));
    assert_eq!(door.call(&looks, "identity", json!({})).unwrap()["actor"], "human:ana");
    assert_eq!(door.call(&looks, "get", task.clone()).unwrap()["title"], "ours");
    let denied = door.call(&looks, "create", json!({"title": "theirs"})).unwrap_err();
    assert_eq!(denied["code"], "AUTHORIZATION_DENIED");
    assert!(denied["message"].as_str().unwrap().contains("tasks:write"), "{denied}");
    // The profile of an operator's verb: a role gives it, with the lane that allows it.
    let boss = issuer.token(600, &json!({"sub": "human:bo", "roles": ["boss"]}));
    let tools = |token: &str| door.tools("/mcp/board", token);
    assert!(tools(&boss).contains(&"tasks_delete".to_owned()), "{:?}", tools(&boss));
    assert!(!tools(&works).contains(&"tasks_delete".to_owned()), "{:?}", tools(&works));

    let late = issuer.token(-1, &json!({"sub": "ci-1", "scope": "work"}));
    let elsewhere = issuer.token(600, &json!({"sub": "ci-1", "scope": "work", "aud": "other"}));
    let foreign = issuer.token(600, &json!({"sub": "ci-1", "scope": "work", "iss": "https://x"}));
    let idle = issuer.token(600, &json!({"sub": "ci-1", "scope": "openid"}));
    let unnamed = issuer.token(600, &json!({"sub": "auth0|1", "scope": "work"}));
    let forged = Issuer::start().token(600, &json!({"sub": "human:boss", "roles": ["boss"]}));
    for (shown, says) in [
        (&late, "the token has expired"),
        (&elsewhere, "the token is for another audience"),
        (&foreign, "the token is of another issuer"),
        (&idle, "the token grants nothing here"),
        (&unnamed, "the token names no actor"),
        (&forged, "the signature of the token is wrong"),
        (&"a.b.c".to_owned(), "the token is not a well-formed JWT"),
        (&"nonsense".to_owned(), "the token is not known here"),
    ] {
        // The second answer comes from the cache.
        for _ in 0..2 {
            let mut refused = door.send("/mcp", shown, "tools/list", json!({}));
            assert_eq!(refused.status(), 401, "{says}");
            let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
            assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
            assert!(
                challenge.contains(says) && challenge.contains("resource_metadata="),
                "{challenge}"
            );
            let body: Value = refused.body_mut().read_json().unwrap();
            match says.ends_with("expired") {
                true => assert_eq!(body["error"]["data"]["code"], "AUTH_STALE_TOKEN", "{body}"),
                false => assert_eq!(body["error"]["code"], "UNAUTHENTICATED", "{body}"),
            }
        }
    }
    // Callboard's own tokens go on beside the issuer's.
    let (_, own) = token(door.folder.path(), &["--actor", "agent:own"]);
    assert_eq!(door.call(&own, "identity", json!({})).unwrap()["actor"], "agent:own");

    let log = door.log();
    assert!(log.contains("the token is for another audience"), "{log}");
    for secret in [&works, &looks, &boss, &late, &elsewhere, &foreign, &idle, &unnamed, &forged] {
        for part in secret.split('.').skip(1) {
            assert!(!log.contains(part), "a part of a token is in the log");
        }
    }
    for claim in ["auth0", "openid", "human:boss"] {
        assert!(!log.contains(claim), "a claim is in the log:\n{log}");
    }
}

/// A stream, a page session and a long call: each knows the token only by its id, and the store has no such id.
#[test]
fn streams_pages_and_long_calls_of_an_issued_token_end_with_it() {
    let issuer = Issuer::start();
    let door = issuer.door();
    let begun = Instant::now();
    let lives = Duration::from_secs(12);
    let shown = issuer.token(12, &json!({"sub": "human:ana", "scope": "work"}));
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let stream = door.send("/mcp", &shown, "subscriptions/listen", filter);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut stream = stream.into_body().into_reader();
    stream.read_exact(&mut [0; 16]).unwrap();

    let browser: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
    let login = format!("{}/login", door.server.url);
    let entered =
        browser.post(&login).send_form([("token", shown.as_str()), ("next", "/")]).unwrap();
    assert_eq!(entered.status(), 303);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    assert!(shown.split('.').all(|part| !cookie.contains(part)), "{cookie}");
    let url = format!("{}/", door.server.url);
    let page = || {
        let request = browser.get(&url).header("Accept", "text/html").header("Cookie", cookie);
        let mut page = request.call().unwrap();
        (page.status().as_u16(), page.body_mut().read_to_string().unwrap())
    };
    let (status, text) = page();
    assert_eq!(status, 200);
    assert!(text.contains("human:ana") && text.contains("Sign out"), "{text}");

    let Door { server, folder } = door;
    let mut client = Client::over(server, shown);
    let task = client.create(HANGS);
    let id = client.handle("run_checks", json!({"id": task}));
    let pid = folder.path().join("child.pid");
    until_exists(&pid);
    let child = std::fs::read_to_string(&pid).unwrap();
    // Two rounds in which the server looks whether the tokens of its long calls live.
    while begun.elapsed() < Duration::from_secs(8) {
        assert_eq!(client.get(&id)["status"], "working");
        look_away();
    }
    until_gone(&child);
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    assert!(begun.elapsed() >= lives - Duration::from_secs(1), "the token had not ended");
    assert!(begun.elapsed() < lives + Duration::from_secs(8), "the stream flowed on");
    assert_eq!(page().0, 401);
}

#[test]
fn half_an_issuer_is_refused_at_the_start() {
    let folder = board();
    let issuer = ("CALLBOARD_HTTP_ISSUER", "https://id.example");
    let audience = ("CALLBOARD_HTTP_ISSUER_AUDIENCE", "callboard");
    let keys = |text| ("CALLBOARD_HTTP_ISSUER_KEYS", text);
    let grants = |text| ("CALLBOARD_HTTP_ISSUER_GRANTS", text);
    let cases: &[(Variables<'_>, &str, &str)] = &[
        (&[issuer, audience], "http.issuer_keys", "absolute path of the issuer's JWKS"),
        (&[issuer, keys("https://id.example/k")], "http.issuer_audience", "the aud of the tokens"),
        (&[keys("https://id.example/k")], "http.issuer_keys", "set http.issuer"),
        (&[audience], "http.issuer_audience", "set http.issuer"),
        (&[grants("a=viewer")], "http.issuer_grants", "set http.issuer"),
        (&[issuer, audience, keys("http://id.example/k")], "http.issuer_keys", "https URL"),
        (&[issuer, audience, keys("keys.json")], "http.issuer_keys", "absolute path"),
        (
            &[issuer, audience, keys("/no/such/keys.json")],
            "http.issuer_keys",
            "cannot use the keys",
        ),
        (
            &[issuer, audience, keys("https://id.example/k"), grants("a=boss")],
            "http.issuer_grants",
            "maintainer",
        ),
    ];
    for (settings, field, way_out) in cases {
        let mut serve = command(folder.path());
        serve.args(["serve", "--listen", "127.0.0.1:0"]).envs(settings.iter().copied());
        let refused = serve.output().unwrap();
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{settings:?}: {words}");
        assert!(words.contains(field) && words.contains(way_out), "{settings:?}: {words}");
    }
}

#[test]
fn a_public_address_is_served_with_an_issuer_alone() {
    let (issuer, folder) = (Issuer::start(), board());
    let serve = |folder: &Path| {
        let mut serve = command(folder);
        serve.args(["serve", "--listen", "0.0.0.0:0"]).envs(issuer.settings());
        serve.stderr(std::process::Stdio::null());
        serve
    };
    let server = Server::over(serve(folder.path()));
    let url = server.url.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(agent().get(format!("{url}/events")).call().unwrap().status(), 401);
}

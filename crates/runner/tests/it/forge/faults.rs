//! Faults of a forge, and that the token stays secret meanwhile.

use std::time::Duration;

use callboard_domain::forge::ForgeKind::{self, GitHub, GitLab};
use callboard_engine::ports::{Forge, ForgeFault};
use callboard_runner::{ForgeClient, ForgeSettings, ForgeSettingsError, ForgeToken};

use super::server::{FakeForge, Reply};
use super::{ALL, HUB, LAB, NOTHING, TOKEN, ask, changed, reference, settings};

const PULL: &str = include_str!("github/pull.json");
const MERGE_REQUEST: &str = include_str!("gitlab/merge_request.json");

async fn fault(kind: ForgeKind, reply: Reply) -> ForgeFault {
    let forge = FakeForge::start().await;
    forge.on(if kind == GitHub { HUB } else { LAB }, reply);
    ask(&forge.url, kind, NOTHING).await.expect_err("a fault")
}

fn refused(words: &str) -> ForgeFault {
    ForgeFault::Refused(words.into())
}

fn away(words: &str, seconds: Option<u64>) -> ForgeFault {
    let retry_after = seconds.map(Duration::from_secs);
    ForgeFault::Unavailable { words: words.into(), retry_after }
}

#[tokio::test]
async fn each_no_of_github_has_its_meaning() {
    let cases = [
        (Reply::new(404, include_str!("github/not_found.json")), ForgeFault::NotFound),
        (Reply::new(410, "{}"), ForgeFault::NotFound),
        (
            Reply::new(401, include_str!("github/bad_credentials.json")),
            refused("GitHub at 127.0.0.1: it does not accept the token: 401 Bad credentials"),
        ),
        (
            Reply::new(403, include_str!("github/forbidden.json"))
                .with("x-ratelimit-remaining", "4987")
                .with("x-ratelimit-reset", "1767323055"),
            refused(
                "GitHub at 127.0.0.1: it refused the request: \
                 403 Resource not accessible by personal access token",
            ),
        ),
        (
            Reply::new(403, include_str!("github/rate_limited.json"))
                .with("date", "Fri, 02 Jan 2026 03:04:05 GMT")
                .with("x-ratelimit-limit", "5000")
                .with("x-ratelimit-remaining", "0")
                .with("x-ratelimit-reset", "1767323055"),
            away(
                "GitHub at 127.0.0.1: rate limited: \
                 403 API rate limit exceeded for user ID 1.",
                Some(10),
            ),
        ),
        (
            Reply::new(403, include_str!("github/secondary_limit.json"))
                .with("x-ratelimit-remaining", "4987")
                .with("retry-after", "42"),
            away(
                "GitHub at 127.0.0.1: rate limited: 403 You have exceeded a secondary rate \
                 limit. Please wait a few minutes before you try again.",
                Some(42),
            ),
        ),
        (
            Reply::new(403, include_str!("github/secondary_limit.json")),
            away(
                "GitHub at 127.0.0.1: rate limited: 403 You have exceeded a secondary rate \
                 limit. Please wait a few minutes before you try again.",
                Some(60),
            ),
        ),
        (
            Reply::new(429, "").with("retry-after", "7"),
            away("GitHub at 127.0.0.1: rate limited: 429 Too Many Requests", Some(7)),
        ),
        (
            Reply::new(502, "<html>Bad gateway</html>"),
            away("GitHub at 127.0.0.1: 502 Bad Gateway", None),
        ),
        (
            Reply::new(503, "").with("retry-after", "120"),
            away("GitHub at 127.0.0.1: 503 Service Unavailable", Some(120)),
        ),
        (
            Reply::new(422, r#"{"message": "Validation Failed"}"#),
            refused("GitHub at 127.0.0.1: it refused the request: 422 Validation Failed"),
        ),
        (Reply::new(304, ""), away("GitHub at 127.0.0.1: 304 Not Modified", None)),
    ];
    for (reply, expected) in cases {
        assert_eq!(fault(GitHub, reply).await, expected);
    }
}

#[tokio::test]
async fn each_no_of_gitlab_has_its_meaning() {
    let cases = [
        (Reply::new(404, include_str!("gitlab/not_found.json")), ForgeFault::NotFound),
        (
            Reply::new(401, include_str!("gitlab/unauthorized.json")),
            refused("GitLab at 127.0.0.1: it does not accept the token: 401 401 Unauthorized"),
        ),
        (
            Reply::new(403, include_str!("gitlab/insufficient_scope.json")),
            refused(
                "GitLab at 127.0.0.1: it refused the request: 403 The request requires higher privileges \
                 than provided by the access token.",
            ),
        ),
        (
            Reply::new(429, "Retry later\n")
                .with("ratelimit-remaining", "0")
                .with("ratelimit-reset", "1767323055")
                .with("date", "Fri, 02 Jan 2026 03:04:05 GMT"),
            away("GitLab at 127.0.0.1: rate limited: 429 Too Many Requests", Some(10)),
        ),
        (
            Reply::new(500, r#"{"message": {"base": ["broken"]}}"#),
            away(r#"GitLab at 127.0.0.1: 500 {"base":["broken"]}"#, None),
        ),
    ];
    for (reply, expected) in cases {
        assert_eq!(fault(GitLab, reply).await, expected);
    }
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_no_verdict() {
    let broken = [
        String::new(),
        "<!DOCTYPE html><title>Sign in</title>".into(),
        PULL[..PULL.len() / 2].into(),
        "[]".into(),
        "null".into(),
        changed(PULL, |pull| drop(pull.as_object_mut().expect("an object").remove("merged"))),
        changed(PULL, |pull| pull["state"] = "draft".into()),
        changed(PULL, |pull| pull["base"]["ref"] = 7.into()),
    ];
    for body in broken {
        let ForgeFault::Unavailable { words, retry_after: None } =
            fault(GitHub, Reply::ok(body.clone())).await
        else {
            panic!("not unavailable: {body:.80}");
        };
        let start = "GitHub at 127.0.0.1: an answer that cannot be read: ";
        assert!(words.starts_with(start), "{words}");
        assert!(words.chars().count() < 400, "{words}");
    }
    let unknown = changed(MERGE_REQUEST, |mr| mr["state"] = "dreaming".into());
    assert!(matches!(fault(GitLab, Reply::ok(unknown)).await, ForgeFault::Unavailable { .. }));
}

#[tokio::test]
async fn a_pull_without_its_checks_says_what_the_token_lacks() {
    let forge = FakeForge::start().await;
    forge.on(HUB, Reply::ok(PULL));
    forge.on(LAB, Reply::ok(MERGE_REQUEST));
    let words = "GitHub at 127.0.0.1: the token may not see the check runs of the pull request";
    assert_eq!(ask(&forge.url, GitHub, ALL).await, Err(refused(words)));
    let words = "GitLab at 127.0.0.1: the token may not see its statuses";
    assert_eq!(ask(&forge.url, GitLab, ALL).await, Err(refused(words)));
}

#[tokio::test]
async fn another_host_never_sees_the_token() {
    let (forge, other) = (FakeForge::start().await, FakeForge::start().await);
    other.on(HUB, Reply::ok(PULL));
    let port = other.url.strip_prefix("http://127.0.0.1:").expect("a port");
    let places = [
        format!("{}{HUB}", other.url),
        format!("http://localhost:{port}{HUB}"),
        format!("//127.0.0.1:{port}{HUB}"),
        format!("{}@127.0.0.1:{port}{HUB}", forge.url),
        format!("https://{}{HUB}", forge.url.strip_prefix("http://").expect("an address")),
        "pulls/1".into(),
        "file:///etc/passwd".into(),
        String::new(),
    ];
    let words = "GitHub at 127.0.0.1: it redirects to another address; \
                 if the forge moved, change its API root";
    for place in places {
        for status in [301, 302, 303, 307, 308] {
            forge.on(HUB, Reply::new(status, "").with("location", place.clone()));
            assert_eq!(ask(&forge.url, GitHub, NOTHING).await, Err(refused(words)), "{place}");
        }
    }
    assert!(other.seen().is_empty(), "the other host was asked");
}

#[tokio::test]
async fn circles_end() {
    let forge = FakeForge::start().await;
    forge.on(HUB, Reply::new(302, "").with("location", HUB));
    let words = "GitHub at 127.0.0.1: it redirects too often";
    assert_eq!(ask(&forge.url, GitHub, NOTHING).await, Err(away(words, None)));
    assert_eq!(forge.seen().len(), 4);
}

#[tokio::test]
async fn a_huge_answer_is_not_read() {
    let words = "GitHub at 127.0.0.1: its answer is too long";
    let endless = Reply::ok(vec![b' '; 64 * 1024]).endless();
    assert_eq!(fault(GitHub, endless).await, away(words, None));
    let mut huge = PULL.as_bytes().to_vec();
    huge.resize(16 * 1024 * 1024 + 1, b' ');
    assert_eq!(fault(GitHub, Reply::ok(huge.clone())).await, away(words, None));
    let forge = FakeForge::start().await;
    huge.pop();
    forge.on(HUB, Reply::ok(huge));
    assert!(ask(&forge.url, GitHub, NOTHING).await.is_ok(), "as much as fits is read");
}

#[tokio::test]
async fn nobody_there_and_nobody_to_trust_are_told_apart_from_a_no() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let free = port.local_addr().expect("an address");
    drop(port);
    let gone = ask(&format!("http://{free}"), GitHub, NOTHING).await.expect_err("nobody there");
    let ForgeFault::Unavailable { words, .. } = &gone else { panic!("{gone:?}") };
    assert!(words.contains("Connection refused"), "{words}");

    // A server that speaks no TLS.
    let forge = FakeForge::start().await;
    let url = forge.url.replace("http://", "https://");
    let fault = ask(&url, GitHub, NOTHING).await.expect_err("no TLS there");
    assert!(matches!(fault, ForgeFault::Unavailable { .. }), "{fault:?}");
    assert!(forge.seen().is_empty());
}

#[tokio::test]
async fn the_token_is_in_no_words() {
    let echo = format!(r#"{{"message": "{}{TOKEN}\u001b[2J is no good"}}"#, "é".repeat(270));
    for (kind, status) in [(GitHub, 401), (GitHub, 403), (GitLab, 500), (GitLab, 429)] {
        let fault = fault(kind, Reply::new(status, echo.clone())).await;
        let all = format!("{fault} {fault:?}");
        assert!(!all.contains(&TOKEN[..8]), "{all}");
        assert!(!fault.to_string().contains('\u{1b}'));
    }
    let pasted = fault(GitHub, Reply::ok(format!(r#"{{"state": "{TOKEN}"}}"#))).await;
    assert!(!format!("{pasted:?}").contains(TOKEN), "{pasted:?}");
    let settings = format!("{:?}", settings("http://127.0.0.1"));
    assert!(settings.contains("(secret)") && !settings.contains(TOKEN), "{settings}");
}

#[tokio::test]
async fn without_a_token_nobody_is_asked() {
    let forge = FakeForge::start().await;
    forge.on(HUB, Reply::ok(PULL));
    assert!(ForgeToken::new(" \n").is_none(), "an empty variable is no token");
    let only_github = ForgeSettings { gitlab_token: None, ..settings(&forge.url) };
    let client = ForgeClient::new(&only_github).expect("good settings");
    let lab = client.pull(GitLab, &reference(GitLab), &ALL).await;
    assert_eq!(lab, Err(ForgeFault::Unconfigured));
    assert!(forge.seen().is_empty());
    assert!(client.pull(GitHub, &reference(GitHub), &NOTHING).await.is_ok());

    let none = ForgeClient::new(&ForgeSettings::default()).expect("good settings");
    let hub = none.pull(GitHub, &reference(GitHub), &ALL).await;
    assert_eq!(hub, Err(ForgeFault::Unconfigured));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refusal = |settings: ForgeSettings| ForgeClient::new(&settings).err();
    for url in ["", "api.github.com", "ftp://h", "https://", "https://me:pw@h", "https://h/?a=b"] {
        assert_eq!(refusal(settings(url)), Some(ForgeSettingsError::Url(GitHub)), "{url}");
    }
    let odd = ForgeToken::new("two\nlines");
    let broken = ForgeSettings { gitlab_token: odd, ..settings("https://h") };
    assert_eq!(refusal(broken), Some(ForgeSettingsError::Token(GitLab)));
    let words = ForgeSettingsError::Url(GitLab).to_string();
    assert!(words.starts_with("the GitLab API root must be"), "{words}");
    assert!(refusal(settings("https://ghe.corp:8443/api/v3/")).is_none());
    assert!(refusal(ForgeSettings::default()).is_none());
}

#[tokio::test]
async fn an_api_root_may_have_a_path() {
    let forge = FakeForge::start().await;
    forge.on(format!("/api/v3{HUB}"), Reply::ok(PULL));
    let root = format!("{}/api/v3/", forge.url);
    assert!(ask(&root, GitHub, NOTHING).await.is_ok());
}

//! Slow forges. The test clock stands still while anything runs and jumps to the next deadline when nothing does, so
//! the tests take no real time.

use std::time::Duration;

use callboard_domain::forge::ForgeKind::GitHub;
use callboard_engine::ports::{ForgeFault, PullStateRequest};
use tokio::time::Instant;

use super::server::{FakeForge, Reply};
use super::{HUB, NOTHING, ask};

const PULL: &str = include_str!("github/pull.json");
const FILES: &str = include_str!("github/files.json");

async fn late(forge: &FakeForge, wanted: PullStateRequest) -> (String, Duration) {
    let start = Instant::now();
    let fault = ask(&forge.url, GitHub, wanted).await.expect_err("too late");
    let ForgeFault::Unavailable { words, retry_after: None } = fault else { panic!("{fault:?}") };
    (words, start.elapsed())
}

fn is_about(elapsed: Duration, seconds: u64) -> bool {
    elapsed >= Duration::from_secs(seconds) && elapsed < Duration::from_secs(seconds + 1)
}

#[tokio::test(start_paused = true)]
async fn a_request_has_ten_seconds_for_everything() {
    let forge = FakeForge::start().await;
    let day = Duration::from_secs(24 * 3600);
    let replies = [
        Reply::ok(PULL).after(day),
        Reply::ok(&PULL[..100]).stalling(),
        Reply::new(500, "").stalling(),
        Reply::new(302, "").with("location", HUB).after(Duration::from_secs(6)),
    ];
    for reply in replies {
        forge.on(HUB, reply);
        let (words, elapsed) = late(&forge, NOTHING).await;
        assert_eq!(words, "GitHub at 127.0.0.1: no answer within 10 s");
        assert!(is_about(elapsed, 10), "{elapsed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_of_many_slow_pages_has_two_minutes() {
    let forge = FakeForge::start().await;
    forge.on(HUB, Reply::ok(PULL));
    for page in 1..=30 {
        let path = format!("{HUB}/files?per_page=100&page={page}");
        let next = format!("<{}{path}>; rel=\"next\"", forge.url);
        forge.on(path, Reply::ok(FILES).with("link", next).after(Duration::from_secs(9)));
    }
    let (words, elapsed) = late(&forge, PullStateRequest { checks: false, files: true }).await;
    assert_eq!(words, "GitHub took more than 120 s");
    assert!(is_about(elapsed, 120), "{elapsed:?}");
}

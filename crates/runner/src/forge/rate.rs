//! How long a forge wants no requests, by the headers of GitHub and GitLab.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{DATE, HeaderMap, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// The wait that GitHub's manual asks for when a limit names none.
const WAIT_UNSAID: Duration = Duration::from_secs(60);
/// No forge counts over more than an hour.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// `None` when the answer is not about a rate limit.
pub(super) fn limit(
    status: StatusCode,
    headers: &HeaderMap,
    said: Option<&str>,
) -> Option<Duration> {
    let used_up = ["x-ratelimit-remaining", "ratelimit-remaining"]
        .iter()
        .any(|name| number(headers, name) == Some(0));
    let is_limit = match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        // GitHub answers 403 for its limits, and also for missing rights, which no wait mends.
        StatusCode::FORBIDDEN => {
            used_up
                || headers.contains_key(RETRY_AFTER)
                || said.is_some_and(|said| said.to_lowercase().contains("rate limit"))
        }
        _ => false,
    };
    let reset = || {
        let names = ["x-ratelimit-reset", "ratelimit-reset"];
        let at = names.iter().find_map(|name| number(headers, name)).filter(|_| used_up)?;
        Some(bounded(i64::try_from(at).ok()?.saturating_sub(now(headers).as_second())))
    };
    is_limit.then(|| retry_after(headers).or_else(reset).unwrap_or(WAIT_UNSAID))
}

/// The header `Retry-After`: seconds, or a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    if let Some(seconds) = number(headers, RETRY_AFTER.as_str()) {
        return Some(Duration::from_secs(seconds).min(WAIT_MAX));
    }
    let at = date(headers, RETRY_AFTER.as_str())?;
    Some(bounded(at.as_second() - now(headers).as_second()))
}

/// The time by the forge's own clock, which also set the time to wait for.
fn now(headers: &HeaderMap) -> Timestamp {
    date(headers, DATE.as_str()).unwrap_or_else(Timestamp::now)
}

fn bounded(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(WAIT_MAX)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn date(headers: &HeaderMap, name: &str) -> Option<Timestamp> {
    let parsed = rfc2822::parse(headers.get(name)?.to_str().ok()?).ok()?;
    Some(parsed.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `status header=value… => seconds`
    #[test]
    fn a_limit_says_how_long() {
        let table = "
            429                                                            => 60
            429 retry-after=7                                              => 7
            429 retry-after=99999                                          => 3600
            429 retry-after=soon                                           => 60
            429 retry-after=Fri,_02_Jan_2026_03:04:35_GMT                  => 30
            429 retry-after=Fri,_02_Jan_2026_03:04:00_GMT                  => 0
            429 ratelimit-remaining=0 ratelimit-reset=1767323055           => 10
            403                                                            => no
            403 x-ratelimit-remaining=17 x-ratelimit-reset=1767323055      => no
            403 x-ratelimit-remaining=0 x-ratelimit-reset=1767323055       => 10
            403 x-ratelimit-remaining=0 x-ratelimit-reset=1                => 0
            403 x-ratelimit-remaining=0 x-ratelimit-reset=9999999999999999 => 3600
            403 x-ratelimit-remaining=0                                    => 60
            403 retry-after=5 x-ratelimit-remaining=0 x-ratelimit-reset=1767323055 => 5
            401 retry-after=5                                              => no
            503 retry-after=5                                              => no
        ";
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (given, expected) = line.split_once("=>").expect("a => b");
            let mut words = given.split_whitespace();
            let status = words.next().and_then(|code| code.parse().ok()).expect("a status");
            let mut headers = HeaderMap::new();
            let date = "Fri, 02 Jan 2026 03:04:05 GMT";
            headers.insert(DATE, date.parse().expect("a header"));
            for (name, value) in words.map(|word| word.split_once('=').expect("name=value")) {
                let value = value.replace('_', " ").parse().expect("a header");
                headers.insert(hyper::header::HeaderName::try_from(name).expect("a name"), value);
            }
            let waits = limit(status, &headers, None);
            let waits = waits.map_or("no".into(), |wait| wait.as_secs().to_string());
            assert_eq!(waits, expected.trim(), "\nat: {line}");
        }
        let said = Some("You have exceeded a secondary rate limit.");
        assert_eq!(limit(StatusCode::FORBIDDEN, &HeaderMap::new(), said), Some(WAIT_UNSAID));
    }
}

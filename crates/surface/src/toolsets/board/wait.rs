//! `tasks_wait`: waits until a task changes its column. Wrong arguments are an answer too, so it reads four of them
//! itself.

use std::time::Duration;

use callboard_domain::board::settings::BoardSettings;
use callboard_domain::refusal::{Refusal, brief};
use callboard_domain::time::Timestamp;
use callboard_engine::{CardWait, CardWaited, EngineError, WaitEnd};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::Reply;
use super::tasks::task_id;
use super::view;
use super::words::{Status, WAIT_TIMEOUT};
use crate::tool::{Call, Run, WAIT_INTERRUPTED};
use callboard_engine::time::{parse_rfc3339, rfc3339_us};

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "all but the ids are read as they come")]
pub(super) struct Wait {
    /// either this or task_ids
    task_id: Option<String>,
    /// up to 50: the first that changes ends the wait
    task_ids: Option<Vec<String>>,
    /// more than 0; the server's settings cap it [default: theirs]
    timeout_seconds: Option<f64>,
    /// how long you may wait for one answer: it comes before that, with cursor and seconds_left
    window_seconds: Option<f64>,
    /// end only in one of BACKLOG, IN_PROGRESS, REVIEW, DONE
    wait_for_status: Option<Vec<String>>,
    /// the updated_at or cursor you know: a later change ends the wait at once
    from_updated_at: Option<String>,
}

/// Tasks that one call may wait for.
const TASKS_MAX: usize = 50;

/// A refusal that is an answer: its code and message.
/// `tasks_wait` has no envelope: its refusals have the keys of its answer.
struct Refused(&'static str, String);

pub(super) const TASKS_WAIT: Run = |mut call| {
    Box::pin(async move {
        let mut taken = |key: &str| {
            let arguments = call.arguments.as_object_mut();
            let value = arguments.and_then(|arguments| arguments.shift_remove(key));
            value.unwrap_or_default()
        };
        let given = Given {
            timeout: taken("timeout_seconds"),
            window: taken("window_seconds"),
            statuses: taken("wait_for_status"),
            since: taken("from_updated_at"),
        };
        let args: Wait = call.read()?;
        let ids: Vec<String> =
            args.task_id.into_iter().chain(args.task_ids.into_iter().flatten()).collect();
        tasks_wait(&call, &ids, &given).await
    })
};

/// Arguments as they were sent.
struct Given {
    timeout: Value,
    window: Value,
    statuses: Value,
    since: Value,
}

/// Waits for the first change of any of these tasks. All ids are judged before the wait begins.
async fn tasks_wait(call: &Call<'_>, ids: &[String], given: &Given) -> Reply {
    let settings = call.engine.board_settings(&call.op.principal.org).await?;
    let first = ids.first().map(String::as_str).unwrap_or_default();
    let asked = match asked(&settings, ids, given) {
        Ok(asked) => asked,
        Err(refused) => return Ok(refusal(first, &refused)),
    };
    let not_found =
        |task: &str| Refused("TASK_NOT_FOUND", format!("Task {} not found", brief(task)));
    let mut waits = Vec::with_capacity(ids.len());
    for id in ids {
        let Ok(task) = task_id(id) else { return Ok(refusal(id, &not_found(id))) };
        let goals = asked.goals.iter().flat_map(|status| status.phases()).collect();
        // A status that shows two phases (DONE) is a goal in both of them.
        waits.push(CardWait { task, goals, since: asked.since, timeout: asked.now });
    }
    match call.engine.card_wait_any(call.op, &waits).await {
        Ok((place, waited)) => {
            let answer = answer(call, &ids[place], &waited).await?;
            // A caller of one task without a window gets exactly the reference's keys.
            match waited.why == WaitEnd::TimedOut && (given.window != Value::Null || ids.len() > 1)
            {
                true => go_on(call, answer, &waits, &asked).await,
                false => Ok(answer),
            }
        }
        Err(EngineError::Refused(Refusal::TaskNotFound { task })) => {
            Ok(refusal(&task, &not_found(&task)))
        }
        Err(error) => Err(error),
    }
}

/// The state for a client that waits in several calls: the status of each task, the time from which on changes are
/// news, and the remaining time.
async fn go_on(
    call: &Call<'_>,
    mut answer: Value,
    waits: &[CardWait],
    asked: &WaitRequest,
) -> Reply {
    let (mut tasks, mut cursor) = (Vec::with_capacity(waits.len()), None);
    for wait in waits {
        let Ok(seen) = call.engine.task_get(call.op, wait.task).await else { continue };
        let task = &seen.it.task;
        // The newest change of any of the tasks: all older ones are in this answer.
        cursor = cursor.max(Some(task.updated_at));
        tasks.push(json!({"task_id": task.id, "status": Status::of(task.phase).word()}));
    }
    answer["cursor"] = json!(cursor.map(rfc3339_us));
    let left = asked.left();
    answer["seconds_left"] = json!(left);
    if left > 0.0 {
        answer["message"] = "No change yet; wait again with from_updated_at = cursor and \
                             timeout_seconds = seconds_left"
            .into();
    }
    if waits.len() > 1 {
        // With several tasks none of them is the one that timed out.
        answer["task_id"] = Value::Null;
        for key in ["previous_status", "current_status", "task"] {
            answer[key] = Value::Null;
        }
        answer["tasks"] = tasks.into();
    }
    Ok(answer)
}

/// A wait whose arguments were judged.
struct WaitRequest {
    /// The whole time that the client wants to wait.
    timeout: Duration,
    /// The part of the time that this call may take.
    now: Duration,
    goals: Vec<Status>,
    since: Option<Timestamp>,
}

impl WaitRequest {
    /// The seconds that the client still wants to wait after this call.
    fn left(&self) -> f64 {
        rounded(self.timeout.saturating_sub(self.now).as_secs_f64())
    }
}

/// Milliseconds are enough for a wait.
pub(super) fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// The part of a client's window that a wait may use; the rest is for the delivery of the answer.
pub(super) fn within(window: f64) -> f64 {
    // A tenth of the window, at most five seconds, is left for the way back.
    (window * 0.9).max(window - 5.0)
}

/// The client's window; the error says what is wrong with it.
pub(super) fn window(given: &Value) -> Result<Option<f64>, &'static str> {
    let number = match given {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    number.map(Some).ok_or("window_seconds must be more than 0")
}

/// Judges the arguments. The time is capped by the settings, and by the client's window if it has one.
fn asked(settings: &BoardSettings, ids: &[String], given: &Given) -> Result<WaitRequest, Refused> {
    let invalid = |message: String| Refused("INVALID_PARAMS", message);
    if ids.is_empty() || ids.len() > TASKS_MAX {
        return Err(invalid(format!("give task_id, or 1..{TASKS_MAX} task_ids")));
    }
    let timeout = seconds(settings, &given.timeout)?;
    let window = window(&given.window).map_err(|why| Refused("INVALID_TIMEOUT", why.into()))?;
    let now = window.map_or(timeout, |window| timeout.min(Duration::from_secs_f64(within(window))));
    let goals = statuses_of(&given.statuses).map_err(invalid)?;
    let since = match &given.since {
        Value::Null => None,
        Value::String(text) => Some(parse_rfc3339(text).ok_or_else(|| {
            invalid("from_updated_at must be a time, like the updated_at of an answer".into())
        })?),
        _ => return Err(invalid("from_updated_at must be a string".into())),
    };
    Ok(WaitRequest { timeout, now, goals, since })
}

/// The time of a wait; the settings have the default and the cap.
fn seconds(settings: &BoardSettings, given: &Value) -> Result<Duration, Refused> {
    let number = match given {
        Value::Null => return Ok(Duration::from_secs_f64(settings.wait_s(None))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    let invalid = || Refused("INVALID_TIMEOUT", "timeout_seconds must be more than 0".into());
    Ok(Duration::from_secs_f64(settings.wait_s(Some(number.ok_or_else(invalid)?))))
}

/// Reads a list, one word, words separated by commas, or a list as JSON.
fn statuses_of(given: &Value) -> Result<Vec<Status>, String> {
    let words: Vec<Value> = match given {
        Value::Null => Vec::new(),
        Value::Array(words) => words.clone(),
        Value::String(text) if text.trim_start().starts_with('[') => {
            serde_json::from_str(text).map_err(|_| unknown(text))?
        }
        Value::String(text) => text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(Value::from)
            .collect(),
        other => return Err(unknown(&other.to_string())),
    };
    let status = |word: &Value| {
        let text = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
        Status::parse(&text).ok_or_else(|| unknown(&text))
    };
    words.iter().map(status).collect()
}

/// The message about a word that is no status.
fn unknown(text: &str) -> String {
    let given: String = text.chars().take(60).collect();
    let known = Status::ALL.map(Status::word).join(", ");
    format!("wait_for_status takes {known}, got '{given}'")
}

/// A refusal with every key of an answer.
fn refusal(id: &str, Refused(code, message): &Refused) -> Value {
    json!({
        "changed": false,
        "timed_out": false,
        "task_id": id.trim(),
        "previous_status": null,
        "current_status": null,
        "changed_at": null,
        "task": null,
        "code": code,
        "message": message,
    })
}

/// The answer of a wait that began: why it ended, and the task then.
async fn answer(call: &Call<'_>, id: &str, waited: &CardWaited) -> Reply {
    let task = match &waited.task {
        None => None,
        Some(record) => {
            let card = call.engine.card_of(call.op, record.task.id).await?;
            Some(view::snapshot(&record.task, &card))
        }
    };
    let updated_at = waited.task.as_ref().map(|record| record.task.updated_at);
    let (code, changed_at, message) = match waited.why {
        WaitEnd::Changed(at) => ("TASK_CHANGED", Some(at), "Status changed"),
        WaitEnd::AlreadyThere => ("ALREADY_AT_STATUS", updated_at, "Already at that status"),
        WaitEnd::ChangedSince => ("CHANGED_SINCE_CURSOR", updated_at, "Changed since the cursor"),
        WaitEnd::TimedOut => (WAIT_TIMEOUT, None, "No change in time; wait again"),
        WaitEnd::Interrupted => {
            (WAIT_INTERRUPTED, None, "Interrupted; wait again with from_updated_at")
        }
        WaitEnd::Removed(at) => ("TASK_DELETED", Some(at), "The task was deleted"),
    };
    let changed = match waited.why {
        WaitEnd::Changed(_)
        | WaitEnd::AlreadyThere
        | WaitEnd::ChangedSince
        | WaitEnd::Removed(_) => true,
        WaitEnd::TimedOut | WaitEnd::Interrupted => false,
    };
    let current = waited.task.as_ref().map(|record| Status::of(record.task.phase).word());
    Ok(json!({
        "changed": changed,
        "timed_out": waited.why == WaitEnd::TimedOut,
        "task_id": id.trim(),
        "previous_status": Status::of(waited.before).word(),
        "current_status": current,
        "changed_at": changed_at.map(rfc3339_us),
        "task": task,
        "code": code,
        "message": message,
    }))
}

#[cfg(test)]
mod tests {
    use callboard_domain::board::settings::SettingKey;

    use super::*;

    #[test]
    fn a_timeout_is_a_number_above_zero() {
        let mut settings = BoardSettings::default();
        let longest = SettingKey::TasksWaitMaxTimeoutSeconds;
        settings.set(longest, &json!(60), &[]).expect("fits");
        for wrong in [json!(0), json!(-1), json!("abc"), json!(true), json!("NaN"), json!("inf")] {
            assert!(
                matches!(seconds(&settings, &wrong), Err(Refused("INVALID_TIMEOUT", _))),
                "{wrong}"
            );
        }
        let right =
            [(json!("2"), 2.0), (json!(0.5), 0.5), (json!(99999), 60.0), (json!(null), 60.0)];
        for (given, s) in right {
            let got = seconds(&settings, &given).ok().map(|wait| wait.as_secs_f64());
            assert_eq!(got, Some(s), "{given}");
        }
    }

    #[test]
    fn an_answer_comes_before_the_window_ends() {
        for (window, used) in [(60.0, 55.0), (10.0, 9.0), (0.1, 0.09)] {
            assert_eq!(rounded(within(window)), used);
        }
        assert_eq!(window(&json!("30")), Ok(Some(30.0)));
        for wrong in [json!(0), json!(-1), json!(true), json!("inf")] {
            assert!(window(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statuses_come_in_many_forms() {
        let read = |given: Value| statuses_of(&given).ok();
        let both = Some(vec![Status::Review, Status::Done]);
        assert_eq!(read(json!("REVIEW,DONE")), both);
        assert_eq!(read(json!(["review", " Done "])), both);
        assert_eq!(read(json!("[\"in-progress\"]")), Some(vec![Status::InProgress]));
        assert_eq!(read(json!([])), Some(Vec::new()));
        assert_eq!(read(Value::Null), Some(Vec::new()));
        assert_eq!(read(json!(["AUTO"])), None);
        assert_eq!(read(json!(3)), None);
    }
}

//! `callboard wait`.

use std::time::Duration;

use callboard_engine::WaitOutcome;
use serde_json::json;

use super::context::Context;
use crate::output::{Exit, Failure};

/// Wait until a task gets somewhere
///
/// Exit code 8 says that the time was over first.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard wait SHOP-01j8x2k7 --for review,done --timeout 50s")]
pub struct WaitArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Statuses or phases to wait for, or closed, or ready
    #[arg(long = "for", value_name = "STATES", value_delimiter = ',', default_value = "closed")]
    states: Vec<String>,
    /// How long at most, like 50s, 10m or 2h
    #[arg(long, default_value = "50s", value_parser = duration)]
    timeout: Duration,
}

pub async fn cmd_wait(context: &Context, args: WaitArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("get")?;
    match open.engine().task_wait(&op, id, &args.states, args.timeout).await? {
        WaitOutcome::Reached(seen) => open.print_changed(&seen),
        WaitOutcome::TimedOut(seen) => {
            let task = &seen.it.task;
            let message = format!("{id} is still {}", task.label);
            let timed_out = Failure::new(Exit::TimedOut, "WAIT_TIMED_OUT", message);
            Err(timed_out.retryable().details(json!({"task": id, "status": task.label})))
        }
    }
}

/// Reads `50s`, `10m`, `2h`, `500ms`, or a number of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no duration; write 50s, 10m or 2h");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let ms = match &text[digits..] {
        "ms" => Some(number),
        "" | "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    // A year bounds what a clock can add up.
    ms.filter(|ms| *ms <= 366 * 24 * 3_600_000).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in
            [("50s", 50_000), ("7", 7_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "5d", "-1s", "1.5s", "99999999999999999999s", "9999999h", "5 s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}

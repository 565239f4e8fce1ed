//! The log beside the steps of a job: the output of its agent, or of one of the checks that ran meanwhile.

use callboard_domain::refusal::Refusal;
use callboard_domain::runs::steps::RunStepKind;
use callboard_engine::{EngineError, JobLook, LogQuery, LogSpan, LogWindow};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::log::{LogView, filters, lines, wanted};
use super::query::address;

/// The state of a job's page in its address.
/// Every field is text: an address of an older version, or one that was edited, still shows the page.
#[derive(Clone, Default, Deserialize)]
pub(super) struct JobRequest {
    /// The run whose steps are shown; all runs without a number.
    #[serde(default)]
    run: String,
    /// The step whose output is shown: `agent`, or `check-1` for the first check.
    #[serde(default)]
    step: String,
    /// The lines that are shown, as `181-680`, `181-` or `-680`; empty: the last ones.
    #[serde(default)]
    lines: String,
    #[serde(default)]
    find: String,
    /// `1`: only lines that look like failures.
    #[serde(default)]
    errors: String,
    /// `1`: only lines that the agent printed itself.
    #[serde(default)]
    words: String,
    /// The page stays at the end of the log.
    #[serde(default)]
    follow: String,
}

impl JobRequest {
    pub fn run(&self) -> Option<u32> {
        self.run.parse().ok()
    }

    /// Whether these words are looked for.
    pub fn finds(&self, words: &str) -> bool {
        !words.is_empty() && self.find == words
    }

    /// Text that is no span is a link of another version: the last lines are shown.
    pub fn query(&self) -> LogQuery {
        let span = LogSpan::read(&self.lines).unwrap_or_default();
        LogQuery { span, only: wanted(&self.errors, &self.words), find: self.find.clone() }
    }

    /// The output that was asked for. A job of the server has no agent: its last check speaks for it.
    pub fn log_of(&self, look: &JobLook) -> LogOf {
        let last = look.steps.iter().rev().find_map(|step| match step.kind {
            RunStepKind::Check { index, .. } => Some(LogOf::Check(index)),
            _ => None,
        });
        let usual = match look.line.seen.run {
            Some(_) => LogOf::Agent,
            None => last.unwrap_or(LogOf::Agent),
        };
        LogOf::parse(&self.step).unwrap_or(usual)
    }

    /// The address of the steps of one run, or of all.
    pub fn of_run(&self, run: Option<u32>) -> String {
        let run = run.map(|run| run.to_string());
        let fields = [("run", run.as_deref().unwrap_or_default()), ("step", &self.step)];
        address(&fields.into_iter().filter(|(_, text)| !text.is_empty()).collect::<Vec<_>>(), &[])
    }

    /// The address of the output of a step, with words to look for in it.
    pub fn of_step(&self, step: LogOf, find: Option<&str>) -> String {
        let step = step.word();
        let fields = [("run", &*self.run), ("step", &*step), ("find", find.unwrap_or_default())];
        address(&fields.into_iter().filter(|(_, text)| !text.is_empty()).collect::<Vec<_>>(), &[])
    }
}

/// Whose output a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogOf {
    Agent,
    /// The check with this index, counted from 0.
    Check(usize),
}

impl LogOf {
    /// Reads the word of an address.
    pub fn parse(word: &str) -> Option<Self> {
        match word.strip_prefix("check-") {
            None => (word == "agent").then_some(Self::Agent),
            // People count checks from 1, the core from 0.
            Some(number) => number.parse::<usize>().ok()?.checked_sub(1).map(Self::Check),
        }
    }

    pub fn word(self) -> String {
        match self {
            Self::Agent => "agent".into(),
            Self::Check(index) => format!("check-{}", index + 1),
        }
    }

    /// The name of the download.
    pub fn file(self) -> String {
        match self {
            Self::Agent => "logs.txt".into(),
            Self::Check(_) => format!("{}.txt", self.word()),
        }
    }
}

/// A window of one log of a job, or the reason why there is none.
pub(super) struct JobLog {
    pub of: LogOf,
    query: LogQuery,
    window: Result<LogWindow, String>,
}

/// Reads the lines that a reader wants. The log is read in parts, and only these lines are kept.
pub(super) async fn read(
    page: &Page,
    look: &JobLook,
    asked: &JobRequest,
) -> Result<JobLog, EngineError> {
    let (op, seen) = (page.op(), &look.line.seen);
    let (of, query) = (asked.log_of(look), asked.query());
    let window = match (of, &look.line.task) {
        (LogOf::Check(index), Some(task)) => {
            match page.engine.check_log_lines(&op, task.id, index, &query).await {
                Ok(log) => Ok(log.window),
                Err(EngineError::Refused(refusal @ Refusal::CheckLogNotFound { .. })) => {
                    Err(format!("The log is not here: {}.", refusal.message()))
                }
                // An edit of the task may have taken the check away since the link was made.
                Err(EngineError::Refused(Refusal::InvalidInput { .. })) => {
                    Err(format!("The task has no check {}.", index + 1))
                }
                Err(error) => return Err(error),
            }
        }
        (LogOf::Check(_), None) => {
            Err("The task of this job was removed, and its checks with it.".into())
        }
        (LogOf::Agent, _) if seen.run.is_some() => {
            let (_, window) = page.engine.run_log_lines(&op, seen.job.id, &query).await?;
            let why = match seen.job.is_over() {
                true => "The agent printed nothing.",
                false => "Nothing is printed yet. New lines appear here.",
            };
            window.ok_or_else(|| why.to_owned())
        }
        _ => Err("A job of the server itself has no output.".into()),
    };
    Ok(JobLog { of, query, window })
}

impl JobLog {
    /// The size of the log of the agent, if this is that log.
    pub fn agent_bytes(&self) -> Option<u64> {
        let window = self.window.as_ref().ok().filter(|_| self.of == LogOf::Agent)?;
        Some(window.bytes)
    }

    /// The lines with their filters, or the sentence why there are none.
    pub fn shown(&self, look: &JobLook, asked: &JobRequest) -> Markup {
        let window = match &self.window {
            Ok(window) => window,
            Err(why) => return html! { p.job-none.soft { (why) } },
        };
        let job = &look.line.seen.job;
        let step = self.of.word();
        let kept = [("run", &*asked.run), ("step", &*step)];
        let kept: Vec<_> = kept.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        // The log of a check is written when the check ends, so it never grows.
        let grows = self.of == LogOf::Agent && !job.is_over();
        let raw = format!("/jobs/{}/files/{}", job.id, self.of.file());
        let view = LogView {
            kept: &kept,
            query: &self.query,
            is_of_agent: self.of == LogOf::Agent,
            follow: grows.then(|| asked.follow == "1" && asked.lines.is_empty()),
            raw: Some(&raw),
        };
        html! { (filters(window, &view)) (lines(window, &view)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_an_address_names_a_log() {
        for (word, of) in [
            ("agent", Some(LogOf::Agent)),
            ("check-1", Some(LogOf::Check(0))),
            ("check-12", Some(LogOf::Check(11))),
            ("check-0", None),
            ("check-", None),
            ("check--1", None),
            ("setup", None),
            ("", None),
        ] {
            assert_eq!(LogOf::parse(word), of, "{word}");
            assert_eq!(of.map_or_else(|| word.into(), LogOf::word), word);
        }
    }
}

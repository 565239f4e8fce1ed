//! An ID argument: a whole task id, or the beginning of one that fits a single task.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use serde_json::json;

use super::context::Open;
use crate::output::{Exit, Failure};

/// How many candidates an ambiguous beginning is shown with.
const SHOWN_MAX: usize = 5;
/// How far back a mistyped id is looked for.
const NEAR_AMONG: usize = 500;
const NEAR_EDITS_MAX: usize = 2;

impl Open {
    pub async fn task_id(&self, typed: &str) -> Result<TaskId, Failure> {
        self.find(typed, |task| Refusal::TaskNotFound { task }).await
    }

    /// The tasks another one is to wait for.
    pub async fn dep_ids(&self, typed: &[String]) -> Result<Vec<TaskId>, Failure> {
        let mut ids = Vec::with_capacity(typed.len());
        for typed in typed {
            ids.push(self.find(typed, |task| Refusal::DanglingDependency { task }).await?);
        }
        Ok(ids)
    }

    async fn find(
        &self,
        typed: &str,
        refusal: impl FnOnce(String) -> Refusal,
    ) -> Result<TaskId, Failure> {
        let op = self.op("get");
        let typed = typed.trim();
        let found = match typed {
            "" => Vec::new(),
            typed => self.engine().task_ids(&op, typed, SHOWN_MAX + 1).await?,
        };
        match found.as_slice() {
            [only] => Ok(*only),
            [] => Err(self.near(typed, refusal(typed.into()).into()).await?),
            several => Err(ambiguous(typed, several)),
        }
    }

    /// The same failure, with the id that may have been meant.
    async fn near(&self, typed: &str, failure: Failure) -> Result<Failure, Failure> {
        let known = self.engine().task_ids(&self.op("get"), "", NEAR_AMONG).await?;
        Ok(match nearest(typed, &known) {
            Some(near) => failure.hint(format!("did you mean {near}?")),
            None => failure,
        })
    }
}

fn ambiguous(typed: &str, found: &[TaskId]) -> Failure {
    let shown: Vec<String> = found.iter().take(SHOWN_MAX).map(TaskId::to_string).collect();
    let more = if found.len() > SHOWN_MAX { ", …" } else { "" };
    let message = format!("'{typed}' fits several tasks: {}{more}", shown.join(", "));
    Failure::new(Exit::Usage, "AMBIGUOUS_ID", message)
        .hint("write more of the id")
        .details(json!({"candidates": shown}))
}

/// The one id that what was typed may have been meant for.
fn nearest(typed: &str, known: &[TaskId]) -> Option<TaskId> {
    let length = typed.chars().count();
    let distance = |id: &TaskId| {
        let whole = id.to_string().to_ascii_lowercase();
        let rest = id.id.to_string();
        let begins = |text: &str| -> usize {
            let beginning: String = text.chars().take(length).collect();
            strsim::damerau_levenshtein(&beginning, &typed.to_ascii_lowercase())
        };
        begins(&whole).min(begins(&rest))
    };
    let near: Vec<(usize, &TaskId)> = known
        .iter()
        .map(|id| (distance(id), id))
        .filter(|(edits, _)| *edits <= NEAR_EDITS_MAX && edits * 3 < length)
        .collect();
    let least = near.iter().map(|(edits, _)| *edits).min()?;
    let mut best = near.iter().filter(|(edits, _)| *edits == least);
    match (best.next(), best.next()) {
        (Some((_, only)), None) => Some(**only),
        _ => None,
    }
}

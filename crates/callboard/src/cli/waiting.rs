//! What waits for a person, in a line or two: reviews, questions, failed jobs.

use callboard_domain::runs::run::RunRecord;
use callboard_engine::context::OpContext;
use callboard_engine::store::CardRow;
use callboard_engine::{At, Engine};

use crate::output::Failure;

/// How many reviews are counted one by one.
const REVIEWS_MAX: usize = 100;

pub struct Waiting {
    pub reviews: Vec<CardRow>,
    pub more_reviews: bool,
    pub questions: Vec<RunRecord>,
    pub failed: Vec<RunRecord>,
}

impl Waiting {
    pub async fn look(engine: &Engine, op: &OpContext) -> Result<Self, Failure> {
        let At { it: (reviews, more_reviews), .. } = engine.review_list(op, REVIEWS_MAX).await?;
        let questions = engine.questions(op).await?;
        let failed = engine.jobs_failed(op).await?;
        Ok(Self { reviews, more_reviews, questions, failed })
    }

    /// `2 reviews, 1 question`, or `None` when nothing waits.
    pub fn words(&self) -> Option<String> {
        let more = if self.more_reviews { "+" } else { "" };
        let counts = [
            counted(self.reviews.len(), more, "review"),
            counted(self.questions.len(), "", "question"),
            counted(self.failed.len(), "", "failed job"),
        ];
        let words: Vec<String> = counts.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

fn counted(count: usize, more: &str, noun: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        _ => Some(format!("{count}{more} {noun}s")),
    }
}

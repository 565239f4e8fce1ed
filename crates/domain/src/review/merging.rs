//! The steps of a merge that is under way, and how it ended, for people who watch it.

use crate::words::words;

words! {
    /// A step of a merge. Only the last one moves a branch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum MergeStep {
        /// The commit that would go on top of the target is made, in every repository.
        Prepare => "prepare",
        /// The checks run on the merged files.
        Look => "look",
        /// The target moves.
        Publish => "publish",
    }
}

/// Where a step of a merge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    Over,
    Now,
    Ahead,
    /// The merge ended in this step, without a result.
    Failed,
}

/// How a merge ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// With the commit, where there was something to merge.
    Merged { commit: Option<String> },
    /// With the check or the files that were in the way, in words.
    Failed { words: String },
}

impl MergeStep {
    /// All steps with their states, while this one is the current or the last one.
    pub fn line(self, outcome: Option<&MergeOutcome>) -> [(MergeStep, StepState); 3] {
        MergeStep::ALL.map(|step| {
            let state = match (step.cmp(&self), outcome) {
                (_, Some(MergeOutcome::Merged { .. })) => StepState::Over,
                (std::cmp::Ordering::Less, _) => StepState::Over,
                (std::cmp::Ordering::Equal, None) => StepState::Now,
                (std::cmp::Ordering::Equal, Some(MergeOutcome::Failed { .. })) => StepState::Failed,
                (std::cmp::Ordering::Greater, _) => StepState::Ahead,
            };
            (step, state)
        })
    }

    /// What the step does, in words; `target` is the branch that the work goes to.
    pub fn words(self, target: &str) -> String {
        match self {
            MergeStep::Prepare => format!("Prepare: make the commit that goes on top of {target}"),
            MergeStep::Look => "Look: run the checks on the merged files".to_owned(),
            MergeStep::Publish => format!("Publish: move {target}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_state() {
        use StepState::{Ahead, Failed, Now, Over};
        let failed = MergeOutcome::Failed { words: "check 1 fails".into() };
        let merged = MergeOutcome::Merged { commit: None };
        for (step, outcome, wanted) in [
            (MergeStep::Prepare, None, [Now, Ahead, Ahead]),
            (MergeStep::Look, None, [Over, Now, Ahead]),
            (MergeStep::Publish, None, [Over, Over, Now]),
            (MergeStep::Look, Some(&failed), [Over, Failed, Ahead]),
            (MergeStep::Prepare, Some(&failed), [Failed, Ahead, Ahead]),
            (MergeStep::Publish, Some(&merged), [Over, Over, Over]),
            (MergeStep::Prepare, Some(&merged), [Over, Over, Over]),
        ] {
            assert_eq!(step.line(outcome).map(|(_, state)| state), wanted, "{step:?} {outcome:?}");
        }
    }
}

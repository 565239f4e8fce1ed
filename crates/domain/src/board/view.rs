//! The views of the board: all tasks, or those that a person looks for first.

use crate::words::words;

words! {
    /// Which tasks the board shows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum BoardView {
        #[default]
        All => "all",
        /// Tasks that wait for a person: those of the inbox.
        You => "you",
        /// Tasks with a check that fails.
        Failing => "failing",
        /// Tasks whose holder is silent for too long.
        Silent => "silent",
    }
}

/// What a view asks of a task. Each fact has its rule elsewhere: the inbox, `has_failing`, `is_silent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewFacts {
    pub is_closed: bool,
    pub needs_person: bool,
    pub is_failing: bool,
    pub is_silent: bool,
}

impl BoardView {
    /// Whether a task is part of the view. A closed task needs no person.
    pub fn has(self, facts: ViewFacts) -> bool {
        let wanted = match self {
            BoardView::All => return true,
            BoardView::You => facts.needs_person,
            BoardView::Failing => facts.is_failing,
            BoardView::Silent => facts.is_silent,
        };
        wanted && !facts.is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_the_open_tasks_of_its_fact() {
        let none = ViewFacts::default();
        let closed =
            ViewFacts { is_closed: true, needs_person: true, is_failing: true, is_silent: true };
        for (facts, views) in [
            (none, "all"),
            (ViewFacts { needs_person: true, ..none }, "all you"),
            (ViewFacts { is_failing: true, ..none }, "all failing"),
            (ViewFacts { is_silent: true, ..none }, "all silent"),
            (ViewFacts { needs_person: true, is_silent: true, ..none }, "all you silent"),
            (closed, "all"),
        ] {
            let found: Vec<&str> = BoardView::ALL
                .iter()
                .filter(|view| view.has(facts))
                .map(|view| view.as_str())
                .collect();
            assert_eq!(found.join(" "), views, "{facts:?}");
        }
    }
}

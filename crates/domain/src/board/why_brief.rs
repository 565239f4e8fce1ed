//! The why-line in a word or two, for places without room for the line: nodes of a graph, rows of a table.

use crate::board::why::{Why, WhyGlyph, WhyPart};

impl Why {
    /// What holds the task up in a word or two, for places without room for the line; `None` while nothing does.
    pub fn brief(&self) -> Option<&'static str> {
        match self.glyph {
            WhyGlyph::Asks if self.is_about_others() => None,
            WhyGlyph::Asks => Some("asks you"),
            WhyGlyph::Silent if self.is_about_others() => None,
            WhyGlyph::Silent => Some("silent"),
            WhyGlyph::Fails => Some("check fails"),
            WhyGlyph::Conflict => Some("conflict"),
            WhyGlyph::Stuck => Some("stuck"),
            WhyGlyph::Review if self.is_about_others() => None,
            WhyGlyph::Review => Some("waits for you"),
            WhyGlyph::Merge => Some("approved"),
            WhyGlyph::Waits
            | WhyGlyph::Next
            | WhyGlyph::Free
            | WhyGlyph::Held
            | WhyGlyph::Works
            | WhyGlyph::Says
            | WhyGlyph::Done
            | WhyGlyph::Canceled => None,
        }
    }

    /// Whether the line names another task, which it then is about.
    fn is_about_others(&self) -> bool {
        self.words.iter().any(|part| matches!(part, WhyPart::Task(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::why::Tone;
    use crate::ids::{Prefix, TaskName};

    #[test]
    fn a_word_is_about_the_task_itself() {
        let text = || WhyPart::Text("Asks: may it run make?".into());
        let other =
            WhyPart::Task(TaskName { prefix: Prefix::parse("SHOP").expect("a prefix"), number: 3 });
        let line = |glyph, words| Why { tone: Tone::Person, glyph, words };
        for (why, word) in [
            (line(WhyGlyph::Asks, vec![text()]), Some("asks you")),
            (line(WhyGlyph::Asks, vec![text(), other.clone()]), None),
            (line(WhyGlyph::Silent, vec![other]), None),
            (line(WhyGlyph::Conflict, vec![text()]), Some("conflict")),
            (line(WhyGlyph::Works, vec![text()]), None),
        ] {
            assert_eq!(why.brief(), word, "{why:?}");
        }
    }
}

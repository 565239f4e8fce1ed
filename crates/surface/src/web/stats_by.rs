//! The numbers of the board by agent or by epic: a row for each, those that closed the most tasks first.

use callboard_domain::board::stats::{DayCounts, Measure, StatsBy};
use callboard_domain::crew::AgentId;
use callboard_engine::{StatsByGroup, StatsGroup};
use maud::{Markup, html};

use super::parts::{Tone, actor, cost, note};
use super::stats::{share, time};

/// A reader takes in no more rows than these.
const GROUPS_SHOWN: usize = 50;

/// The columns behind the name: the head, and the value of a group.
type Column = (&'static str, fn(&DayCounts) -> String);

const COLUMNS: [Column; 9] = [
    ("Closed", |counts| count(counts, Measure::Lead).to_string()),
    ("Lead time, median", |counts| quantile(counts, Measure::Lead, 0.5)),
    ("p90", |counts| quantile(counts, Measure::Lead, 0.9)),
    ("Queue wait, median", |counts| quantile(counts, Measure::Wait, 0.5)),
    ("First-try pass", |counts| {
        share(count(counts, Measure::FirstTry), count(counts, Measure::Lead))
    }),
    ("Checks passed", |counts| {
        let passed = count(counts, Measure::Passed);
        share(passed, passed + count(counts, Measure::Failed))
    }),
    ("Sent back", |counts| count(counts, Measure::SentBack).to_string()),
    ("Leases run out", |counts| count(counts, Measure::Expired).to_string()),
    ("Cost", |counts| {
        let known = count(counts, Measure::Priced) > 0;
        cost(known.then(|| count(counts, Measure::Cost)))
    }),
];

fn count(counts: &DayCounts, measure: Measure) -> u64 {
    counts.count(i64::MIN..=i64::MAX, measure)
}

fn quantile(counts: &DayCounts, measure: Measure, share: f64) -> String {
    time(counts.spans(i64::MIN..=i64::MAX, measure).quantile_ms(share))
}

pub(super) fn table(found: &StatsByGroup, by: StatsBy) -> Markup {
    let (title, head) = match by {
        StatsBy::Agent => ("By agent", "Agent"),
        StatsBy::Epic => ("By epic", "Epic"),
    };
    let left_out = found.groups.len().saturating_sub(GROUPS_SHOWN);
    html! {
        @if let Some(after) = found.after {
            (note(Tone::Late, "clock", &html! {
                "These rows count the newest events only, those above number " (after) "; the numbers above are of the whole span."
            }))
        }
        section.box aria-labelledby="by-title" {
            div.box-head { h2 #by-title { (title) } span.faint.row-end { "work counts for the agent that did it" } }
            @if found.groups.is_empty() { p.box-body.soft { "Nothing was measured in this span." } }
            @else {
                table.table.by {
                    thead { tr { th scope="col" { (head) } @for (head, _) in COLUMNS { th.number scope="col" { (head) } } } }
                    tbody { @for (group, counts) in found.groups.iter().take(GROUPS_SHOWN) {
                        tr {
                            td { (name(group)) }
                            @for (head, value) in COLUMNS { td.number data-label=(head.to_lowercase()) { (value(counts)) } }
                        }
                    } }
                }
            }
            @if left_out > 0 { p.box-body.faint { (left_out) " more have closed fewer tasks." } }
        }
    }
}

fn name(group: &StatsGroup) -> Markup {
    html! { @match group {
        StatsGroup::Agent(Some(who)) if !who.is_human() => a.plain href={ "/agents/" (AgentId::of(who)) } { (actor(who)) },
        StatsGroup::Agent(Some(who)) => (actor(who)),
        StatsGroup::Agent(None) => span.faint { "the server" },
        StatsGroup::Epic(name, title) => { a href={ "/tasks/" (name) } { bdi { (title) } } " " span.id { (name) } }
        StatsGroup::NoEpic => span.faint { "no epic" },
    } }
}

#[cfg(test)]
mod tests {
    use callboard_domain::ids::TaskName;

    use super::*;

    #[test]
    fn a_row_has_the_numbers_of_its_group_and_titles_are_escaped() {
        let mut counts = DayCounts::default();
        for (measure, many) in [(Measure::Lead, 3), (Measure::Passed, 3), (Measure::Failed, 1)] {
            counts.add(7, measure, 0, many);
        }
        let epic = TaskName::parse("P-7").expect("a name");
        let groups = vec![
            (StatsGroup::Agent("agent:w1".parse().ok()), counts.clone()),
            (StatsGroup::Agent(None), DayCounts::default()),
            (StatsGroup::Epic(epic, "<b>".into()), counts),
        ];
        let found = StatsByGroup { groups, after: Some(9) };
        let shown = table(&found, StatsBy::Agent).into_string();
        for words in
            ["href=\"/agents/w1\"", "75 %", ">3<", "&lt;b&gt;", "above number 9", "the server"]
        {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert_eq!(shown.matches("<tr><td>").count(), 3);
        let none = StatsByGroup { groups: Vec::new(), after: None };
        assert!(table(&none, StatsBy::Epic).into_string().contains("Nothing was measured"));
    }
}

//! Terms of the filter language as conditions on tasks, for both databases.

use callboard_domain::actor::Actor;
use callboard_domain::board::filter::{CheckFilter, FilterWants};
use callboard_domain::ids::{TaskId, TaskName};

use crate::task::filter::{Filter, Value, pattern};

/// The tasks of the epics with this short name, or with these words in their title.
pub(super) fn of_epic(filter: &mut Filter, org: i64, epic: &str) -> String {
    let org = filter.value(Value::Integer(org));
    let named = match TaskName::parse(epic) {
        Some(name) => named(filter, "e", name),
        None => {
            let like = filter.value(Value::Text(pattern(&epic.to_ascii_lowercase())));
            format!("{} LIKE {like} ESCAPE '!'", filter.folded("e.title"))
        }
    };
    format!(
        "t.parent IN (SELECT e.id FROM tasks e WHERE e.org = {org} AND e.is_plan \
         AND e.removed_at IS NULL AND {named})"
    )
}

/// The condition that a row of tasks has a short name.
fn named(filter: &mut Filter, row: &str, name: TaskName) -> String {
    let prefix = name.in_capitals().prefix;
    let prefix = filter.value(Value::Text(prefix.as_str().to_owned()));
    format!("(upper({row}.prefix) = {prefix} AND {row}.number = {})", name.number)
}

/// The condition of a term on a task `t`; `None` for a term that says nothing of tasks.
pub(super) fn condition(filter: &mut Filter, org: i64, wants: &FilterWants) -> Option<String> {
    Some(match wants {
        FilterWants::Words(words) => {
            let like = filter.value(Value::Text(pattern(words)));
            format!("{} LIKE {like} ESCAPE '!'", filter.folded("t.title"))
        }
        FilterWants::Actor(actor) => {
            let names = match actor.contains(':') {
                true => vec![actor.clone()],
                false => Actor::KINDS.map(|kind| format!("{kind}:{actor}")).into(),
            };
            let names: Vec<String> =
                names.into_iter().map(|name| filter.value(Value::Text(name))).collect();
            let names = names.join(", ");
            format!(
                "(coalesce(t.assignee, '') IN ({names}) OR EXISTS (SELECT 1 FROM attempts n \
                 WHERE n.id = t.newest_attempt AND n.actor IN ({names})))"
            )
        }
        FilterWants::Epic(epic) => of_epic(filter, org, epic),
        FilterWants::Check(check) => checks(*check, filter.is_postgres()),
        FilterWants::Label(label) => {
            format!("t.label = {}", filter.value(Value::Text(label.clone())))
        }
        FilterWants::Priority(most) => format!("t.priority <= {most}"),
        FilterWants::Project(project) => {
            let name = filter.value(Value::Text(project.to_ascii_lowercase()));
            let (of_name, of_prefix) = (filter.folded("o.name"), filter.folded("o.prefix"));
            format!(
                "EXISTS (SELECT 1 FROM projects o WHERE o.id = t.project \
                 AND ({of_name} = {name} OR {of_prefix} = {name}))"
            )
        }
        FilterWants::Task(task) => match (task.parse::<TaskId>(), TaskName::parse(task)) {
            (Ok(id), _) => format!("t.id = {}", filter.value(Value::Id(id.id))),
            (Err(_), Some(name)) => named(filter, "t", name),
            (Err(_), None) => "1 = 0".into(),
        },
        // The column of a task is judged when its lease is.
        FilterWants::Phase(_) | FilterWants::Verb(_) | FilterWants::Since(_) => return None,
    })
}

/// Whether a check of a task fails, as the indexes of such tasks have it.
pub(super) fn fails(is_postgres: bool) -> &'static str {
    match is_postgres {
        true => "strpos(t.checks, '\"pass\":false') > 0",
        false => "instr(t.checks, '\"pass\":false') > 0",
    }
}

/// The results in the JSON of a task's checks. A key of JSON cannot stand in a text of JSON unescaped, so counting keys
/// counts checks.
fn checks(wanted: CheckFilter, is_postgres: bool) -> String {
    let count = |key: &str| {
        format!(
            "(length(t.checks) - length(replace(t.checks, '{key}', ''))) / {}",
            key.chars().count()
        )
    };
    let (all, passed, known) = (count("\"kind\":"), count("\"pass\":true"), count("\"verdict\":"));
    match wanted {
        CheckFilter::Fail => fails(is_postgres).to_owned(),
        CheckFilter::Pass => format!("(t.checks <> '[]' AND {passed} = {all})"),
        CheckFilter::Open => format!("{known} < {all}"),
    }
}

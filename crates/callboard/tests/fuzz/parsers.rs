//! Parsers of text that others wrote, as pure functions: arguments of tools, answers of agents, patches. Proptest makes
//! the input and shrinks a failing one.

use callboard_domain::relay::patch::{files, has_file_header, line_count};
use callboard_domain::relay::reply::{Reply, settle_line_ends};
use callboard_domain::relay::scope::ScopeRule;
use callboard_domain::relay::spec::Scope;
use callboard_surface::args;
use callboard_surface::web::diff::{DiffSign, anchor, mark_moved, marks, parse};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

use crate::seeded::seeds;

const CASES: u32 = 400;

/// The seed of the run, as in the tests of this folder that choose by themselves.
fn config() -> ProptestConfig {
    let rounds = seeds(1);
    let times = u32::try_from(rounds.end - rounds.start).unwrap_or(u32::MAX);
    ProptestConfig {
        cases: CASES.saturating_mul(times),
        rng_seed: RngSeed::Fixed(rounds.start),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    }
}

/// Any JSON, with the texts and numbers that readers are lenient about.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "true",
        "FALSE",
        "5",
        "-5.0",
        "1e3",
        "In-Progress",
        "inProgress",
        "a,b, c",
        "[1, 2]",
        "{\"a\": 1}",
        "[{}]",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let key = prop_oneof![prop::sample::select(NAMES).prop_map(str::to_owned), any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

const NAMES: &[&str] = &["title", "state", "count", "share", "isDone", "items", "checks", "any"];

/// A schema with one argument of each kind.
fn schema() -> Map<String, Value> {
    let check = json!({"type": "object", "properties": {"desc": {"type": "string"}, "timeout": {"type": "integer", "minimum": 1}}, "required": ["desc"]});
    let schema = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "state": {"type": "string", "enum": ["in_progress", "done"]},
            "count": {"type": "integer", "minimum": 0, "maximum": 1000},
            "share": {"type": "number", "maximum": 1},
            "isDone": {"type": "boolean"},
            "items": {"type": "array", "items": {"type": "integer"}},
            "checks": {"type": "array", "items": {"anyOf": [{"type": "string"}, check]}},
            "any": {},
        },
        "required": ["title"],
    });
    schema.as_object().cloned().unwrap_or_default()
}

/// Lines of a patch in any order, and between them anything.
fn patch_lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => prop::sample::select(vec![
            "diff --git a/x b/x", "diff --git \"a/\\303\\244 b\" \"b/\\303\\244 b\"", "diff --git a/a b/b c", "--- a/x", "+++ b/x", "--- /dev/null", "+++ /dev/null",
            "--- \"a/\\", "+++ \"b/\\777\"", "@@ -1 +1 @@", "@@ -1,3 +1,3 @@ fn x", "@@ -0,0 +1,4294967295 @@", "@@ -99999999999999999999 +1 @@", "@@ - + @@", "@@@ -1 -1 +1 @@@",
            " one", "-two", "+zwei", "\\ No newline at end of file", "rename from x", "rename to \"\\t\"", "copy from a", "old mode 100644", "new mode 120000", "deleted file mode 100644",
            "index 1..2 120000", "similarity index 100%", "GIT binary patch", "literal 3", "Binary files a/x and b/x differ", "", "-", "+", "-- x", "++ y", "\r", "+a\r",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(a, b, c, d)| format!("@@ -{a},{b} +{c},{d} @@")),
    ];
    (prop::collection::vec(line, 0..30), any::<bool>())
        .prop_map(|(lines, ends)| lines.join("\n") + if ends { "\n" } else { "" })
}

/// An agent's answer: its sections in any order, with noise.
fn answer() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "## DIFF\n",
            "## TEST_PLAN\n",
            "## NOTES\n",
            "### diff:\r\n",
            "#### **Notes:**\n",
            "```diff\n",
            "```\n",
            "~~~\n",
            "> ## DIFF\n",
            "## DIFF",
            "\u{feff}## DIFF\n"
        ])
        .prop_map(str::to_owned),
        patch_lines(),
        any::<String>(),
    ];
    let noise = prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat());
    let whole =
        (patch_lines(), any::<String>(), any::<String>()).prop_map(|(diff, plan, notes)| {
            format!("## DIFF\n{diff}\n## TEST_PLAN\n{plan}\n## NOTES\n{notes}\n")
        });
    (noise.clone(), prop::option::of(whole), noise)
        .prop_map(|(before, whole, after)| format!("{before}{}{after}", whole.unwrap_or_default()))
}

proptest! {
    #![proptest_config(config())]

    /// What was read fits the schema, so reading it again changes nothing; what was refused is named in few words.
    #[test]
    fn arguments_are_read_once_and_for_all(given in any_json()) {
        let schema = schema();
        match args::read::<Value>(&schema, &[("name", "title")], given.clone()) {
            Ok(read) => {
                let again = args::read::<Value>(&schema, &[], read.clone());
                prop_assert_eq!(again.ok(), Some(read), "of {}", given);
            }
            Err(refusal) => {
                prop_assert!(refusal.message().len() < 2_000, "{}", refusal.message());
                prop_assert_eq!(refusal.code(), "INVALID_INPUT");
            }
        }
    }

    #[test]
    fn arguments_with_known_names_are_read_once_and_for_all(title in any_json(), name in prop::sample::select(NAMES), value in any_json()) {
        let schema = schema();
        let mut given = json!({ "title": title });
        given[name] = value;
        if let Ok(read) = args::read::<Value>(&schema, &[], given.clone()) {
            let again = args::read::<Value>(&schema, &[], read.clone());
            prop_assert_eq!(again.ok(), Some(read), "of {}", given);
        }
    }

    /// An answer that is accepted has a patch with files, of which every path is judged.
    #[test]
    fn answers_of_agents_are_read_or_refused(output in answer()) {
        if let Ok(reply) = Reply::read(&output) {
            // No change is an answer, too.
            let is_patch = reply.diff.trim().is_empty() || has_file_header(&reply.diff);
            prop_assert!(is_patch, "{}", reply.diff);
            prop_assert!(reply.out_md().contains(reply.notes.trim()));
            let settled = settle_line_ends(&reply.diff, &|path| path.len() % 2 == 0);
            prop_assert!(line_count(&settled) <= settled.lines().count() + 1);
        }
    }

    #[test]
    fn patches_are_judged_by_every_path(patch in patch_lines()) {
        let rule = ScopeRule::new(&Scope { read_paths: vec!["src".into()], file_globs: Some(vec!["**/*.rs".into()]), disallow_reformatting: true });
        for file in files(&patch) {
            for path in file.paths() {
                // A path that leaves the scope is an offence, whatever it is made of.
                let is_outside = !path.starts_with("src/") || path.split('/').any(|part| part == "..");
                prop_assert!(!is_outside || rule.offence(path, &|_| false).is_some(), "{path}");
            }
        }
    }

    /// The counts of a file are those of its lines, and lines are numbered one by one.
    #[test]
    fn patches_are_shown_as_they_are(patch in patch_lines()) {
        let Ok(mut shown) = parse(&patch, |path| path.is_empty()) else { return Ok(()) };
        mark_moved(&mut shown);
        for file in &shown {
            prop_assert!(!anchor(&file.path).contains(['"', '<', ' ']));
            let lines: Vec<_> = file.hunks.iter().flat_map(|hunk| &hunk.lines).collect();
            let signs = |sign: DiffSign| lines.iter().filter(|line| line.sign == sign).count();
            prop_assert_eq!((file.added, file.removed), (signs(DiffSign::Added), signs(DiffSign::Removed)));
            for line in lines {
                prop_assert!(line.place().is_some() && !line.text.contains('\n'));
            }
        }
    }

    /// Marks lie within their line, between characters, and in order.
    #[test]
    fn marks_of_words_lie_within_their_lines(old in any::<String>(), part in "\\PC{0,6}", at in any::<prop::sample::Index>()) {
        let place = old.char_indices().map(|(at, _)| at).nth(at.index(old.chars().count().max(1))).unwrap_or(0);
        let new = format!("{}{part}{}", &old[..place], &old[place..]);
        let (of_old, of_new) = marks(&old, &new);
        for (line, marks) in [(&old, of_old), (&new, of_new)] {
            let mut end = 0;
            for mark in marks {
                prop_assert!(mark.start >= end && line.get(mark.clone()).is_some(), "{mark:?} in {line:?}");
                end = mark.end;
            }
        }
    }
}

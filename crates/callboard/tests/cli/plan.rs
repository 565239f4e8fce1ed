//! Plans at the terminal: an agent's proposal becomes tasks when a person approves it.

use crate::fixture::World;

fn propose(world: &World, tasks: &str) -> String {
    let arguments = format!(r#"{{"tasks": {tasks}}}"#);
    let agent = ["--toolsets", "board", "--actor", "agent:p"];
    let made = world.ok(&[&["call", "propose_plan", &arguments][..], &agent].concat()).json();
    made["plan_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_plan_is_shown_and_approved_once() {
    let world = World::project();
    assert_eq!(world.ok(&["plan", "list"]).stdout, "no plans\n");
    let tasks = r#"[{"title": "Add login", "type": "AUTO", "description": "first\nsecond",
        "acceptance_criteria": ["tests pass"]}, {"title": "Add logout", "priority": "low"}]"#;
    let plan = propose(&world, tasks);
    let listed = world.ok(&["plan", "list", "--json"]).json();
    assert_eq!(
        (&listed["items"][0]["id"], &listed["items"][0]["state"]),
        (&plan.clone().into(), &"draft".into())
    );
    let table = world.ok(&["plan", "list"]).stdout;
    assert!(table.contains("agent:p") && table.contains("Add login"), "{table}");
    let shown = world.ok(&["plan", "show", &plan]).stdout;
    let wanted = "1. Add login  [AUTO, medium]\n   first\n   second\n   - tests pass\n2. Add logout  [PAIR, low]\n";
    assert!(shown.ends_with(wanted), "{shown}");
    assert_eq!(
        world.ok(&["task", "list", "--json"]).json()["items"].as_array().map(Vec::len),
        Some(0)
    );

    let made = world.ok(&["plan", "approve", &plan]).stdout;
    let made: Vec<&str> = made.lines().collect();
    let titles =
        made.iter().map(|id| world.ok(&["task", "show", id, "--json"]).json()["title"].clone());
    assert_eq!(titles.collect::<Vec<_>>(), ["Add login", "Add logout"]);
    let again = world.run(&["plan", "approve", &plan, "--json"]);
    assert_eq!((again.code, again.error_code()), (5, "PLAN_DECIDED".into()));
    assert!(world.ok(&["plan", "show", &plan]).stdout.contains(&format!("made {}\n", made[1])));
}

#[test]
fn a_plan_is_rejected_and_an_unknown_one_is_not_found() {
    let world = World::project();
    let plan = propose(&world, r#"[{"title": "a"}]"#);
    assert_eq!(world.ok(&["plan", "reject", &plan]).stdout, format!("{plan} is rejected\n"));
    let late = world.run(&["plan", "approve", &plan]);
    assert_eq!(late.code, 5);
    for unknown in ["plan_00000000000000000000000000", "nothing"] {
        let ran = world.run(&["plan", "show", unknown, "--json"]);
        assert_eq!((ran.code, ran.error_code()), (3, "PLAN_NOT_FOUND".into()), "{unknown}");
    }
}

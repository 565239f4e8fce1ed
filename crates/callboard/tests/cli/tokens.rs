//! `callboard token add` prints the rights of a token in each toolset.

use crate::fixture::World;

/// The lines about toolsets, without the blanks between their two columns.
fn told(world: &World, flags: &[&str]) -> Vec<String> {
    let made = world.ok(&[&["token", "add", "--actor", "agent:eve"], flags].concat());
    assert_eq!(made.stdout.lines().count(), 1, "the token stands alone: {}", made.stdout);
    let lines = made.stderr.lines().skip_while(|line| !line.contains("what it may do:")).skip(1);
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_new_token_is_told_with_what_it_may_do_in_each_toolset() {
    let world = World::project();
    let task = world.task(&["A"]);
    assert_eq!(
        told(&world, &["--as-type", "SUPERVISOR"]),
        [
            "graph read and write: 17 of 17 tools; writes commands into checks, which the server runs",
            "execution read and write: 12 of 12 tools; writes commands into checks, which the server runs",
            "relay read, jobs_submit, jobs_cancel, as pair_worker: 4 of 4 tools",
            "board read and write, as pair_worker: 19 of 28 tools",
            "crew read and write: 20 of 21 tools",
        ]
    );
    assert_eq!(
        told(&world, &["--profile", "viewer", "--toolsets", "graph,board,crew"]),
        [
            "graph read: 5 of 17 tools",
            "execution nothing; --toolsets does not name it",
            "relay nothing; --toolsets does not name it",
            "board read, as viewer: 7 of 28 tools",
            "crew nothing before the agent has a type, by --as-type or callboard agent add",
        ]
    );
    assert_eq!(
        told(&world, &["--profile", "planner"])[3],
        "board read, propose_plan, as planner: 8 of 28 tools"
    );
    let narrow = ["--scopes", "tasks:read,tasks:write", "--task", &task];
    let narrow = told(&world, &narrow);
    assert_eq!(
        narrow[0],
        format!(
            "graph read and write: 17 of 17 tools; changes {task} alone; writes no command into a \
             check"
        )
    );
}

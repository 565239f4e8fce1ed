//! Settings: which layer wins, where a value came from, and which values are refused.

use crate::fixture::World;

fn origin_of(world: &World, key: &str, flags: &[&str]) -> (String, String) {
    let mut arguments = vec!["config", "get", key, "--show-origin"];
    arguments.extend(flags);
    let line = world.ok(&arguments).stdout;
    let (value, origin) = line.trim_end().split_once('\t').expect("value and origin");
    (value.to_owned(), origin.to_owned())
}

#[test]
fn the_nearest_layer_wins() {
    let world = World::project();
    let key = "store.url";
    assert_eq!(origin_of(&world, key, &[]), (String::new(), "default".into()));
    let layers = [
        (world.home().join(".config/callboard/config.toml"), "user.db"),
        (world.callboard("config.toml"), "project.db"),
        (world.callboard("config.local.toml"), "local.db"),
    ];
    for (path, value) in &layers {
        world.write(path, &format!("[store]\nurl = \"{value}\"\n"));
        world.ok(&["trust"]);
        let (found, origin) = origin_of(&world, key, &[]);
        assert_eq!(&found, value);
        let named = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(origin.ends_with(named), "{origin}");
    }
    let world = world.with("CALLBOARD_STORE_URL", "long.db");
    assert_eq!(origin_of(&world, key, &[]), ("long.db".into(), "CALLBOARD_STORE_URL".into()));
    let world = world.with("CALLBOARD_STORE", "short.db");
    assert_eq!(origin_of(&world, key, &[]), ("short.db".into(), "CALLBOARD_STORE".into()));
    let flag = origin_of(&world, key, &["--store", "flag.db"]);
    assert_eq!(flag, ("flag.db".into(), "--store".into()));
}

#[test]
fn unknown_keys_name_the_file_the_line_and_the_nearest() {
    let world = World::project().with("CALLBOARD_GRAPH_NO_SUCH_THING", "fine");
    world.ok(&["task", "list"]);
    let path = world.callboard("config.toml");
    world.write(&path, "[graph]\nprefix = \"A\"\n\n[http]\nlistn = \"x\"\n");
    let ran = world.run(&["task", "list"]);
    assert_eq!(ran.code, 2);
    let said = format!(
        "error[INVALID_CONFIG]: invalid config: {}:5: unknown key 'http.listn'; \
         did you mean 'http.listen'?\nhint: callboard config shows every key\n",
        path.display()
    );
    assert_eq!(ran.stderr, said);
}

#[test]
fn values_that_make_no_sense_stop_the_start() {
    let cases = [
        ("graph.check_timeout_default = 0", "must be a number 1..3600"),
        ("graph.checks_enabled = \"maybe\"", "must be true or false"),
        ("graph.attest_by = \"nobody\"", "must be one of any, not_assignee, human"),
        ("graph.prefix = \"far too long a prefix\"", "is not 1..12 letters"),
        ("graph.statuses = \"open:working\"", "exactly one status must have the phase initial"),
        ("graph.working_state = \"done\"", "must have the phase working"),
        ("mcp.toolsets = [\"nope\"]", "unknown toolset 'nope'"),
        ("http.listen = \"here\"", "is not an address with a port"),
        ("store.url = \"mysql://u:secret@host/db\"", "write a path, sqlite:PATH or postgres:"),
        ("execution.lease_default_sec = 30", "60 is more than execution.lease_default_sec"),
        ("execution.lease_max_sec = 300", "900 is more than execution.lease_max_sec"),
        (
            "execution.verify_backoff_max_sec = 1",
            "30 is more than execution.verify_backoff_max_sec",
        ),
        ("execution.default_verification = \"github_pr\"", "must be one of none, manual, commands"),
        ("execution.quota.tasks_created = \"lots\"", "must be unlimited or 0..1000000000"),
        ("execution.quota.tasks_created = true", "must be unlimited or a number"),
        ("execution.quota.taks_created = 1", "did you mean 'execution.quota.tasks_created'?"),
        ("general.max_concurrent_agents = 11", "must be a number 1..10"),
        ("general.default_base_branch = \"a..b\"", "must be the name of a branch"),
        ("general.default_worker_agent = \"nobody\"", "must be one of claude, codex"),
        ("general.worktree_base_ref_strategy = \"new\"", "must be one of remote, local_if_ahead"),
        ("runner.worktree_dir = \"../out\"", "must be a relative path without '..'"),
        ("crew.webhook = \"ftp://x\"", "crew.webhook"),
        ("crew.executor = \"nobody\"", "must be one of claude, codex"),
        ("crew.webhook = \"http://127.0.0.1/x\"", "must not be a loopback, private"),
        ("graph = 1", "graph must be a table"),
        ("graph.prefix = ", "config.local.toml:1"),
    ];
    let world = World::project();
    for (text, said) in cases {
        world.write(&world.callboard("config.local.toml"), text);
        for command in [vec!["mcp"], vec!["task", "list"], vec!["config"]] {
            let ran = world.run(&command);
            assert_eq!(ran.code, 2, "{text}");
            assert!(ran.stderr.contains("invalid config: "), "{text}: {}", ran.stderr);
            assert!(ran.stderr.contains(said), "{text}: {}", ran.stderr);
            assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
        }
    }
}

#[test]
fn statuses_are_an_array_or_one_string() {
    let world = World::project();
    let array = "[graph]\nstatuses = [\"todo:initial\", \"doing:working\", \"fin:closed_done\"]\n";
    let string = "[graph]\nstatuses = \"todo:initial, doing:working, fin:closed_done\"\n";
    for text in [array, string] {
        world.write(&world.callboard("config.toml"), text);
        let id = world.task(&["labelled"]);
        assert_eq!(world.ok(&["done", &id, "--json"]).json()["status"], "fin");
    }
}

#[test]
fn every_setting_is_shown() {
    let world = World::project();
    let all = world.ok(&["config", "--json"]).json();
    let settings = all["items"].as_array().expect("settings");
    let prefix = settings.iter().find(|s| s["key"] == "graph.prefix").expect("the prefix");
    assert_eq!(prefix["value"], "SHOP");
    assert!(settings.iter().all(|s| s["help"].as_str().is_some_and(|help| help.ends_with('.'))));
    let one = world.run(&["config", "get", "graph.prefx"]);
    assert_eq!(one.code, 3);
    assert!(one.stderr.contains("did you mean 'graph.prefix'?"), "{}", one.stderr);
}

#[test]
fn a_quota_is_unlimited_or_a_number_and_its_table_may_be_written_both_ways() {
    let world = World::project();
    let key = "execution.quota.tasks_created";
    assert_eq!(origin_of(&world, key, &[]), ("unlimited".into(), "default".into()));
    for text in [
        "[execution.quota]\ntasks_created = 7\n",
        "[execution]\nquota.tasks_created = 7\n",
        "execution.quota.tasks_created = 7\n",
        "[execution]\nquota = { tasks_created = 7 }\n",
    ] {
        world.write(&world.callboard("config.toml"), text);
        assert_eq!(origin_of(&world, key, &[]).0, "7", "{text}");
    }
    let world = world.with("CALLBOARD_EXECUTION_QUOTA_TASKS_CREATED", "Unlimited");
    let variable = "CALLBOARD_EXECUTION_QUOTA_TASKS_CREATED";
    assert_eq!(origin_of(&world, key, &[]), ("unlimited".into(), variable.into()));
    let world = world.with("CALLBOARD_EXECUTION_LEASE_MAX_SEC", "7200");
    let add =
        world.ok(&["call", "add_task", r#"{"title": "a"}"#, "--toolsets", "execution"]).json();
    let id = add["taskId"].as_str().expect("an id");
    let claim = format!(r#"{{"taskId": "{id}", "leaseSec": 7200}}"#);
    let claimed = world.ok(&["call", "claim_task", &claim, "--toolsets", "execution"]).json();
    assert_eq!(claimed["leaseSec"], 7200);
}

#[test]
fn what_the_store_keeps_is_below_variables_and_above_files() {
    let world = World::project();
    let key = "general.max_concurrent_agents";
    let update = |world: &World, number: u32| {
        let arguments = format!(r#"{{"max_concurrent_agents": {number}}}"#);
        let board = ["--toolsets", "board"];
        world.ok(&[&["call", "settings_update", &arguments][..], &board].concat()).json()
    };
    world.write(&world.callboard("config.toml"), "[general]\nmax_concurrent_agents = 5\n");
    let (value, origin) = origin_of(&world, key, &[]);
    assert!(value == "5" && origin.ends_with("config.toml"), "{value} {origin}");
    assert_eq!(update(&world, 4)["updated"][key], 4);
    assert_eq!(origin_of(&world, key, &[]), ("4".into(), "store".into()));
    let variable = "CALLBOARD_GENERAL_MAX_CONCURRENT_AGENTS";
    let world = world.with(variable, "2");
    assert_eq!(origin_of(&world, key, &[]), ("2".into(), variable.into()));
    let kept = update(&world, 7);
    assert_eq!((&kept["updated"][key], &kept["settings"][key]), (&7.into(), &2.into()));
    let hint = kept["hint"].as_str().expect("a hint");
    assert!(hint.contains(key), "{hint}");
    let refused = world.run(&["config", "get", key, "--org", "nobody"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (0, "2\n"));
    assert!(refused.stderr.contains("settings in the store are not shown"), "{}", refused.stderr);
}

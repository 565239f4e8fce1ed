//! Recording knowledge and finding it again, without any model installed.

use crate::fixture::World;
use crate::skipped::skipped;

#[test]
fn what_is_learned_is_found() {
    let world = World::project();
    assert_eq!(world.ok(&["search", "webhook", "--json"]).json()["items"], serde_json::json!([]));
    let body = "The provider retries for 3 days";
    let learned =
        world.ok(&["learn", "Webhook retries", "--body", body, "--tag", "Webhooks", "--json"]);
    let learned = learned.json();
    assert_eq!(learned["tags"][0], "webhooks");
    world.ok(&["learn", "Tests need a database"]);
    let found = world.ok(&["search", "how long are webhooks retried", "--json"]).json();
    assert_eq!(found["degraded"], false);
    assert_eq!(found["items"][0]["id"], learned["id"]);
    assert_eq!(found["items"][0]["snippet"], body);
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    let shown = world.ok(&["search", "database"]).stdout;
    assert!(shown.contains("Tests need a database"), "{shown}");
    let tagged = world.ok(&["search", "webhooks database", "--tag", "webhooks", "--json"]).json();
    assert_eq!(tagged["items"].as_array().map(Vec::len), Some(1));

    let id = learned["id"].as_str().expect("an id");
    world.ok(&["learn", "Webhook retries end after 5 days", "--supersedes", id]);
    let now = world.ok(&["search", "webhook retries", "--json"]).json();
    assert_eq!(now["items"][0]["title"], "Webhook retries end after 5 days");
    assert_eq!(now["items"].as_array().map(Vec::len), Some(1));
    let all = world.ok(&["search", "webhook retries", "--all", "--json"]).json();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn invalid_learn_arguments_are_named() {
    let world = World::project();
    for (arguments, words) in [
        (vec!["learn", "x", "--tag", "a b"], "tag 'a b'"),
        (vec!["learn", " "], "title cannot be empty"),
        (vec!["learn", "x", "--supersedes", "SHOP-1"], "there is no entry 'SHOP-1'"),
        (vec!["search", " "], "query must be 1..2000 characters"),
        (vec!["search", "x", "--min-score", "2"], "minScore must be 0..1"),
    ] {
        let ran = world.run(&arguments);
        assert!(ran.code != 0 && ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn doctor_says_what_embeds_or_why_nothing_does() {
    let world = World::project();
    let embedder = |world: &World| {
        let checks = world.run(&["doctor", "--json"]).json()["checks"].clone();
        let found = checks.as_array().expect("checks").iter();
        let line = found.clone().find(|check| check["name"] == "embedder").expect("a line").clone();
        (line["status"].as_str().unwrap_or("").to_owned(), line["message"].to_string())
    };
    let (status, message) = embedder(&world);
    assert!(status == "ok" && message.contains("no model is installed"), "{message}");
    let wanted = World::project().with("CALLBOARD_KNOWLEDGE_EMBEDDER", "model");
    let (status, message) = embedder(&wanted);
    assert!(status == "warn" && message.contains("words alone"), "{message}");
    wanted.ok(&["learn", "everything else works"]);
    assert!(wanted.ok(&["search", "works"]).stdout.contains("everything else works"));
    let unset = World::project().with("CALLBOARD_KNOWLEDGE_EMBEDDER", "openai");
    let ran = unset.run(&["search", "x"]);
    assert!(ran.code != 0 && ran.stderr.contains("knowledge.openai_url"), "{}", ran.stderr);
}

#[test]
fn an_endpoint_that_is_away_stops_nothing() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", closed.local_addr().expect("an address"));
    drop(closed);
    let world = World::project()
        .with("CALLBOARD_KNOWLEDGE_EMBEDDER", "openai")
        .with("CALLBOARD_KNOWLEDGE_OPENAI_URL", &url)
        .with("CALLBOARD_KNOWLEDGE_OPENAI_MODEL", "some");
    world.ok(&["learn", "Webhook retries", "--body", "The provider retries for 3 days"]);
    let found = world.ok(&["search", "webhook retries", "--json"]).json();
    assert_eq!(found["degraded"], true, "{found}");
    assert_eq!(found["items"][0]["title"], "Webhook retries", "{found}");
    world.ok(&["task", "add", "Handle webhook retries"]);
    let next = world.ok(&["next", "--json"]).json();
    let knowledge = &next["items"][0]["knowledge"];
    assert_eq!(knowledge["degraded"], true, "{next}");
    assert_eq!(knowledge["references"][0]["title"], "Webhook retries", "{next}");
}

#[test]
fn the_next_task_comes_with_what_is_known() {
    let world = World::project();
    world.ok(&["task", "add", "Handle webhook retries"]);
    world.ok(&["learn", "Webhook retries", "--body", "The provider retries for 3 days"]);
    world.ok(&["learn", "Tests need a database"]);
    let shown = world.ok(&["next"]).stdout;
    assert!(shown.contains("Webhook retries") && shown.contains("for 3 days"), "{shown}");
    assert!(!shown.contains("Tests need a database"), "{shown}");
    let few = World::project().with("CALLBOARD_EXECUTION_DIGEST_MIN_SCORE", "1.5");
    let ran = few.run(&["next"]);
    assert!(ran.code != 0 && ran.stderr.contains("must be a number 0..1"), "{}", ran.stderr);
}

#[test]
fn only_a_model_that_is_known_is_installed() {
    let world = World::project();
    let folder = world.root().join("model");
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        world.write(&folder.join(file), "{}");
    }
    let ran = world.run(&["model", "install", "--from", "model"]);
    assert!(ran.code == 1 && ran.stderr.contains("SHA-256"), "{}", ran.stderr);
    let ran = world.run(&["model", "install", "--from", "nowhere"]);
    assert!(ran.code == 1 && ran.stderr.contains("nowhere"), "{}", ran.stderr);
    let Some(real) = std::env::var_os("CALLBOARD_TEST_MODEL").filter(|f| !f.is_empty()) else {
        skipped("CALLBOARD_TEST_MODEL names no model (scripts/model prints its folder)");
        return;
    };
    world.ok(&["model", "install", "--from", &real.to_string_lossy()]);
    let doctor = world.run(&["doctor"]).stdout;
    assert!(doctor.contains("all-MiniLM-L6-v2-53aa5117"), "{doctor}");
    world.ok(&["learn", "Webhook retries", "--body", "The provider retries for 3 days"]);
    // The answer does not depend on whether the vector is there in time.
    let found = world.ok(&["search", "webhook retries", "--json"]).json();
    assert_eq!(found["items"][0]["title"], "Webhook retries", "{found}");
}

//! Help and config schema as files, so that a review sees every change. `CALLBOARD_BLESS=1 cargo test -p callboard
//! --test cli goldens` rewrites them.

use std::path::Path;

use crate::fixture::World;

#[test]
fn help() {
    let world = World::bare();
    let mut text = String::new();
    help_of(&world, &mut Vec::new(), &mut text);
    compare("help.txt", &text);
}

#[test]
fn config_schema() {
    let world = World::bare();
    compare("config.schema.json", &world.ok(&["config", "schema"]).stdout);
}

/// The headings of commands: groups on the first page.
const HEADINGS: [&str; 9] =
    ["Start", "Tasks", "Checks", "Jobs", "Review", "People", "Memory", "Operations", "Commands"];

/// Appends the help of a command and of all commands below it, in the order of their list.
fn help_of(world: &World, path: &mut Vec<String>, text: &mut String) {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let help = world.ok(&arguments).stdout;
    text.push_str(&format!("$ callboard {}\n\n{help}\n", arguments.join(" ")));
    let mut lists = false;
    let mut names = Vec::new();
    for line in help.lines() {
        match line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
            Some(heading) => lists = HEADINGS.contains(&heading),
            // A continued description is indented further than a name.
            None if lists && !line.starts_with("   ") => {
                names.extend(line.split_whitespace().next());
            }
            None => {}
        }
    }
    let names = names.into_iter();
    for name in names.filter(|name| *name != "help").map(str::to_owned).collect::<Vec<_>>() {
        path.push(name);
        help_of(world, path, text);
        path.pop();
    }
}

pub fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        return std::fs::write(&path, found).expect("the golden is written");
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == found,
        "{} differs; look at it and rewrite it with CALLBOARD_BLESS=1. It is now:\n{found}",
        path.display()
    );
}

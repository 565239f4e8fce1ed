//! The workspace's own rules, checked like any other. Each message names the fix.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Dependencies that each crate must never name in its manifest.
const BANS: &[(&str, &[&str])] = &[
    (
        "domain",
        &[
            "tokio",
            "rusqlite",
            "tokio-postgres",
            "deadpool-postgres",
            "axum",
            "rmcp",
            "clap",
            "jiff",
            "uuid",
            "rustix",
            "callboard-store",
            "callboard-engine",
            "callboard-runner",
            "callboard-surface",
        ],
    ),
    (
        "store",
        &[
            "axum",
            "rmcp",
            "clap",
            "maud",
            "callboard-engine",
            "callboard-runner",
            "callboard-surface",
        ],
    ),
    (
        "engine",
        &[
            "rusqlite",
            "tokio-postgres",
            "deadpool-postgres",
            "axum",
            "rmcp",
            "clap",
            "maud",
            "callboard-runner",
            "callboard-surface",
        ],
    ),
    ("runner", &["rusqlite", "tokio-postgres", "axum", "rmcp", "clap", "callboard-surface"]),
    ("surface", &["rusqlite", "tokio-postgres", "clap", "callboard-runner"]),
];

#[test]
fn crates_name_only_what_they_may() {
    for (name, banned) in BANS {
        let manifest = read(&root().join("crates").join(name).join("Cargo.toml"));
        let (product, _) = manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
        let names: Vec<&str> =
            product.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
        for banned in *banned {
            assert!(
                !names.contains(banned),
                "crates/{name} must not depend on {banned}: see the codemap in ARCHITECTURE.md"
            );
        }
    }
}

/// Words that the sources of a crate must not have: the rows of the codemap that a manifest cannot enforce.
const ABSENT: &[(&str, &[&str])] = &[
    (
        "domain",
        &[
            "std::fs",
            "std::process",
            "std::env",
            "TcpStream",
            "SystemTime",
            "Instant",
            "getrandom",
            "tokio::",
        ],
    ),
    ("store", &["process::Command", "tokio::process"]),
    ("engine", &["std::fs", "std::process", "tokio::process", "SELECT ", "INSERT INTO"]),
    ("runner", &["SELECT ", "INSERT INTO"]),
    ("surface", &["std::process", "tokio::process", "SELECT ", "INSERT INTO"]),
];

#[test]
fn sources_name_only_what_their_crate_may() {
    for file in product_sources() {
        let (path, text) = (relative(&file), read(&file));
        let absent = ABSENT.iter().filter(|(name, _)| path.starts_with(&format!("crates/{name}/")));
        for word in absent.flat_map(|(_, words)| *words) {
            assert!(
                !text.contains(word),
                "{path} names {word}: see the codemap in ARCHITECTURE.md"
            );
        }
    }
}

/// The folders of the engine. A folder uses the files beside `lib.rs` and the folders before it.
const ENGINE: &[&str] =
    &["task", "knowledge", "board", "runs", "review", "pulls", "crew", "background"];

#[test]
fn folders_of_the_engine_use_those_before_them() {
    for file in product_sources() {
        let path = relative(&file);
        let Some(below) = path.strip_prefix("crates/engine/src/") else { continue };
        let place = below.split_once('/').and_then(|(folder, _)| rank(folder));
        let uses = read(&file);
        let uses = uses.lines().filter_map(|line| line.trim().strip_prefix("use crate::"));
        let named = uses.filter_map(|rest| rest.split([':', ';', '{']).next());
        for other in named.filter(|_| below != "lib.rs") {
            assert!(
                rank(other) <= place,
                "{path} uses crate::{other}: see the order of the engine's folders in ARCHITECTURE.md"
            );
        }
    }
}

/// The place of a folder of the engine; `None` for a file beside `lib.rs`, which is before all folders.
fn rank(folder: &str) -> Option<usize> {
    ENGINE.iter().position(|known| *known == folder)
}

/// A word that is allowed only in some places.
struct Reserved {
    word: &'static str,
    only_in: &'static [&'static str],
    fix: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        word: "Result<Result<",
        only_in: &[],
        fix: "make one error enum with a variant for each kind of failure",
    },
    Reserved {
        word: "rmcp::",
        only_in: &["crates/surface/src/mcp/"],
        fix: "go through surface/src/mcp/, the only place that names the protocol's SDK",
    },
    Reserved {
        word: "mcp__",
        // Agents name the tools of any server like this. The rules of a crew write mail and prompts that name tools.
        only_in: &[
            "crates/surface/src/toolsets/crew/",
            "crates/runner/src/executor/acp.rs",
            "crates/domain/src/crew/decision.rs",
            "crates/domain/src/crew/letters.rs",
            "crates/domain/src/decide/",
            "crates/domain/src/runs/work/prompt.rs",
        ],
        fix: "name a crew's tools in its toolset's folder, and pass on what they mean as data",
    },
    Reserved {
        word: "\"--toolsets\"",
        only_in: &["crates/callboard/"],
        fix: "take the command line of an agent's server from callboard/src/agent_server.rs",
    },
    Reserved {
        word: "\"--token-file\"",
        only_in: &["crates/callboard/"],
        fix: "take the command line of an agent's server from callboard/src/agent_server.rs",
    },
    Reserved {
        word: "rusqlite::",
        only_in: &["crates/store/", "crates/bench/"],
        fix: "ask the store; only crates/store names a database",
    },
    Reserved {
        word: "tokio_postgres::",
        only_in: &["crates/store/", "crates/bench/"],
        fix: "ask the store; only crates/store names a database",
    },
    Reserved {
        word: "Command::new(",
        only_in: &["crates/runner/src/process.rs", "crates/bench/src/"],
        fix: "spawn through runner/src/process.rs",
    },
    Reserved {
        word: "store.apply(",
        only_in: &["crates/engine/src/act.rs", "crates/bench/src/"],
        fix: "act, act_as_runner, act_as_clock or note in engine/src/act.rs",
    },
    Reserved {
        word: "store.apply_all(",
        only_in: &["crates/engine/src/act.rs"],
        fix: "act_all_as_runner in engine/src/act.rs",
    },
    Reserved {
        word: "Git::guarded(",
        only_in: &["crates/runner/src/guarded.rs"],
        fix: "open the worktree with AgentTree, which finds git's folders in our record",
    },
    Reserved {
        word: "SystemTime::now(",
        only_in: &["crates/store/src/clock.rs"],
        fix: "ask the store for the time",
    },
    Reserved {
        word: "struct Asked",
        only_in: &["crates/store/src/postgres/"],
        fix: "a request is <Thing>Request",
    },
    Reserved { word: "struct ListArgs", only_in: &[], fix: "arguments are <Noun><Verb>Args" },
    Reserved { word: "struct ShowArgs", only_in: &[], fix: "arguments are <Noun><Verb>Args" },
    Reserved { word: "struct AddArgs", only_in: &[], fix: "arguments are <Noun><Verb>Args" },
    Reserved { word: "struct Adrift", only_in: &[], fix: "the word is StaleWorker" },
    Reserved { word: "struct Stray", only_in: &[], fix: "the word is OrphanRun" },
    Reserved {
        word: "struct Taken {",
        only_in: &[],
        fix: "the words are ClaimedTask and Leased<Thing>",
    },
    Reserved {
        word: "struct Wanted",
        only_in: &[],
        fix: "rows that are fetched are <Thing>Wanted",
    },
    Reserved { word: "struct Told", only_in: &[], fix: "a message for an agent is AgentMessage" },
    Reserved {
        word: "struct Heard",
        only_in: &["crates/store/tests/"],
        fix: "the words are AgentOutput",
    },
    Reserved { word: "struct Seat", only_in: &[], fix: "a call of a crew's agent is AgentCall" },
    Reserved {
        word: "struct Ground",
        only_in: &["crates/callboard/tests/"],
        fix: "the word is LeasedWork",
    },
];

#[test]
fn reserved_words_stay_in_their_place() {
    for file in product_sources() {
        let path = relative(&file);
        let text = read(&file);
        for Reserved { word, only_in, fix } in RESERVED {
            let allowed = only_in.iter().any(|place| path.starts_with(place));
            assert!(allowed || !text.contains(word), "{path} names {word}: {fix}");
        }
    }
}

/// Places that `scripts/figures` does not count as product code.
const SCAFFOLDING: &[&str] = &["/bench/", "/bench.rs", "/baseline.rs", "/mcp/conformance/"];

#[test]
fn type_names_are_defined_in_at_most_two_modules() {
    let mut modules = std::collections::BTreeMap::<String, Vec<String>>::new();
    for file in product_sources() {
        let (path, text) = (relative(&file), read(&file));
        if !path.contains("/src/") || SCAFFOLDING.iter().any(|part| path.contains(part)) {
            continue;
        }
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let names: std::collections::BTreeSet<&str> =
            product.lines().filter_map(defined_type).collect();
        for name in names {
            modules.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    assert!(modules.len() > 500, "the search for types is broken");
    modules.retain(|_, paths| paths.len() > 2);
    assert!(modules.is_empty(), "put the thing into the names of these types: {modules:#?}");
}

/// The name of the struct or enum that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let rest = line.strip_prefix("struct ").or_else(|| line.strip_prefix("enum "))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric()).next().filter(|name| !name.is_empty())
}

/// Files that serve every toolset alike: none of their words is a toolset's name.
const FOR_ALL_TOOLSETS: &[&str] = &[
    "crates/surface/src/catalog.rs",
    "crates/surface/src/front.rs",
    "crates/surface/src/hooks.rs",
    "crates/surface/src/mcp/",
    "crates/surface/src/question.rs",
    "crates/surface/src/resource.rs",
    "crates/surface/src/ticket.rs",
    "crates/surface/src/tool.rs",
];

/// Besides those files: no other place of the surface uses a toolset's folder, and no other folder of the engine has a
/// toolset's name as a text.
#[test]
fn toolsets_are_named_in_their_own_folders() {
    let toolsets = root().join("crates/surface/src/toolsets");
    let entries = fs::read_dir(&toolsets).expect("a folder of the workspace").flatten();
    let names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("names are UTF-8"))
        .collect();
    assert!(names.len() >= 5, "the search for toolsets is broken");
    let is_name = |word: &&str| names.iter().any(|name| name == word);
    let fix = "make it a hook (surface/src/hooks.rs), or let the binary pass it in";
    for file in product_sources() {
        let (path, text) = (relative(&file), read(&file));
        // The texts of the official conformance suite.
        let is_fixture = path.starts_with("crates/surface/src/mcp/conformance/");
        if FOR_ALL_TOOLSETS.iter().any(|place| path.starts_with(place)) && !is_fixture {
            let found = words(&text).find(is_name);
            assert!(found.is_none(), "{path} names the toolset {}: {fix}", found.unwrap());
        }
        if path.starts_with("crates/surface/src/") && !path.contains("/toolsets/") {
            for after in text.split("toolsets::").skip(1) {
                let used = match after.strip_prefix('{') {
                    Some(list) => list.split('}').next(),
                    None => after.split(|c: char| !c.is_ascii_alphanumeric()).next(),
                };
                let found = words(used.unwrap_or_default()).find(is_name);
                assert!(found.is_none(), "{path} uses the toolset {}: {fix}", found.unwrap());
            }
        }
        if let Some(below) = path.strip_prefix("crates/engine/src/") {
            for name in names.iter().filter(|name| !below.starts_with(&format!("{name}/"))) {
                assert!(
                    !text.contains(&format!("\"{name}\"")),
                    "{path} names the toolset {name}: {fix}"
                );
            }
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// Files that run git in a folder which is no repository of a person by name, and why they may.
const GIT_ELSEWHERE: &[(&str, &str)] = &[
    ("crates/runner/src/git.rs", "it is the program's own file"),
    ("crates/runner/src/guarded.rs", "it tells a person's checkout from a worktree"),
    ("crates/runner/src/tree.rs", "the person's own checkout and its submodules"),
    ("crates/runner/src/checks.rs", "the person's own checkout"),
    ("crates/runner/src/worktree/make.rs", "the top of the repository"),
    ("crates/runner/src/tracked.rs", "the folder that Callboard was opened in"),
    ("crates/runner/src/workspace.rs", "the copy of a job, which its agent only reads"),
];

/// An agent writes its worktree, so a git that takes its folders and settings from there runs the agent's programs.
#[test]
fn git_in_an_agents_worktree_is_guarded() {
    for file in product_sources() {
        let (path, text) = (relative(&file), read(&file));
        if GIT_ELSEWHERE.iter().any(|(known, _)| *known == path) {
            continue;
        }
        for call in ["Git::at(", "Git::writing("] {
            for after in text.split(call).skip(1) {
                let (folder, _) = after.split_once(')').unwrap_or((after, ""));
                let name = folder.trim_start_matches('&').rsplit('.').next();
                assert!(
                    name == Some("repo"),
                    "{path}: {call}{folder}) may be a worktree of an agent: open it with AgentTree"
                );
            }
        }
    }
    for (known, _) in GIT_ELSEWHERE {
        assert!(root().join(known).exists(), "{known} is gone: take it off the list");
    }
}

#[test]
fn every_file_says_what_lives_in_it() {
    for file in sources() {
        let first = read(&file).lines().next().unwrap_or_default().to_owned();
        let path = relative(&file);
        assert!(
            first.starts_with("//! "),
            "{path} must open with `//!`: what lives here, and what not"
        );
    }
}

#[test]
fn files_stay_under_600_lines() {
    for file in product_sources() {
        let (path, lines) = (relative(&file), read(&file).lines().count());
        assert!(lines <= 600, "{path} has {lines} lines: split it by what changes together");
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        for vague in ["util", "utils", "common", "helper", "helpers", "misc", "manager"] {
            assert!(name != vague, "{path}: name the file after what it does");
        }
    }
}

#[test]
fn nothing_is_left_unfinished() {
    for file in sources() {
        let path = relative(&file);
        if path.ends_with("tests/tidy.rs") {
            continue;
        }
        for (number, line) in read(&file).lines().enumerate() {
            for mark in ["TODO", "FIXME", "XXX", "#[ignore", "<<<<<<< ", ">>>>>>> "] {
                assert!(
                    !line.contains(mark),
                    "{path}:{}: finish it or delete it ({mark})",
                    number + 1
                );
            }
        }
    }
}

/// Every document names files and headings that exist: by a path from the root, by the end of a path (`sqlite/load.rs`), or in a
/// link. Paths of a user's project are not checked.
#[test]
fn documents_name_files_that_exist() {
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    collect(&root(), &mut files, &|_| true);
    let files: Vec<String> = files.iter().map(|file| relative(file)).collect();
    let is_there = |name: &str| {
        let end = format!("/{name}");
        root().join(name).exists() || files.iter().any(|file| file.ends_with(&end))
    };
    let starts = ["crates/", "docs/", "scripts/", "transcripts/", "changes/"];
    let documents: Vec<&String> = files.iter().filter(|file| file.ends_with(".md")).collect();
    assert!(documents.len() > 100, "the search for documents is broken");
    for document in documents {
        let text = read(&root().join(document));
        let quoted = text.split('`').skip(1).step_by(2);
        let named = quoted.filter(|word| {
            let is_source = word.ends_with(".rs") || word.ends_with(".mjs");
            is_source || starts.iter().any(|start| word.starts_with(start))
        });
        for name in named.filter(|word| !word.contains(['*', '<', '{', ' ', '…', '\n'])) {
            if !is_there(name) {
                missing.push(format!("{document} names {name}"));
            }
        }
        let folder = Path::new(document).parent().unwrap_or(Path::new(""));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.contains([' ', '\n'])) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root().join(document),
                file => root().join(folder).join(file),
            };
            if !target.exists() {
                missing.push(format!("{document} links to {file}"));
            } else if !heading.is_empty() && !anchors(&read(&target)).contains(heading) {
                missing.push(format!("{document} links to the heading {link}"));
            }
        }
    }
    assert!(missing.is_empty(), "files that do not exist: {missing:#?}");
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> std::collections::HashSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn the_index_of_the_documents_lists_every_page() {
    let docs = root().join("docs");
    let index = read(&docs.join("README.md"));
    for folder in ["start", "guide", "operate", "reference"] {
        for entry in fs::read_dir(docs.join(folder)).expect("a folder of documents").flatten() {
            let page = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let is_page = page.ends_with(".md");
            assert!(
                !is_page || index.contains(&format!("({page})")),
                "docs/README.md lists {page}"
            );
        }
    }
}

/// The codemap is a tree: `folder  what lives there`, then an indented line for each group of names below that folder.
#[test]
fn the_codemap_names_what_exists_in_forty_lines() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let (_, map) = text.split_once("## Codemap\n\n```\n").expect("the codemap");
    let (map, _) = map.split_once("```").expect("the end of the codemap");
    let lines = map.lines().count();
    assert!(
        lines <= 40,
        "the codemap has {lines} lines, at most 40: leave out what a file's name says"
    );
    let mut folder = "";
    for line in map.lines() {
        let (names, _) = line.trim_start().split_once("  ").expect("names, two spaces, words");
        let below = if line.starts_with(' ') { folder } else { "" };
        for name in names.split(' ') {
            let there = root().join(below).join(name).exists();
            assert!(there, "the codemap names {name} below '{below}', which does not exist");
        }
        if below.is_empty() {
            folder = names;
        }
    }
}

#[test]
fn every_threat_names_a_test_that_exists() {
    let code: String = sources().iter().map(|file| read(file)).collect();
    let text = read(&root().join("docs/operate/threat-model.md"));
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| asset"));
    let mut count = 0;
    for row in rows {
        count += 1;
        let shown_by = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
        let tests = shown_by.split('`').skip(1).step_by(2);
        let names: Vec<&str> = tests.filter_map(|test| Some(test.rsplit_once("::")?.1)).collect();
        assert!(!names.is_empty(), "no test shows this: {row}");
        for name in names {
            assert!(code.contains(&format!("fn {name}(")), "there is no test {name}: {row}");
        }
    }
    assert!(count > 10, "the table cannot be read");
}

#[test]
fn numbers_of_notes_and_decisions_are_given_once() {
    for folder in ["docs/decisions", "changes/unreleased"] {
        let mut taken = std::collections::BTreeMap::new();
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some((number, _)) = name.split_once('-') else { continue };
            if let Some(other) = taken.insert(number.to_owned(), name.clone()) {
                panic!("{folder}: {other} and {name} share a number; give one the next free one");
            }
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn relative(path: &Path) -> String {
    let root = root().canonicalize().expect("the workspace exists");
    let path = path.canonicalize().expect("the file exists");
    path.strip_prefix(root).expect("inside the workspace").display().to_string()
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let is_source = |file: &Path| file.extension().is_some_and(|extension| extension == "rs");
    collect(&root().join("crates"), &mut found, &is_source);
    assert!(found.len() > 50, "the search for sources is broken");
    found
}

/// Sources of the product, without tests.
fn product_sources() -> Vec<PathBuf> {
    sources()
        .into_iter()
        .filter(|file| {
            let path = relative(file);
            !path.contains("/tests/") && !path.contains("/examples/")
        })
        .collect()
}

/// The files below a folder, without hidden folders, build output and installed packages.
fn collect(folder: &Path, found: &mut Vec<PathBuf>, is_wanted: &dyn Fn(&Path) -> bool) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace").flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().expect("names are UTF-8");
        if path.is_dir() && !path.is_symlink() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                collect(&path, found, is_wanted);
            }
        } else if is_wanted(&path) {
            found.push(path);
        }
    }
}

/// A patch that does not apply any more would show nothing, and `scripts/mutations --run` is no part of a usual run.
#[test]
fn bugs_put_in_on_purpose_fit_the_code() {
    let folder = root().join("scripts/mutations.d");
    let list = read(&root().join("docs/operate/reliability.md"));
    for entry in fs::read_dir(&folder).expect("a folder of the workspace").flatten() {
        let (path, patch) = (relative(&entry.path()), read(&entry.path()));
        let name = entry.file_name().to_string_lossy().replace(".patch", "");
        assert!(
            list.contains(&format!("\n| `{name}`: ")),
            "docs/operate/reliability.md lists every bug, but not {name}: add a row to the table at its end"
        );
        let (head, patch) = patch.split_once("\n+++ b/").expect("a patch of one file");
        let commands =
            head.lines().filter(|line| line.starts_with("test: ") || line.starts_with("run: "));
        assert_eq!(commands.count(), 1, "{path} needs one line `test: ` or `run: `");
        let (file, hunks) = patch.split_once("\n@@").expect("a hunk");
        let code = read(&root().join(file));
        for hunk in hunks.split("\n@@") {
            let lines = hunk.lines().skip(1).filter(|line| !line.starts_with('+'));
            let before: Vec<&str> = lines.map(|line| line.get(1..).unwrap_or_default()).collect();
            assert!(
                code.contains(&before.join("\n")),
                "{path} does not fit {file} any more: make the patch anew, and see its test fail"
            );
        }
    }
}

//! Runs every Markdown file under `transcripts/` on every store and transport; scenes on PostgreSQL are ignored unless
//! `CALLBOARD_TEST_POSTGRES` names one. A scene takes every transport on SQLite and one of them, in turns, on PostgreSQL:
//! transports know nothing of stores. `CALLBOARD_TRANSCRIPTS=all` runs every pair. `CALLBOARD_BLESS=1` rewrites the
//! replies instead; review them with `git diff transcripts/`. Each reply must fit the `outputSchema` of its tool.

mod agents;
mod hook;
mod lanes;
mod names;
mod outputs;
#[path = "../../../store/tests/it/schema.rs"]
#[allow(dead_code, reason = "the store's own tests ask more of it")]
mod schema;
mod schemas;
mod script;
#[path = "../../../store/tests/it/skipped.rs"]
mod skipped;
mod world;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use lanes::Transport;
use script::Script;
use world::StoreKind;

fn main() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../transcripts");
    let mut files = Vec::new();
    find(&root, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no transcripts under {}", root.display());
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        for file in &files {
            bless(file);
        }
    }
    let mut lanes = Lanes::default();
    let trials = files.iter().flat_map(|file| trials(&root, file, &mut lanes)).collect();
    let mut arguments = Arguments::from_args();
    // Scenes wait more than they compute: for flushes, for git, for PostgreSQL.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads = arguments.test_threads.or(Some(2 * processors));
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    schemas::drop_free();
    let never_seen = if is_whole { outputs::never_seen() } else { Vec::new() };
    if !conclusion.has_failed() && !never_seen.is_empty() {
        eprintln!("no reply of a transcript has these keys of an outputSchema:\n{never_seen:#?}");
        std::process::exit(101);
    }
    conclusion.exit();
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("transcripts can be listed").flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
}

fn read(file: &Path) -> Script {
    Script::parse(&std::fs::read_to_string(file).expect("a transcript can be read"))
}

/// Deals the pairs of stores and transports out to scenes.
#[derive(Default)]
struct Lanes {
    scenes: usize,
}

impl Lanes {
    fn of_next_scene(&mut self) -> Vec<(StoreKind, Transport)> {
        let turn = self.scenes % Transport::ALL.len();
        self.scenes += 1;
        let is_all = std::env::var_os("CALLBOARD_TRANSCRIPTS").is_some_and(|asked| asked == "all");
        let pairs = StoreKind::ALL.into_iter().flat_map(|kind| {
            Transport::ALL.into_iter().enumerate().map(move |(n, transport)| (n, kind, transport))
        });
        let is_chosen = |n, kind| is_all || kind == StoreKind::Sqlite || n == turn;
        pairs
            .filter(|&(n, kind, _)| is_chosen(n, kind))
            .map(|(_, kind, transport)| (kind, transport))
            .collect()
    }
}

fn trials(root: &Path, file: &Path, lanes: &mut Lanes) -> Vec<Trial> {
    let name = file.strip_prefix(root).expect("found below").display().to_string();
    let mut trials = Vec::new();
    for (index, scene) in read(file).scenes.iter().enumerate() {
        for (kind, transport) in lanes.of_next_scene() {
            let file = file.to_owned();
            let title =
                format!("{name}: {} [{}, {}]", scene.title, kind.as_str(), transport.as_str());
            trials.push(Trial::ignorable_test(title, move || match kind.missing() {
                Some(why) => Ok(Completion::ignored_with(why)),
                None => check(&file, index, kind, transport).map(|()| Completion::Completed),
            }));
        }
    }
    trials
}

fn check(file: &Path, index: usize, kind: StoreKind, transport: Transport) -> Result<(), Failed> {
    let scene = read(file).scenes.swap_remove(index);
    let replies = play(&scene, kind, transport);
    for (step, reply) in scene.steps.iter().zip(replies) {
        if step.reply != reply {
            let at = format!("{}:{}", file.display(), step.line);
            let (expected, got) = (step.reply.join("\n  "), reply.join("\n  "));
            return Err(
                format!("{at}\n{}\nexpected:\n  {expected}\ngot:\n  {got}", step.text).into()
            );
        }
    }
    Ok(())
}

fn play(scene: &script::Scene, kind: StoreKind, transport: Transport) -> Vec<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let schema = (kind == StoreKind::Postgres).then(schemas::lend);
    let replies = runtime.block_on(world::play(scene, schema.clone(), transport));
    // Ends every task of the scene that could still write.
    drop(runtime);
    if let Some(schema) = schema {
        schemas::take_back(schema);
    }
    replies
}

fn bless(file: &Path) {
    let mut script = read(file);
    for scene in &mut script.scenes {
        let replies = play(scene, StoreKind::Sqlite, Transport::Direct);
        for (step, reply) in scene.steps.iter_mut().zip(replies) {
            step.reply = reply;
        }
    }
    std::fs::write(file, script.render()).expect("a transcript can be written");
}

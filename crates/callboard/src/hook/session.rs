//! Which actor a client's hooks act for. `callboard mcp` writes down its actor under the process that started it, and a
//! hook finds it there, because the client starts both. Also what hooks remember between two moments of a session.
//!
//! The files lie in `.callboard/agents/`, which git ignores.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_engine::store::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::place::Place;

const FOLDER: &str = "agents";
/// A client's session that was silent for so long is over.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// A hook is a child of its client, perhaps with a shell or two in between.
const ANCESTORS_MAX: usize = 6;

/// The note that `callboard mcp` leaves about its actor; removed with the process.
pub struct ClientNote {
    path: PathBuf,
}

impl ClientNote {
    /// Writes down that the client which started this process acts as `actor`. Failing that, hooks do nothing.
    pub fn write(place: &Place, actor: &Actor) -> Option<Self> {
        // The parent is the client: clients start their MCP servers themselves.
        let client = u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok()?;
        let folder = folder(place).ok()?;
        forget_old(&folder);
        let path = folder.join(client.to_string());
        let note = json!({"actor": actor.as_str(), "since": started(client)});
        replace(&path, &note).ok()?;
        Some(Self { path })
    }
}

impl Drop for ClientNote {
    fn drop(&mut self) {
        // A note that stays behind names a process that is gone, which no hook has as an ancestor.
        let _ = fs::remove_file(&self.path);
    }
}

/// The actor of the client that started this process.
pub fn actor_of_client(place: &Place) -> Option<Actor> {
    let folder = place.folder().join(FOLDER);
    let mut process = std::process::id();
    for _ in 0..ANCESTORS_MAX {
        process = parent(process)?;
        let Some(note) = read(&folder.join(process.to_string())) else { continue };
        // Process numbers are reused. The start time tells the client from a later process with its number.
        if note["since"] == json!(started(process)) {
            return note["actor"].as_str()?.parse().ok();
        }
    }
    None
}

/// What hooks remember of an actor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookMemory {
    /// When the next heartbeat is due, in milliseconds since 1970.
    pub due_ms: u64,
    /// The tasks at the last end of a turn, and how often the agent was told about them.
    pub told: String,
    pub stops: u32,
    /// Ids of the tasks at the last heartbeat.
    pub held: Vec<String>,
}

impl HookMemory {
    pub fn read(place: &Place, actor: &Actor) -> Self {
        let note = read(&Self::path(&place.folder().join(FOLDER), actor)).unwrap_or_default();
        Self {
            due_ms: note["due_ms"].as_u64().unwrap_or_default(),
            told: note["told"].as_str().unwrap_or_default().to_owned(),
            stops: note["stops"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or_default(),
            held: serde_json::from_value(note["held"].clone()).unwrap_or_default(),
        }
    }

    pub fn write(&self, place: &Place, actor: &Actor) -> io::Result<()> {
        let note = json!({
            "due_ms": self.due_ms,
            "told": self.told,
            "stops": self.stops,
            "held": self.held,
        });
        replace(&Self::path(&folder(place)?, actor), &note)
    }

    pub fn is_due(&self) -> bool {
        now_ms() >= self.due_ms
    }

    pub fn wait(&mut self, time: Duration) {
        self.due_ms = now_ms() + u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2);
    }

    /// Counts the ends of turns with these tasks open.
    pub fn stops_with(&self, open: &str) -> u32 {
        if self.told == open { self.stops } else { 0 }
    }

    /// Names of actors have no slash.
    fn path(folder: &Path, actor: &Actor) -> PathBuf {
        folder.join(format!("{}.json", actor.as_str().replace(':', "-")))
    }
}

fn now_ms() -> u64 {
    u64::try_from(SystemClock.now().0 / 1000).unwrap_or_default()
}

/// The folder, made with a file that keeps git from it: older projects do not list it in `.callboard/.gitignore`.
fn folder(place: &Place) -> io::Result<PathBuf> {
    let folder = place.folder().join(FOLDER);
    if !folder.is_dir() {
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(".gitignore"), "*\n")?;
    }
    Ok(folder)
}

/// Removes files of sessions that are long over: every session of a client has an actor of its own.
fn forget_old(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let changed = entry.metadata().and_then(|found| found.modified()).ok();
        let age = changed.and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > KEPT) && entry.file_name() != ".gitignore" {
            // Another process may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn replace(path: &Path, note: &Value) -> io::Result<()> {
    let part = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&part, note.to_string())?;
    fs::rename(part, path)
}

/// The parent of a process.
#[cfg(target_os = "linux")]
fn parent(process: u32) -> Option<u32> {
    field(process, 1)
}

/// When a process was started, in the kernel's ticks: numbers of processes are used again.
#[cfg(target_os = "linux")]
fn started(process: u32) -> Option<u64> {
    field(process, 19)
}

/// A field of `/proc/PID/stat`, counted from the one after the name, which may hold blanks and parentheses.
#[cfg(target_os = "linux")]
fn field<T: std::str::FromStr>(process: u32, place: usize) -> Option<T> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    line.rsplit_once(')')?.1.split_whitespace().nth(place)?.parse().ok()
}

/// Elsewhere only the parent of this process is known.
#[cfg(not(target_os = "linux"))]
fn parent(process: u32) -> Option<u32> {
    let parent = || u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok();
    if process == std::process::id() { parent() } else { None }
}

#[cfg(not(target_os = "linux"))]
fn started(_: u32) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_by_actor() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place { root: folder.path().to_owned() };
        let (one, other) = ("agent:a".parse().expect("an actor"), "agent:b".parse().expect("one"));
        let mut memory = HookMemory { told: "S-1".into(), stops: 1, ..HookMemory::default() };
        assert!(memory.is_due());
        memory.wait(Duration::from_secs(60));
        memory.write(&place, &one).expect("written");
        assert_eq!(HookMemory::read(&place, &one), memory);
        assert!(!HookMemory::read(&place, &one).is_due());
        assert_eq!((memory.stops_with("S-1"), memory.stops_with("S-2")), (1, 0));
        assert_eq!(HookMemory::read(&place, &other), HookMemory::default());
    }

    #[test]
    fn old_sessions_are_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, young) = (folder.path().join("old.json"), folder.path().join("young.json"));
        for path in [&old, &young, &folder.path().join(".gitignore")] {
            fs::write(path, "{}").expect("written");
        }
        let long_ago = std::time::UNIX_EPOCH;
        for name in ["old.json", ".gitignore"] {
            let file = fs::File::options().write(true).open(folder.path().join(name));
            file.and_then(|file| file.set_modified(long_ago)).expect("aged");
        }
        forget_old(folder.path());
        assert!(!old.exists() && young.exists() && folder.path().join(".gitignore").exists());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_note_counts_for_the_process_that_it_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place { root: folder.path().to_owned() };
        assert_eq!(actor_of_client(&place), None);
        let actor: Actor = "agent:claude-1".parse().expect("an actor");
        let note = ClientNote::write(&place, &actor).expect("a note");
        assert_eq!(actor_of_client(&place), Some(actor.clone()));
        replace(&note.path, &json!({"actor": actor.as_str(), "since": 1})).expect("written");
        assert_eq!(actor_of_client(&place), None, "another process had this number");
        drop(note);
        assert!(!place.folder().join(FOLDER).join("1").exists());
    }
}

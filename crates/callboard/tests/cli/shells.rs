//! Completion in real shells: a person at a terminal types the beginning of a name and the tab key, and the shell puts
//! the name there: of a task, an option or a client. A shell that this machine lacks is skipped; `scripts/test` installs all
//! three.

#![allow(clippy::disallowed_methods, reason = "the test is the person at the terminal")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::clients::put;
use crate::fixture::World;
use crate::skipped::skipped;

const PROMPT: &str = "READY> ";
/// A shell on a busy machine; an answer comes within a second otherwise.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// How a shell is started with the completions of callboard, from the folder with its files.
struct Shell {
    name: &'static str,
    /// A file below the folder, and its text.
    starts_with: (&'static str, &'static str),
    arguments: fn(&Path) -> Vec<String>,
}

const SHELLS: [Shell; 4] = [
    Shell {
        name: "bash",
        starts_with: ("bashrc", "source <(callboard completions bash)\nPS1='READY> '\n"),
        arguments: |folder| {
            let file = folder.join("bashrc").display().to_string();
            ["--noprofile", "--rcfile", &file, "-i"].map(str::to_owned).to_vec()
        },
    },
    // The script in a folder of functions, from where zsh loads it at the first tab.
    Shell {
        name: "zsh",
        starts_with: (
            ".zshrc",
            "callboard completions zsh >$ZDOTDIR/_callboard\nfpath=($ZDOTDIR $fpath)\n\
             autoload -Uz compinit && compinit -u\nPROMPT='READY> '\n",
        ),
        arguments: |_| vec!["-i".to_owned()],
    },
    Shell {
        name: "zsh",
        starts_with: (
            ".zshrc",
            "autoload -Uz compinit && compinit -u\nsource <(callboard completions zsh)\nPROMPT='READY> '\n",
        ),
        arguments: |_| vec!["-i".to_owned()],
    },
    Shell {
        name: "fish",
        starts_with: (
            "config.fish",
            "callboard completions fish | source\nfunction fish_prompt; printf 'READY> '; end\n\
             set -g fish_greeting\nset -g fish_autosuggestion_enabled 0\n",
        ),
        arguments: |folder| {
            let source = format!("source {}", folder.join("config.fish").display());
            ["--no-config", "--init-command", &source, "--interactive"].map(str::to_owned).to_vec()
        },
    },
];

/// A shell at a terminal.
struct Typist {
    child: Child,
    keys: File,
    heard: Receiver<Vec<u8>>,
    screen: String,
    /// How much of the screen was waited for.
    seen: usize,
}

impl Typist {
    fn start(world: &World, folder: &Path, shell: &Shell) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it can be opened");
        let name = ptsname(&ours, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("a path");
        let theirs = || File::options().read(true).write(true).open(name).expect("its other end");
        let programs = folder.join("bin").display().to_string();
        // `setsid` gives the shell the terminal, which job control needs.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", shell.name])
            .args((shell.arguments)(folder))
            .current_dir(world.root())
            .env_clear()
            .env("HOME", world.home())
            .env("ZDOTDIR", folder)
            .env("TERM", "vt100")
            .env("PATH", format!("{programs}:/usr/bin:/bin"))
            .stdin(theirs())
            .stdout(theirs())
            .stderr(theirs())
            .spawn()
            .expect("setsid starts");
        let keys = File::from(ours);
        let mut reading = keys.try_clone().expect("the terminal");
        let (say, heard) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            // A terminal whose other end is closed ends with an error.
            while let Ok(count @ 1..) = reading.read(&mut part) {
                if say.send(part[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, heard, screen: String::new(), seen: 0 }
    }

    fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until the shell shows these words, after those that were waited for before.
    fn sees(&mut self, words: &str) {
        let until = Instant::now() + ANSWER_WITHIN;
        loop {
            if let Some(at) = self.screen[self.seen..].find(words) {
                self.seen += at + words.len();
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            let Ok(part) = self.heard.recv_timeout(left) else {
                panic!("{words:?} is not in {:?}", &self.screen[self.seen..]);
            };
            self.screen.push_str(&String::from_utf8_lossy(&part));
        }
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        // A test that failed leaves a shell that waits for keys.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn completes(name: &str) {
    let is_here = Command::new(name).arg("--version").output().is_ok();
    if !is_here {
        return skipped(&format!("no {name}"));
    }
    for shell in SHELLS.iter().filter(|shell| shell.name == name) {
        let world = World::project();
        world.task(&["Sweep the floor"]);
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("bin")).expect("a folder");
        let program = folder.path().join("bin/callboard");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_callboard"), program).expect("a link");
        let (file, text) = shell.starts_with;
        put(&folder.path().join(file), text);

        let mut typist = Typist::start(&world, folder.path(), shell);
        typist.sees(PROMPT);
        typist.type_keys("callboard task show SH\t");
        typist.sees("SHOP-1");
        typist.type_keys("\r");
        typist.sees("Sweep the floor");
        typist.sees(PROMPT);
        typist.type_keys("callboard task list --js\t");
        typist.sees("--json");
        typist.type_keys("\r");
        typist.sees("\"Sweep the floor\"");
        typist.sees(PROMPT);
        typist.type_keys("callboard task add Mop --dep SH\t");
        typist.sees("SHOP-1");
        typist.type_keys("\r");
        typist.sees("SHOP-2");
        typist.sees(PROMPT);
        typist.type_keys("callboard init --remove --clients codex,ge\t");
        typist.sees("codex,gemini");
        typist.type_keys("\r");
        typist.sees("nothing to take out");
        typist.sees(PROMPT);
        typist.type_keys("exit\r");
        let ended = typist.child.wait().expect("it ends");
        assert!(ended.success(), "{name}: {}", typist.screen);
    }
}

#[test]
fn bash_completes_the_name_of_a_task() {
    completes("bash");
}

#[test]
fn zsh_completes_the_name_of_a_task() {
    completes("zsh");
}

#[test]
fn fish_completes_the_name_of_a_task() {
    completes("fish");
}

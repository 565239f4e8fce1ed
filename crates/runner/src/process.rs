//! The only place that spawns. A program gets a process group of its own, a directory, an
//! environment and a time limit; its output is read as it comes and kept as a tail. When `run`
//! ends or is dropped the whole group is dead, and whatever else the program still is a parent
//! of. Only a daemon, detached from group and parent alike, gets away.
//!
//! What a program is for is never known here.

#![allow(clippy::disallowed_methods, reason = "this is the one place that spawns")]

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::environment::Variables;
use crate::tail::Tail;

/// How long a killed group may take to die, and then its pipes to close. Only a process stuck in
/// the kernel, or one that left the group with our pipe in hand, ever needs it.
const AFTER_KILL: Duration = Duration::from_millis(300);

pub(crate) struct Program {
    pub(crate) name: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Variables,
    pub(crate) timeout: Duration,
    pub(crate) output: Output,
    /// Whether the group must also die when this process is killed with SIGKILL.
    pub(crate) dies_with_us: bool,
}

/// What is kept of stdout and stderr. `Merged` hands the program one pipe for both, so that
/// lines stand in the order in which they were written.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    Merged { bytes_max: usize },
    Apart { bytes_max: usize },
}

pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) duration: Duration,
    /// Both streams when merged.
    pub(crate) stdout: Tail,
    pub(crate) stderr: Tail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// `None` when a signal ended it.
    Exited(Option<i32>),
    TimedOut,
    Canceled,
}

/// Fails only when the program cannot be started.
pub(crate) async fn run(program: Program, cancel: &CancellationToken) -> io::Result<Ended> {
    let started = Instant::now();
    let limit = program.timeout;
    let (mut group, mut streams) = spawn(program)?;
    let stopped = tokio::select! {
        biased;
        () = cancel.cancelled() => Some(Ending::Canceled),
        () = tokio::time::sleep(limit) => Some(Ending::TimedOut),
        () = group.leader_exit() => None,
        never = streams.read_on() => match never {},
    };
    let duration = started.elapsed();
    group.kill();
    let ending = match stopped {
        None => Ending::Exited(group.reap().await.and_then(|status| status.code())),
        Some(stopped) => {
            let _ = timeout(AFTER_KILL, group.reap()).await;
            stopped
        }
    };
    // What was written before the end is still in the pipes, and is read first.
    let rest = async { tokio::join!(streams.read_to_end(), group.dismiss_watchman()) };
    let _ = timeout(AFTER_KILL, rest).await;
    let Streams { stdout, stderr } = streams;
    Ok(Ended { ending, duration, stdout: stdout.tail, stderr: stderr.tail })
}

fn spawn(program: Program) -> io::Result<(Group, Streams)> {
    let (merged, bytes_max) = match program.output {
        Output::Merged { bytes_max } => (true, bytes_max),
        Output::Apart { bytes_max } => (false, bytes_max),
    };
    let (stdout, stdout_writer) = Stream::open(bytes_max)?;
    let (stderr, mut stderr_writer) = Stream::open(bytes_max)?;
    if merged {
        stderr_writer = stdout_writer.try_clone()?;
    }
    let exits = signal(SignalKind::child())?;
    // The command owns our copies of the writing ends; it must be gone before we read.
    let leader = Command::new(&program.name)
        .args(&program.args)
        .current_dir(&program.cwd)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(stdout_writer)
        .stderr(stderr_writer)
        .kill_on_drop(true)
        .spawn()?;
    let mut group = Group { leader, watchman: None, exits };
    if program.dies_with_us {
        group.watchman = group.post_watchman(&program.env);
    }
    Ok((group, Streams { stdout, stderr }))
}

/// A running program and all it started. Dropped before `reap`, it kills.
///
/// Group and leader share a number that is ours only while the leader is not reaped. So its exit
/// is noticed without reaping it, the group is killed, and only then the number is given back.
struct Group {
    leader: Child,
    watchman: Option<Child>,
    exits: tokio::signal::unix::Signal,
}

impl Group {
    /// `None` once reaped.
    fn number(&self) -> Option<Pid> {
        self.leader.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    /// Returns when the leader has ended and waits to be reaped.
    async fn leader_exit(&mut self) {
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Some(number) = self.number() {
            match rustix::process::waitid(WaitId::Pid(number), looking) {
                Ok(None) => self.exits.recv().await,
                Ok(Some(_)) | Err(_) => return,
            };
        }
    }

    /// Signals fail only when nobody is left to kill.
    fn kill(&self) {
        let Some(number) = self.number() else { return };
        // `timeout` and job-control shells give their children groups of their own.
        let family = descendants(number);
        let _ = rustix::process::kill_process_group(number, Signal::KILL);
        for member in family {
            let _ = rustix::process::kill_process(member, Signal::KILL);
        }
    }

    async fn reap(&mut self) -> Option<ExitStatus> {
        self.leader.wait().await.ok()
    }

    async fn dismiss_watchman(&mut self) {
        if let Some(watchman) = &mut self.watchman {
            let _ = watchman.wait().await;
        }
    }

    /// One more member of the group, which reads a pipe that only this process holds open. The
    /// pipe ends when we do, whatever ends us, and then the watchman kills its own group. (The
    /// kernel's parent-death signal reaches the leader alone, and fires when the thread that
    /// spawned it ends, which a runtime may do at any time.) It stands a millisecond after the
    /// program starts; a server killed within that leaves the program to itself.
    fn post_watchman(&self, env: &Variables) -> Option<Child> {
        let number = self.number()?;
        let posted = Command::new("sh")
            .args(["-c", "read -r nothing; kill -KILL 0"])
            .current_dir("/")
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)))
            .process_group(number.as_raw_nonzero().get())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        posted.inspect_err(|error| tracing::warn!(%error, "a check runs without a watchman")).ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Children, their children and so on, as Linux tells them; elsewhere none.
fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        next += 1;
        let threads = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
        for thread in threads.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
            found.extend(ids.filter_map(Pid::from_raw));
        }
    }
    found.split_off(1)
}

struct Streams {
    stdout: Stream,
    stderr: Stream,
}

impl Streams {
    async fn read_to_end(&mut self) {
        tokio::join!(self.stdout.read_to_end(), self.stderr.read_to_end());
    }

    /// Reads without ever being the reason to stop: a program may close its output and go on.
    async fn read_on(&mut self) -> Infallible {
        self.read_to_end().await;
        std::future::pending().await
    }
}

struct Stream {
    pipe: pipe::Receiver,
    tail: Tail,
}

impl Stream {
    fn open(bytes_max: usize) -> io::Result<(Self, io::PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok((Self { pipe, tail: Tail::new(bytes_max) }, writer))
    }

    /// Safe to drop and call again: a chunk is read and kept, or neither.
    async fn read_to_end(&mut self) {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = self.pipe.read(&mut chunk).await {
            self.tail.push(&chunk[..length]);
        }
    }
}

//! The only place that spawns. A program gets a process group of its own (an agent a session), a directory, an
//! environment and a time limit; its output is read as it comes and kept as a tail. When `run` ends or is dropped, the
//! whole group is dead, and so are the remaining descendants of the program. On Linux a check or an agent has a keeper,
//! which also ends processes that left group, session and parents (`keeper.rs`); agents carry a mark besides
//! (`family.rs`).
//!
//! The purpose of a program is never known here.

#![allow(clippy::disallowed_methods, reason = "this is the one place that spawns")]

mod converse;
mod earlier;
mod family;
mod group;
#[cfg_attr(not(target_os = "linux"), path = "process/no_keeper.rs")]
mod keeper;
mod streams;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::environment::Variables;
use crate::printed::Printed;
use crate::sandbox::{Confinement, Rules};
use crate::tail::Tail;

pub(crate) use converse::{Pipes, converse};
pub(crate) use earlier::{end_earlier, is_left};
pub(crate) use family::{MARK, end_marked, kill_leftovers, kill_marked_all};
use group::Group;
use keeper::Keeper;
use streams::{Stdin, Stream, Streams};

/// How long a killed group may take to die, and then its pipes to close. Only a process stuck in the kernel, or one
/// that left the group with our pipe open, ever needs that long.
const AFTER_KILL: Duration = Duration::from_millis(300);

pub(crate) struct Program {
    pub(crate) name: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Variables,
    /// Written to the program's stdin, which is then closed.
    pub(crate) input: Vec<u8>,
    pub(crate) timeout: Duration,
    pub(crate) output: Output,
    /// Whether all processes that the program starts must die with it, and with this process when that is killed with
    /// SIGKILL. On systems other than Linux this covers the group alone.
    pub(crate) dies_with_us: bool,
    /// `None`: a group of its own, killed without a SIGTERM.
    pub(crate) leash: Option<Leash>,
    /// A lock of ours that the program holds too until it ends.
    pub(crate) keeps: Option<Arc<File>>,
    pub(crate) confinement: Option<Confinement>,
}

/// For programs whose processes may leave their group.
pub(crate) struct Leash {
    /// The value of the variable `MARK` in all its processes.
    pub(crate) mark: OsString,
    /// How long the program may take after it was asked to end.
    pub(crate) grace: Duration,
    /// The file that records the leader.
    pub(crate) record: PathBuf,
    /// Called when the program runs.
    pub(crate) started: Option<Box<dyn FnOnce() + Send>>,
    /// Readers of the live output.
    pub(crate) printed: Option<Arc<Printed>>,
}

/// How stdout and stderr are kept. `Merged` hands the program one pipe for both, so that lines stand in the order in
/// which they were written.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    Merged {
        bytes_max: usize,
    },
    Apart {
        bytes_max: usize,
    },
    /// Each stream is kept as head and tail when it exceeds the cap.
    BothEnds {
        head_bytes_max: usize,
        bytes_max: usize,
    },
}

pub(crate) struct Ended {
    pub(crate) ending: ProcessEnd,
    /// The signal that ended the program by itself.
    pub(crate) signal: Option<i32>,
    pub(crate) duration: Duration,
    /// Both streams when merged.
    pub(crate) stdout: Tail,
    pub(crate) stderr: Tail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// The exit code; `None` when a signal ended the program.
    Exited(Option<i32>),
    TimedOut,
    Canceled,
}

/// Runs a program to its end. Fails only when the program cannot be started.
pub(crate) async fn run(program: Program, cancel: &CancellationToken) -> io::Result<Ended> {
    let started = Instant::now();
    let limit = program.timeout;
    let mut running = spawn(program, Stdio::null())?;
    let Running { group, streams, grace } = &mut running;
    let stopped = tokio::select! {
        biased;
        () = cancel.cancelled() => Some(ProcessEnd::Canceled),
        () = tokio::time::sleep(limit) => Some(ProcessEnd::TimedOut),
        () = group.leader_exit() => None,
        never = streams.serve() => match never {},
    };
    let duration = started.elapsed();
    if stopped.is_some() && !grace.is_zero() {
        group.ask_to_end();
        tokio::select! {
            () = group.leader_exit() => {}
            () = tokio::time::sleep(*grace) => {}
            never = streams.serve() => match never {},
        }
    }
    Ok(running.finish(stopped, duration).await)
}

struct Running {
    group: Group,
    streams: Streams,
    grace: Duration,
}

impl Running {
    /// Kills the remaining processes and reads the rest of the output.
    async fn finish(mut self, stopped: Option<ProcessEnd>, duration: Duration) -> Ended {
        let Self { group, streams, .. } = &mut self;
        group.kill();
        group.kill_marked().await;
        let mut signal = None;
        let ending = match stopped {
            None => {
                let status = group.reap().await;
                signal = status.and_then(|status| status.signal());
                ProcessEnd::Exited(status.and_then(|status| status.code()))
            }
            Some(stopped) => {
                let _ = timeout(group.patience(), group.reap()).await;
                stopped
            }
        };
        // Output from before the end is still in the pipes, and is read first.
        let rest = async { tokio::join!(streams.read_to_end(), group.dismiss_watchman()) };
        let _ = timeout(AFTER_KILL, rest).await;
        let Streams { stdout, stderr, .. } = self.streams;
        Ended { ending, signal, duration, stdout: stdout.tail, stderr: stderr.tail }
    }
}

fn spawn(program: Program, no_input: Stdio) -> io::Result<Running> {
    let (merged, head_bytes_max, bytes_max) = match program.output {
        Output::Merged { bytes_max } => (true, 0, bytes_max),
        Output::Apart { bytes_max } => (false, 0, bytes_max),
        Output::BothEnds { head_bytes_max, bytes_max } => (false, head_bytes_max, bytes_max),
    };
    let tail = || Tail::with_head(head_bytes_max, bytes_max);
    let printed = program.leash.as_ref().and_then(|leash| leash.printed.clone());
    let (stdout, stdout_writer) = Stream::open(tail(), printed.clone())?;
    let (stderr, mut stderr_writer) = Stream::open(tail(), printed)?;
    if merged {
        stderr_writer = stdout_writer.try_clone()?;
    }
    let exits = signal(SignalKind::child())?;
    let is_kept = program.dies_with_us && keeper::IS_THERE;
    let (child, ends, leash) = {
        // The command owns our copies of the write ends; it must be dropped before we read.
        let mut command = Command::new(&program.name);
        command
            .args(&program.args)
            .current_dir(&program.cwd)
            .env_clear()
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .stdin(if program.input.is_empty() { no_input } else { Stdio::piped() })
            .stdout(stdout_writer)
            .stderr(stderr_writer)
            // A killed keeper would release its family.
            .kill_on_drop(!is_kept);
        if let Some(file) = program.keeps {
            keep_open(&mut command, file);
        }
        let ends = if is_kept { Some(keeper::post(&mut command)?) } else { None };
        match &program.leash {
            None if is_kept => lead_a_group(&mut command),
            None => {
                command.process_group(0);
            }
            Some(leash) => {
                command.env(MARK, &leash.mark);
                lead_a_session(&mut command);
            }
        }
        if let Some(confinement) = &program.confinement {
            confine(&mut command, confinement.rules()?);
        }
        (command.spawn()?, ends, program.leash)
    };
    let kept = ends.map(Keeper::new).transpose()?;
    let mut group = Group { child, kept, watchman: None, exits, mark: None };
    let grace = leash.as_ref().map_or(Duration::ZERO, |leash| leash.grace);
    if let Some((leash, leader)) = leash.zip(group.number()) {
        group.mark = Some(leash.mark);
        family::write_leader(&leash.record, leader, group.keeper())?;
        if let Some(started) = leash.started {
            started();
        }
    }
    if program.dies_with_us && !is_kept {
        group.watchman = post_watchman(&group, &program.env);
    }
    let stdin = Stdin { pipe: group.child.stdin.take(), rest: program.input };
    Ok(Running { group, streams: Streams { stdin, stdout, stderr }, grace })
}

/// Starts a program for the desktop, in a session of its own and without a terminal. The program outlives this process,
/// and Ctrl-C does not reach it.
pub(crate) fn launch(name: &str, args: &[OsString], env: &Variables) -> io::Result<()> {
    let mut command = Command::new(name);
    command
        .args(args)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    lead_a_session(&mut command);
    let mut child = command.spawn()?;
    // Reaped if it ends before we do.
    tokio::spawn(async move { child.wait().await });
    Ok(())
}

/// The new process leads a session, and so a group too. It has no terminal on which to prompt a person.
#[allow(unsafe_code, reason = "no safe way leads to a session before exec")]
fn lead_a_session(command: &mut Command) {
    let lead = || rustix::process::setsid().map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec this makes one system call and touches no memory of ours.
    unsafe { command.pre_exec(lead) };
}

/// Does what `process_group` does, but after a keeper was put before the program.
#[allow(unsafe_code, reason = "the program's process begins between fork and exec")]
fn lead_a_group(command: &mut Command) {
    let lead = || rustix::process::setpgid(None, None).map_err(io::Error::from);
    // SAFETY: between fork and exec this makes one system call and touches no memory of ours.
    unsafe { command.pre_exec(lead) };
}

/// Confines the new process alone: this process keeps its rights.
#[allow(unsafe_code, reason = "a process confines itself, and only before exec it runs our code")]
fn confine(command: &mut Command, mut rules: Rules) {
    // SAFETY: between fork and exec this makes system calls and asks for no memory.
    unsafe { command.pre_exec(move || rules.enter()) };
}

/// Lets this program inherit the lock. Other programs started meanwhile must not hold it.
#[allow(unsafe_code, reason = "a file is handed to one program alone only between fork and exec")]
fn keep_open(command: &mut Command, file: Arc<File>) {
    let keep = move || {
        rustix::io::fcntl_setfd(&*file, rustix::io::FdFlags::empty()).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec this makes one system call and touches no memory of ours.
    unsafe { command.pre_exec(keep) };
}

/// A substitute where there is no keeper: one more process, which reads a pipe that only this process holds open. The
/// pipe ends with this process, however that ends, and then the watchman kills the group. (The kernel's parent-death
/// signal reaches the leader alone, and fires when the spawning thread ends, which a runtime may do at any time.) The
/// watchman stands a millisecond after the program starts; a server killed within that time leaves the program running.
///
/// The watchman is a member of the group and dies with it. A process cannot join a group of another session: there the
/// watchman stands outside, and is dismissed before the group's number is released.
fn post_watchman(group: &Group, env: &Variables) -> Option<Child> {
    let number = group.number()?.as_raw_nonzero().get();
    let outside = group.mark.is_some();
    let target = if outside { format!("-{number}") } else { "0".into() };
    let posted = Command::new("sh")
        .args(["-c", "read -r nothing; kill -s KILL -- \"$0\"", &target])
        .current_dir("/")
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .process_group(if outside { 0 } else { number })
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(outside)
        .spawn();
    posted.inspect_err(|error| tracing::warn!(%error, "a program runs without a process that ends it with the server")).ok()
}

//! A program that holds a conversation over its pipes, instead of being fed and read.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::process::ChildStdin;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::streams::Stream;
use super::{AFTER_KILL, Ended, ProcessEnd, Program, spawn};
use crate::tail::Tail;

/// How long the program may take to shut down after the conversation is complete.
const AFTER_TALK: Duration = Duration::from_secs(2);

/// Both ends of the conversation.
pub(crate) struct Pipes {
    pub(crate) to: ChildStdin,
    pub(crate) from: pipe::Receiver,
}

/// Runs `talk` until it is done, or the program is gone. After `cancel`, which `talk` sees too, the conversation may
/// close itself within the leash's grace. The answer is `None` when `talk` did not finish. stdout belongs to `talk`;
/// `Ended` has none of it.
pub(crate) async fn converse<T>(
    program: Program,
    cancel: &CancellationToken,
    talk: impl AsyncFnOnce(Pipes) -> T,
) -> io::Result<(Option<T>, Ended)> {
    let started = Instant::now();
    let mut running = spawn(program, Stdio::piped())?;
    let grace = running.grace;
    let (nothing, _) = Stream::open(Tail::with_head(0, 0), None)?;
    let from = std::mem::replace(&mut running.streams.stdout, nothing).pipe;
    let to = running.streams.stdin.pipe.take();
    let to = to.ok_or_else(|| io::Error::other("the program has no stdin"))?;
    let mut talk = Box::pin(talk(Pipes { to, from }));
    let (mut stopped, mut patience) = (None, grace.min(AFTER_TALK));
    let mut said = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            let asked = Instant::now();
            let said = tokio::select! {
                said = &mut talk => Some(said),
                () = tokio::time::sleep(grace) => None,
                never = running.streams.serve() => match never {},
            };
            (stopped, patience) = (Some(ProcessEnd::Canceled), grace.saturating_sub(asked.elapsed()));
            said
        }
        said = &mut talk => Some(said),
        () = running.group.leader_exit() => None,
        never = running.streams.serve() => match never {},
    };
    let duration = started.elapsed();
    if said.is_none() && stopped.is_none() {
        // The program's last output may still be in the pipe, whose other end must be closed to see the end.
        running.group.kill();
        said = timeout(AFTER_KILL, &mut talk).await.ok();
    }
    drop(talk);
    // After the conversation the program may shut down; its exit code no longer matters.
    running.group.ask_to_end();
    let rest = async {
        tokio::select! {
            () = running.group.leader_exit() => {}
            never = running.streams.serve() => match never {},
        }
    };
    let _ = timeout(patience, rest).await;
    Ok((said, running.finish(stopped, duration).await))
}

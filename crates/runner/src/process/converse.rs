//! A program that is talked with, instead of being fed and read.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::process::ChildStdin;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::streams::Stream;
use super::{AFTER_KILL, Ended, Ending, Program, spawn};
use crate::tail::Tail;

/// How long it may take to put its things in order after a talk that came to its end.
const AFTER_TALK: Duration = Duration::from_secs(2);

/// Both ends of the conversation.
pub(crate) struct Pipes {
    pub(crate) to: ChildStdin,
    pub(crate) from: pipe::Receiver,
}

/// Lets `talk` go on until it is done, or the program is gone. When `cancel` comes the talk, which
/// knows it too, may take its leave for as long as the leash's grace. Its answer is `None` when it
/// did not come to an end. stdout belongs to the talk; `Ended` has none of it.
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
            (stopped, patience) = (Some(Ending::Canceled), grace.saturating_sub(asked.elapsed()));
            said
        }
        said = &mut talk => Some(said),
        () = running.group.leader_exit() => None,
        never = running.streams.serve() => match never {},
    };
    let duration = started.elapsed();
    if said.is_none() && stopped.is_none() {
        // Its last words may still be in the pipe, whose other end must be closed to see the end.
        running.group.kill();
        said = timeout(AFTER_KILL, &mut talk).await.ok();
    }
    drop(talk);
    // Done talking, it may put its things in order; its exit code no longer matters.
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

//! SIGINT and SIGTERM ask for an orderly end.

use callboard_engine::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::output::{Failure, Out};

/// From now on both signals cancel the token instead of ending the process. A second signal ends the process.
pub fn cancel_on_signal(stop: &CancellationToken) -> Result<(), Failure> {
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stop.cancel();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}

/// `2 agents at work, at most 30 s`: what the end of this process waits for.
pub fn agents_at_work(engine: &Engine) -> Option<String> {
    let (count, drain) = engine.agents_at_work();
    let agents = match count {
        0 => return None,
        1 => "1 agent".to_owned(),
        count => format!("{count} agents"),
    };
    Some(format!("{agents} at work, at most {} s", drain.as_secs()))
}

/// Explains in one line why the process does not end at once after Ctrl-C.
pub fn say_stopping(out: Out, waits: &str) {
    out.note(&format!("stopping: waiting for {waits}; a second Ctrl-C or SIGTERM stops at once"));
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::io("cannot listen for signals", &error))
}

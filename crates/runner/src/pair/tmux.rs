//! Sessions of tmux: started in the background, found by their exact name, ended with every process in them.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use callboard_engine::ports::PairFault;

use crate::environment::Variables;
use crate::process::{self, MARK};
use crate::tmux::{self, TmuxFault};

/// How long programs may take to end after their terminal is gone.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct New<'a> {
    pub(super) name: &'a str,
    pub(super) place: &'a Path,
    pub(super) variables: Variables,
    /// A line typed into the shell.
    pub(super) typed: String,
}

pub(super) async fn start(env: &Variables, session: New<'_>) -> Result<(), PairFault> {
    let New { name, place, mut variables, typed } = session;
    variables.push((MARK.into(), mark(place.as_os_str())));
    let mut args: Vec<OsString> = ["new-session", "-d", "-s", name, "-c"].map(Into::into).into();
    args.push(place.into());
    for (name, value) in variables {
        let mut variable = name;
        variable.push("=");
        variable.push(value);
        args.extend(["-e".into(), variable]);
    }
    ask(env, &args).await?;
    let target = format!("={name}:");
    ask(env, &["send-keys", "-t", &target, "-l", "--", &typed]).await?;
    ask(env, &["send-keys", "-t", &target, "Enter"]).await
}

/// Messages of tmux when it has no such session, or when no tmux runs.
const NO_SESSION: [&str; 6] = [
    "can't find session",
    "no server running",
    "no sessions",
    "lost server",
    "No such file",
    "refused",
];

/// Whether there is such a session; `false` without tmux. A tmux that fails otherwise is a fault: the session may
/// exist.
pub(super) async fn exists(env: &Variables, name: &str) -> Result<bool, PairFault> {
    match ask(env, &["has-session", "-t", &format!("={name}")]).await {
        Ok(()) => Ok(true),
        Err(PairFault::NoTmux) => Ok(false),
        Err(PairFault::Failed(words)) if NO_SESSION.iter().any(|sign| words.contains(sign)) => {
            Ok(false)
        }
        Err(fault) => Err(fault),
    }
}

pub(super) async fn end(env: &Variables, name: &str, place: &OsStr) -> Result<(), PairFault> {
    let killed = ask(env, &["kill-session", "-t", &format!("={name}")]).await;
    process::end_marked(&mark(place), GRACE).await;
    // The session may have ended by itself.
    if killed.is_err() && exists(env, name).await? { killed } else { Ok(()) }
}

/// The mark that every process in a session carries, even after it left the session.
fn mark(place: &OsStr) -> OsString {
    let mut mark = OsString::from("pair:");
    mark.push(place);
    mark
}

async fn ask<A: AsRef<OsStr>>(env: &Variables, args: &[A]) -> Result<(), PairFault> {
    tmux::ask(env, args, None).await.map_err(|fault| match fault {
        TmuxFault::NotInstalled => PairFault::NoTmux,
        TmuxFault::Failed(words) => PairFault::Failed(words),
    })
}

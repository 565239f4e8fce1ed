//! The actor of a command: the flag, else the variable, else the person logged in.

use std::hash::{BuildHasher, RandomState};

use callboard_domain::actor::Actor;
use callboard_domain::rights::{Rights, Scope};
use callboard_engine::context::Principal;

use crate::output::Failure;

pub const ACTOR_VARIABLE: &str = "CALLBOARD_ACTOR";

/// The actor that was named, by flag or variable.
pub fn named(flag: Option<&str>) -> Result<Option<Actor>, Failure> {
    let variable = std::env::var(ACTOR_VARIABLE).ok().filter(|name| !name.trim().is_empty());
    let given = flag.map(str::to_owned).or(variable);
    let parse = |text: String| text.trim().parse().map_err(|e| Failure::usage(format!("{e}")));
    given.map(parse).transpose()
}

/// The actor of a command typed by a person.
pub fn of_person(flag: Option<&str>) -> Result<Actor, Failure> {
    Ok(named(flag)?.unwrap_or_else(logged_in))
}

fn logged_in() -> Actor {
    let name = ["USER", "LOGNAME"]
        .iter()
        .find_map(|variable| std::env::var(variable).ok().filter(|name| !name.is_empty()))
        .or_else(name_in_passwd)
        .unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    let name = Actor::name_from(&name);
    format!("human:{name}").parse().expect("a cleaned name makes an actor")
}

/// Programs started by a service have no login variables, but still run as a user.
fn name_in_passwd() -> Option<String> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

/// The identity of a connection without its actor.
#[derive(Clone, Debug)]
pub struct Connection {
    pub org: String,
    pub rights: Rights,
    pub client: Option<String>,
}

impl Connection {
    pub fn principal(&self, actor: Actor) -> Principal {
        Principal {
            org: self.org.as_str().into(),
            actor,
            rights: self.rights.clone(),
            token: None,
            bound_client: self.client.clone(),
            is_shared: false,
        }
    }
}

/// Reads `tasks:read,tasks:write`; without any, all scopes but those that reach beyond an org.
pub fn scopes(given: &[String]) -> Result<Vec<Scope>, Failure> {
    if given.is_empty() {
        return Ok(Scope::USUAL.to_vec());
    }
    let parse = |text: &String| {
        Scope::parse(text.trim()).ok_or_else(|| {
            let known: Vec<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
            Failure::usage(format!("unknown scope '{text}'; scopes are {}", known.join(", ")))
        })
    };
    given.iter().map(parse).collect()
}

/// The machine's name, under which its repositories are stored.
pub fn machine() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match id.trim() {
        // systemd writes this word into images that have not booted yet; all copies of such an image would share it.
        "" | "uninitialized" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        id => id.to_owned(),
    }
}

/// The actor under which this process runs jobs: the machine's name and what tells its processes apart.
pub fn runner() -> Actor {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let id = std::process::id();
    // Process ids are reused.
    let random = RandomState::new().hash_one(id);
    let host: String = Actor::name_from(&host).chars().take(60).collect();
    format!("runner:{host}-{id}-{random:016x}").parse().expect("a cleaned name makes an actor")
}

/// Whether the process of such an actor ran on this machine and has ended. A process whose number is reused counts as
/// alive; its leases expire by themselves.
pub fn is_gone(runner: &Actor) -> bool {
    let Some((host, id)) = runner
        .as_str()
        .strip_prefix("runner:")
        .and_then(|name| name.rsplit_once('-'))
        .and_then(|(name, _)| name.rsplit_once('-'))
    else {
        return false;
    };
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let own: String = Actor::name_from(&own).chars().take(60).collect();
    let pid = id.parse().ok().and_then(rustix::process::Pid::from_raw);
    let gone = |pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    host == own && pid.is_some_and(gone)
}

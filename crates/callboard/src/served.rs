//! Which server serves a project, and the port it had last.
//!
//! A server holds a lock on one file of the project for as long as it runs, so that a killed server leaves nothing that
//! looks alive. The file keeps the address of the server, also after its end: the next `up` takes the same port.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::{Settings, StoreUrl, without_password};
use crate::place::Place;

/// The name is covered by the `.gitignore` of every project.
const FILE: &str = "callboard.db-server";
/// How often the lock is tried: a reader holds it only for a moment.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// A server on this machine answers at once.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// The record of a server about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub address: SocketAddr,
    /// The address in the settings; a different one there asks for a new address.
    wanted: String,
    store: String,
    org: String,
}

/// The lock of a running server.
pub struct ServerLock {
    _file: File,
}

impl Served {
    pub fn new(address: SocketAddr, settings: &Settings, org: &str) -> Self {
        let store = match &settings.store {
            StoreUrl::Default => String::new(),
            StoreUrl::File(path) => path.display().to_string(),
            StoreUrl::Postgres(url) => without_password(url.reveal()).into_owned(),
        };
        let wanted = settings.listen.to_string();
        Self { address, wanted, store, org: org.to_owned() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where a browser on this machine finds the pages.
    pub fn page_url(&self, settings: &Settings) -> String {
        let port = self.address.port();
        match &settings.page_host {
            Some(host) if host.contains(':') => format!("http://{host}"),
            Some(host) => format!("http://{host}:{port}"),
            None => match self.address.ip() {
                ip if !ip.is_unspecified() => self.url(),
                IpAddr::V4(_) => format!("http://{}:{port}", Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => format!("http://[{}]:{port}", Ipv6Addr::LOCALHOST),
            },
        }
    }

    /// Records that a server is there until the result is dropped. `None` when another server has done so already, or
    /// the folder cannot be written: a server runs without it too.
    pub async fn post(&self, place: &Place) -> Option<ServerLock> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path(place)).ok()?;
        let mut tries = 0;
        while file.try_lock().is_err() {
            tries += 1;
            if tries == LOCK_TRIES {
                return None;
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        file.set_len(0).ok()?;
        file.seek(SeekFrom::Start(0)).ok()?;
        writeln!(file, "{}", self.to_json()).ok()?;
        Some(ServerLock { _file: file })
    }

    /// The server that serves this project and store now.
    pub fn running(place: &Place, settings: &Settings, org: &str) -> Option<Self> {
        let (served, is_held) = Self::read(place)?;
        let wish = Self::new(served.address, settings, org);
        let is_same = (&served.store, &served.org) == (&wish.store, &wish.org);
        // A server that is about to end holds the lock but accepts no connections.
        let answers = || TcpStream::connect_timeout(&served.address, ANSWERS_WITHIN).is_ok();
        (is_held && is_same && answers()).then_some(served)
    }

    /// The address of the last server, unless the settings have changed theirs since.
    pub fn last_address(place: &Place, settings: &Settings) -> Option<SocketAddr> {
        let (served, _) = Self::read(place)?;
        (served.wanted == settings.listen.to_string()).then_some(served.address)
    }

    /// Where a server of this project listens now.
    pub fn address_now(place: &Place) -> Option<SocketAddr> {
        let (served, is_held) = Self::read(place)?;
        is_held.then_some(served.address)
    }

    /// The content of the file, and whether the server that wrote it still runs.
    fn read(place: &Place) -> Option<(Self, bool)> {
        let mut file = File::open(path(place)).ok()?;
        // Shared, so that two commands that look at once do not take each other for a server.
        let is_held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some((Self::from_json(&serde_json::from_str(&text).ok()?)?, is_held))
    }

    fn to_json(&self) -> Value {
        let Self { address, wanted, store, org } = self;
        json!({"address": address.to_string(), "wanted": wanted, "store": store, "org": org})
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let address = text("address")?.parse().ok()?;
        Some(Self { address, wanted: text("wanted")?, store: text("store")?, org: text("org")? })
    }
}

fn path(place: &Place) -> PathBuf {
    place.folder().join(FILE)
}

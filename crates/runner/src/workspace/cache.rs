//! Caches of remote repositories as bare repositories, so that the next job fetches only new commits.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use callboard_domain::hex::hex;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::way::Way;
use super::{ObjectSource, has_commit, quiet, words};
use crate::git::Git;

/// The caches; one fetch of an address at a time.
pub(crate) struct Caches {
    /// The protocols that git may use: `https:ssh`.
    protocols: String,
    /// Hosts that may have private addresses and get this server's credentials.
    hosts: Vec<String>,
    turns: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

/// How often to poll for the lock while another process fetches the same repository.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Caches {
    pub(crate) fn new(git_schemes: &[String], git_hosts: &[String]) -> Self {
        let (protocols, hosts) = (git_schemes.join(":"), git_hosts.to_vec());
        Self { protocols, hosts, turns: Mutex::default() }
    }

    /// How git may reach an address.
    pub(crate) async fn way(&self, url: &str, has_tokens: bool) -> Result<Way, String> {
        Way::to(url, &self.hosts, has_tokens).await
    }

    /// The protocols that git may use, in the form of `GIT_ALLOW_PROTOCOL`.
    pub(crate) fn protocols(&self) -> &str {
        &self.protocols
    }

    /// Ensures that the cache of `url` has the commit.
    pub(crate) async fn with_commit(
        &self,
        jobs: &Path,
        (url, has_tokens): (&str, bool),
        branch: &str,
        commit: &str,
    ) -> Result<ObjectSource, String> {
        let digest = Sha256::digest(url);
        let name = hex(&digest[..16]);
        let caches = jobs.join(".cache");
        let cache = caches.join(format!("{name}.git"));
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(cache.clone()).or_default())
        };
        let _first_in_process = turn.lock().await;
        let failed = |error: io::Error| format!("cannot write the repository cache: {error}");
        fs::create_dir_all(&caches).map_err(failed)?;
        let _first = lock(&caches.join(format!("{name}.lock"))).await.map_err(failed)?;
        if !cache.join("HEAD").exists() {
            let init = ["init", "-q", "--bare", "--template=", "-b", "main"].map(str::to_owned);
            let place = [cache.display().to_string()];
            quiet(&caches).ask(&[&init[..], &place].concat()).await.map_err(words)?;
        }
        if !has_commit(&cache, commit).await.map_err(words)? {
            let way = self.way(url, has_tokens).await?;
            self.fetch((&cache, &way), url, branch, commit).await?;
        }
        ObjectSource::at(&cache).await
    }

    async fn fetch(
        &self,
        (cache, way): (&Path, &Way),
        url: &str,
        branch: &str,
        commit: &str,
    ) -> Result<(), String> {
        let only_it = [&format!("+{commit}:refs/callboard/{commit}")];
        let branch = [&format!("+refs/heads/{branch}:refs/remotes/origin/{branch}")];
        let everything =
            [&"+refs/heads/*:refs/remotes/origin/*".into(), &"+refs/tags/*:refs/tags/*".into()];
        let tries: [(&[&str], &[&String]); 3] =
            [(&["--depth=1"], &only_it), (&[], &branch), (&["--unshallow"], &everything)];
        let mut fault = String::new();
        for (options, wanted) in tries {
            let is_whole = !cache.join("shallow").exists();
            let options = if is_whole && options == ["--unshallow"] { &[] } else { options };
            let fetch = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"];
            let wanted: Vec<&str> = wanted.iter().map(|refspec| refspec.as_str()).collect();
            let args = [&fetch[..], options, &["--", url], &wanted].concat();
            match way.set_on(self.remote(cache)).ask(&args).await {
                Ok(_) if has_commit(cache, commit).await.map_err(words)? => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    fault = words(error);
                    if is_out_of_reach(&fault) {
                        return Err(way.told(fault));
                    }
                }
            }
        }
        let missing = format!("commit {commit} is not in the repository");
        if fault.is_empty() { Err(missing) } else { Err(way.told(format!("{missing}: {fault}"))) }
    }

    fn remote<'a>(&self, cache: &'a Path) -> Git<'a> {
        quiet(cache).with("GIT_ALLOW_PROTOCOL", &self.protocols).patiently()
    }
}

/// Whether git, curl or ssh say that the address is unreachable, so that no other request can succeed.
fn is_out_of_reach(fault: &str) -> bool {
    let signs = [
        "unable to access",
        "Could not resolve",
        "Could not read from remote",
        "does not appear to be a git repository",
        "not allowed",
        "Authentication failed",
        "could not read Username",
        "terminal prompts disabled",
        "it took too long",
    ];
    // A server that does not serve commits by their id says "not allowed" too.
    signs.iter().any(|sign| fault.contains(sign)) && !fault.contains("unadvertised")
}

async fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

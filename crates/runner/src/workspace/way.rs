//! How git may reach the address of a repository: which addresses its host may have, and whose credentials are used.
//!
//! A name is looked up here, all of its addresses are judged, and git may connect to these addresses only. ssh looks
//! the name up once more, so its host key must be known by then.

use std::net::{IpAddr, SocketAddr};

use callboard_domain::relay::{GitAddress, is_public_address};

use crate::environment;
use crate::git::Git;

/// Variables of a proxy, which resolves names itself.
const PROXIES: [&str; 6] =
    ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// ssh without keys, agent and settings of the user.
const SSH_WITHOUT_KEYS: &str = "ssh -F none -oBatchMode=yes -oIdentityAgent=none \
                                -oIdentitiesOnly=yes -oIdentityFile=none";

#[derive(Clone, Debug)]
pub(crate) struct Way {
    settings: Vec<(String, String)>,
    /// Whether this server's own credentials are used, and the caller may read git's messages.
    is_trusted: bool,
}

impl Way {
    /// The way to an address. The error is for the caller. `has_tokens`: callers are not the user whose credentials git
    /// would find.
    pub(crate) async fn to(url: &str, hosts: &[String], has_tokens: bool) -> Result<Self, String> {
        let Some(address) = GitAddress::of(url).filter(|address| address.scheme != "file") else {
            return Ok(Self { settings: Vec::new(), is_trusted: true });
        };
        if address.is_named_by(hosts) {
            return Ok(Self { settings: Vec::new(), is_trusted: true });
        }
        let mut settings = vec![("http.followRedirects".to_owned(), "false".to_owned())];
        let is_http = address.scheme.starts_with("http");
        match addresses(&address).await {
            Ok(found) if found.iter().all(|one| is_public_address(*one)) => {
                if is_http {
                    settings.push(("http.curloptResolve".into(), pinned(&address, &found)));
                }
            }
            Ok(_) => return Err(private(address.host)),
            Err(_) if is_http && has_proxy() => {}
            Err(words) => return Err(words),
        }
        if has_tokens {
            // An empty helper resets those of all earlier settings files.
            settings.push(("credential.helper".into(), String::new()));
        }
        Ok(Self { settings, is_trusted: !has_tokens })
    }

    pub(crate) fn set_on<'a>(&self, git: Git<'a>) -> Git<'a> {
        let git = match self.is_trusted {
            true => git,
            // Neither settings nor passwords of the user: ~/.gitconfig, ~/.netrc, keys, agent.
            false => git
                .with("HOME", "/dev/null")
                .with("XDG_CONFIG_HOME", "/dev/null")
                .with("GIT_CONFIG_GLOBAL", "/dev/null")
                .with("GIT_SSH_COMMAND", SSH_WITHOUT_KEYS),
        };
        let count = self.settings.len().to_string();
        let settings = self.settings.iter().enumerate();
        settings.fold(git.with("GIT_CONFIG_COUNT", count), |git, (n, (name, value))| {
            git.with(&format!("GIT_CONFIG_KEY_{n}"), name)
                .with(&format!("GIT_CONFIG_VALUE_{n}"), value)
        })
    }

    /// The message for a caller when git fails. Git's own words would reveal which hosts and ports answer.
    pub(crate) fn told(&self, words: String) -> String {
        if self.is_trusted {
            return words;
        }
        tracing::info!(words, "git cannot reach a repository of a job");
        "repo.url cannot be reached without credentials of this server; \
         relay.git_hosts names hosts that get them"
            .into()
    }
}

fn private(host: &str) -> String {
    format!(
        "repo.url: {host} has a loopback, private or link-local address; \
         relay.git_hosts names hosts that may have one"
    )
}

async fn addresses(address: &GitAddress<'_>) -> Result<Vec<IpAddr>, String> {
    let found = tokio::net::lookup_host((address.host, address.port())).await;
    let found: Vec<IpAddr> = found.into_iter().flatten().map(|one: SocketAddr| one.ip()).collect();
    match found.is_empty() {
        true => Err(format!("repo.url: the host {} cannot be resolved", address.host)),
        false => Ok(found),
    }
}

/// An entry in the form of `CURLOPT_RESOLVE`.
fn pinned(address: &GitAddress<'_>, found: &[IpAddr]) -> String {
    let written = |one: &IpAddr| match one {
        IpAddr::V4(one) => one.to_string(),
        IpAddr::V6(one) => format!("[{one}]"),
    };
    let mut found: Vec<String> = found.iter().map(written).collect();
    found.dedup();
    let host = match address.host.contains(':') {
        true => format!("[{}]", address.host),
        false => address.host.to_owned(),
    };
    format!("{host}:{}:{}", address.port(), found.join(","))
}

fn has_proxy() -> bool {
    let variables = environment::inherited();
    let value = |name| environment::value(&variables, name);
    PROXIES.iter().any(|name| value(name).is_some_and(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_pinned_to_the_addresses_that_were_judged() {
        let pin = |url: &str, found: &[&str]| {
            let found: Vec<IpAddr> = found.iter().map(|one| one.parse().expect("one")).collect();
            pinned(&GitAddress::of(url).expect("an address"), &found)
        };
        let both = ["192.0.2.7", "192.0.2.7", "2001:db8::1"];
        assert_eq!(pin("https://git.example/x", &both), "git.example:443:192.0.2.7,[2001:db8::1]");
        assert_eq!(pin("https://[::1]:8443/x", &["::1"]), "[::1]:8443:[::1]");
    }

    /// Credential helpers of the user stand in settings that git reads before ours.
    #[tokio::test]
    async fn callers_with_tokens_do_not_get_this_users_credentials() {
        let folder = tempfile::tempdir().expect("a folder");
        let (repo, asked) = (folder.path(), folder.path().join("asked"));
        Git::at(repo).ask(&["init", "-q"]).await.expect("a repository");
        let helper = format!("!touch '{}'; :", asked.display());
        let key = "credential.https://8.8.8.8.helper";
        Git::at(repo).ask(&["config", key, &helper]).await.expect("a helper");
        let named = ["8.8.8.8".to_owned()];
        for (hosts, has_tokens, wanted) in
            [(&[][..], false, true), (&[][..], true, false), (&named[..], true, true)]
        {
            let way = Way::to("https://8.8.8.8/x", hosts, has_tokens).await.expect("is public");
            let git = way.set_on(Git::at(repo)).input("protocol=https\nhost=8.8.8.8\n\n");
            // The command fails in the end: without a terminal there is no password.
            let _ = git.with("GIT_ASKPASS", "true").ask(&["credential", "fill"]).await;
            assert_eq!(asked.exists(), wanted, "{hosts:?} {has_tokens}");
            let _ = std::fs::remove_file(&asked);
            let home = way.set_on(Git::at(repo)).ask(&["config", "--global", "--list"]).await;
            assert!(wanted || home.is_ok_and(|found| found.is_empty()), "no settings of the user");
            let words = way.told("git fetch: port 22 is closed".into());
            assert_eq!(words.contains("port 22"), wanted, "{words}");
        }
    }

    #[tokio::test]
    async fn names_of_private_addresses_are_refused_unless_they_are_named() {
        for url in ["https://localhost:1/x", "https://127.1/x", "ssh://git@2130706433/x"] {
            let words = Way::to(url, &[], false).await.expect_err(url);
            assert!(words.contains("relay.git_hosts"), "{words}");
        }
        let named = ["localhost".to_owned()];
        assert!(
            Way::to("https://localhost:1/x", &named, true).await.is_ok_and(|way| way.is_trusted)
        );
        assert!(Way::to("file:///srv/x", &[], true).await.is_ok_and(|way| way.is_trusted));
    }
}

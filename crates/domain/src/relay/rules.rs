//! Which addresses, branch names, commits, paths and keys a spec may have. Each function says what is wrong.

use std::net::{IpAddr, Ipv6Addr};

use super::spec::SpecRules;
use crate::board::branch::is_branch_name;

type Judged = Result<(), String>;

/// Judges the address of a repository. Git runs a program for some addresses (`ext::sh -c …`) and reads a leading
/// `-` as an option; only an address that is known to be neither passes.
pub fn git_url(url: &str, rules: &SpecRules) -> Judged {
    let allowed = |scheme: &str| rules.git_schemes.iter().any(|known| known == scheme);
    if url.starts_with('-') {
        return Err("must not start with '-'".into());
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must not hold spaces or control characters".into());
    }
    let program = url.split_once("::").map(|(program, _)| program);
    if program.is_some_and(|program| !program.contains(['/', '['])) {
        return Err("must not name a transport program ('::')".into());
    }
    let Some(address) = GitAddress::of(url) else {
        return Err(format!("must be an address such as {}", examples(rules)));
    };
    if !allowed(&address.scheme) {
        let (scheme, known) = (address.scheme, rules.git_schemes.join(", "));
        return Err(format!("scheme '{scheme}' is not allowed here; allowed are {known}"));
    }
    if address.scheme == "file" {
        return Ok(());
    }
    if !address.names_a_host() {
        return Err("must name a host".into());
    }
    if is_private_host(address.host) && !address.is_named_by(&rules.git_hosts) {
        let private = "must not be a loopback, private or link-local address";
        return Err(format!("{private}, unless relay.git_hosts names its host"));
    }
    Ok(())
}

/// Where git fetches from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitAddress<'a> {
    /// In lower case; `git@host:path` is ssh.
    pub scheme: String,
    /// Without the brackets of an IPv6 address.
    pub host: &'a str,
    pub port: Option<u16>,
}

impl<'a> GitAddress<'a> {
    /// Reads a URL, or `user@host:path`.
    pub fn of(url: &'a str) -> Option<Self> {
        if let Some((scheme, rest)) = url.split_once("://") {
            let authority = rest.split('/').next().unwrap_or_default();
            let (host, port) = host_and_port(authority.rsplit('@').next().unwrap_or_default());
            // Curl ends the authority at these, so it would connect to another host than is read here.
            let host = if authority.contains(['?', '#', '\\']) { "" } else { host };
            return Some(Self { scheme: scheme.to_ascii_lowercase(), host, port });
        }
        let (user, rest) = url.split_once('@')?;
        let host = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once("]:").filter(|(_, path)| !path.is_empty())?.0,
            None => rest.split_once(':').filter(|(_, path)| !path.is_empty())?.0,
        };
        if user.contains(['/', ':']) || host.contains('/') {
            return None;
        }
        // Git reads a port in brackets.
        let (host, port) =
            if host.matches(':').count() == 1 { host_and_port(host) } else { (host, None) };
        Some(Self { scheme: "ssh".into(), host, port })
    }

    /// The port that is connected to.
    pub fn port(&self) -> u16 {
        let usual = match self.scheme.as_str() {
            "http" => 80,
            "ssh" => 22,
            _ => 443,
        };
        self.port.unwrap_or(usual)
    }

    /// Only what means one thing to every program: no escapes, no letters that become others. ssh would
    /// read `-oProxyCommand=…` as an option.
    fn names_a_host(&self) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        let is_plain = self.host.chars().all(is_plain);
        is_plain && !self.host.is_empty() && !self.host.starts_with('-')
    }

    /// Whether a list of hosts, some with a port, has this one.
    pub fn is_named_by(&self, hosts: &[String]) -> bool {
        hosts.iter().any(|named| {
            let (host, port) = host_and_port(named);
            host.eq_ignore_ascii_case(self.host) && port.is_none_or(|port| port == self.port())
        })
    }
}

/// Whether a list of hosts may have this entry.
pub fn judge_git_host(named: &str) -> Judged {
    let (host, port) = host_and_port(named);
    let whole = GitAddress { scheme: "https".into(), host, port };
    let is_literal = host.parse::<IpAddr>().is_ok();
    let is_read = port.is_some() || is_literal || !named.contains(':');
    let is_host = is_literal || !host.contains(':');
    match whole.names_a_host() && is_read && is_host {
        true => Ok(()),
        false => Err(format!("'{named}' is no host such as git.example or 10.0.0.5:8443")),
    }
}

/// `[::1]:8080`, `host:8080` and `host`.
fn host_and_port(text: &str) -> (&str, Option<u16>) {
    if let Some((literal, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (literal, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match text.split_once(':') {
        // An IPv6 address without brackets.
        Some((_, rest)) if rest.contains(':') => (text, None),
        Some((host, port)) => (host, port.parse().ok()),
        None => (text, None),
    }
}

fn examples(rules: &SpecRules) -> String {
    let schemes = rules.git_schemes.iter().map(|scheme| format!("{scheme}://host/path"));
    let mut schemes: Vec<String> = schemes.collect();
    if rules.git_schemes.iter().any(|scheme| scheme == "ssh") {
        schemes.push("git@host:path".into());
    }
    schemes.join(" or ")
}

pub fn branch(name: &str) -> Judged {
    match is_branch_name(name) {
        true => Ok(()),
        false => Err("must be a valid branch name".into()),
    }
}

/// Judges the commit that a job starts from.
pub fn commit(commit: &str) -> Judged {
    if commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    let length = commit.chars().count();
    Err(format!("must be a full commit id of 40 hex digits, got {length} characters"))
}

/// Judges the path of a local repository, apart from the disk.
pub fn local_path(path: &str) -> Judged {
    if path.contains('\0') { Err("must not hold a NUL".into()) } else { Ok(()) }
}

pub fn idempotency_key(key: &str) -> Judged {
    match key.contains(char::is_control) {
        true => Err("must not have control characters".into()),
        false => Ok(()),
    }
}

/// A path inside the repository.
pub fn inner_path(path: &str) -> Judged {
    if path.contains('\0') {
        return Err("must not hold a NUL".into());
    }
    if path.starts_with(['/', '\\']) || path.get(1..2) == Some(":") {
        return Err("must be relative to the repository".into());
    }
    if path.split(['/', '\\']).any(|part| part == "..") {
        return Err("must not hold '..'".into());
    }
    Ok(())
}

/// Judges the text of a webhook's address. The addresses behind its host name are judged at each delivery.
pub fn judge_webhook(url: &str, rules: &SpecRules) -> Judged {
    let host = ["https://", "http://"].into_iter().find_map(|scheme| {
        let start = url.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
    });
    let Some(host) = host else { return Err("must be an http or https URL".into()) };
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let (host, _) = host_and_port(host);
    if host.is_empty() || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must be an http or https URL".into());
    }
    if is_private_host(host) && !rules.webhook_allow_private {
        return Err("must not be a loopback, private or link-local address".into());
    }
    Ok(())
}

/// Whether the text of a host alone tells that the host is private.
fn is_private_host(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => !is_public_address(address),
        Err(_) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

/// Whether a webhook may be delivered to an address, and a repository fetched from it: not this machine, not its own
/// network, not the address where clouds keep credentials.
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let shared = first == 100 && (64..128).contains(&second);
            let benchmark = first == 198 && (18..20).contains(&second);
            !(address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_broadcast()
                || address.is_multicast()
                || address.is_documentation()
                || first == 0
                || first >= 240
                || shared
                || benchmark)
        }
        IpAddr::V6(address) => match inner_v4(address) {
            Some(inner) => is_public_address(inner),
            None => {
                !(address.is_loopback()
                    || address.is_unspecified()
                    || address.is_multicast()
                    || address.is_unique_local()
                    || address.is_unicast_link_local())
            }
        },
    }
}

/// The IPv4 address that is written, or translated, as this IPv6 address.
fn inner_v4(address: Ipv6Addr) -> Option<IpAddr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let translated = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
    if translated {
        let (high, low) = (u32::from(high), u32::from(low));
        return Some(IpAddr::V4((high << 16 | low).into()));
    }
    address.to_ipv4_mapped().map(IpAddr::V4)
}

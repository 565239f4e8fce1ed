//! TCP ports that a confined run may connect to.

use std::fmt::{self, Display};
use std::net::TcpListener;
use std::ops::RangeInclusive;

use callboard_domain::board::recipe::PortBlock;

use crate::environment::Variables;

/// HTTPS and HTTP: models, forges, package registries.
const USUAL: [u16; 2] = [443, 80];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxPorts {
    Any,
    /// These ports, at any address: Landlock judges ports alone.
    Only(Vec<RangeInclusive<u16>>),
}

impl Default for SandboxPorts {
    fn default() -> Self {
        Self::Only(Vec::new())
    }
}

impl SandboxPorts {
    /// Reads `any`, or ports and ranges such as `3000-3010`.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        if let [word] = words
            && word == "any"
        {
            return Ok(Self::Any);
        }
        words.iter().map(|word| range(word)).collect::<Result<_, _>>().map(Self::Only)
    }

    /// The ports of one run: the usual ones, its own, the port of its `door`, the ports in the variables
    /// that the executor names (a model behind `http://127.0.0.1:4000`, a proxy), and the configured ones.
    pub(crate) fn of_run(&self, named: &Variables, door: Option<&str>, own: Option<u16>) -> Self {
        let Self::Only(configured) = self else { return Self::Any };
        let door = door.and_then(|url| port_in("", url));
        let named =
            named.iter().filter_map(|(name, value)| port_in(name.to_str()?, value.to_str()?));
        let single = USUAL.into_iter().chain(own).chain(door).chain(named).map(|port| port..=port);
        Self::Only(each_once(single.chain(configured.iter().cloned())))
    }

    /// These ports and those of a task.
    pub(crate) fn and(self, block: Option<PortBlock>) -> Self {
        match (self, block) {
            (Self::Only(mut ports), Some(block)) => {
                ports.push(block.first..=block.last());
                Self::Only(ports)
            }
            (ports, _) => ports,
        }
    }

    /// The ports of a check: the usual ones, the ephemeral ports of the system, and the configured ones. The board's
    /// own port is closed: on loopback without tokens the board takes commands.
    pub(crate) fn of_check(&self, board: Option<u16>) -> Self {
        let Self::Only(configured) = self else { return Self::Any };
        let given = given_by_the_system();
        let given = match board.filter(|port| given.contains(port)) {
            // The board has a port of the system when its own was taken.
            Some(board) => vec![*given.start()..=board - 1, board + 1..=*given.end()],
            None => vec![given],
        };
        let usual = USUAL.into_iter().map(|port| port..=port);
        let open = given.into_iter().filter(|range| !range.is_empty());
        Self::Only(each_once(usual.chain(open).chain(configured.iter().cloned())))
    }
}

fn each_once(ranges: impl Iterator<Item = RangeInclusive<u16>>) -> Vec<RangeInclusive<u16>> {
    let mut ports = Vec::new();
    for range in ranges {
        if !ports.contains(&range) {
            ports.push(range);
        }
    }
    ports
}

/// The ephemeral ports, which servers on port 0 get, as in tests.
fn given_by_the_system() -> RangeInclusive<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let text = text.unwrap_or_default();
    let mut ends = text.split_whitespace().filter_map(|end| end.parse().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) if first > 0 && last < u16::MAX => first..=last,
        // Linux's default, for other systems and for a range that includes the last port.
        _ => 32768..=60999,
    }
}

impl Display for SandboxPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Only(ranges) = self else { return f.write_str("any") };
        for (n, range) in ranges.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

/// A free loopback port for a run whose command names `{port}`.
pub(crate) fn port_of_its_own(command: &[String]) -> Option<u16> {
    let is_wanted = command.iter().any(|arg| arg.contains("{port}"));
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    is_wanted.then(free)?.ok().map(|address| address.port())
}

fn range(word: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(format!(
            "'{word}' is neither a port from 1 to 65535 nor a range such as 3000-3010; the single word any allows every port"
        )),
    }
}

/// The port that an address names. Proxy variables may leave the scheme out.
fn port_in(variable: &str, value: &str) -> Option<u16> {
    let is_proxy = variable.to_ascii_uppercase().ends_with("_PROXY");
    let rest = match value.split_once("://") {
        Some((scheme, rest)) => {
            let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
            scheme.chars().all(is_scheme).then_some(rest)?
        }
        None if is_proxy => value,
        None => return None,
    };
    // Behind the last `@`: a password may hold a colon.
    let host = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    let (_, port) = host.rsplit_once(':')?;
    port.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_ranges_or_any() {
        let read = |text: &str| {
            let words: Vec<String> = text
                .split(',')
                .map(|word| word.trim().to_owned())
                .filter(|w| !w.is_empty())
                .collect();
            SandboxPorts::parse(&words)
        };
        assert_eq!(read(""), Ok(SandboxPorts::default()));
        assert_eq!(read("any"), Ok(SandboxPorts::Any));
        assert_eq!(read("22, 3000-3010"), Ok(SandboxPorts::Only(vec![22..=22, 3000..=3010])));
        for wrong in ["0", "65536", "ssh", "any, 22", "3010-3000", "3000-", "-22"] {
            let words = read(wrong).expect_err(wrong);
            assert!(words.contains("neither a port from 1 to 65535"), "{words}");
        }
    }

    #[test]
    fn a_run_reaches_the_ports_that_its_variables_name() {
        let table = "
            ANTHROPIC_BASE_URL  http://127.0.0.1:4000          443, 80, 4000
            OPENAI_BASE_URL     https://ana:s3c@h.example:8443/v1  443, 80, 8443
            OPENAI_BASE_URL     https://h.example/v1:9         443, 80
            HTTPS_PROXY         http://proxy:3128/             443, 80, 3128
            https_proxy         proxy:3128                     443, 80, 3128
            BASE                host:3128                      443, 80
            MODEL               http://[::1]:4000/v1           443, 80, 4000
            MODEL               http://[::1]/v1                443, 80
            GH_TOKEN            a:1                            443, 80
            ALSO                https://h.example:443/         443, 80
        ";
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let (name, rest) = line.trim().split_once(' ').expect("columns");
            let (value, wanted) = rest.trim().split_once(' ').expect("columns");
            let variables = vec![(name.into(), value.into())];
            let ports = SandboxPorts::default().of_run(&variables, None, None);
            assert_eq!(ports.to_string(), wanted.trim(), "{line}");
        }
        let given = given_by_the_system();
        let (first, last) = (*given.start(), *given.end());
        let named = SandboxPorts::Only(vec![5432..=5432]).of_check(Some(first + 1)).to_string();
        assert_eq!(named, format!("443, 80, {first}, {}-{last}, 5432", first + 2));
        let far = SandboxPorts::default().of_check(Some(first - 1)).to_string();
        assert_eq!(far, format!("443, 80, {first}-{last}"));
        assert_eq!(SandboxPorts::Any.of_check(None), SandboxPorts::Any);
        let configured = SandboxPorts::Only(vec![80..=80, 3000..=3010]);
        let ports = configured.of_run(&Variables::new(), Some("http://127.0.0.1:40123"), None);
        assert_eq!(ports.to_string(), "443, 80, 40123, 3000-3010");
        assert_eq!(SandboxPorts::Any.of_run(&Variables::new(), None, None), SandboxPorts::Any);
    }
}

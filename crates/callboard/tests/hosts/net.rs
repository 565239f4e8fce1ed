//! Hosts made of network namespaces: each has one interface, and all are on one bridge in a namespace of its own. Nothing
//! is routed out of the bridge, and the machine's own network is not touched.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Why no test can have hosts here; tried once.
pub fn missing() -> Option<&'static str> {
    static MISSING: LazyLock<Option<&'static str>> = LazyLock::new(probe);
    *MISSING
}

fn probe() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root");
    }
    let probe = format!("callboard-{}-probe", std::process::id());
    if !run_quietly(&["ip", "netns", "add", &probe]) {
        return Some("ip netns does not work here");
    }
    run_quietly(&["ip", "netns", "del", &probe]);
    None
}

fn run_quietly(words: &[&str]) -> bool {
    Command::new(words[0]).args(&words[1..]).output().is_ok_and(|done| done.status.success())
}

pub fn run(words: &[&str]) {
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Configures the network of a namespace.
fn in_space(space: &str, words: &[&str]) {
    run(&[&["ip", "-n", space][..], words].concat());
}

/// One host: the name of its namespace and its address.
#[derive(Clone, Debug)]
pub struct Host {
    space: String,
    pub address: String,
}

impl Host {
    /// A program on this host. `ip netns exec` becomes the program, so the child's number is the program's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space, program]);
        command
    }

    /// Moves the calling thread to this host: its new connections begin here.
    pub fn enter(&self) {
        let space = File::open(format!("/run/netns/{}", self.space)).unwrap();
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

pub struct Net {
    /// Begins the name of each namespace.
    prefix: String,
    hosts: Vec<String>,
}

impl Net {
    pub fn new() -> Self {
        remove_left_behind();
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let prefix = format!("callboard-{}-{number}", std::process::id());
        let net = Self { prefix, hosts: Vec::new() };
        run(&["ip", "netns", "add", &net.space("net")]);
        net.switch(&["link", "add", "br0", "type", "bridge"]);
        net.switch(&["link", "set", "br0", "up"]);
        net
    }

    fn space(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Configures the namespace of the bridge. A host's port there has the host's name.
    fn switch(&self, words: &[&str]) {
        in_space(&self.space("net"), words);
    }

    /// A new host on the bridge.
    pub fn host(&mut self, name: &str) -> Host {
        let space = self.space(name);
        self.hosts.push(name.to_owned());
        let address = format!("10.231.0.{}", self.hosts.len());
        run(&["ip", "netns", "add", &space]);
        let pair = ["veth", "peer", "name", "eth0", "netns", space.as_str()];
        self.switch(&[&["link", "add", name, "type"][..], &pair[..]].concat());
        self.switch(&["link", "set", name, "master", "br0", "up"]);
        in_space(&space, &["address", "add", &format!("{address}/24"), "dev", "eth0"]);
        in_space(&space, &["link", "set", "eth0", "up"]);
        in_space(&space, &["link", "set", "lo", "up"]);
        Host { space, address }
    }

    /// No packet passes between the two hosts, and neither gets an error. Both still reach all other hosts.
    pub fn part(&self, one: &str, other: &str) {
        self.isolate(&[one, other], "on");
    }

    pub fn join(&self, one: &str, other: &str) {
        self.isolate(&[one, other], "off");
    }

    fn isolate(&self, ports: &[&str], how: &str) {
        for port in ports {
            self.switch(&["link", "set", "dev", port, "type", "bridge_slave", "isolated", how]);
        }
    }

    /// Makes the link of a host slow, and lets it lose packets. A kernel without netem gets a narrow link instead,
    /// which loses the packets that do not fit into its queue.
    pub fn slow_down(&self, host: &str) -> Result<(), &'static str> {
        let space = self.space(host);
        let begin = ["tc", "-n", &space, "qdisc", "add", "dev", "eth0", "root"];
        let netem = ["netem", "delay", "20ms", "5ms", "loss", "2%"];
        let narrow = ["tbf", "rate", "512kbit", "burst", "4kb", "latency", "40ms"];
        let slows = |how: &[&str]| run_quietly(&[&begin[..], how].concat());
        if slows(&netem) || slows(&narrow) { Ok(()) } else { Err("tc can slow no link down here") }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in self.hosts.iter().map(String::as_str).chain(["net"]) {
            run_quietly(&["ip", "netns", "del", &self.space(name)]);
        }
    }
}

/// Removes namespaces of a test process that was killed.
fn remove_left_behind() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix("callboard-").and_then(|rest| rest.split('-').next())
        else {
            continue;
        };
        if !fs::exists(format!("/proc/{pid}")).unwrap_or(true) {
            run_quietly(&["ip", "netns", "del", &name]);
        }
    }
}

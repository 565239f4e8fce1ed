//! A confined agent connects to the ports that it needs and to no others.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};

use callboard_engine::ports::{CheckFault, CheckRun, CheckRunner, DoorKey};
use callboard_runner::{
    AgentSettings, CheckSandbox, ExecutorSettings, LocalChecks, ProjectCommands, SandboxMode,
    SandboxPorts,
};
use rustix::net::{AddressFamily, SendFlags, SocketType, connect, ipproto, sendto, socket};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, run};
use super::work::{call, work, worktree};
use crate::fixture::since_linux;
use crate::skipped::skipped;

/// The variable with the talker's tries, each as `<way>=<port or name>`.
const TRIES: &str = "RUNNER_TEST_TRIES";
const MODEL: &str = "RUNNER_TEST_MODEL";

/// Does nothing unless a test starts it as an agent. Prints a line for each try.
#[test]
fn talker() {
    let Ok(tries) = std::env::var(TRIES) else { return };
    io::stdin().read_to_end(&mut Vec::new()).expect("reads the prompt");
    for one in tries.split_whitespace() {
        let (way, to) = one.split_once('=').expect("a way and a place");
        let outcome = if attempt(way, to).is_ok() { "open" } else { "closed" };
        writeln!(io::stdout(), "try {way}={to} {outcome}").expect("prints");
    }
}

fn attempt(way: &str, to: &str) -> io::Result<()> {
    let at = || SocketAddr::from(([127, 0, 0, 1], to.parse().expect("a port")));
    match way {
        "tcp" => TcpStream::connect(at()).map(drop),
        "listen" => TcpListener::bind("127.0.0.1:0").map(drop),
        "abstract" => {
            let name = UnixAddress::from_abstract_name(to)?;
            UnixStream::connect_addr(&name).map(drop)
        }
        "multipath" => {
            let made = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::MPTCP))?;
            Ok(connect(&made, &at())?)
        }
        "fastopen" => {
            let made = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            let fast_open = SendFlags::from_bits_retain(0x2000_0000);
            sendto(&made, b"x", fast_open, &at()).map(drop).map_err(io::Error::from)
        }
        _ => panic!("no way {way}"),
    }
}

struct Ports {
    _listeners: Vec<TcpListener>,
    numbers: Vec<u16>,
}

impl Ports {
    fn open(count: usize) -> Self {
        let listen = |_| TcpListener::bind("127.0.0.1:0").expect("listens");
        let listeners: Vec<TcpListener> = (0..count).map(listen).collect();
        let number = |of: &TcpListener| of.local_addr().expect("an address").port();
        Self { numbers: listeners.iter().map(number).collect(), _listeners: listeners }
    }
}

/// The talker as an agent that the system must confine.
fn settings(bed: &Bed, tries: &str, model: u16) -> AgentSettings {
    let this = std::env::current_exe().expect("this test").display().to_string();
    let command = [&this, "--exact", "agents::network::talker", "--nocapture"];
    let mut agent = ExecutorSettings::command("script", command.map(str::to_owned).into());
    agent.env = vec![TRIES.into(), MODEL.into()];
    let mut settings = AgentSettings { sandbox: SandboxMode::Os, ..bed.settings(agent) };
    settings.environment.push((TRIES.into(), tries.into()));
    settings.environment.push((MODEL.into(), format!("http://127.0.0.1:{model}/v1").into()));
    settings
}

/// Whether the kernel supports the test; prints what is missing.
fn is_held(logs: &str) -> bool {
    let lacks = ["no rules for ports", "relay.sandbox = os"];
    let is_held = !lacks.iter().any(|words| logs.contains(words));
    if !is_held {
        skipped("this kernel has no rules for TCP ports");
    }
    is_held
}

#[track_caller]
fn assert_tried(logs: &str, wanted: &[String]) {
    for line in wanted {
        assert!(logs.contains(&format!("try {line}\n")), "{line} in {logs}");
    }
}

#[tokio::test]
async fn a_job_connects_to_its_model_and_to_named_ports_alone() {
    let (bed, ports) = (Bed::new(), Ports::open(3));
    let [other, named, model] = ports.numbers[..] else { panic!("three ports") };
    let tries = format!("tcp={other} tcp={named} tcp={model} listen=0");
    let mut settings = settings(&bed, &tries, model);
    settings.sandbox_ports = SandboxPorts::Only(vec![named..=named]);
    let report = run(settings.clone(), bed.order(bed.spec(&[]))).await;
    if !is_held(&report.logs) {
        return;
    }
    let wanted = [
        format!("tcp={other} closed"),
        format!("tcp={named} open"),
        format!("tcp={model} open"),
        "listen=0 open".into(),
    ];
    assert_tried(&report.logs, &wanted);
    let said = format!("sandbox: TCP to ports 443, 80, {model}, {named} only; relay.sandbox_ports");
    assert!(report.logs.contains(&said), "{}", report.logs);
    settings.sandbox_ports = SandboxPorts::Any;
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    assert_tried(&report.logs, &[format!("tcp={other} open")]);
    assert!(report.logs.contains("sandbox: TCP to every port"), "{}", report.logs);
}

/// Tests start servers of their own on port 0. A board without tokens would take commands from a check.
#[tokio::test]
async fn a_check_connects_to_servers_of_tests_and_not_to_the_board() {
    let (bed, ports) = (Bed::new(), Ports::open(2));
    let [board, own] = ports.numbers[..] else { panic!("two ports") };
    let root = worktree(&bed);
    let this = std::env::current_exe().expect("this test");
    let tries = format!(
        "{TRIES}='tcp={board} tcp={own} multipath={board}' '{}' --exact agents::network::talker --nocapture < \
         /dev/null",
        this.display()
    );
    let checks = |ports| {
        let commands = ProjectCommands::default().with_sandbox(CheckSandbox::On, Vec::new());
        LocalChecks::new(true).with_commands(commands.with_ports(ports, move || Some(board)))
    };
    let check = |cmd: &str| CheckRun { root: root.clone(), ..bed.repo.check(cmd) };
    let run =
        async |checks: LocalChecks| match checks.run(check(&tries), CancellationToken::new()).await
        {
            Ok(ran) => bed.repo.read(&ran.log),
            Err(CheckFault::Infrastructure(words)) => words,
            Err(fault) => panic!("{fault:?}"),
        };
    let log = run(checks(SandboxPorts::default())).await;
    if log.contains("checks.sandbox = on") || !since_linux(6, 7) {
        return skipped("this kernel has no rules for TCP ports");
    }
    let closed = [format!("tcp={board} closed"), format!("multipath={board} closed")];
    assert_tried(&log, &[&closed[..], &[format!("tcp={own} open")]].concat());
    let log = run(checks(SandboxPorts::Any)).await;
    assert_tried(&log, &[format!("tcp={board} open")]);
}

#[tokio::test]
async fn a_run_connects_to_its_door_and_to_no_other_server() {
    let (bed, ports) = (Bed::new(), Ports::open(3));
    let [other, door, model] = ports.numbers[..] else { panic!("three ports") };
    let tries = format!("tcp={other} tcp={door}");
    let key = DoorKey { url: format!("http://127.0.0.1:{door}"), token: "cb_of_this_run".into() };
    let mut call = call(worktree(&bed));
    call.door = Some(key);
    let (_, report) = work(settings(&bed, &tries, model), call).await;
    if is_held(&report.logs) {
        assert_tried(&report.logs, &[format!("tcp={other} closed"), format!("tcp={door} open")]);
    }
}

/// Landlock alone lets both through: a Multipath TCP socket, and data that opens a connection.
#[tokio::test]
async fn no_detour_leads_to_a_closed_port() {
    let (bed, ports) = (Bed::new(), Ports::open(2));
    let [other, model] = ports.numbers[..] else { panic!("two ports") };
    let tries = format!("multipath={other} fastopen={other}");
    let report = run(settings(&bed, &tries, model), bed.order(bed.spec(&[]))).await;
    if is_held(&report.logs) {
        let wanted = [format!("multipath={other} closed"), format!("fastopen={other} closed")];
        assert_tried(&report.logs, &wanted);
    }
}

#[tokio::test]
async fn an_abstract_socket_of_another_process_is_closed() {
    let (bed, ports) = (Bed::new(), Ports::open(1));
    let name = format!("callboard-test-{}", std::process::id());
    let address = UnixAddress::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("listens");
    // A value of one word would be removed from the log as a secret.
    let tries = format!("abstract={name} listen=0");
    let settings = settings(&bed, &tries, ports.numbers[0]);
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    // Linux 6.12 has both this scope and the rules for ports.
    if is_held(&report.logs) {
        assert_tried(&report.logs, &[format!("abstract={name} closed")]);
    }
}

//! A really full disk, in a mount of our own: clear messages, no data lost, and recovery.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{Server, agent};
use crate::peer::{CALLBOARD, Peer, clean};
use crate::skipped::skipped;

/// Whether this machine allows mounts of our own; prints a note if not.
fn can_mount() -> bool {
    let can = Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|s| s.success());
    if !can {
        skipped("this machine lets no user mount a disk of its own (unshare -rm)");
    }
    can
}

/// A command on a board on a disk of this many megabytes. The mount lives and dies with the process.
fn on_small_disk(folder: &Path, megabytes: u32, arguments: &str) -> Command {
    let mut small_disk = Command::new("unshare");
    clean(&mut small_disk, folder);
    small_disk.args(["-rm", "sh", "-c"]).arg(format!(
        "mount -t tmpfs -o size={megabytes}m tmpfs . && cd \"$PWD\" && \
         '{CALLBOARD}' init --prefix P >&2 && exec '{CALLBOARD}' {arguments}"
    ));
    small_disk
}

#[test]
fn a_folder_that_cannot_be_written_is_said() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut read_only = Command::new("unshare");
    clean(&mut read_only, folder.path());
    let output = read_only
        .args(["-rm", "sh", "-c"])
        .arg(format!(
            "mount -t tmpfs tmpfs . && cd \"$PWD\" && '{CALLBOARD}' init && \
             mount -o remount,ro . && '{CALLBOARD}' task add x; echo \"exit $?\""
        ))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("error[UNAVAILABLE]") && words.contains("Read-only"), "{words}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("exit 7"));
}

#[test]
fn a_full_disk_is_said_and_nothing_is_lost() {
    if !can_mount() {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path();
    let mut peer = Peer::over(on_small_disk(folder, 2, "mcp --actor agent:x"));
    peer.hello();
    let inside = format!("/proc/{}/root{}", peer.child.id(), folder.display());
    let task = peer.create(json!({"title": "small"}));
    std::fs::write(Path::new(&inside).join("filler"), "").unwrap();
    let filler = Path::new(&inside).join("filler");
    // Fills the rest of the disk; the write is expected to fail.
    let _ = std::fs::write(&filler, vec![0u8; 4 << 20]);

    let mut refused = 0;
    let mut noted = 0;
    while refused < 3 && noted < 1000 {
        match peer
            .call("note", json!({"id": task, "text": format!("{noted} {}", "x".repeat(4000))}))
        {
            Ok(_) => noted += 1,
            Err(refusal) => {
                assert_eq!(refusal["code"], "UNAVAILABLE", "{refusal}");
                let message = refusal["message"].as_str().unwrap();
                assert!(
                    message.contains("disk is full") || message.contains("failed"),
                    "{message}"
                );
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 3, "the disk never filled");
    let entries = |peer: &mut Peer| {
        let task = peer.call("get", json!({"id": task})).unwrap();
        task["provenance"].as_array().unwrap().len() - 1
    };
    assert_eq!(entries(&mut peer), noted, "what was acknowledged is there, and no more");
    std::fs::remove_file(&filler).unwrap();
    peer.call("note", json!({"id": task, "text": "space again"})).unwrap();
    assert_eq!(entries(&mut peer), noted + 1);
}

#[test]
fn a_server_on_a_full_disk_is_not_ready() {
    if !can_mount() {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path();
    let server = Server::over(on_small_disk(folder, 4, "serve --listen 127.0.0.1:0"));
    let ready = || {
        let mut answer = agent().get(format!("{}/readyz", server.url)).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    let soon = |status: u16| {
        let start = Instant::now();
        loop {
            let (now, words) = ready();
            if now == status {
                return words;
            }
            assert!(start.elapsed() < Duration::from_secs(5), "{now}: {words}");
        }
    };
    soon(200);
    let filler = format!("/proc/{}/root{}/filler", server.child.id(), folder.display());
    // Fills the rest of the disk; the write is expected to fail.
    let _ = std::fs::write(&filler, vec![0u8; 8 << 20]);
    // The reason is for the operator alone.
    assert_eq!(soon(503), "unavailable\n");
    std::fs::remove_file(&filler).unwrap();
    soon(200);
}

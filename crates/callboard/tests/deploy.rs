//! The files of `deploy/`: the installer of a release archive, and the image where a builder is there.

#![allow(clippy::disallowed_methods, reason = "tests play the person who installs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../../store/tests/it/skipped.rs"]
mod skipped;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

fn install(archive: &Path, prefix: &Path) -> Output {
    run(Command::new("sh").arg(root().join("deploy/install.sh")).args([archive, prefix]))
}

#[test]
fn an_archive_is_installed_after_its_checksum_was_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, prefix) = (folder.path().join("callboard.tar.gz"), folder.path().join("prefix"));
    let program = Path::new(env!("CARGO_BIN_EXE_callboard"));
    let built = program.parent().expect("a folder");
    let packed =
        run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(built).arg("callboard"));
    assert!(packed.status.success(), "{packed:?}");
    let sum = folder.path().join("callboard.tar.gz.sha256");

    let unknown = install(&archive, &prefix);
    assert!(!unknown.status.success() && !prefix.exists(), "no checksum, no program: {unknown:?}");
    std::fs::write(&sum, "0000  callboard.tar.gz\n").expect("a file");
    let wrong = install(&archive, &prefix);
    assert!(!wrong.status.success() && !prefix.exists(), "a wrong checksum: {wrong:?}");

    let right = run(Command::new("sha256sum").arg(&archive));
    std::fs::write(&sum, right.stdout).expect("a file");
    for time in ["first", "second"] {
        let installed = install(&archive, &prefix);
        assert!(installed.status.success(), "{time}: {installed:?}");
        let said = String::from_utf8_lossy(&installed.stdout).into_owned();
        assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
    }
    assert!(run(Command::new(prefix.join("bin/callboard")).arg("--version")).status.success());
    assert!(prefix.join("share/man/man1/callboard-serve.1").is_file(), "the manual comes along");
}

#[test]
fn the_image_builds() {
    let is_there = |builder: &str| {
        Command::new(builder).arg("info").output().is_ok_and(|info| info.status.success())
    };
    let Some(builder) = ["docker", "podman"].into_iter().find(|builder| is_there(builder)) else {
        return skipped::skipped("no docker or podman that answers");
    };
    let built = run(Command::new(builder).current_dir(root()).args([
        "build",
        "--file",
        "deploy/Dockerfile",
        "--tag",
        "callboard-test",
        ".",
    ]));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let user = run(Command::new(builder).args([
        "run",
        "--rm",
        "--entrypoint",
        "id",
        "callboard-test",
        "-u",
    ]));
    assert_eq!(String::from_utf8_lossy(&user.stdout).trim(), "10001", "not the administrator");
}

#[test]
fn the_unit_is_valid() {
    if !Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok_and(|it| it.status.success())
    {
        return skipped::skipped("no systemd-analyze");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let unit = std::fs::read_to_string(root().join("deploy/callboard.service")).expect("the unit");
    // systemd looks for the program that the unit starts.
    let started = "ExecStart=/usr/local/bin/callboard ";
    assert!(unit.contains(started), "{unit}");
    let here = format!("ExecStart={} ", env!("CARGO_BIN_EXE_callboard"));
    let copy = folder.path().join("callboard.service");
    std::fs::write(&copy, unit.replace(started, &here)).expect("a file");
    let verified = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy));
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !said.contains("callboard.service"), "{said}");
}

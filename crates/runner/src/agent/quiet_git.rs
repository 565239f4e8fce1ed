//! A wrapper around git for confined agents. After each commit git deletes the ref `AUTO_MERGE`, and for any deletion
//! it locks `packed-refs`. The folder of that lock stays closed to agents: an agent that writes there could also change
//! the settings, the hooks and the branches of people. The commit is made, and yet git says `Unable to create
//! '…/packed-refs.lock': Permission denied`. No setting of git changes that, so the wrapper leaves out this one line
//! and deletes the ref that git could not delete.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::environment::{self, Variables};
use crate::executor::find_program;
use crate::guarded::{AFTER_COMMIT, WorktreeDirs};

/// Puts the wrapper into `scratch` and returns the variables by which it is found. Without git there is nothing to do.
pub(super) fn place(
    scratch: &Path,
    seen: &Variables,
    dirs: &[WorktreeDirs],
) -> io::Result<Variables> {
    let path = environment::value(seen, "PATH");
    let Some(git) = find_program("git", path) else { return Ok(Variables::new()) };
    let folder = scratch.join("bin");
    fs::create_dir_all(&folder)?;
    let program = folder.join("git");
    fs::write(&program, script(&git, dirs))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut path_with = OsString::from(&folder);
    if let Some(path) = path {
        path_with.push(":");
        path_with.push(path);
    }
    let mut variables: Variables = vec![("PATH".into(), path_with)];
    // Git's housekeeping after a commit writes to the closed folders, so it is off.
    let settings = [("gc.auto", "0"), ("maintenance.auto", "false")];
    variables.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
    for (place, (key, value)) in settings.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{place}").into(), key.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{place}").into(), value.into()));
    }
    Ok(variables)
}

fn script(git: &Path, dirs: &[WorktreeDirs]) -> String {
    let complaint = |dirs: &WorktreeDirs| {
        let lock = dirs.common.join("packed-refs.lock");
        format!("error: Unable to create '{}': Permission denied", lock.display())
    };
    let complaints: Vec<String> = dirs.iter().map(complaint).collect();
    let left = dirs.iter().flat_map(|dirs| AFTER_COMMIT.map(|name| dirs.own.join(name)));
    let left: Vec<String> = left.map(|file| quoted(&file.display().to_string())).collect();
    format!(
        r#"#!/bin/sh
# Runs git without the one complaint that a commit ends with in this sandbox.
command -v awk > /dev/null || exec {git} "$@"
CALLBOARD_LEFT_OUT={complaints}
export CALLBOARD_LEFT_OUT
exec 3>&1
status=$({{ {{ {git} "$@" 2>&1 >&3 3>&- 4>&-; echo $? >&4; }} | awk '
    BEGIN {{ split(ENVIRON["CALLBOARD_LEFT_OUT"], lines, "\n"); for (n in lines) out[lines[n]] = 1 }}
    $0 in out {{ seen = 1; next }}
    {{ print; fflush() }}
    END {{ exit seen }}' >&2 3>&-; }} 4>&1)
if [ $? -ne 0 ] && [ "$status" = 0 ]; then
    rm -f {left}
fi
exit "${{status:-1}}"
"#,
        complaints = quoted(&complaints.join("\n")),
        git = quoted(&git.display().to_string()),
        left = left.join(" "),
    )
}

/// Quotes a text as one plain word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

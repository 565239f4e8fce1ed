//! A tmux session that shows an agent's output to a person.
//!
//! The agent is no process of the session. The runner starts, confines, limits and ends the agent as it does without a
//! terminal; the session shows the file that `live.rs` writes. Each run has a tmux server of its own, which reads no
//! settings of the user and is confined as the agent is: Landlock does not keep an agent from a socket, so a server
//! with more rights would let the agent out.
//!
//! The server and its processes carry the mark `<folder of the run>/terminal`. The session ends with the run, or with
//! the process that runs it (whose end of a pipe the session reads), or the cleanup after the run kills it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_domain::runs::run::Terminal as Shown;
use callboard_engine::ports::TerminalWish;
use tokio_util::sync::CancellationToken;

use crate::environment::{self, Variables};
use crate::live;
use crate::process::{self, Ended, MARK, Output, ProcessEnd, Program};
use crate::sandbox::Confinement;
use crate::tmux::{self, TmuxFault};

/// The file, in the folder of a run, that names the folder of the terminal's socket.
pub(crate) const RECORD: &str = "terminal";

const SOCKET: &str = "tmux";
const SCRIPT: &str = "terminal.sh";
const LIFELINE: &str = "lifeline";

/// The capacity of a socket's address.
const SOCKET_BYTES_MAX: usize = 100;

/// How long the session may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Variables for the programs in a terminal: no secret, and nothing of the user's own tmux.
const VARIABLES: [&str; 8] =
    ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "USER", "LOGNAME"];

/// A terminal that is killed when dropped.
pub(crate) struct OpenTerminal {
    shown: Shown,
    /// The file that records the terminal; its path is also the mark.
    record: PathBuf,
    env: Variables,
    /// The session ends when the last copy of this end is closed.
    _lifeline: File,
}

pub(crate) struct TerminalPlace<'a> {
    /// The run's own folder, with the file of its output.
    pub(crate) run: &'a Path,
    pub(crate) workdir: &'a Path,
    pub(crate) environment: &'a Variables,
    pub(crate) confinement: Option<&'a Confinement>,
}

impl OpenTerminal {
    /// Opens a terminal. The error is for the log of the run, which goes on without a terminal.
    pub(crate) async fn open(
        wish: &TerminalWish,
        place: TerminalPlace<'_>,
    ) -> Result<Self, String> {
        let (run, record) = (place.run, place.run.join(RECORD));
        let failed = |error: io::Error| format!("{}: {error}", run.display());
        let folder = socket_folder(place.environment, run).map_err(failed)?;
        let (lifeline, script) = (run.join(LIFELINE), run.join(SCRIPT));
        let mut env: Variables = place.environment.clone();
        env.retain(|(name, _)| VARIABLES.iter().any(|known| name == known));
        env.push((MARK.into(), record.clone().into()));
        let socket = folder.join(SOCKET);
        let shown = Shown { session: wish.session.clone(), socket: socket.display().to_string() };
        let written = fs::write(&record, folder.as_os_str().as_encoded_bytes())
            .and_then(|()| fs::write(&script, self::script(wish, run)))
            .and_then(|()| fs::set_permissions(&script, Permissions::from_mode(0o700)));
        let pipe = match written {
            Ok(()) => mkfifo(&lifeline, &env).await,
            Err(error) => Err(error),
        };
        // Also opened for reading, because there is no reader yet.
        let pipe = pipe.and_then(|()| OpenOptions::new().read(true).write(true).open(&lifeline));
        let pipe = pipe.map_err(|error| {
            clear(&record);
            // For the case that not even the record was written.
            let _ = fs::remove_dir(&folder);
            failed(error)
        })?;
        let terminal = Self { shown, record, env, _lifeline: pipe };
        let more = [folder, "/dev/pts".into()];
        let confinement = place.confinement.map(|confinement| confinement.and(more));
        let mut args: Vec<OsString> = ["-S".into(), socket.into_os_string()].into();
        args.extend(["-f", "/dev/null", "start-server", ";"].map(OsString::from));
        args.extend(["set-option", "-g", "history-limit", "20000", ";"].map(OsString::from));
        args.extend(["new-session", "-d", "-x", "160", "-y", "48", "-s"].map(OsString::from));
        args.extend([wish.session.clone().into(), "-c".into(), place.workdir.into()]);
        args.extend(["sh".into(), script.into_os_string()]);
        match tmux::ask(&terminal.env, &args, confinement).await {
            Ok(()) => Ok(terminal),
            Err(TmuxFault::NotInstalled) => Err("tmux is not installed".into()),
            Err(TmuxFault::Failed(words)) => Err(words),
        }
    }

    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Ends the session; attached people are back at their own prompt.
    pub(crate) async fn close(self) {
        let end = ["-S", &self.shown.socket, "kill-session", "-t", &self.shown.session];
        // The session may have ended by itself; remaining processes are killed.
        let _ = tmux::ask(&self.env, &end, None).await;
        process::end_marked(self.record.as_os_str(), GRACE).await;
    }
}

impl Drop for OpenTerminal {
    fn drop(&mut self) {
        clear(&self.record);
    }
}

/// Kills the processes in the terminal of a run and removes its socket. `record` may be missing.
pub(crate) fn clear(record: &Path) {
    let Ok(folder) = fs::read(record) else { return };
    process::kill_marked_all(record.as_os_str());
    let folder = PathBuf::from(OsString::from_vec(folder));
    let _ = fs::remove_file(folder.join(SOCKET));
    let _ = fs::remove_dir(folder);
    let _ = fs::remove_file(record);
}

/// A new folder that only this user may read, with a short name: a socket's address has about a hundred bytes, which a
/// project's folder may exceed.
fn socket_folder(environment: &Variables, run: &Path) -> io::Result<PathBuf> {
    let attempt = run.file_name().unwrap_or_default().to_string_lossy();
    let job = run.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let job: String = job.chars().skip(job.chars().count().saturating_sub(10)).collect();
    let name = format!("callboard-{job}-{attempt}");
    let runtime = environment::value(environment, "XDG_RUNTIME_DIR").map(Path::new);
    let fits = |base: &&Path| {
        base.is_absolute() && base.as_os_str().len() + name.len() + SOCKET.len() < SOCKET_BYTES_MAX
    };
    let make = |base: &Path| {
        let folder = base.join(&name);
        DirBuilder::new().mode(0o700).create(&folder).map(|()| folder)
    };
    // The variable may name a folder of another session that is gone.
    let made = runtime.filter(fits).map(make);
    made.and_then(Result::ok).map_or_else(|| make(Path::new("/tmp")), Ok)
}

/// Creates a pipe with a program: there is no system call for it on every system.
async fn mkfifo(path: &Path, env: &Variables) -> io::Result<()> {
    let program = Program {
        name: "mkfifo".into(),
        args: vec!["-m".into(), "600".into(), path.into()],
        cwd: "/".into(),
        env: env.clone(),
        input: Vec::new(),
        timeout: Duration::from_secs(20),
        output: Output::Merged { bytes_max: 1024 },
        dies_with_us: false,
        leash: None,
        keeps: None,
        confinement: None,
    };
    match process::run(program, &CancellationToken::new()).await? {
        Ended { ending: ProcessEnd::Exited(Some(0)), .. } => Ok(()),
        ended => {
            let words = String::from_utf8_lossy(&ended.stdout.finish().0).into_owned();
            Err(io::Error::other(words.trim().to_owned()))
        }
    }
}

/// The script that shows the file and ends with the pipe. Typed input goes nowhere: the session is confined as the
/// agent is, so nothing in it may speak to the board as a person. Ctrl-C ends none of it.
fn script(wish: &TerminalWish, run: &Path) -> String {
    let word = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let file = |name: PathBuf| word(&name.display().to_string());
    let (printed, lifeline) = (file(live::path(run)), file(run.join(LIFELINE)));
    format!(
        "trap '' INT QUIT TSTP\n\
         printf '%s\\n' {title}\n\
         {{ read -r nothing < {lifeline}; kill -s HUP $$; }} &\n\
         tail -n +1 -f {printed} 2> /dev/null &\n\
         while read -r nothing; do :; done\n\
         wait\n",
        title = word(&wish.title),
    )
}

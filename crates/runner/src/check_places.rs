//! Where a check of an agent's worktree may write: the worktree, a temporary folder of its own, and the caches of build
//! tools. Only the caches of a tool's folder are open, never programs and settings, which the person's own shell would
//! run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::environment::{self, Variables};

/// Whether checks of agents' worktrees run confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckSandbox {
    /// Confined where the system can confine.
    #[default]
    Auto,
    /// Confined, or the check does not run.
    On,
    Off,
}

impl CheckSandbox {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "on" => Some(Self::On),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

/// A tool's folder by its variable, else below the home folder, and the parts of it that are caches.
struct Tool {
    variable: &'static str,
    home: Option<&'static str>,
    caches: &'static [&'static str],
}

const fn tool(variable: &'static str, home: &'static str, caches: &'static [&'static str]) -> Tool {
    Tool { variable, home: Some(home), caches }
}

/// The folder itself is a cache.
const WHOLE: &[&str] = &[""];

#[rustfmt::skip]
const TOOLS: [Tool; 10] = [
    tool("CARGO_HOME", ".cargo", &["registry", "git", ".package-cache", ".package-cache-mutate", ".global-cache"]),
    Tool { variable: "CARGO_TARGET_DIR", home: None, caches: WHOLE },
    tool("GOCACHE", ".cache/go-build", WHOLE),
    tool("GOPATH", "go", &["pkg"]),
    tool("GOMODCACHE", "go/pkg/mod", WHOLE),
    tool("UV_CACHE_DIR", ".cache/uv", WHOLE),
    tool("DENO_DIR", ".cache/deno", WHOLE),
    tool("GRADLE_USER_HOME", ".gradle", &["caches", "daemon", "notifications", ".tmp"]),
    tool("XDG_CACHE_HOME", ".cache", &["pip", "yarn", "pnpm", "ccache", "sccache", "pypoetry"]),
    // These tools have no variable for their folder.
    tool("", "", &[".npm/_cacache", ".npm/_logs", ".m2/repository", ".nuget/packages",
        ".bun/install/cache", ".local/share/pnpm/store"]),
];

/// Shared memory, which test runners and databases need.
const SHARED_MEMORY: &str = "/dev/shm";

/// The writable places of a check. `named` are folders of the settings; `~/` is the home folder.
pub(crate) fn places(
    worktree: &Path,
    temporary: &Path,
    seen: &Variables,
    named: &[String],
) -> Vec<PathBuf> {
    let home = environment::value(seen, "HOME").filter(|home| !home.is_empty()).map(Path::new);
    let mut places = vec![worktree.to_owned(), temporary.to_owned(), SHARED_MEMORY.into()];
    for tool in &TOOLS {
        let given = environment::value(seen, tool.variable).filter(|value| !value.is_empty());
        let folder = match given {
            Some(given) => Some(worktree.join(given)),
            None => tool.home.zip(home).map(|(below, home)| home.join(below)),
        };
        places.extend(
            folder
                .into_iter()
                .flat_map(|folder| tool.caches.iter().map(move |cache| folder.join(cache))),
        );
    }
    places.extend(named.iter().filter_map(|path| match path.strip_prefix("~/") {
        Some(rest) => home.map(|home| home.join(rest)),
        None => Some(PathBuf::from(path)),
    }));
    places
}

/// The variables of a check, with its own temporary folder instead of the shared one.
pub(crate) fn with_temporary(seen: Variables, temporary: &Path) -> Variables {
    let kept = seen.into_iter().filter(|(name, _)| name != "TMPDIR");
    kept.chain([(OsString::from("TMPDIR"), temporary.into())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_open_and_programs_and_settings_are_not() {
        let table = "
            /w/T1                         open
            /w/T1/target                  open
            /tmp/mine                     open
            /home/ana/.cargo/registry     open
            /home/ana/.cargo/bin          closed
            /home/ana/.cargo/config.toml  closed
            /home/ana/.cargo              closed
            /home/ana/.cache/uv           open
            /home/ana/.cache              closed
            /home/ana/.cache/pre-commit   closed
            /gradle/caches                open
            /gradle/init.d                closed
            /home/ana/.gradle/caches      closed
            /builds/shared                open
            /home/ana/go/pkg              open
            /home/ana/go/bin              closed
            /home/ana/more                open
            /srv/more                     open
            /home/ana                     closed
            /tmp                          closed
            /w                            closed
        ";
        let seen = [
            ("HOME", "/home/ana"),
            ("GRADLE_USER_HOME", "/gradle"),
            ("CARGO_TARGET_DIR", "/builds/shared"),
            ("XDG_CACHE_HOME", ""),
        ];
        let seen = seen.map(|(name, value)| (name.into(), value.into())).into();
        let named = ["~/more", "/srv/more"].map(str::to_owned);
        let places = places(Path::new("/w/T1"), Path::new("/tmp/mine"), &seen, &named);
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let (path, wanted) = line.trim().split_once(' ').expect("two columns");
            let is_open = places.iter().any(|place| Path::new(path).starts_with(place));
            assert_eq!(is_open, wanted.trim() == "open", "{path}");
        }
    }
}

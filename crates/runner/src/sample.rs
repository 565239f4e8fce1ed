//! A repository made from files that Callboard wrote itself, for `callboard demo`.

use std::path::Path;

use crate::git::Git;

/// Settings of the new repository. They keep the user's name, signatures and hooks out of its commits.
const OWN: [[&str; 2]; 4] = [
    ["user.name", "Callboard demo"],
    ["user.email", "demo@callboard.invalid"],
    ["commit.gpgSign", "false"],
    ["core.hooksPath", "/dev/null"],
];

/// Makes `repo` a repository whose branch `main` has one commit with every file that is there and not ignored. The
/// error has git's words.
pub async fn make_repository(repo: &Path, title: &str) -> Result<(), String> {
    let git = Git::writing(repo);
    let ask = async |args: &[&str]| git.ask(args).await.map(drop).map_err(|fault| fault.words());
    ask(&["init", "--quiet", "--initial-branch=main"]).await?;
    for [key, value] in OWN {
        ask(&["config", key, value]).await?;
    }
    ask(&["add", "--all"]).await?;
    ask(&["commit", "--quiet", "-m", title]).await
}

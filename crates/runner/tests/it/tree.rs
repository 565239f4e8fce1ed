//! The tree id follows the files, and computing it leaves the repository as it was.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use callboard_engine::ports::{CheckFault, CheckRunner, FilesState};
use callboard_runner::LocalChecks;

use crate::fixture::{Repo, files_at, git_in, snapshot};

#[tokio::test]
async fn a_clean_checkout_has_the_tree_of_its_commit() {
    let repo = Repo::committed();
    let files = repo.files().await;
    assert_eq!(files.head.expect("a head"), repo.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(files.tree.expect("a tree"), repo.git(&["rev-parse", "HEAD^{tree}"]).trim());
}

#[tokio::test]
async fn every_change_of_a_file_changes_it() {
    let repo = Repo::committed();
    let mut seen = vec![repo.tree().await];
    let executable = || {
        let path = repo.path.join("a.txt");
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("chmod");
    };
    let steps: [(&str, &dyn Fn()); 6] = [
        ("an edit", &|| repo.write("a.txt", "uno\n")),
        ("chmod +x", &executable),
        ("an untracked file", &|| repo.write("new/deep/c.txt", "three\n")),
        ("a deletion", &|| fs::remove_file(repo.path.join("sub/b.txt")).expect("rm")),
        ("a link", &|| symlink("a.txt", repo.path.join("link")).expect("ln")),
        ("a new ignore rule", &|| repo.write(".gitignore", "*.o\nnew/\n")),
    ];
    for (what, step) in steps {
        step();
        let tree = repo.tree().await;
        assert_eq!(tree, repo.tree().await, "{what}: the same files, the same id");
        assert!(!seen.contains(&tree), "{what} was not seen");
        seen.push(tree);
    }
    let before = repo.tree().await;
    repo.git(&["add", "-A"]);
    assert_eq!(repo.tree().await, before, "staging changes no file");
    repo.commit("all of it");
    assert_eq!(repo.tree().await, before, "committing changes no file");
    assert_eq!(before, repo.git(&["rev-parse", "HEAD^{tree}"]).trim());
}

#[tokio::test]
async fn ignored_files_and_our_own_folder_are_left_out() {
    let repo = Repo::committed();
    let before = repo.tree().await;
    repo.write("x.o", "ignored");
    repo.write(".callboard/config.toml", "a = 1");
    assert_eq!(repo.tree().await, before, "untracked .callboard");
    repo.write(".callboard/.gitignore", "*\n");
    assert_eq!(repo.tree().await, before, "ignored from within");
    repo.git(&["add", "-f", ".callboard"]);
    repo.write(".callboard/config.toml", "a = 2");
    assert_eq!(repo.tree().await, before, "staged .callboard, then changed");
    repo.git(&["commit", "-q", "-m", "config"]);
    assert_eq!(repo.tree().await, before, "committed .callboard");

    repo.write(".gitignore", "*.o\n.callboard\n");
    let ignored = repo.tree().await;
    repo.write(".callboard/runs/1.log", "more");
    assert_eq!(repo.tree().await, ignored, "ignored by name");
    assert_ne!(ignored, before, ".gitignore itself is a file");
}

#[tokio::test]
async fn the_repository_is_only_read() {
    let repo = Repo::committed();
    repo.write("a.txt", "edited\n");
    repo.write("staged.txt", "staged\n");
    repo.git(&["add", "staged.txt"]);
    repo.write("untracked.txt", "untracked\n");
    repo.write(".git/hooks/post-index-change", "#!/bin/sh\ntouch hook-ran\n");
    let hook = repo.path.join(".git/hooks/post-index-change");
    fs::set_permissions(hook, Permissions::from_mode(0o755)).expect("chmod");
    repo.git(&["config", "core.splitIndex", "true"]);
    repo.git(&["config", "core.safecrlf", "true"]);
    repo.git(&["config", "core.autocrlf", "true"]);

    let status = repo.git(&["--no-optional-locks", "status", "--porcelain"]);
    let before = snapshot(&repo.path);
    repo.tree().await;
    assert!(before == snapshot(&repo.path), "some file changed");
    assert_eq!(repo.git(&["--no-optional-locks", "status", "--porcelain"]), status);
}

/// Git trusts a file's time unless the file is as young as the index. Here edit and index fall into one instant, which
/// a coarse clock makes common.
#[tokio::test]
async fn an_edit_in_the_instant_of_the_index_is_seen() {
    let repo = Repo::committed();
    repo.git(&["config", "core.trustctime", "false"]);
    let instant = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let set_time = |name: &str| {
        let file = File::options().write(true).open(repo.path.join(name)).expect("opens");
        file.set_modified(instant).expect("a file's time can be set");
    };
    set_time("a.txt");
    repo.git(&["update-index", "--refresh"]);
    let before = repo.tree().await;
    repo.write("a.txt", "eno\n");
    set_time("a.txt");
    set_time(".git/index");
    assert_ne!(repo.tree().await, before);
}

#[tokio::test]
async fn without_a_commit_there_is_a_tree_but_no_head() {
    let repo = Repo::unborn();
    let empty = repo.files().await;
    assert_eq!(empty.head, None);
    repo.write("a.txt", "one\n");
    let one = repo.files().await;
    assert!(empty.tree.is_some() && one.tree.is_some() && empty.tree != one.tree);
    let head = LocalChecks::new(true).head(&repo.path, &repo.path).await;
    assert_eq!((head.branch.as_deref(), head.head), (Some("main"), None));
}

#[tokio::test]
async fn outside_git_nothing_is_known() {
    let plain = Repo::plain();
    assert_eq!(plain.files().await, FilesState::default());
    let repo = Repo::committed();
    assert_eq!(files_at(&repo.path.join(".git")).await, FilesState::default());
    let gone = LocalChecks::new(true).files(&plain.path, &plain.path.join("gone")).await;
    assert!(matches!(gone, Err(CheckFault::Infrastructure(_))), "{gone:?}");
}

#[tokio::test]
async fn a_subfolder_answers_for_the_whole_working_tree() {
    let repo = Repo::committed();
    let sub = repo.path.join("sub");
    assert_eq!(files_at(&sub).await, repo.files().await);
    repo.write("a.txt", "edited above\n");
    let edited = files_at(&sub).await;
    assert_eq!(edited, repo.files().await);
    repo.write("sub/.callboard/runs/1.log", "left out");
    assert_eq!(files_at(&sub).await, edited);
}

#[tokio::test]
async fn a_conflict_and_a_sparse_checkout_have_trees() {
    let repo = Repo::committed();
    repo.git(&["checkout", "-q", "-b", "other"]);
    repo.write("a.txt", "theirs\n");
    repo.commit("theirs");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("a.txt", "ours\n");
    repo.commit("ours");
    let clean = repo.tree().await;
    repo.git(&["sparse-checkout", "set", "--no-cone", "/a.txt"]);
    assert!(!repo.path.join("sub/b.txt").exists());
    assert_eq!(repo.tree().await, clean, "what is not checked out is not deleted");
    repo.write("beyond/c.txt", "outside of the sparse patterns\n");
    assert_ne!(repo.tree().await, clean);
    repo.git(&["sparse-checkout", "disable"]);

    let before = repo.tree().await;
    let script = "git -c user.name=t -c user.email=t@example.org merge -q other; test $? = 1";
    let merged = crate::fixture::run(repo.check(script)).await.expect("it runs");
    assert!(merged.passed());
    let conflict = repo.tree().await;
    assert_ne!(conflict, before);
    repo.write("a.txt", "settled\n");
    assert_ne!(repo.tree().await, conflict);
}

#[tokio::test]
async fn an_edit_inside_a_submodule_is_seen() {
    let (repo, library) = (Repo::committed(), Repo::committed());
    let url = library.path.to_string_lossy().into_owned();
    repo.git(&["submodule", "--quiet", "add", &url, "lib"]);
    repo.commit("a library");
    let clean = repo.tree().await;
    assert_eq!(clean, repo.git(&["rev-parse", "HEAD^{tree}"]).trim());
    repo.write("lib/sub/b.txt", "edited\n");
    let edited = repo.tree().await;
    repo.write("lib/sub/b.txt", "edited again\n");
    let again = repo.tree().await;
    assert!(clean != edited && edited != again && clean != again);
    repo.write("lib/sub/b.txt", "two\n");
    assert_eq!(repo.tree().await, clean);
}

#[tokio::test]
async fn what_git_cannot_read_is_told_in_its_words() {
    let repo = Repo::committed();
    repo.write("nested/a.txt", "one\n");
    git_in(&repo.path.join("nested"), &["init", "-q"]);
    let fault =
        LocalChecks::new(true).files(&repo.path, &repo.path).await.expect_err("no commit in there");
    let wanted = "git add: error: 'nested/' does not have a commit checked out; \
                  fatal: adding files failed";
    assert_eq!(fault, CheckFault::Infrastructure(wanted.into()));
}

#[tokio::test]
async fn borrowed_objects_and_odd_names_do_no_harm() {
    let origin = Repo::committed();
    let clone = Repo::plain();
    let odd = clone.path.join("a:b \"c\" [d]");
    let (from, to) = (origin.path.to_string_lossy(), odd.to_string_lossy());
    clone.git(&["clone", "-q", "--shared", &from, &to]);
    assert_eq!(files_at(&odd).await, origin.files().await);
    fs::write(odd.join("a.txt"), "edited\n").expect("writes a file");
    assert_ne!(files_at(&odd).await.tree, origin.files().await.tree);
}

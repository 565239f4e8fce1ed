//! Files of a worktree, and only those.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use callboard_engine::ports::{FileFault, Worktrees};
use callboard_runner::LocalWorktrees;
use rustix::fs::{CWD, RenameFlags};

use super::{make, write};
use crate::fixture::Repo;

const LIMIT: u64 = 1000;

async fn read(root: &Path, path: &str) -> Result<String, FileFault> {
    LocalWorktrees::default().file_read(root, path, LIMIT).await
}

#[tokio::test]
async fn no_path_leads_out() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let sibling = make(&repo, "CB-10").await;
    write(&sibling, "secret.txt", "secret\n");
    let outside = repo.path.with_file_name("secret.txt");
    fs::write(&outside, "secret\n").expect("writes a file");
    let root = &worktree.path;
    let link = |target: &dyn AsRef<Path>, name: &str| {
        symlink(target, root.join(name)).expect("makes a link");
    };
    link(&outside, "absolute-out");
    link(&"../CB-10/secret.txt", "relative-out");
    link(&"..", "up");
    link(&"sub", "folder-in");
    link(&"sub/../a.txt", "file-in");
    link(&root.join("a.txt"), "absolute-in");
    link(&"../CB-1/a.txt", "out-and-in");
    link(&".git", "to-git");
    link(&"loop-b", "loop-a");
    link(&"loop-a", "loop-b");
    link(&"/proc/self/fd/0", "magic");
    link(&"nowhere", "dangling");
    write(&worktree, "big.txt", &"x".repeat(1001));
    write(&worktree, "full.txt", &"x".repeat(1000));
    fs::write(root.join("bytes.bin"), [0xff, 0xfe]).expect("writes a file");
    rustix::fs::mkfifoat(CWD, root.join("pipe"), 0o600.into()).expect("makes a pipe");
    let _listener = std::os::unix::net::UnixListener::bind(root.join("s")).expect("a socket");

    let table = "
        a.txt                       one
        ./a.txt                     one
        sub/b.txt                   two
        sub/../a.txt                one
        sub//b.txt                  two
        folder-in/b.txt             two
        file-in                     one
        absolute-in                 one
        ../CB-1/a.txt               Outside
        ..                          Outside
        ../CB-10/secret.txt         Outside
        ../missing                  Outside
        missing/../../a.txt         Outside
        /etc/passwd                 Outside
        ROOT/a.txt                  Outside
        ROOT0/secret.txt            Outside
        absolute-out                Outside
        relative-out                Outside
        up/CB-10/secret.txt         Outside
        out-and-in                  Outside
        magic                       Outside
        .git                        Outside
        .GIT                        Outside
        sub/.git/config             Outside
        .git/../a.txt               Outside
        to-git                      Outside
        missing                     NotFound
        missing/a.txt               NotFound
        a.txt/inside                NotFound
        loop-a                      NotFound
        dangling                    NotFound
        sub                         NotPlain
        .                           NotPlain
        folder-in                   NotPlain
        pipe                        NotPlain
        s                           NotPlain
        big.txt                     TooLarge(1000)
        bytes.bin                   NotText
    ";
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let (path, wanted) = line.trim().split_once(' ').expect("two columns");
        let path = path.replace("ROOT", &root.display().to_string());
        let seen = match read(root, &path).await {
            Ok(text) => text.trim_end().to_owned(),
            Err(fault) => format!("{fault:?}"),
        };
        assert_eq!(seen, wanted.trim(), "{path}");
    }
    assert_eq!(read(root, "").await, Err(FileFault::NotPlain));
    assert_eq!(read(root, "a\0b").await, Err(FileFault::NotFound));
    assert_eq!(read(root, "full.txt").await.expect("not more than allowed").len(), 1000);
    assert_eq!(read(&root.join("gone"), "a.txt").await, Err(FileFault::NotFound));
}

/// A folder is swapped for a link that leads out, over and over, while it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_swapped_meanwhile_leads_nowhere_else() {
    let repo = Repo::committed();
    let outside = repo.path.with_file_name("outside");
    fs::create_dir(&outside).expect("makes a folder");
    fs::write(outside.join("b.txt"), "secret\n").expect("writes a file");
    symlink(&outside, repo.path.join("link")).expect("makes a link");
    let done = AtomicBool::new(false);
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let (folder, link) = (repo.path.join("sub"), repo.path.join("link"));
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let swapped =
                    rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
                swapped.expect("exchanges them");
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let reads = scope.spawn(move || {
            let mut seen = Vec::new();
            for _ in 0..5000 {
                seen.push(runtime.block_on(read(&repo.path, "sub/b.txt")));
            }
            done.store(true, Ordering::Relaxed);
            seen
        });
        for seen in reads.join().expect("reads") {
            match seen {
                Ok(text) => {
                    assert_eq!(text, "two\n");
                    inside += 1;
                }
                Err(fault) => {
                    assert!(matches!(fault, FileFault::Outside | FileFault::NotFound), "{fault}");
                    refused += 1;
                }
            }
        }
    });
    assert!(inside > 0 && refused > 0, "both were seen: {inside} and {refused}");
}

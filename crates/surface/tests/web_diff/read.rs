//! Patches of git as they are read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use callboard_surface::web::diff::{DiffFault, DiffFile, DiffKind, DiffSign, DiffStatus, parse};

use crate::Repo;

fn read(repo: &Repo) -> Vec<DiffFile> {
    parse(&repo.patch(), |_| false).expect("a patch of git")
}

/// The signs and texts of all lines.
fn lines(file: &DiffFile) -> String {
    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
    lines.map(|line| format!("{}{}\n", line.sign.text(), line.text)).collect()
}

#[test]
fn every_sort_of_change_is_read() {
    let long: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let repo = Repo::new(&[
        ("changed.txt", "one\ntwo\nthree\n"),
        ("deleted.txt", "gone\n"),
        ("moved.txt", &long),
        ("only moved.txt", &long.to_uppercase()),
        ("run.sh", "#!/bin/sh\n"),
        ("became-a-link", "text\n"),
        ("picture.png", "\0\0old"),
        ("emptied.txt", "text\n"),
    ]);
    repo.write("changed.txt", "one\n2\nthree\nfour\n");
    fs::remove_file(repo.path().join("deleted.txt")).expect("removes");
    fs::remove_file(repo.path().join("moved.txt")).expect("removes");
    repo.write("new folder/moved.txt", long.replace("line 9\n", "line nine\n"));
    fs::rename(repo.path().join("only moved.txt"), repo.path().join("tür \"x\".txt"))
        .expect("moves");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(repo.path().join("run.sh"), mode).expect("a mode");
    fs::remove_file(repo.path().join("became-a-link")).expect("removes");
    symlink("changed.txt", repo.path().join("became-a-link")).expect("a link");
    repo.write("picture.png", "\0\0new");
    repo.write("emptied.txt", "");
    repo.write("empty-and-new", "");
    repo.write("new.txt", "a\nb\n");
    let found: Vec<_> = read(&repo)
        .into_iter()
        .map(|file| {
            let numbers = (file.added, file.removed);
            (file.path, file.old_path, file.status, numbers, file.kind)
        })
        .collect();
    let file =
        |path: &str, status, numbers| (path.to_owned(), None, status, numbers, DiffKind::Normal);
    let moved = |path: &str, old: &str, numbers| {
        (path.to_owned(), Some(old.to_owned()), DiffStatus::Renamed, numbers, DiffKind::Normal)
    };
    use DiffStatus::{Added, Deleted, Modified};
    let wanted = [
        // A file that becomes a link is deleted and added.
        file("became-a-link", Deleted, (0, 1)),
        file("became-a-link", Added, (1, 0)),
        file("changed.txt", Modified, (2, 1)),
        file("deleted.txt", Deleted, (0, 1)),
        file("emptied.txt", Modified, (0, 1)),
        file("empty-and-new", Added, (0, 0)),
        moved("new folder/moved.txt", "moved.txt", (1, 1)),
        file("new.txt", Added, (2, 0)),
        ("picture.png".into(), None, Modified, (0, 0), DiffKind::Binary),
        file("run.sh", Modified, (0, 0)),
        moved("tür \"x\".txt", "only moved.txt", (0, 0)),
    ];
    assert_eq!(found, wanted);
    let files = read(&repo);
    let modes = files.iter().find_map(|file| file.modes.clone());
    assert_eq!(modes, Some(("100644".into(), "100755".into())));
}

#[test]
fn lines_have_numbers_and_their_ends() {
    let repo = Repo::new(&[("a.txt", "one\ntwo\r\nthree"), ("b.txt", "-- x\n++ y\n@@ z\n")]);
    repo.write("a.txt", "one\n2\r\nthree\n");
    repo.write("b.txt", "-- a\n++ b\ndiff --git a/x b/x\n");
    let files = read(&repo);
    let line = |index: usize| {
        let line = &files[0].hunks[0].lines[index];
        (line.sign, line.old, line.new, &*line.text, line.has_return, line.is_unended)
    };
    use DiffSign::{Added, Context, Removed};
    let wanted = [
        (Context, Some(1), Some(1), "one", false, false),
        (Removed, Some(2), None, "two", true, false),
        (Removed, Some(3), None, "three", false, true),
        (Added, None, Some(2), "2", true, false),
        (Added, None, Some(3), "three", false, false),
    ];
    assert_eq!((0..5).map(line).collect::<Vec<_>>(), wanted);
    assert_eq!(lines(&files[1]), "−-- x\n−++ y\n−@@ z\n+-- a\n+++ b\n+diff --git a/x b/x\n");
    assert_eq!(files.len(), 2);
}

#[test]
fn odd_names_are_read() {
    let names = [
        "a b/c d.txt",
        "a b/x b/y.txt",
        "quo\"te.txt",
        "back\\slash.txt",
        "tab\tbed.txt",
        "new\nline.txt",
        "ümlaut 漢.txt",
        "-dash.txt",
        "dev/null",
        "b/b/b",
    ];
    let repo = Repo::new(&[]);
    // Empty files have their name in the first line alone, the others also in lines of their own.
    for (number, name) in names.iter().enumerate() {
        repo.write(name, if number % 2 == 0 { "" } else { "x\n" });
    }
    let mut found: Vec<_> = read(&repo).into_iter().map(|file| file.path).collect();
    let mut wanted = names.map(str::to_owned).to_vec();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    for name in names {
        repo.write(name, "changed\n");
    }
    assert_eq!(read(&repo).len(), names.len());
}

#[test]
fn a_diff_of_a_merge_is_refused() {
    let repo = Repo::new(&[("a.txt", "one\n")]);
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("a.txt", "side\n");
    repo.git(&["commit", "-qam", "side"]);
    repo.git(&["checkout", "-q", "main"]);
    repo.write("a.txt", "main\n");
    repo.git(&["commit", "-qam", "main"]);
    repo.git(&["merge", "-q", "-s", "ours", "--no-commit", "side"]);
    repo.write("a.txt", "both\n");
    repo.git(&["commit", "-qam", "merge"]);
    let combined = repo.git(&["show", "--format=", "HEAD"]);
    assert_eq!(parse(&combined, |_| false), Err(DiffFault::Combined), "{combined}");
}

#[test]
fn hostile_input_is_read_or_refused() {
    let repo = Repo::new(&[("a.txt", "one\ntwo\n"), ("b ü.txt", "x\n")]);
    repo.write("a.txt", "1\n2\n");
    repo.write("b ü.txt", "y");
    let patch = repo.patch();
    // Every beginning and every end of a patch, and every line twice, nowhere or in another place.
    for (at, _) in patch.char_indices() {
        let _ = parse(&patch[at..], |_| true);
        let _ = parse(&patch[..at], |_| true);
    }
    let all: Vec<&str> = patch.split_inclusive('\n').collect();
    for from in 0..all.len() {
        for to in 0..all.len() {
            let mut lines = all.clone();
            let line = lines.remove(from);
            let _ = parse(&lines.concat(), |_| true);
            lines.insert(to.min(lines.len()), line);
            let _ = parse(&lines.concat(), |_| true);
        }
    }
}

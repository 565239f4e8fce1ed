//! The changes of a task's work for a reviewer: files with the ids of their contents, patches of a page or of one file,
//! and changes since an earlier look. Looking writes nothing.

use std::fs;

use callboard_engine::ports::{
    ChangeStatus, ChangedFile, ChangesQuery, ChangesSince, PatchWish, Worktree, WorktreeChanges,
    WorktreeFault, Worktrees,
};
use callboard_runner::LocalWorktrees;

use super::{commit, head, make, status, write};
use crate::fixture::{Repo, git_in};

const ALL: PatchWish = PatchWish::Page { from: 0, files_max: 400, lines_max: 20_000 };

async fn try_changes(
    worktree: &Worktree,
    query: &ChangesQuery,
) -> Result<WorktreeChanges, WorktreeFault> {
    LocalWorktrees::default().worktree_changes(worktree, "main", query).await
}

async fn changes(worktree: &Worktree, query: &ChangesQuery) -> WorktreeChanges {
    try_changes(worktree, query).await.expect("changes")
}

fn page() -> ChangesQuery {
    ChangesQuery { patch: ALL, ..ChangesQuery::default() }
}

fn since(commit: &str) -> ChangesQuery {
    ChangesQuery { since: Some(commit.into()), ..page() }
}

fn paths(changes: &WorktreeChanges) -> Vec<&str> {
    changes.files.iter().map(|file| file.path.as_str()).collect()
}

fn one<'c>(changes: &'c WorktreeChanges, path: &str) -> &'c ChangedFile {
    changes.files.iter().find(|file| file.path == path).expect(path)
}

#[tokio::test]
async fn files_have_contents_states_and_numbers_and_nothing_is_staged() {
    let repo = Repo::committed();
    repo.write("long.txt", &"line\n".repeat(20));
    repo.write("gone.txt", "gone\n");
    repo.commit("more");
    let worktree = make(&repo, "CB-1").await;
    assert_eq!(changes(&worktree, &page()).await.files, []);
    commit(&worktree, "a.txt", "ours\nmore\n");
    fs::rename(worktree.path.join("long.txt"), worktree.path.join("moved.txt")).expect("moves");
    fs::remove_file(worktree.path.join("gone.txt")).expect("removes");
    write(&worktree, "ünew.txt", "1\n2\n");
    write(&worktree, "picture.png", "\0\0\0\n");
    write(&worktree, "x.o", "ignored\n");
    let objects = || git_in(&repo.path, &["count-objects"]);
    let (known, before) = (objects(), status(&worktree.path));
    let found = changes(&worktree, &ChangesQuery { texts: true, ..page() }).await;
    assert_eq!((objects(), status(&worktree.path)), (known, before));
    assert_eq!((found.since, &found.head), (ChangesSince::Base, &head(&worktree.path)));
    assert_eq!(paths(&found), ["a.txt", "gone.txt", "moved.txt", "picture.png", "ünew.txt"]);
    let facts = |path: &str| {
        let file = one(&found, path);
        (file.status, file.lines, file.old_blob.is_some(), file.new_blob.is_some())
    };
    assert_eq!(facts("a.txt"), (ChangeStatus::Modified, Some((2, 1)), true, true));
    assert_eq!(facts("gone.txt"), (ChangeStatus::Deleted, Some((0, 1)), true, false));
    assert_eq!(facts("moved.txt"), (ChangeStatus::Renamed, Some((0, 0)), true, true));
    assert_eq!(facts("picture.png"), (ChangeStatus::Added, None, false, true));
    assert_eq!(facts("ünew.txt"), (ChangeStatus::Added, Some((2, 0)), false, true));
    assert_eq!(one(&found, "moved.txt").was.as_deref(), Some("long.txt"));
    let text = |blob: &Option<String>| found.texts.get(blob.as_ref()?).map(String::as_str);
    assert_eq!(text(&one(&found, "a.txt").old_blob), Some("one\n"));
    assert_eq!(text(&one(&found, "a.txt").new_blob), Some("ours\nmore\n"));
    assert_eq!(text(&one(&found, "ünew.txt").new_blob), Some("1\n2\n"), "uncommitted");
    assert_eq!(text(&one(&found, "picture.png").new_blob), None);
    let patch = found.patch.expect("wanted");
    assert!(patch.contains("rename to moved.txt\n") && !patch.contains("GIT binary"), "{patch}");
    assert_eq!(changes(&worktree, &ChangesQuery::default()).await.patch, None);
}

#[tokio::test]
async fn a_page_leaves_out_what_does_not_fit_and_one_file_can_be_had_alone() {
    let repo = Repo::committed();
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "b/large.txt", &"x\n".repeat(100));
    write(&worktree, "c.txt", "1\n2\n3\n");
    write(&worktree, "d.txt", "4\n");
    fs::rename(worktree.path.join("sub/b.txt"), worktree.path.join("moved.txt")).expect("moves");
    let in_patch = |changes: &WorktreeChanges| {
        let files = changes.files.iter().filter(|file| file.is_in_patch);
        files.map(|file| file.path.clone()).collect::<Vec<_>>()
    };
    let limits = |from, files_max, lines_max| ChangesQuery {
        patch: PatchWish::Page { from, files_max, lines_max },
        ..ChangesQuery::default()
    };
    for (from, files_max, lines_max, wanted, next) in [
        (0, 9, 200, vec!["b/large.txt", "c.txt", "d.txt", "moved.txt"], None),
        (0, 9, 50, vec!["c.txt", "d.txt", "moved.txt"], None),
        (0, 1, 200, vec!["b/large.txt"], Some(1)),
        (1, 2, 200, vec!["c.txt", "d.txt"], Some(3)),
        (1, 9, 3, vec!["c.txt"], Some(2)),
        (3, 2, 200, vec!["moved.txt"], None),
        (9, 2, 200, vec![], None),
        (0, 0, 200, vec![], Some(0)),
    ] {
        let found = changes(&worktree, &limits(from, files_max, lines_max)).await;
        assert_eq!(in_patch(&found), wanted, "{from} {files_max} {lines_max}");
        assert_eq!(found.next, next, "{from} {files_max} {lines_max}");
        let patch = found.patch.expect("wanted");
        assert_eq!(patch.matches("diff --git ").count(), wanted.len(), "{patch}");
        assert_eq!(found.files.len(), 4);
    }
    let of = |path: &str| ChangesQuery { patch: PatchWish::File(path.into()), ..page() };
    let patch = changes(&worktree, &of("moved.txt")).await.patch.expect("wanted");
    assert!(patch.contains("rename from sub/b.txt\n"), "{patch}");
    for path in ["a.txt", "../a.txt", "/etc/passwd", "", "b", "*.txt", ":(glob)**", "--output=x"] {
        let fault = try_changes(&worktree, &of(path)).await.expect_err(path);
        assert_eq!(fault, WorktreeFault::NotChanged(path.into()));
    }
}

#[tokio::test]
async fn context_grows_and_spaces_are_left_out() {
    let repo = Repo::committed();
    let lines: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    repo.write("a.txt", &lines);
    repo.commit("long");
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "a.txt", &lines.replace("line 20\n", "line twenty\n"));
    write(&worktree, "sub/b.txt", "two  \n");
    for (context, count) in [(0, 1), (3, 7), (23, 40), (u32::MAX, 40)] {
        let query = ChangesQuery { context, patch: PatchWish::File("a.txt".into()), ..page() };
        let patch = changes(&worktree, &query).await.patch.expect("wanted");
        assert!(patch.contains(&format!(",{count} +")) || count == 1, "{context}: {patch}");
    }
    let found = changes(&worktree, &ChangesQuery { ignore_space: true, ..page() }).await;
    assert_eq!(one(&found, "sub/b.txt").lines, Some((0, 0)));
    assert!(!found.patch.expect("wanted").contains("two"));
}

#[tokio::test]
async fn changes_since_a_look_also_after_a_rebase() {
    let repo = Repo::committed();
    let lines: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    repo.write("shared.txt", &lines);
    repo.commit("shared");
    let worktree = make(&repo, "CB-1").await;
    let ours = lines.replace("line 30\n", "ours 30\n");
    let seen = commit(&worktree, "shared.txt", &ours);
    let later = commit(&worktree, "new.txt", "new\n");
    write(&worktree, "left.txt", "not committed\n");

    let found = changes(&worktree, &since(&seen)).await;
    assert_eq!((found.since, paths(&found)), (ChangesSince::Look, vec!["left.txt", "new.txt"]));
    let between = ChangesQuery { until: Some(later.clone()), ..since(&seen) };
    let found = changes(&worktree, &between).await;
    assert_eq!((found.since, paths(&found)), (ChangesSince::Look, vec!["new.txt"]));
    assert_eq!(changes(&worktree, &since(&later)).await.files.len(), 1);

    // The target moves on in a file of ours, and the branch follows.
    repo.write("shared.txt", &lines.replace("line 2\n", "theirs 2\n"));
    repo.commit("theirs");
    git_in(&worktree.path, &["add", "-A"]);
    git_in(&worktree.path, &["commit", "-q", "-m", "left"]);
    git_in(&worktree.path, &["rebase", "-q", "main"]);
    let found = changes(&worktree, &since(&seen)).await;
    assert_eq!((found.since, paths(&found)), (ChangesSince::Rebased, vec!["left.txt", "new.txt"]));
    let known = git_in(&repo.path, &["count-objects"]);
    changes(&worktree, &since(&seen)).await;
    assert_eq!(git_in(&repo.path, &["count-objects"]), known);

    // The look cannot be brought onto the new base.
    repo.write("shared.txt", &lines.replace("line 30\n", "theirs 30\n"));
    repo.commit("theirs again");
    git_in(&worktree.path, &["reset", "-q", "--hard", "main"]);
    commit(&worktree, "new.txt", "again\n");
    let found = changes(&worktree, &since(&seen)).await;
    assert_eq!((found.since, paths(&found)), (ChangesSince::Unknown, vec!["new.txt"]));
    let found = changes(&worktree, &since(&"0".repeat(40))).await;
    assert_eq!((found.since, paths(&found)), (ChangesSince::Unknown, vec!["new.txt"]));
    for bad in ["main", "--output=x", "HEAD", "", "abc", &seen.to_uppercase()] {
        let fault = try_changes(&worktree, &since(bad)).await.expect_err(bad);
        assert_eq!(fault, WorktreeFault::BadCommit(bad.into()));
    }
    let gone = ChangesQuery { until: Some("0".repeat(40)), ..page() };
    assert!(matches!(try_changes(&worktree, &gone).await, Err(WorktreeFault::BadCommit(_))));
}

#[tokio::test]
async fn an_agent_cannot_mark_its_own_work_as_generated() {
    let repo = Repo::committed();
    repo.write(".gitattributes", "gen/* linguist-generated\nold/* linguist-generated=true\n");
    repo.commit("attributes");
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "gen/api.rs", "x\n");
    write(&worktree, "old/api.rs", "x\n");
    write(&worktree, "src/main.rs", "x\n");
    write(&worktree, ".gitattributes", "* linguist-generated\n");
    let found = changes(&worktree, &page()).await;
    let marked = found.files.iter().filter(|file| file.is_generated);
    let marked: Vec<&str> = marked.map(|file| file.path.as_str()).collect();
    assert_eq!(marked, ["gen/api.rs", "old/api.rs"]);
}

#[tokio::test]
async fn a_patch_beyond_all_bounds_is_left_out() {
    let repo = Repo::committed();
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "long.txt", &"x".repeat(9 * 1024 * 1024));
    let found = changes(&worktree, &ChangesQuery { texts: true, ..page() }).await;
    assert_eq!((found.patch, found.texts.len()), (None, 0));
    assert!(!found.files[0].is_in_patch);
}

#[tokio::test]
async fn lines_are_answered_by_the_newest_commit_that_changed_them() {
    let repo = Repo::committed();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "list.txt", "1\n2\n3\n4\n5\n");
    let seen = head(&worktree.path);
    let answer = |since: &str, lines: std::ops::RangeInclusive<u32>| {
        let (since, worktree) = (since.to_owned(), worktree.clone());
        async move {
            let trees = LocalWorktrees::default();
            trees.lines_changed_in(&worktree, &since, "list.txt", lines).await.expect("git answers")
        }
    };
    assert_eq!(answer(&seen, 1..=5).await, None, "nothing came since");
    commit(&worktree, "list.txt", "1\ntwo\n3\n4\n5\n");
    let second = head(&worktree.path);
    commit(&worktree, "list.txt", "0\n1\ntwo\n3\nfour\n5\n");
    let fourth = head(&worktree.path);
    commit(&worktree, "other.txt", "1\n");
    write(&worktree, "list.txt", "0\n1\ntwo\n3\nfour\nfive\n");
    let before = status(&worktree.path);
    for (lines, wanted) in [
        (2..=2, Some(&second)),
        (4..=4, Some(&fourth)),
        (2..=4, Some(&fourth)),
        (1..=1, None),
        (5..=5, None),
        (9..=9, None),
    ] {
        assert_eq!(answer(&seen, lines.clone()).await.as_ref(), wanted, "{lines:?}");
    }
    assert_eq!(status(&worktree.path), before);
    assert_eq!(answer("abcd", 2..=2).await, None, "no whole id");
    assert_eq!(answer(&"0".repeat(40), 2..=2).await, None, "an unknown commit");
    fs::remove_file(worktree.path.join("list.txt")).expect("removes");
    git_in(&worktree.path, &["commit", "-qam", "gone"]);
    assert_eq!(answer(&seen, 3..=3).await, Some(head(&worktree.path)), "the file is gone");
    git_in(&worktree.path, &["checkout", "-q", "--orphan", "anew"]);
    git_in(&worktree.path, &["commit", "-qm", "anew"]);
    assert_eq!(answer(&seen, 2..=2).await, None, "another history");
}

#[tokio::test]
async fn commits_of_the_work_end_with_the_one_it_begins_at() {
    let repo = Repo::committed();
    let worktree = make(&repo, "CB-1").await;
    let begins = head(&worktree.path);
    let listed = || async {
        let found = LocalWorktrees::default().worktree_commits(&worktree, "main").await;
        let found = found.expect("commits");
        assert!(found.last().is_some_and(|commit| commit.subject.is_empty()), "{found:?}");
        found.into_iter().map(|commit| commit.id).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, std::slice::from_ref(&begins), "no work yet");
    let first = commit(&worktree, "a.txt", "1\n");
    let second = commit(&worktree, "a.txt", "2\n");
    write(&worktree, "left.txt", "not committed\n");
    assert_eq!(listed().await, [second.clone(), first.clone(), begins.clone()]);
    // Commits of the target are none of the work, also after a merge of the target.
    repo.write("theirs.txt", "theirs\n");
    repo.commit("theirs");
    let theirs = head(&repo.path);
    git_in(&worktree.path, &["merge", "-q", "--no-edit", "main"]);
    let merged = head(&worktree.path);
    let found = listed().await;
    assert_eq!(found[..3], [merged, second, first]);
    assert!(!found[..3].contains(&theirs));
}

#[tokio::test]
async fn a_commit_is_compared_with_its_first_parent_without_a_worktree() {
    let repo = Repo::committed();
    repo.write("later.txt", "1\n2\n");
    repo.commit("later");
    let commit = head(&repo.path);
    repo.write("a.txt", "of another commit\n");
    repo.commit("more");
    let shop = LocalWorktrees::default();
    let query = ChangesQuery { texts: true, ..page() };
    let found = shop.commit_changes(&repo.path, &commit, &query).await.expect("changes");
    assert_eq!(paths(&found), ["later.txt"]);
    let file = one(&found, "later.txt");
    assert_eq!((file.status, file.lines), (ChangeStatus::Added, Some((2, 0))));
    let text = found.texts.get(file.new_blob.as_ref().expect("a blob"));
    assert_eq!(text.map(String::as_str), Some("1\n2\n"));
    assert_eq!((&found.head, found.since), (&commit, ChangesSince::Base));
    for unknown in ["main", "--all", &"0".repeat(40)] {
        let found = shop.commit_changes(&repo.path, unknown, &query).await;
        assert_eq!(found, Err(WorktreeFault::BadCommit(unknown.into())), "{unknown}");
    }
}

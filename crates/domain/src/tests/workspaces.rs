//! Workspaces as tables: which worktrees can go, which paths a recipe may place, which ports a task gets.

use std::collections::HashSet;

use crate::board::gc::{GcVerdict, OwnerTask, WorkFact, WorktreeFacts, judge};
use crate::board::recipe::{PortBlock, PortRange, judge_placed, variables};

/// A worktree can go when its task is closed, no actor works in it, and all of its work is merged.
#[test]
fn a_worktree_goes_only_when_nothing_in_it_is_unique() {
    let table = "
        closed  idle  merged       remove  its task is closed, and all of its work is merged
        unknown idle  merged       keep    no task of this board has it
        open    idle  merged       keep    its task is open
        closed  live  merged       keep    an actor works on its task
        open    live  merged       keep    an actor works on its task
        unknown live  merged       keep    an actor works on its task
        closed  idle  uncommitted  keep    2 files are not committed
        unknown idle  uncommitted  keep    2 files are not committed
        open    idle  uncommitted  keep    2 files are not committed
        closed  live  uncommitted  keep    an actor works on its task
        closed  idle  nested       keep    it holds the repository vendor/lib
        closed  live  nested       keep    an actor works on its task
        closed  idle  unmerged     keep    it has commits that main lacks
        unknown idle  unmerged     keep    it has commits that main lacks
        open    idle  unmerged     keep    it has commits that main lacks
        closed  live  unmerged     keep    an actor works on its task
        closed  idle  busy         keep    it is in the middle of a rebase
        unknown idle  busy         keep    it is in the middle of a rebase
        closed  idle  unreadable   keep    git failed
        unknown idle  unreadable   keep    git failed
        open    live  unreadable   keep    an actor works on its task
    ";
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let mut next = || words.next().expect("a column");
        let task = match next() {
            "open" => OwnerTask::Open,
            "closed" => OwnerTask::Closed,
            _ => OwnerTask::Unknown,
        };
        let is_live = next() == "live";
        let work = match next() {
            "merged" => WorkFact::Merged,
            "uncommitted" => WorkFact::Uncommitted(2),
            "nested" => WorkFact::Nested("vendor/lib".into()),
            "unmerged" => WorkFact::Unmerged { target: "main".into() },
            "busy" => WorkFact::Busy("it is in the middle of a rebase".into()),
            _ => WorkFact::Unreadable("git failed".into()),
        };
        let verdict = GcVerdict::parse(next()).expect("a verdict");
        let reason = words.collect::<Vec<_>>().join(" ");
        let judged = judge(&WorktreeFacts { task, is_live, work });
        assert_eq!(judged, (verdict, reason), "{line}");
    }
}

#[test]
fn a_recipe_places_plain_paths_below_the_repository() {
    let table = "
        node_modules             placed
        node_modules/            placed
        apps/web/.env            placed
        .env                     placed
        .github/x                placed
        /etc/passwd              refused
        ../secret                refused
        apps/../../secret        refused
        apps//web                refused
        ./apps                   refused
        .                        refused
        ..                       refused
        .git                     refused
        .git/config              refused
        apps/.git/hooks          refused
        .GIT/config              refused
        .callboard               refused
        .callboard/callboard.db  refused
        sub/.Callboard/x         refused
    ";
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (path, wanted) = line.split_once(' ').expect("two columns");
        assert_eq!(judge_placed(path).is_ok(), wanted.trim() == "placed", "{path}");
    }
    for path in ["", "/", "a\nb", "a\u{0}b"] {
        assert!(judge_placed(path).is_err(), "{path:?}");
    }
}

#[test]
fn a_task_tries_every_block_once_and_begins_at_its_own() {
    let range = PortRange { first: 20_000, last: 20_099, count: 10 };
    let order: Vec<PortBlock> = range.order_for("SHOP-1").collect();
    assert_eq!(order, range.order_for("SHOP-1").collect::<Vec<_>>(), "the same each time");
    assert_eq!(order.iter().map(|block| block.first).collect::<HashSet<_>>().len(), 10);
    let is_inside = |block: &PortBlock| block.first >= 20_000 && block.last() <= 20_099;
    assert!(order.iter().all(is_inside), "{order:?}");
    let firsts = (1..50).filter_map(|n| range.order_for(&format!("SHOP-{n}")).next());
    assert!(firsts.map(|block| block.first).collect::<HashSet<_>>().len() > 5, "they spread");
}

#[test]
fn ports_that_make_no_whole_block_are_left_out() {
    for (first, last, count, blocks) in
        [(1, 10, 10, 1), (1, 9, 10, 0), (1, 29, 10, 2), (1, 100, 0, 0), (65_530, 65_535, 3, 2)]
    {
        let range = PortRange { first, last, count };
        assert_eq!((range.blocks(), range.order_for("T").count() as u32), (blocks, blocks));
    }
    let last = PortRange { first: 65_530, last: 65_535, count: 3 };
    let mut firsts: Vec<u16> = last.order_for("T").map(|block| block.first).collect();
    firsts.sort_unstable();
    assert_eq!(firsts, [65_530, 65_533]);
}

#[test]
fn variables_name_the_task_and_its_ports() {
    let of = |ports| {
        let all = variables("shop-1", ports).into_iter();
        all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    let ports = PortBlock { first: 20_010, count: 10 };
    let wanted = "CALLBOARD_SLUG=shop-1 CALLBOARD_PORT=20010 CALLBOARD_PORT_COUNT=10";
    assert_eq!(of(Some(ports)), wanted);
    assert_eq!(of(None), "CALLBOARD_SLUG=shop-1");
}

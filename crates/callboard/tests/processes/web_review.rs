//! The page of a review on a real server: verdicts that race, checks that run in place, and verbs that a profile lacks.

use std::path::Path;
use std::{fs, thread};

use serde_json::{Value, json};

use crate::peer::{board, git};
use crate::story::Shop;
use crate::tokens::token;
use crate::web::{HERE, Seen, Site, cli};

/// A task in review.
fn in_review(folder: &Path, checks: &[&str]) -> String {
    let mut add = vec!["task", "add", "Decide"];
    for check in checks {
        add.extend(["--check", check]);
    }
    let id = cli(folder, &add)["id"].as_str().unwrap().to_owned();
    for status in ["in_progress", "in_review"] {
        cli(folder, &["task", "move", &id, status]);
    }
    id
}

/// The value of a hidden field.
fn field(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let at = page.find(&start).unwrap_or_else(|| panic!("no {name} in {page}")) + start.len();
    page[at..].split('"').next().unwrap().to_owned()
}

/// An agent that finishes through the toolset `graph` asks for no review; its closing words are the summary.
#[test]
fn the_page_has_the_closing_words_of_an_attempt() {
    let folder = board();
    let site = Site::of(folder.path());
    let id =
        cli(folder.path(), &["task", "add", "Write a list"])["id"].as_str().unwrap().to_owned();
    let call = |tool: &str, input: Value| {
        cli(folder.path(), &["call", tool, &input.to_string(), "--actor", "agent:w1"])
    };
    let begun = json!({"id": id, "expected_actor": "agent:w1", "idempotency_key": "k"});
    let session = call("begin", begun)["id"].clone();
    let page = || site.get(&format!("/tasks/{id}/review")).text;
    assert!(page().contains("No summary was given."));
    call("finish", json!({"session": session, "summary": "The list is there."}));
    let page = page();
    assert!(page.contains("The list is there.") && !page.contains("No summary"), "{page}");
}

#[test]
fn one_of_two_verdicts_at_one_moment_wins() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    for _ in 0..6 {
        let id = in_review(folder.path(), &[]);
        let path = format!("/tasks/{id}/review");
        let seen = field(&site.get(&path).text, "seen");
        let decide = |verb: &str| {
            let form = [("seen", &*seen), ("text", "Nearly <b>."), ("to", "work")];
            site.post(&format!("{path}/{verb}"), HERE, &form)
        };
        let [approved, rejected]: [Seen; 2] = thread::scope(|scope| {
            let both = ["approve", "reject"].map(|verb| scope.spawn(move || decide(verb)));
            both.map(|one| one.join().unwrap())
        });
        let (winner, loser) = match (approved.status, rejected.status) {
            (303, 409) => ("approved it", rejected),
            (409, 303) => ("sent it back", approved),
            other => panic!("{other:?}\n{}\n{}", approved.text, rejected.text),
        };
        let text = &loser.text;
        assert!(text.contains("the review that you opened had no verdict. "), "{text}");
        assert!(text.contains(winner) && text.contains("Nothing was changed"), "{text}");
        let log = cli(folder.path(), &["log", &id]).to_string();
        let verdicts =
            log.matches("review.approved").count() + log.matches("review.rejected").count();
        assert_eq!(verdicts, 1, "{log}");
        // A task without work to merge is closed by its approval: the words are shown, and a link goes on.
        assert!(text.contains("Go on with the review as it stands"), "{text}");
        assert!(text.contains("Nearly &lt;b&gt;."), "{text}");
    }
}

#[test]
fn a_late_verdict_goes_on_with_one_button() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let id = in_review(folder.path(), &[]);
    let path = format!("/tasks/{id}/review");
    let seen = field(&site.get(&path).text, "seen");
    cli(folder.path(), &["reject", &id, "-m", "Not yet."]);
    cli(folder.path(), &["task", "move", &id, "in_review"]);
    let form = [("seen", &*seen), ("text", "Fine <b>.")];
    let late = site.post(&format!("{path}/approve"), HERE, &form);
    assert_eq!(late.status, 409, "{}", late.text);
    assert!(late.text.contains("Approve all the same"), "{}", late.text);
    assert_eq!(field(&late.text, "text"), "Fine &lt;b&gt;.");
    let now = field(&late.text, "seen");
    let done = site.post(&format!("{path}/approve"), HERE, &[("seen", &*now), ("text", "Fine.")]);
    assert_eq!(done.status, 303, "{}", done.text);
    let odd = site.post(&format!("{path}/approve"), HERE, &[("seen", "nodded")]);
    assert_eq!(odd.status, 400, "{}", odd.text);
}

/// Commits one file.
const AGENT: &str = "cat > /dev/null
echo one > list.txt
git add -A && git commit -qm work || exit 4
echo 'It is written.'
echo '<complete/>'
";

#[test]
fn a_verdict_counts_for_the_files_that_were_read() {
    let shop = Shop::open(AGENT);
    let folder = shop.board.path();
    let site = Site::of(folder).opened(folder);
    let id = cli(folder, &["task", "add", "Write a list"])["id"].as_str().unwrap().to_owned();
    shop.runs(shop.run(&id));
    let path = format!("/tasks/{id}/review");
    let worktree = shop.at(".callboard/worktrees").join(&id);
    let write = |text: &str| fs::write(worktree.join("list.txt"), text).unwrap();
    let head = || git(&worktree, &["rev-parse", "--short=7", "HEAD"]);
    let decide = |verb: &str, page: &str| {
        let marks = ["seen", "head", "tree"].map(|name| field(page, name));
        let form = [("seen", &*marks[0]), ("head", &*marks[1]), ("tree", &*marks[2])];
        let form: Vec<_> =
            form.into_iter().chain([("text", "Fine <b>."), ("to", "work")]).collect();
        site.post(&format!("{path}/{verb}"), HERE, &form)
    };

    let (read, then) = (site.get(&path).text, head());
    write("two\n");
    git(&worktree, &["commit", "-qam", "more"]);
    let now = head();
    let words = format!(
        "Nothing was changed: you read commit <code>{then}</code>. \
         The work is at commit <code>{now}</code> now."
    );
    for verb in ["approve", "reject", "merge"] {
        let moved = decide(verb, &read);
        assert_eq!(moved.status, 409, "{verb} {}", moved.text);
        assert!(moved.text.contains(&words), "{verb} {}", moved.text);
        assert!(moved.text.contains("all the same"), "{verb} {}", moved.text);
        assert_eq!(field(&moved.text, "text"), "Fine &lt;b&gt;.");
    }
    let log = cli(folder, &["log", &id]).to_string();
    assert!(!log.contains("review.approved") && !log.contains("review.rejected"), "{log}");
    assert_eq!(git(folder, &["log", "--format=%s", "main"]), "first");

    // Files that are not committed were not read either.
    let read = site.get(&path).text;
    write("three\n");
    let moved = decide("approve", &read);
    assert_eq!(moved.status, 409, "{}", moved.text);
    assert!(moved.text.contains("the changes are not committed"), "{}", moved.text);
    // The page of the refusal shows the files of now, and its button decides on them.
    assert_eq!(decide("approve", &moved.text).status, 303);
    let read = site.get(&path).text;
    write("four\n");
    assert_eq!(decide("merge", &read).status, 409);
    write("three\n");
    assert_eq!(decide("merge", &read).status, 303);
    assert_eq!(git(folder, &["show", "main:list.txt"]), "three");

    // Merged work is read from its commit, also when its worktree is gone and the target went on.
    let commit = git(folder, &["rev-parse", "--short=7", "main"]);
    let shown = format!("Shown is commit <code>{commit}</code> in <code>main</code>");
    git(folder, &["commit", "-q", "--allow-empty", "-m", "later"]);
    for is_gone in [false, true] {
        // The merge removes it, a moment after its answer.
        while is_gone && worktree.exists() {
            thread::yield_now();
        }
        for file in ["", "?file=list.txt"] {
            let page = site.get(&format!("{path}{file}"));
            assert_eq!(page.status, 200, "{}", page.text);
            let diff = page.text.split("review-body").nth(1).expect("a diff");
            let diff = diff.split("</main>").next().expect("the end of the page's own part");
            assert!(page.text.contains(&shown), "{}", page.text);
            assert!(diff.contains("list.txt") && diff.contains("three"), "{diff}");
            assert!(!diff.contains("<form") && !diff.contains("comment="), "{diff}");
            assert!(!page.text.contains("files viewed"), "{}", page.text);
        }
    }
}

#[test]
fn a_merge_that_waits_for_people_is_disabled_and_a_conflict_can_still_be_rebased() {
    let shop = Shop::open(AGENT);
    let folder = shop.board.path();
    let site = Site::of(folder).opened(folder);
    let add = ["task", "add", "Write a list", "--check", "manual: reads well"];
    let id = cli(folder, &add)["id"].as_str().unwrap().to_owned();
    shop.runs(shop.run(&id));
    let path = format!("/tasks/{id}/review");
    let denied = |why: &str| format!("<button class=\"button\" disabled title=\"{why}\">");
    let rebase = "action=\"/tasks/P-1/review/rebase\"";
    let offered = "data-key=\"m\"";
    let page = || site.get(&path).text;

    let waits = page();
    assert!(waits.contains(&denied("waits for 1 check for a person")), "{waits}");
    assert!(waits.contains("No approval is needed") && !waits.contains(offered), "{waits}");
    assert!(!waits.contains(rebase), "nothing conflicts: {waits}");
    fs::write(folder.join("list.txt"), "another\n").unwrap();
    git(folder, &["add", "list.txt"]);
    git(folder, &["commit", "-qm", "another list"]);
    let conflicts = || Some(page()).filter(|page| page.contains("Conflicts in "));
    let waits = std::iter::repeat_with(conflicts).flatten().next().unwrap();
    assert!(waits.contains(rebase), "{waits}");
    let asked = "/tasks/P-1/review?conflict=list.txt";
    assert!(waits.contains(&format!("<a href=\"{asked}#conflict\">")), "{waits}");
    let both = site.get(asked).text;
    for cell in ["on main", "this work", "code del\">another<", "code add\">one<"] {
        assert!(both.contains(cell), "{cell}: {both}");
    }
    let none = site.get(&format!("{path}?conflict=nothing-like-it")).text;
    assert!(none.contains("A merge meets no conflict in this file now."), "{none}");

    cli(folder, &["check", "attest", &id, "0"]);
    let free = page();
    assert!(free.contains(offered) && free.contains("Rebase first"), "{free}");
    let strictly = r#"{"require_review_approval": true}"#;
    cli(folder, &["call", "settings_update", strictly, "--toolsets", "board"]);
    let strict = page();
    assert!(strict.contains(&denied("waits for an approval")), "{strict}");
    assert!(strict.contains("Needs an approval first"), "{strict}");
    cli(folder, &["approve", &id]);
    let approved = page();
    assert!(approved.contains(offered) && !approved.contains("data-key=\"a\""), "{approved}");
    let worktree = shop.at(".callboard/worktrees").join(&id);
    fs::write(worktree.join("list.txt"), "two\n").unwrap();
    git(&worktree, &["commit", "-qam", "after the approval"]);
    let stale = page();
    assert!(stale.contains("The approval was for older files"), "{stale}");
    assert!(stale.contains(&denied("waits for an approval")), "{stale}");
    assert!(stale.contains("data-key=\"a\""), "it can be approved again: {stale}");
}

/// Two tasks change one file. A review names the task at work that does so too, and the next review.
#[test]
fn a_review_names_its_neighbours_and_drafts_go_along_with_their_lines() {
    let shop = Shop::open(AGENT);
    let folder = shop.board.path();
    let site = Site::of(folder).opened(folder);
    let add = |title: &str| cli(folder, &["task", "add", title])["id"].as_str().unwrap().to_owned();
    let (one, two) = (add("Write one"), add("Write two"));
    for id in [&one, &two] {
        shop.runs(shop.run(id));
    }
    let path = format!("/tasks/{one}/review");
    let page = site.get(&path).text;
    assert!(
        page.contains("1 of 2 <a") && page.contains("title=\"Write two\" data-key=\"u\""),
        "{page}"
    );
    assert!(!page.contains("is at work on"), "nothing at work changes the file: {page}");
    cli(folder, &["reject", &two, "-m", "Not yet."]);
    // Under load a page leaves the comparison out, and says so.
    let compared =
        || Some(site.get(&path).text).filter(|page| !page.contains("Not every task at work"));
    let page = std::iter::repeat_with(compared).flatten().next().unwrap();
    assert!(!page.contains("data-key=\"u\""), "no other review waits: {page}");
    assert!(page.contains(">P-2</a> is at work on "), "{page}");

    let draft = [("place", "list.txt:R1-1"), ("text", "Why one?")];
    assert_eq!(site.post(&format!("{path}/draft"), HERE, &draft).status, 303);
    let file = shop.at(".callboard/worktrees").join(&one).join("list.txt");
    for (text, tag) in [
        ("one\n", None),
        ("zero\none\n", Some("moved with its lines")),
        ("zero\n", Some("on older lines")),
    ] {
        fs::write(&file, text).unwrap();
        let page = site.get(&path).text;
        assert!(page.contains("Why one?"), "{text}: {page}");
        for known in ["moved with its lines", "on older lines"] {
            assert_eq!(page.contains(known), tag == Some(known), "{text}: {page}");
        }
    }
}

#[test]
fn checks_of_a_review_run_in_place() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let fails = "echo '<b>it broke'; exit 3";
    let id = in_review(folder.path(), &[fails, "true", "manual: Reads well"]);
    let path = format!("/tasks/{id}/review");
    let page = site.get(&path).text;
    assert!(page.contains("not run") && page.contains("yours"), "{page}");
    let run = |form: &[(&str, &str)]| {
        let ran = site.post(&format!("/tasks/{id}/check"), HERE, form);
        assert_eq!((ran.status, &*ran.to), (303, &*path), "{}", ran.text);
    };
    run(&[("next", &path), ("check", "0")]);
    let checks = &cli(folder.path(), &["task", "show", &id])["checks"];
    assert!(checks[0]["tookMs"].is_u64() && checks[1]["tookMs"].is_null(), "{checks}");
    run(&[("next", &path)]);
    let page = site.get(&path).text;
    assert!(page.contains("&lt;b&gt;it broke") && page.contains("exit code 3"), "{page}");
    assert!(page.contains("The whole log") && page.contains("1 of 3"), "{page}");
    let log = site.get(&format!("/tasks/{id}/checks/0"));
    assert!(log.status == 200 && log.text.contains("&lt;b&gt;it broke"), "{}", log.text);
    assert_eq!(site.get(&format!("/tasks/{id}/checks/7")).status, 400);
    let attest = [("check", "2"), ("result", "pass"), ("next", &*path)];
    let attested = site.post(&format!("/tasks/{id}/attest"), HERE, &attest);
    assert_eq!((attested.status, &*attested.to), (303, &*path), "{}", attested.text);
    assert!(site.get(&path).text.contains("2 of 3"));
}

#[test]
fn a_verdict_beyond_the_readers_profile_stays_with_the_reason() {
    let folder = board();
    let id = in_review(folder.path(), &[]);
    let path = format!("/tasks/{id}/review");
    let operator = ["--actor", "human:jo", "--lane", "kagan_admin", "--profile", "operator"];
    let (_, operator) = token(folder.path(), &operator);
    let (_, worker) = token(folder.path(), &["--actor", "human:kim"]);
    let mut site = Site::of(folder.path()).with(&worker);
    let page = site.get(&path).text;
    assert!(page.contains("needs operator, you are pair_worker"), "{page}");
    assert!(page.contains("needs maintainer, you are pair_worker"), "{page}");
    for verb in ["approve", "reject", "merge", "rebase"] {
        let refused = site.post(&format!("{path}/{verb}"), HERE, &[("text", "No.")]);
        assert_eq!(refused.status, 403, "{verb} {}", refused.text);
    }
    let task = site.get(&site.get(&format!("/tasks/{id}")).to).text;
    assert!(task.contains("Add a note") && !task.contains("Remove the task"), "{task}");
    for verb in ["edit", "sooner", "remove"] {
        let refused = site.post(&format!("/tasks/{id}/{verb}"), HERE, &[("title", "Mine")]);
        assert_eq!(refused.status, 403, "{verb} {}", refused.text);
    }
    site = site.with(&operator);
    let page = site.get(&path).text;
    assert!(!page.contains("needs operator"), "{page}");
    assert!(page.contains("needs maintainer, you are operator"), "{page}");
    let approved = site.post(&format!("{path}/approve"), HERE, &[("text", "")]);
    assert_eq!(approved.status, 303, "{}", approved.text);
}

#[test]
fn a_range_lies_between_two_commits_of_the_work() {
    let shop = Shop::open(AGENT);
    let folder = shop.board.path();
    let site = Site::of(folder).opened(folder);
    let id = cli(folder, &["task", "add", "Write a list"])["id"].as_str().unwrap().to_owned();
    shop.runs(shop.run(&id));
    let path = format!("/tasks/{id}/review");
    let worktree = shop.at(".callboard/worktrees").join(&id);
    fs::write(worktree.join("other.txt"), "two\n").unwrap();
    git(&worktree, &["add", "-A"]);
    git(&worktree, &["commit", "-qm", "more <b>"]);
    let [first, second] = ["HEAD~1", "HEAD"].map(|name| git(&worktree, &["rev-parse", name]));
    let main = git(folder, &["rev-parse", "main"]);

    let whole = site.get(&path).text;
    assert!(whole.contains("list.txt") && whole.contains("other.txt"), "{whole}");
    assert!(whole.contains("more &lt;b&gt;") && whole.contains("where the work begins"), "{whole}");
    let shown = |from: &str, to: &str| site.get(&format!("{path}?range={from}..{to}"));
    let part = shown(&first, &second);
    assert_eq!(part.status, 200, "{}", part.text);
    assert!(part.text.contains("other.txt") && !part.text.contains("data-path=\"list.txt\""));
    // Comments and ticks are on the work as it is now.
    assert!(!part.text.contains("/review/viewed"), "{}", part.text);
    let part = shown(&main[..8], &first[..8]);
    assert!(part.text.contains("data-path=\"list.txt\"") && !part.text.contains("other.txt"));
    let chosen = site.get(&format!("{path}?first={first}&last={second}&ws=0"));
    assert_eq!(chosen.to, format!("{path}?ws=0&range={first}..{second}"));
    for (from, to, words) in [
        (&*second, &*first, "does not come before"),
        ("0000", &*second, "0000 is no commit of this work"),
        ("main", "HEAD", "range must be A..B"),
        ("--output=x", &*second, "range must be A..B"),
        ("%3Cb%3E", "abcd", "range must be A..B"),
    ] {
        let refused = shown(from, to);
        assert_eq!(refused.status, 400, "{from}..{to} {}", refused.text);
        assert!(
            refused.text.contains(words) && refused.text.contains("other.txt"),
            "{}",
            refused.text
        );
    }
}

/// Work of an agent in this board's repository and in `other`, each with one file, which waits for a review.
fn in_two_repositories(folder: &Path, other: &Path, files: [&str; 2]) -> String {
    git(other, &["init", "--quiet", "--initial-branch=main"]);
    git(other, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let repos = [folder, other];
    let made =
        call(folder, "human:ana", "projects_create", json!({"name": "both", "repo_paths": repos}));
    let new = json!({"title": "In both", "project_id": made["project_id"]});
    let task = call(folder, "human:ana", "tasks_create", new);
    let id = task["task_id"].as_str().unwrap();
    let opened = call(folder, "agent:w1", "sessions_create", json!({"task_id": id}));
    assert_eq!(opened["success"], true, "{opened}");
    for (repo, file) in repos.iter().zip(files) {
        let worktree = repo.join(".callboard/worktrees").join(id);
        fs::write(worktree.join(file), "one\n").unwrap();
        git(&worktree, &["add", file]);
        git(&worktree, &["commit", "-qm", "work"]);
    }
    call(folder, "agent:w1", "request_review", json!({"task_id": id, "summary": "done"}));
    id.to_owned()
}

fn call(folder: &Path, actor: &str, tool: &str, input: Value) -> Value {
    let input = input.to_string();
    cli(folder, &["call", tool, &input, "--toolsets", "all", "--actor", actor])
}

#[test]
fn merged_work_of_two_repositories_shows_both_diffs_without_ticks() {
    let shop = Shop::open(AGENT);
    let folder = shop.board.path();
    let other = tempfile::tempdir().unwrap();
    let id = in_two_repositories(folder, other.path(), ["here.txt", "there.txt"]);
    let site = Site::of(folder).opened(folder);
    let path = format!("/tasks/{id}/review");
    assert!(site.get(&path).text.contains("aria-label=\"not viewed\""), "work in review has ticks");
    for action in ["approve", "merge"] {
        let judged = call(folder, "human:ana", "review", json!({"task_id": id, "action": action}));
        assert_eq!(judged["success"], true, "{judged}");
    }
    let merged = site.get(&path).text;
    for file in ["here.txt", "there.txt"] {
        assert!(merged.contains(&format!("data-path=\"{file}\"")), "{file} {merged}");
    }
    assert!(!merged.contains("not viewed"), "{merged}");
}

/// Both repositories have a file of one name.
#[test]
fn files_of_two_repositories_are_ticked_and_commented_apart() {
    let shop = Shop::open(AGENT);
    let folder = shop.board.path();
    let other = tempfile::tempdir().unwrap();
    let id = in_two_repositories(folder, other.path(), ["same.txt", "same.txt"]);
    let site = Site::of(folder).opened(folder);
    let path = format!("/tasks/{id}/review");
    let names = [folder, other.path()]
        .map(|repo| format!("{}/same.txt", repo.file_name().unwrap().to_string_lossy()));
    let page = site.get(&path).text;
    let anchors: Vec<&str> = page.split("<section class=\"file\" id=\"").skip(1).collect();
    let anchors: Vec<&str> = anchors.iter().map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(anchors.len() == 2 && anchors[0] != anchors[1], "{anchors:?} {page}");
    for name in &names {
        let file = format!("data-path=\"{name}\"");
        assert!(page.contains(&file), "{file} {page}");
        let place = format!("{name}:R1");
        let form = site.get(&format!("{path}?comment={place}")).text;
        assert!(form.contains(&format!("name=\"place\" value=\"{place}\"")), "{form}");
        let text = format!("Why in {name}?");
        let draft = field(form.split("id=\"comment\"").nth(1).expect("a form"), "draft");
        let kept = [("draft", &*draft), ("place", &*place), ("text", &*text)];
        assert_eq!(site.post(&format!("{path}/draft"), HERE, &kept).status, 303);
        let shown = site.get(&format!("{path}?file={name}")).text;
        assert!(shown.contains(&text) && shown.matches("<section class=\"file\"").count() == 1);
    }
    let tick = page.split(&format!("name=\"path\" value=\"{}\"", names[1])).nth(1);
    let blob = field(tick.expect("a tick"), "blob");
    let viewed = [("path", &*names[1]), ("blob", &*blob)];
    assert_eq!(site.post(&format!("{path}/viewed"), HERE, &viewed).status, 303);
    let page = site.get(&path).text;
    assert!(page.contains("1 of 2 viewed"), "{page}");
    for name in &names {
        assert!(page.contains(&format!("Why in {name}?")), "{name} {page}");
    }
    let pressed = |name: &str| {
        let file = page.split(&format!("data-path=\"{name}\"")).nth(1).expect("the file");
        file.split("aria-pressed=\"").nth(1).expect("a tick").starts_with("true")
    };
    assert_eq!(names.each_ref().map(|name| pressed(name)), [false, true], "{page}");
}

//! The forms of a review and of the board on a real server: comments in a long change, what they lead back to, and what a
//! reader may not do.

use std::path::Path;

use crate::peer::board;
use crate::story::Shop;
use crate::tokens::token;
use crate::web::{HERE, Site, cli};

/// Commits more files than a page has at once.
const MANY: &str = "cat > /dev/null
for n in $(seq 101 250); do printf 'one\\ntwo %s\\n' $n > file-$n.txt; done
seq 4000 > long.txt
git add -A && git commit -qm work || exit 4
echo 'They are written.'
echo '<complete/>'
";

/// The values of the hidden fields with this name, the first one first.
fn fields(page: &str, name: &str) -> Vec<String> {
    let start = format!("name=\"{name}\" value=\"");
    let value = |rest: &str| rest.split('"').next().unwrap().replace("&amp;", "&");
    page.split(&start).skip(1).map(value).collect()
}

/// The part of a page between its first form of a comment and the end of that form.
fn comment_form(page: &str) -> &str {
    let (_, form) =
        page.split_once("id=\"comment\"").unwrap_or_else(|| panic!("no form in {page}"));
    form.split("</form>").next().unwrap()
}

fn add(folder: &Path, flags: &[&str]) -> String {
    let added = cli(folder, &[&["task", "add"], flags].concat());
    added["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_comment_is_written_on_any_file_of_a_long_change() {
    let shop = Shop::open(MANY);
    let folder = shop.board.path();
    let mut site = Site::of(folder).opened(folder);
    let id = add(folder, &["Write many files"]);
    shop.runs(shop.run(&id));
    let path = format!("/tasks/{id}/review");
    let whole = site.get(&path).text;
    assert!(whole.contains("attempt 1, fence 1") && whole.contains("round 1"), "{whole}");
    assert!(!whole.contains("id=\"f-last\"") && !whole.contains("data-path=\"file-250.txt\""));

    for (file, place) in [("file-101.txt", "R2-2"), ("file-250.txt", "R2-2"), ("long.txt", "R9")] {
        let asked = format!("{path}?ws=0&view=split&comment={file}:{place}");
        let page = site.get(&asked).text;
        let form = comment_form(&page);
        assert!(form.contains(&format!("<code>{file}</code>")), "{form}");
        let next = fields(form, "next").remove(0);
        assert!(next.contains("?view=split&ws=0"), "{next}");
        let draft = fields(form, "draft").remove(0);
        assert!(next.ends_with(&format!("#draft-{draft}")), "{next}");
        let place = format!("{file}:{place}");
        let kept = site.post(
            &format!("{path}/draft"),
            HERE,
            &[("draft", &*draft), ("place", &*place), ("next", &*next), ("text", "Why two?")],
        );
        assert_eq!((kept.status, &*kept.to), (303, &*next), "{}", kept.text);
        let shown = site.get(next.split('#').next().unwrap()).text;
        assert!(shown.contains(&format!("id=\"draft-{draft}\"")), "{file}: {shown}");
        let cancel = form.split("Cancel").next().unwrap().rsplit("href=\"").next().unwrap();
        assert!(cancel.contains("view=split&amp;ws=0") && cancel.contains("#f-"), "{cancel}");
    }
    // The form of a comment is not folded away with a file that was viewed.
    let tick = fields(&whole, "blob").remove(0);
    let viewed = [("path", "file-101.txt"), ("blob", &*tick)];
    assert_eq!(site.post(&format!("{path}/viewed"), HERE, &viewed).status, 303);
    for (asked, details) in [("", "<details>"), (":R1", "<details open>")] {
        let page = site.get(&format!("{path}?comment=file-101.txt{asked}")).text;
        let file = page.split("data-path=\"file-101.txt\"").nth(1).expect("the file");
        let file = file.split("<summary>").next().unwrap();
        assert!(file.contains(details), "{file}");
    }
    // A comment that is refused keeps its words.
    let place = "file-250.txt:R2-2";
    let long = format!("Too long {}", "x".repeat(5_000));
    let form = [("place", place), ("next", &*format!("{path}?ws=0")), ("text", &*long)];
    let refused = site.post(&format!("{path}/draft"), HERE, &form);
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(comment_form(&refused.text).contains("Too long xxx"), "{}", refused.text);
    let elsewhere = [("place", place), ("next", "//evil.example"), ("text", "Why?")];
    let kept = site.post(&format!("{path}/draft"), HERE, &elsewhere);
    assert_eq!((kept.status, &*kept.to), (303, "/"), "{}", kept.text);

    site.cookie.push_str("; callboard_flash=");
    assert!(!site.get(&path).text.contains("class=\"flash\""), "a flash without words");
}

#[test]
fn a_viewer_reads_a_review_and_finds_the_reasons_beside_disabled_verbs() {
    let shop = Shop::open(MANY);
    let folder = shop.board.path();
    let site = Site::of(folder).opened(folder);
    let id = add(folder, &["Write many files"]);
    shop.runs(shop.run(&id));
    let (_, viewer) = token(folder, &["--actor", "human:vi", "--profile", "viewer"]);
    let site = site.with(&viewer);
    let path = format!("/tasks/{id}/review");
    let page = site.get(&path);
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("needs operator, you are viewer"), "{}", page.text);
    assert!(page.text.contains("data-path=\"file-101.txt\""), "{}", page.text);
    assert!(!page.text.contains("?comment=") && !page.text.contains("data-comments"));
    let asked = site.get(&format!("{path}?comment=file-101.txt:R2-2")).text;
    assert!(!asked.contains("id=\"comment\""), "{asked}");

    let reason = "needs pair_worker, you are viewer";
    let board = site.get("/board").text;
    let new_task = format!("disabled title=\"{reason}\"");
    assert!(
        board.contains(&new_task) && !board.contains("href=\"/tasks/new\" data-key"),
        "{board}"
    );
    assert!(!board.contains("type=\"checkbox\""), "nothing can be done with ticked cards: {board}");
    assert!(board.contains(&format!("<span class=\"faint\">{reason}</span>")), "{board}");
    let form = site.get("/tasks/new").text;
    assert!(
        form.contains(&format!("A new task {reason}")) && !form.contains("id=\"body\""),
        "{form}"
    );
}

#[test]
fn an_approval_waits_for_the_checks_of_people() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let id = add(folder.path(), &["Decide", "--check", "manual: Reads well"]);
    for status in ["in_progress", "in_review"] {
        cli(folder.path(), &["task", "move", &id, status]);
    }
    let path = format!("/tasks/{id}/review");
    let page = site.get(&path).text;
    let disabled = "disabled title=\"waits for 1 check for a person\"";
    assert_eq!(page.matches(disabled).count(), 2, "Approve and Merge: {page}");
    assert!(!page.contains("data-key=\"a\""), "{page}");
    let attest = [("check", "0"), ("result", "pass"), ("next", &*path)];
    assert_eq!(site.post(&format!("/tasks/{id}/attest"), HERE, &attest).status, 303);
    assert!(site.get(&path).text.contains("data-key=\"a\""));
}

#[test]
fn a_removal_of_many_cards_asks_first_and_leads_back_to_the_board_as_it_was() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let [one, two] = ["Go <b>", "Go too"].map(|title| add(folder.path(), &[title]));
    let here = "/board?q=go&group=epic";
    let page = site.get(here).text;
    assert_eq!(fields(&page, "next"), [here, here], "{page}");
    let send = |more: &[(&str, &str)]| {
        let form = [("once", "k"), ("next", here), ("task", &*one), ("task", &*two)];
        site.post("/board/bulk", HERE, &[&form[..], more].concat())
    };
    let moved = send(&[("verb", "later")]);
    assert_eq!((moved.status, &*moved.to), (303, here), "{}", moved.text);
    assert_eq!(send(&[("verb", "")]).to, here);
    let asks = send(&[("verb", "remove")]);
    assert_eq!(asks.status, 200, "{}", asks.text);
    assert!(asks.text.contains("Remove these 2 tasks?"), "{}", asks.text);
    assert!(asks.text.contains("Go &lt;b&gt;") && asks.text.contains("Go too"), "{}", asks.text);
    assert!(
        cli(folder.path(), &["task", "show", &one])["id"].is_string(),
        "nothing is removed yet"
    );
    let gone = send(&[("verb", "remove"), ("sure", "1")]);
    assert_eq!((gone.status, &*gone.to), (303, here), "{}", gone.text);
    assert_eq!(cli(folder.path(), &["task", "list"])["items"], serde_json::json!([]));
}

#[test]
fn two_people_who_edit_one_task_are_told_both_versions() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let epic = add(folder.path(), &["An epic"]);
    let id = add(folder.path(), &["Old title", "--check", "true"]);
    let path = site.get(&format!("/tasks/{id}")).to;
    let edit = format!("{path}/edit");
    let shown = fields(&site.get(&path).text, "shown").remove(0);
    let send = |title: &str, more: &[(&str, &str)]| {
        let form = [("shown", &*shown), ("title", title)];
        site.post(&edit, HERE, &[&form[..], more].concat())
    };
    let show = || cli(folder.path(), &["task", "show", &id]);

    assert_eq!(send("Title of ana", &[]).status, 303);
    // The second person changed the body alone; the form still has the old title.
    assert_eq!(send("Old title", &[("body", "Wanted.\r\n")]).status, 303);
    assert_eq!(show()["title"], "Title of ana");
    assert_eq!(show()["body"], "Wanted.\n");
    let late = send("Title of <b>", &[("body", ""), ("priority", "7")]);
    assert_eq!(late.status, 409, "{}", late.text);
    let text = &late.text;
    assert!(text.contains("the title changed after you opened the form"), "{text}");
    assert!(text.contains("<bdi>Title of ana</bdi>"), "{text}");
    assert!(text.contains("You wrote <q><bdi>Title of &lt;b&gt;</bdi>"), "{text}");
    assert_eq!(
        (show()["title"].as_str(), &show()["priority"]),
        (Some("Title of ana"), &500.into())
    );
    // The form has what was typed, and goes on from the task as it stands.
    assert!(
        text.contains("name=\"title\" required maxlength=\"500\" value=\"Title of &lt;b&gt;\"")
    );
    let again = fields(text, "shown").remove(0);
    let form = [("shown", &*again), ("title", "Title of <b>"), ("priority", "7")];
    assert_eq!(site.post(&edit, HERE, &form).status, 303);
    assert_eq!(show()["title"], "Title of <b>");

    // Another fault keeps what was typed, and what was shown.
    let shown = fields(&site.get(&path).text, "shown").remove(0);
    let form = [("shown", &*shown), ("title", "Typed"), ("priority", "5000")];
    let faulty = site.post(&edit, HERE, &form);
    assert_eq!(faulty.status, 400, "{}", faulty.text);
    assert!(faulty.text.contains("value=\"Typed\"") && faulty.text.contains(&shown));
    assert_eq!(site.post(&edit, HERE, &[("shown", "1.2"), ("title", "x")]).status, 400);

    // The other fields of a card.
    let mut form = vec![("shown", &*shown), ("title", "Title of <b>"), ("epic", &*epic)];
    form.extend([("mode", "auto"), ("criteria", "Fast\r\nSmall"), ("base", "next")]);
    form.extend([("executor", "claude"), ("checks", "true")]);
    let saved = site.post(&edit, HERE, &form);
    assert_eq!(saved.status, 303, "{}", saved.text);
    let call = serde_json::json!({"task_id": id}).to_string();
    let card = cli(folder.path(), &["call", "get_task", &call, "--toolsets", "board"]);
    let has = |words: &str| assert!(card.to_string().contains(words), "{words} {card}");
    for words in ["AUTO", "\"Fast\",\"Small\"", "\"next\"", "\"claude\"", &epic] {
        has(words);
    }
}

#[test]
fn a_blocker_is_resolved_on_the_page_of_its_own_task() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let (one, two) = (add(folder.path(), &["Held up"]), add(folder.path(), &["Free"]));
    let said = serde_json::json!({
        "taskId": one, "kind": "blocker", "body": "Which <b>?", "rationale": "Nobody decided.",
    });
    let call = ["call", "comment_on_task", &said.to_string(), "--toolsets", "execution"];
    cli(folder.path(), &[&call[..], &["--actor", "agent:eva"]].concat());
    let (path, other) =
        (site.get(&format!("/tasks/{one}")).to, site.get(&format!("/tasks/{two}")).to);
    let page = site.get(&path).text;
    assert!(page.contains("named a blocker") && page.contains("Which &lt;b&gt;?"), "{page}");
    let comment = fields(&page, "comment").remove(0);
    let resolve = |path: &str, comment: &str| {
        let form = [("comment", comment), ("text", "The first.")];
        site.post(&format!("{path}/resolve"), HERE, &form).status
    };
    assert_eq!(resolve(&other, &comment), 400, "the comment is of another task");
    assert_eq!(resolve(&path, "nothing-like-it"), 400);
    assert!(site.get(&path).text.contains("named a blocker"));
    assert_eq!(resolve(&path, &comment), 303);
    assert!(!site.get(&path).text.contains("named a blocker"));
    assert_eq!(resolve(&path, &comment), 303, "a second form changes nothing");
}

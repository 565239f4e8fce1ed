//! The forms of a review and of the board on a real server: comments in a long change, what they lead back to, and what a
//! reader may not do.

use std::path::Path;

use crate::peer::board;
use crate::web::{HERE, Site, cli};

/// The values of the hidden fields with this name, the first one first.
fn fields(page: &str, name: &str) -> Vec<String> {
    let start = format!("name=\"{name}\" value=\"");
    let value = |rest: &str| rest.split('"').next().unwrap().replace("&amp;", "&");
    page.split(&start).skip(1).map(value).collect()
}

fn add(folder: &Path, flags: &[&str]) -> String {
    let added = cli(folder, &[&["task", "add"], flags].concat());
    added["id"].as_str().unwrap().to_owned()
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

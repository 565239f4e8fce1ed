//! Letters in threads on a real server: the boxes, the list beside the thread, what counts as read.

use serde_json::json;

use crate::peer::board;
use crate::tokens::token;
use crate::web::{HERE, Site, cli, letter_id};

#[test]
fn a_thread_has_every_letter_and_an_answer_goes_to_the_newest() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let first = site.send(json!(true), "Which zone?");
    let alone = site.send(json!(true), "Another matter");
    let page = site.get(&format!("/mail/{first}")).text;
    let reply = |to: &str, page: &str, body: &str| {
        let form = [("mail", &*letter_id(page)), ("body", body)];
        let sent = site.post(&format!("/mail/{to}/reply"), HERE, &form);
        assert_eq!(sent.status, 303, "{}", sent.text);
        sent.to
    };
    let mine = reply(&first, &page, "UTC, please");
    let answered = mine.rsplit('/').next().unwrap().to_owned();
    let back = ["--actor", "agent:boss", "mail", "reply", &answered, "Understood"];
    let back = cli(folder.path(), &back)["mailId"].as_str().unwrap().to_owned();

    // The thread is the page of each of its letters, oldest first.
    for id in [&first, &answered, &back] {
        let page = site.get(&format!("/mail/{id}?box=all")).text;
        let at = |words: &str| page.rfind(words).unwrap_or_else(|| panic!("{words}: {page}"));
        assert!(page.contains("3 letters"), "{page}");
        let places = [&first, &answered, &back].map(|id| at(&format!("id=\"letter-{id}\"")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(!page.contains(&format!("id=\"letter-{alone}\"")), "{page}");
        assert!(page.contains(&format!("action=\"/mail/{back}/reply\"")), "the newest: {page}");
    }
    // One row for a thread; letters that an answer marked as read are behind All.
    let unread = site.get("/mail").text;
    assert_eq!(unread.matches("class=\"title cover\"").count(), 2, "{unread}");
    let all = site.get("/mail?box=all").text;
    assert_eq!(all.matches("class=\"title cover\"").count(), 2, "{all}");
    assert!(all.contains("2 letters") && all.contains(">unread<"), "{all}");
    let sent = site.get("/mail?box=agents").text;
    assert_eq!(sent.matches("class=\"title cover\"").count(), 1, "{sent}");
    assert!(sent.contains(&answered) && !sent.contains(&alone), "{sent}");
    assert_eq!(site.get("/mail?all=1").text.matches("class=\"title cover\"").count(), 2);
}

#[test]
fn one_button_marks_the_unread_letters_of_a_thread() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let (first, second) = (site.send(json!(true), "One"), site.send(json!(true), "Two"));
    assert!(site.get(&format!("/mail/{first}")).text.contains("2 unread"), "a look marks nothing");
    let path = format!("/mail/{first}/read");
    let wrong = site.post(&path, HERE, &[("next", "/mail"), ("also", "mail-1")]);
    assert_eq!(wrong.status, 404);
    let marked = site.post(&path, HERE, &[("next", "/mail"), ("also", &*second)]);
    assert_eq!((marked.status, &*marked.to), (303, "/mail"));
    assert!(site.get("/mail").text.contains("No unread mail."));
}

#[test]
fn letters_between_agents_stay_theirs() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    for name in ["boss", "w1"] {
        cli(folder.path(), &["agent", "add", name, "--type", "SUPERVISOR"]);
    }
    let mail = site.send(json!("w1"), "between us");
    for path in ["/mail", "/mail?box=agents", "/mail?box=all"] {
        assert!(!site.get(path).text.contains("between us"), "{path}");
    }
    assert_eq!(site.get(&format!("/mail/{mail}")).status, 403);
    let form = [
        ("mail", &*letter_id(&site.get("/mail?to=").text)),
        ("to", "boss"),
        ("subject", "for boss"),
        ("body", "b"),
    ];
    assert_eq!(site.post("/mail", HERE, &form).status, 303);
    assert!(site.get("/mail?box=agents").text.contains("for boss"));
    let (_, own) = token(folder.path(), &["--actor", "agent:w1"]);
    let site = site.with(&own);
    for path in ["/mail", "/mail?box=agents", "/mail?box=all"] {
        let page = site.get(path).text;
        assert!(page.contains("between us") && !page.contains("for boss"), "{path}: {page}");
    }
}

/// The value of a field of the answer's form.
fn field<'p>(page: &'p str, name: &str) -> &'p str {
    let start = format!("name=\"{name}\" value=\"");
    page.split(&start).nth(1).unwrap_or_else(|| panic!("{name}: {page}")).split('"').next().unwrap()
}

#[test]
fn an_answer_is_offered_to_the_agent_that_holds_the_task_now() {
    let folder = board();
    let at = folder.path();
    let site = Site::of(at).opened(at);
    for name in ["boss", "eve"] {
        cli(at, &["agent", "add", name, "--type", "SUPERVISOR"]);
    }
    cli(at, &["task", "add", "Export"]);
    let letter = site.send(json!(true), "Which zone in P-1, UTF-8 or not?");
    let path = format!("/mail/{letter}");
    let page = site.get(&path).text;
    assert!(page.contains("href=\"/tasks/P-1\""), "the thread shows its task: {page}");
    assert!(!page.contains("name=\"also\""), "nobody holds it: {page}");
    let answer = |also: bool, words: &str| {
        let page = site.get(&path).text;
        let mut form = vec![("mail", letter_id(&page)), ("body", words.to_owned())];
        if also {
            form.push(("also", field(&page, "also").to_owned()));
            form.push(("also_mail", field(&page, "also_mail").to_owned()));
        }
        let form: Vec<(&str, &str)> = form.iter().map(|(name, text)| (*name, &**text)).collect();
        for _ in 0..2 {
            let sent = site.post(&format!("/mail/{letter}/reply"), HERE, &form);
            assert_eq!(sent.status, 303, "{}", sent.text);
        }
    };
    let mail_of = |agent: &str| {
        cli(at, &["--actor", &format!("agent:{agent}"), "mail", "list", "--all"])["items"]
            .to_string()
    };
    cli(at, &["claim", "P-1", "--actor", "agent:eve"]);
    answer(true, "UTC it is");
    assert_eq!(mail_of("boss").matches("UTC it is").count(), 1);
    assert_eq!(mail_of("eve").matches("UTC it is").count(), 1, "once, however often it is sent");
    answer(false, "Only for boss");
    assert!(mail_of("boss").contains("Only for boss") && !mail_of("eve").contains("Only for boss"));
    // An agent without an inbox hears the words beside the task.
    cli(at, &["release", "P-1", "--actor", "agent:eve"]);
    cli(at, &["claim", "P-1", "--actor", "agent:outside"]);
    answer(true, "Told outside");
    assert_eq!(site.get("/tasks/P-1").text.matches("Told outside").count(), 1);
    // The writer of the letter gets the answer anyway.
    cli(at, &["release", "P-1", "--actor", "agent:outside"]);
    cli(at, &["claim", "P-1", "--actor", "agent:boss"]);
    assert!(!site.get(&path).text.contains("name=\"also\""));
}

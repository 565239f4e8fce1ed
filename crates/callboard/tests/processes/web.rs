//! The pages of a crew on a real server, requested and submitted as a browser does. Tests that need a browser are in
//! the client lane.

use std::path::Path;

use serde_json::{Value, json};

use crate::http::Server;
use crate::pages::{session, session_of};
use crate::peer::{board, command};
use crate::tokens::token;

const HOSTILE: &str = "<script>alert(1)</script>";

pub struct Site {
    pub server: Server,
    pub agent: ureq::Agent,
    token: String,
    /// The cookie of the page session.
    pub cookie: String,
}

/// A response: its status, its redirect, its text.
pub struct Seen {
    pub status: u16,
    pub to: String,
    pub text: String,
}

impl Site {
    pub fn of(folder: &Path) -> Self {
        Self::over(Server::start(folder))
    }

    pub fn over(server: Server) -> Self {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
        let (token, cookie) = (String::new(), String::new());
        Self { server, agent: agent.build().into(), token, cookie }
    }

    /// Signs a person at the terminal in.
    pub fn opened(self, folder: &Path) -> Self {
        Self { cookie: session(folder), ..self }
    }

    /// Signs out.
    pub fn left(self) -> Self {
        Self { cookie: String::new(), ..self }
    }

    /// Signs in with a token.
    pub fn with(self, token: &str) -> Self {
        let cookie = session_of(&self.server, token);
        Self { token: token.to_owned(), cookie, ..self }
    }

    pub fn get(&self, path: &str) -> Seen {
        let request = self.agent.get(format!("{}{path}", self.server.url));
        let request = request.header("Cookie", &self.cookie);
        seen(request.call().unwrap())
    }

    pub fn post(&self, path: &str, header: (&str, &str), form: &[(&str, &str)]) -> Seen {
        let request = self.agent.post(format!("{}{path}", self.server.url));
        let request = request.header("Cookie", &self.cookie);
        seen(request.header(header.0, header.1).send_form(form.iter().copied()).unwrap())
    }

    pub fn send(&self, to: Value, subject: &str) -> String {
        let mut input = json!({"subject": subject, "body": HOSTILE});
        let key = if to == true { "toHuman" } else { "toAgentId" };
        input[key] = to;
        let call = json!({"agentId": "boss", "toolName": "mcp__mail__send", "input": input});
        let mut answer = self
            .agent
            .post(format!("{}/mcp/execute", self.server.url))
            .header("Authorization", format!("Bearer {}", self.token))
            .send_json(&call)
            .unwrap();
        let answer: Value = answer.body_mut().read_json().unwrap();
        answer["data"]["mailId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

fn seen(mut response: ureq::http::Response<ureq::Body>) -> Seen {
    let header = |name: &str| {
        let value = response.headers().get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    };
    let (status, to) = (response.status().as_u16(), header("location"));
    if status == 200 {
        assert!(header("content-security-policy").contains("script-src 'self'"), "{status}");
    }
    Seen { status, to, text: response.body_mut().read_to_string().unwrap() }
}

pub fn cli(folder: &Path, arguments: &[&str]) -> Value {
    let output = command(folder).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub const HERE: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

/// The id that a form gives its mail.
pub fn letter_id(page: &str) -> String {
    let start = page.find("name=\"mail\" value=\"").expect("a form") + 19;
    page[start..].split('"').next().unwrap().to_owned()
}

#[test]
fn a_missing_page_names_what_was_looked_for_and_offers_a_search() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    for path in ["/tasks/P-99", "/tasks/P-99/review"] {
        let page = site.get(path);
        assert_eq!(page.status, 404, "{path}");
        assert!(
            page.text.contains("P-99") && page.text.contains("/search?q=P-99"),
            "{}",
            page.text
        );
    }
    let hostile = site.get("/tasks/%3Cscript%3E");
    assert!(!hostile.text.contains("<script>") && hostile.status == 404, "{}", hostile.text);
}

#[test]
fn the_form_for_a_token_has_an_address() {
    let folder = board();
    let site = Site::of(folder.path());
    for (path, next) in [
        ("/login?next=%2Fboard", "value=\"/board\""),
        ("/login?next=%2F%2Fevil.example", "value=\"/\""),
    ] {
        let page = site.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(page.text.contains("name=\"token\"") && page.text.contains(next), "{}", page.text);
    }
}

#[test]
fn mail_opens_with_its_first_letter_and_the_form_that_answers_it() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let first = site.send(json!(true), "first letter");
    let page = site.get("/mail").text;
    assert!(page.contains(&format!("id=\"thread-{first}\"")), "{page}");
    // A script keeps this part while the form is written, though another letter became the first.
    assert!(page.contains(&format!("data-keep=\"{first}\"")), "{page}");
    assert!(page.contains(&format!("action=\"/mail/{first}/reply\"")), "{page}");
    let second = site.send(json!(true), "second letter");
    assert!(site.get("/mail").text.contains(&format!("id=\"thread-{second}\"")));
}

#[test]
fn mail_is_read_and_answered_on_the_page() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let mail = site.send(json!(true), HOSTILE);
    let page = site.get(&format!("/mail/{mail}"));
    assert!(page.text.contains("&lt;script&gt;") && !page.text.contains(HOSTILE), "{}", page.text);
    assert!(site.get("/mail").text.contains("1 unread"), "looking marks nothing");
    let id = letter_id(&page.text);
    let reply = format!("/mail/{mail}/reply");
    let blank = site.post(&reply, HERE, &[("mail", &id), ("body", " ")]);
    assert_eq!(blank.status, 400);
    assert!(blank.text.contains("body cannot be blank"), "{}", blank.text);
    // Idempotent: sending the form twice is one reply.
    for _ in 0..2 {
        let sent = site.post(&reply, HERE, &[("mail", &id), ("body", "yes\r\nno")]);
        assert_eq!((sent.status, sent.to), (303, format!("/mail/{id}")));
    }
    let inbox = cli(folder.path(), &["--actor", "agent:boss", "mail", "list"]);
    let mails = inbox["items"].as_array().unwrap();
    assert_eq!((mails.len(), &mails[0]["body"]), (1, &json!("yes\nno")), "{inbox}");
    assert!(!site.get("/").text.contains("1 unread"), "whoever answers has read");

    let page = site.get("/mail?to=boss").text;
    assert!(page.contains("value=\"boss\""), "{page}");
    let letter =
        [("mail", &*letter_id(&page)), ("to", "nobody"), ("subject", "s"), ("body", "b0dy")];
    let lost = site.post("/mail", HERE, &letter);
    assert_eq!(lost.status, 404);
    assert!(lost.text.contains("b0dy") && lost.text.contains("nobody"), "{}", lost.text);
    assert_eq!(site.get("/mail/mail-1").status, 404);
    assert_eq!(site.get("/mail?before=x").status, 404);
    let agents = site.get("/agents").text;
    assert!(agents.contains("boss") && agents.contains("SUPERVISOR") && agents.contains("IDLE"));
    let decisions = site.get("/decisions?agent=boss").text;
    assert!(decisions.contains("Invoked tool: mcp__mail__send"), "{decisions}");
    assert!(decisions.contains("&lt;script&gt;") && !decisions.contains(HOSTILE), "{decisions}");
    assert!(site.get("/decisions?agent=else").text.contains("No decisions yet."));
    assert_eq!(site.get("/decisions?before=x").status, 400);
}

#[test]
fn a_form_of_another_site_changes_nothing() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let mail = letter_id(&site.get("/mail?to=").text);
    let letter = [("mail", &*mail), ("to", "boss"), ("subject", "s"), ("body", "b")];
    for header in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Host", "evil.example"),
    ] {
        assert_eq!(site.post("/mail", header, &letter).status, 403, "{header:?}");
    }
    let inbox = cli(folder.path(), &["--actor", "agent:boss", "mail", "list"]);
    assert_eq!(inbox["items"], json!([]));
    assert_eq!(site.post("/mail", HERE, &letter).status, 303);
}

/// The length of a packed page depends on its content, so no other site may cause one.
#[test]
fn a_page_is_packed_unless_another_site_asked() {
    const GZIP: (&str, &str) = ("Accept-Encoding", "gzip, br");
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let asked = |path: &str, headers: &[(&str, &str)]| {
        let request = site.agent.get(format!("{}{path}", site.server.url));
        let request = request.header("Cookie", &site.cookie);
        let add = |request: ureq::RequestBuilder<_>, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        headers.iter().fold(request, add).call().unwrap()
    };
    let site_of = |word| ("Sec-Fetch-Site", word);
    for (headers, is_packed) in [
        (&[GZIP, HERE][..], true),
        (&[GZIP, site_of("none")], true),
        (&[GZIP, site_of("cross-site")], false),
        (&[GZIP, site_of("same-site")], false),
        (&[GZIP], false),
        (&[HERE], false),
        (&[("Accept-Encoding", "gzip;q=0"), HERE], false),
    ] {
        let mut page = asked("/board?q=guess", headers);
        let packing = page.headers().get("content-encoding").map(|value| value.to_str().unwrap());
        assert_eq!(packing, is_packed.then_some("gzip"), "{headers:?}");
        let bytes = page.body_mut().read_to_vec().unwrap();
        assert_eq!(bytes.starts_with(&[0x1f, 0x8b]), is_packed, "{headers:?}");
        assert_eq!(bytes.len() > 8_000, !is_packed, "{headers:?}: {}", bytes.len());
    }
    let form = site.agent.post(format!("{}/tasks/new", site.server.url));
    let form = form.header("Cookie", &site.cookie).header(HERE.0, HERE.1).header(GZIP.0, GZIP.1);
    let answer = form.send_form([("title", "")]).unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers().get("content-encoding")), (400, None));
    // A file is the same for everybody, and is not sent again to a browser that has it.
    let style = asked("/style.css", &[GZIP]);
    assert_eq!(style.headers()["content-encoding"], "gzip");
    let tag = style.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(asked("/style.css", &[("If-None-Match", &tag)]).status().as_u16(), 304);
    assert_eq!(asked("/style.css", &[("If-None-Match", "W/\"other\"")]).status().as_u16(), 200);
}

#[test]
fn an_agent_that_signs_in_has_its_own_inbox() {
    let folder = board();
    cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    cli(folder.path(), &["agent", "add", "w1", "--type", "WORKER"]);
    let (_, boss) = token(folder.path(), &["--actor", "agent:boss"]);
    let (_, own) = token(folder.path(), &["--actor", "agent:w1"]);
    let (_, reader) = token(folder.path(), &["--actor", "human:ana", "--scopes", "tasks:read"]);
    let site = Site::of(folder.path()).with(&boss);
    let people = site.send(json!(true), "for people");
    let mail = site.send(json!("w1"), "for w1");
    let site = site.with(&own);
    let page = site.get("/mail").text;
    assert!(page.contains("for w1") && !page.contains("for people"), "{page}");
    assert_eq!(site.get(&format!("/mail/{people}")).status, 403);
    let marked = site.post(&format!("/mail/{mail}/read"), HERE, &[("next", "//evil.example")]);
    assert_eq!((marked.status, marked.to.as_str()), (303, "/"));
    assert!(site.get("/mail").text.contains("No unread mail."));
    let site = site.with(&reader);
    assert!(site.get("/mail").text.contains("for people"));
    let refused = site.post(&format!("/mail/{people}/read"), HERE, &[]);
    assert_eq!(refused.status, 403, "{}", refused.text);
}

#[test]
fn an_agent_reads_its_own_decisions_and_nobody_reads_the_mail_of_others_there() {
    let folder = board();
    for (id, kind) in [("boss", "SUPERVISOR"), ("w1", "WORKER"), ("w2", "WORKER")] {
        cli(folder.path(), &["agent", "add", id, "--type", kind]);
    }
    let add = |flags: &[&str]| token(folder.path(), flags).1;
    let [boss, w1, w2] = ["boss", "w1", "w2"].map(|id| add(&["--actor", &format!("agent:{id}")]));
    let people = add(&["--actor", "human:ana"]);
    let admin = add(&["--actor", "agent:ops", "--lane", "kagan_admin"]);
    let site = Site::of(folder.path()).with(&boss);
    site.send(json!("w2"), "s3cret subject");
    let inbox = json!({"agentId": "w2", "toolName": "mcp__mail__list_inbox"});
    let request = site.agent.post(format!("{}/mcp/execute", site.server.url));
    let mut listed =
        request.header("Authorization", format!("Bearer {w2}")).send_json(&inbox).unwrap();
    let listed: Value = listed.body_mut().read_json().unwrap();
    assert_eq!(listed["data"]["mails"][0]["body"], HOSTILE, "{listed}");

    let shown = "&lt;script&gt;";
    let own = site.get("/decisions").text;
    assert!(own.contains("mcp__mail__send") && own.contains(shown), "{own}");
    let mut site = site.with(&w2);
    let own = site.get("/decisions").text;
    assert!(own.contains("mcp__mail__list_inbox") && own.contains(shown), "{own}");
    assert!(site.get("/decisions?agent=boss").text.contains("No decisions yet."));
    site = site.with(&w1);
    for path in ["/decisions", "/decisions?agent=boss"] {
        let page = site.get(path).text;
        assert!(page.contains("No decisions yet."), "{path}: {page}");
    }
    for token in [&people, &admin] {
        site = site.with(token);
        let page = site.get("/decisions").text;
        assert!(page.contains("mcp__mail__send") && page.contains("mcp__mail__list_inbox"));
        assert!(page.contains("s3cret subject") && !page.contains(shown), "{page}");
    }
}

#[test]
fn an_inbox_is_shown_fifty_at_a_time() {
    let folder = board();
    let site = Site::of(folder.path());
    cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let mails: Vec<String> = (0..51).map(|n| site.send(json!(true), &format!("no. {n}"))).collect();
    let first = site.get("/mail").text;
    assert_eq!(first.matches("class=\"title cover\"").count(), 50);
    assert!(first.contains("51 unread") && !first.contains(&mails[0]), "the newest first");
    let older = format!("/mail?before={}", mails[1]);
    assert!(first.contains(&older), "{first}");
    let second = site.get(&older).text;
    assert!(second.contains(&mails[0]) && !second.contains("Older mail"), "{second}");
    // Each call left two lines.
    let decisions = site.get("/decisions").text;
    assert_eq!(decisions.matches("class=\"title\"").count(), 50);
    assert!(decisions.contains("Older decisions"));
}

#[test]
fn the_form_of_a_new_task_says_what_will_happen() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["task", "add", "Paint the fence red", "--check", "true"]);
    let page = site.get("/tasks/new?title=Paint+the+fence&deps=P-1+P-9&checks=true").text;
    for words in [
        "Starts blocked: waits for </bdi><a class=\"id above\" href=\"/tasks/P-1\">",
        "No task is called P-9",
        "1 command gates closing",
        "Check 1 was never run here",
        "Much alike",
        "callboard task add 'Paint the fence' \\\n  --check 'true' \\\n  --dep P-1",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let empty = site.get("/tasks/new").text;
    assert!(empty.contains("Starts ready") && !empty.contains("Much alike"), "{empty}");
    let copy = site.get("/tasks/new?from=P-1&priority=7").text;
    assert!(
        copy.contains("value=\"Paint the fence red\"")
            && copy.contains("name=\"check1\" value=\"true\""),
        "{copy}"
    );
    assert!(copy.contains("value=\"7\""), "{copy}");
    assert_eq!(site.get("/tasks/new?from=P-7").status, 404);
    // A part of a title names a task, and a title that names none makes nothing.
    let titled =
        [("title", "Dry"), ("deps", "fence red"), ("kind1", "person"), ("check1", "is dry")];
    let made = site.post("/tasks/new", HERE, &titled);
    assert_eq!((made.status, made.to.as_str()), (303, "/tasks/P-2"));
    let dry = cli(folder.path(), &["task", "show", "P-2"]).to_string();
    assert!(dry.contains("Paint the fence red") || dry.contains("P-1"), "{dry}");
    let lost = site.post("/tasks/new", HERE, &[("title", "Dry"), ("deps", "no such fence")]);
    assert!(lost.status == 400 && lost.text.contains("no task is called no such fence"));
    assert!(lost.text.contains("value=\"no such fence\""), "{}", lost.text);
}

#[test]
fn the_page_of_a_task_has_the_ends_of_logs_and_a_tab_for_notes() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    let fails = "echo '<b>it broke'; exit 3";
    cli(folder.path(), &["task", "add", "Paint", "--check", fails]);
    let page = site.get("/tasks/P-1").text;
    assert!(page.contains("Next in the queue") && page.contains("Run the checks"), "{page}");
    assert_eq!(site.post("/tasks/P-1/check", HERE, &[]).status, 303);
    assert_eq!(site.post("/tasks/P-1/note", HERE, &[("text", "Mind the gate.")]).status, 303);
    let page = site.get("/tasks/P-1").text;
    for words in
        ["&lt;b&gt;it broke", "The whole log", "Run check 1 again", "ran check 1: it failed"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    let notes = site.get("/tasks/P-1?show=notes").text;
    assert!(notes.contains("Mind the gate.") && !notes.contains("ran check 1"), "{notes}");
}

#[test]
fn the_activity_of_a_task_is_one_list_in_pages() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["task", "add", "Paint"]);
    for n in 0..60 {
        site.post("/tasks/P-1/note", HERE, &[("text", &format!("note no. {n}."))]);
    }
    site.post("/tasks/P-1/tell", HERE, &[("text", "Use <b>red</b>.")]);
    let entries = |text: &str| text.matches("<li id=\"event-").count();
    let first = site.get("/tasks/P-1").text;
    assert_eq!(entries(&first), 50, "{first}");
    assert!(first.contains("wrote to its agent") && first.contains("Use &lt;b&gt;red&lt;/b&gt;."));
    assert!(first.contains("note no. 59.") && !first.contains("note no. 0."), "the newest first");
    let (_, older) = first.split_once("before=").expect("older entries");
    let before: String = older.chars().take_while(char::is_ascii_digit).collect();
    let second = site.get(&format!("/tasks/P-1?before={before}")).text;
    assert!(second.contains("note no. 0.") && second.contains("made the task"), "{second}");
    assert!(!second.contains("note no. 59.") && !second.contains("Older, below"), "{second}");
    let mail = site.get("/tasks/P-1?show=mail").text;
    assert!(mail.contains("wrote to its agent") && !mail.contains("note no. 59."), "{mail}");
    // A whole id, or an end of it, leads to the short name and keeps the rest of the address.
    let whole = cli(folder.path(), &["task", "show", "P-1"])["id"].as_str().unwrap().to_owned();
    for id in [&whole[..], &whole[whole.len() - 8..]] {
        assert_eq!(site.get(&format!("/tasks/{id}?show=mail")).to, "/tasks/P-1?show=mail", "{id}");
    }
    assert_eq!(site.get("/tasks/no-such-end").status, 404);
    let events = site.get("/tasks/P-1?show=events&before=x").text;
    assert!(events.contains("made the task") && !events.contains("note no."), "{events}");
}

/// The tabs of a page as words, with their counts.
fn tabs_of(page: &str) -> Vec<String> {
    let tabs = page.split("<nav class=\"tabs\"").nth(1).unwrap().split("</nav>").next().unwrap();
    let words = |part: &str| {
        let inner = part.split_once('>').unwrap().1.split("</a>").next().unwrap();
        inner.replace("<span class=\"faint\">", "").replace("</span>", "")
    };
    tabs.split("<a ").skip(1).map(words).collect()
}

#[test]
fn the_views_of_the_board_choose_tasks_by_their_facts() {
    let folder = board();
    let site = Site::of(folder.path()).opened(folder.path());
    cli(folder.path(), &["task", "add", "Fails", "--check", "exit 3"]);
    cli(folder.path(), &["task", "add", "Waits for a person"]);
    cli(folder.path(), &["task", "add", "Plain"]);
    assert_eq!(site.post("/tasks/P-1/check", HERE, &[]).status, 303);
    assert_eq!(site.post("/tasks/P-2/block", HERE, &[("text", "No key.")]).status, 303);
    for (path, wanted) in [
        ("/board", [true, true, true]),
        ("/board?view=failing", [true, false, false]),
        ("/board?view=you", [false, true, false]),
        ("/board?view=silent", [false, false, false]),
        ("/board?view=you&q=plain", [false, false, false]),
        ("/board?view=nonsense", [true, true, true]),
    ] {
        let page = site.get(path).text;
        let shown = ["P-1", "P-2", "P-3"]
            .map(|name| page.contains(&format!("href=\"/tasks/{name}\" data-row")));
        assert_eq!(shown, wanted, "{path}: {page}");
    }
    assert!(site.get("/board?view=silent").text.contains("No agent is silent"));
    // The tabs count the tasks of their views, under the filter.
    for (path, counts) in [
        ("/board", ["All 3", "Needs you 1", "Failing 1", "Silent 0"]),
        ("/board?view=failing", ["All 3", "Needs you 1", "Failing 1", "Silent 0"]),
        ("/board?q=person", ["All 1", "Needs you 1", "Failing 0", "Silent 0"]),
    ] {
        assert_eq!(tabs_of(&site.get(path).text), counts, "{path}");
    }
    // A column with more tasks than cards is counted by the database; with a filter only the whole is.
    for n in 0..51 {
        cli(folder.path(), &["task", "add", &format!("Many {n}")]);
    }
    for (path, counts) in [
        ("/board", vec!["All 54", "Needs you 1", "Failing 1", "Silent 0"]),
        ("/board?q=many", vec!["All 51", "Needs you", "Failing", "Silent"]),
        ("/board?q=many&view=you", vec!["All 51", "Needs you 0", "Failing 0", "Silent 0"]),
    ] {
        assert_eq!(tabs_of(&site.get(path).text), counts, "{path}");
    }
}

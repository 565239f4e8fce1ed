//! Forms of the pages, read from the pages themselves and sent with random fields: each is carried out or refused, and no
//! page is 500 or leads to another site.

use ureq::Agent;

use crate::ground::Ground;
use crate::http::Server;
use crate::lanes::{patient_agent, serve};
use crate::process::Watched;
use crate::schema::Schema;
use crate::seeded::{Rng, Round, seeds};
use crate::wild;

const ROUNDS: u64 = 2;
const FORMS: usize = 100;
const PAGES: &[&str] = &[
    "/",
    "/board",
    "/tasks/new",
    "/mail",
    "/jobs",
    "/knowledge",
    "/agents",
    "/plans",
    "/settings",
    "/graph",
    "/audit",
    "/decisions",
    "/stats",
    "/search?q=a",
];
/// Values of the field that names the next page. A browser would follow each of them to another site, or to nothing.
const ELSEWHERE: &[&str] = &[
    "https://elsewhere.example/",
    "//elsewhere.example",
    "/\\elsewhere.example",
    "/\t/elsewhere.example",
    "/a\r\nb",
    "\0",
];
/// Forms that end what the test stands on: the session, and the right to come in without a token.
const NOT_SENT: &[&str] = &["/logout", "/settings/token", "/settings/restart"];

/// A form as a page shows it.
#[derive(Clone, Debug)]
struct Form {
    action: String,
    is_post: bool,
    /// Names, each with the values that the page offers for it.
    fields: Vec<(String, Vec<String>)>,
}

struct Reader {
    agent: Agent,
    server: Server,
    cookie: String,
}

#[test]
fn forms_on_sqlite() {
    fill_in(Ground::new(None));
}

#[test]
fn forms_on_postgres() {
    let Some(schema) = Schema::new() else { return };
    fill_in(Ground::new(Some(schema)));
}

fn fill_in(ground: Ground) {
    for number in 0..6 {
        ground.ok(&["task", "add", &format!("Task {number}"), "--check", "true"]);
    }
    let (server, errors) = serve(&ground);
    let mut watched = Watched::new(server.child.id(), &errors);
    let code = ground.ok(&["open"]);
    let agent = patient_agent();
    let opened = agent.get(code.trim()).call().unwrap();
    let cookie =
        opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let reader = Reader { agent, server, cookie };
    for page in PAGES {
        reader.page(page);
        watched.answered();
    }
    watched.is_warm();
    let (mut sent, mut carried_out) = (0, 0);
    for seed in seeds(ROUNDS) {
        let _round = Round(seed);
        let mut rng = Rng::of(seed);
        for _ in 0..FORMS {
            let Some(form) = reader.any_form(&mut rng) else { continue };
            let fields = spoiled(&mut rng, &form.fields);
            let status = reader.send(&form, &fields);
            watched.answered();
            sent += 1;
            carried_out += u64::from(status < 400);
        }
        watched.judge_words();
    }
    eprintln!("{sent} forms, {carried_out} carried out");
    assert!(carried_out * 4 > sent, "{carried_out} of {sent} forms were carried out");
    for page in PAGES {
        reader.page(page);
    }
    watched.judge(sent);
    ground.judge_store();
}

impl Reader {
    fn page(&self, path: &str) -> String {
        let request =
            self.agent.get(format!("{}{path}", self.server.url)).header("Cookie", &self.cookie);
        let mut answer = request
            .header("Accept", "text/html")
            .call()
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        assert!(status < 500, "{status} for {path}: {text}");
        text
    }

    /// A form of a task, of any other page, or of a page that one leads to.
    fn any_form(&self, rng: &mut Rng) -> Option<Form> {
        let mut text = self.page(rng.name(PAGES));
        // The verbs of a task are most of the forms there are.
        if rng.percent(50) {
            let board = self.page("/board");
            let tasks: Vec<&str> = attributes(&board, "href")
                .filter(|link| link.starts_with("/tasks/") && !link.contains(['#', '?']))
                .collect();
            if !tasks.is_empty() {
                text = self.page(&plain(tasks[rng.below(tasks.len())]));
            }
        }
        for _ in 0..rng.below(2) {
            let links: Vec<&str> =
                attributes(&text, "href").filter(|link| link.starts_with('/')).collect();
            if links.is_empty() {
                break;
            }
            let next = plain(links[rng.below(links.len())]);
            // A stream of events has no end, and what is exported is no page.
            if !next.starts_with("/events") && !next.starts_with("/audit.ndjson") {
                text = self.page(&next);
            }
        }
        let is_sent = |form: &Form| !NOT_SENT.iter().any(|not| form.action.starts_with(not));
        let mut forms: Vec<Form> = forms(&text).into_iter().filter(is_sent).collect();
        // Every page has the form of the search.
        if forms.len() > 1 && rng.percent(95) {
            forms.retain(|form| form.action != "/search");
        }
        (!forms.is_empty()).then(|| rng.pick(&forms).clone())
    }

    fn send(&self, form: &Form, fields: &[(String, String)]) -> u16 {
        let pairs: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}={}", quoted(name), quoted(value)))
            .collect();
        let (url, pairs) = (format!("{}{}", self.server.url, form.action), pairs.join("&"));
        let mut answer = if form.is_post {
            let request = self
                .agent
                .post(&url)
                .header("Cookie", &self.cookie)
                .header("Sec-Fetch-Site", "same-origin");
            request.header("Content-Type", "application/x-www-form-urlencoded").send(&pairs)
        } else {
            // A browser sends no longer address, either.
            let pairs: String = pairs.chars().take(8_000).collect();
            let mark = if url.contains('?') { '&' } else { '?' };
            self.agent.get(format!("{url}{mark}{pairs}")).header("Cookie", &self.cookie).call()
        }
        .unwrap_or_else(|error| panic!("{error}: {form:?} with {fields:?}"));
        let status = answer.status().as_u16();
        if status >= 500 {
            let text = answer.body_mut().read_to_string().unwrap_or_default();
            let fields: String = format!("{fields:?}").chars().take(3_000).collect();
            panic!("{status} for {} with {fields}: {text}", form.action);
        }
        if let Some(next) = answer.headers().get("location") {
            let next = String::from_utf8_lossy(next.as_bytes());
            let is_here = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
            assert!(is_here, "{} with {fields:?} leads to {next}", form.action);
        }
        status
    }
}

/// The fields of a form, some of them wild, left out or twice.
fn spoiled(rng: &mut Rng, fields: &[(String, Vec<String>)]) -> Vec<(String, String)> {
    let wild = *rng.pick(&[0, 0, 20, 60]);
    let mut sent = Vec::new();
    for (name, values) in fields {
        let value = match rng.pick(values).as_str() {
            _ if rng.percent(wild) => wild::text(rng),
            "" => rng.name(&["", "some words", "x", "w2", "main", "1"]).to_owned(),
            value => value.to_owned(),
        };
        let times = if wild > 0 && rng.percent(10) { rng.below(3) } else { 1 };
        sent.extend(std::iter::repeat_n((name.clone(), value), times));
    }
    // Many forms read this field, and few pages offer it.
    if rng.percent(30) {
        sent.retain(|(name, _)| name != "next");
        sent.push(("next".to_owned(), rng.name(ELSEWHERE).to_owned()));
    }
    if rng.percent(wild / 4) {
        sent.push((wild::short(rng), wild::text(rng)));
    }
    sent
}

/// The forms of a page.
fn forms(page: &str) -> Vec<Form> {
    let parts =
        page.split("<form").skip(1).map(|part| part.split("</form").next().unwrap_or_default());
    parts.filter_map(form).collect()
}

fn form(part: &str) -> Option<Form> {
    let head = part.split('>').next().unwrap_or_default();
    let action = plain(attributes(head, "action").next()?);
    let mut fields: Vec<(String, Vec<String>)> = Vec::new();
    for tag in part.split('<').map(|tag| tag.split('>').next().unwrap_or_default()) {
        let value = attributes(tag, "value").next().map(plain).unwrap_or_default();
        let is_field =
            ["input", "textarea", "select", "button"].iter().any(|kind| tag.starts_with(kind));
        match attributes(tag, "name").next().map(plain) {
            // Radio buttons and buttons share a name; one of them is sent.
            Some(name) if is_field => match fields.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => fields.push((name, vec![value])),
            },
            // The empty value of a list of choices stands for its first one.
            None if tag.starts_with("option") => {
                if let Some((_, values)) = fields.last_mut() {
                    values.retain(|known| !known.is_empty());
                    values.push(value);
                }
            }
            _ => {}
        }
    }
    let is_post = head.contains("method=\"post\"");
    action.starts_with('/').then_some(Form { action, is_post, fields })
}

/// The values of an attribute, as they are written.
fn attributes<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let key = format!(" {name}=\"");
    let starts: Vec<usize> = text.match_indices(&key).map(|(at, key)| at + key.len()).collect();
    starts.into_iter().filter_map(|start| text[start..].split('"').next())
}

fn plain(text: &str) -> String {
    text.replace("&amp;", "&")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
}

fn quoted(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

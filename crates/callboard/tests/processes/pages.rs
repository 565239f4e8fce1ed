//! Page sessions: who acts on the pages of a server, which credentials a browser needs, and which users of the machine
//! are answered at all.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Body;
use ureq::http::Response;

use crate::http::Server;
use crate::peer::{board, command};
use crate::tokens::token;
use crate::web::{HERE, cli, letter_id};

/// An unprivileged user that every system has.
const NOBODY: u32 = 65534;

pub fn browser() -> ureq::Agent {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    agent.build().into()
}

/// The address that `callboard open` prints.
pub fn code_address(folder: &Path) -> String {
    let opened = command(folder).env("USER", "ana").arg("open").output().unwrap();
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    String::from_utf8(opened.stdout).unwrap().trim().to_owned()
}

/// The cookie of an answer, as a browser sends it back.
pub fn cookie_of(response: &Response<Body>) -> String {
    let set = response.headers()["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

/// The cookie of a session that a person at the terminal opened.
pub fn session(folder: &Path) -> String {
    let opened = browser().get(code_address(folder)).call().unwrap();
    assert_eq!(opened.status(), 303);
    cookie_of(&opened)
}

/// The cookie of a session opened with a token.
pub fn session_of(server: &Server, token: &str) -> String {
    let form = browser().post(format!("{}/login", server.url));
    let entered = form.send_form([("token", token), ("next", "/")]).unwrap();
    assert_eq!(entered.status(), 303);
    cookie_of(&entered)
}

struct Site {
    server: Server,
    folder: tempfile::TempDir,
}

impl Site {
    fn start(settings: &[(&str, &str)]) -> Self {
        let folder = board();
        let mut serve = command(folder.path());
        serve.args(["serve", "--listen", "127.0.0.1:0"]).envs(settings.iter().copied());
        serve.stderr(std::process::Stdio::null());
        let server = Server::over(serve);
        cli(folder.path(), &["agent", "add", "boss", "--type", "SUPERVISOR"]);
        Self { server, folder }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn port(&self) -> &str {
        self.server.url.rsplit_once(':').unwrap().1
    }

    fn get(&self, path: &str, header: (&str, &str)) -> Response<Body> {
        let request = browser().get(format!("{}{path}", self.server.url));
        request.header("Accept", "text/html").header(header.0, header.1).call().unwrap()
    }

    fn page(&self, path: &str, cookie: &str) -> (u16, String) {
        let mut page = self.get(path, ("Cookie", cookie));
        (page.status().as_u16(), page.body_mut().read_to_string().unwrap())
    }

    /// Sends mail to the agent `boss` with the form of the page.
    fn send(&self, path: &str, headers: &[(&str, &str)], mail: &str) -> (u16, String) {
        let mut request = browser().post(format!("{}{path}", self.server.url));
        for (name, value) in headers.iter().chain([&HERE]) {
            request = request.header(*name, *value);
        }
        let letter = [("mail", mail), ("to", "boss"), ("subject", "s"), ("body", "b")];
        let mut answer = request.send_form(letter).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }

    fn inbox(&self) -> Value {
        cli(self.folder(), &["--actor", "agent:boss", "mail", "list"])["items"].clone()
    }
}

#[test]
fn a_form_without_a_page_session_changes_nothing() {
    let site = Site::start(&[]);
    let cookie = session(site.folder());
    let mail = letter_id(&site.page("/mail?to=", &cookie).1);
    for headers in [
        &[][..],
        // Credentials that an agent on this machine could try.
        &[("Authorization", "Bearer cb_of_a_run")],
        &[("Cookie", "callboard_token=x")],
    ] {
        for path in ["/mail", "/mail?actor=human:ana"] {
            let (status, page) = site.send(path, headers, &mail);
            assert_eq!(status, 403, "{path} {headers:?}: {page}");
            assert!(page.contains("callboard open"), "{page}");
        }
    }
    assert_eq!(site.inbox(), json!([]));
    for path in ["/", "/mail", "/agents", "/decisions"] {
        let (status, page) = site.page(path, "");
        assert_eq!(status, 200, "reading needs no session");
        assert!(
            !page.contains("method=\"post\"") && page.contains("callboard open"),
            "{path}: {page}"
        );
        assert!(!page.contains("#write"), "{path}: {page}");
        let (_, page) = site.page(path, &cookie);
        assert!(page.contains("human:ana") && page.contains("Sign out"), "{path}: {page}");
        assert!(!page.contains("callboard open"), "{path}: {page}");
    }
    let (status, _) = site.send("/mail?actor=agent:boss", &[("Cookie", &cookie)], &mail);
    assert_eq!(status, 303);
    let log = command(site.folder()).args(["log", "--json"]).output().unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    let sent = log.lines().chain(log.split("},{")).find(|part| part.contains("mail.sent"));
    assert!(sent.is_some_and(|sent| sent.contains("human:ana")), "{log}");
}

#[test]
fn a_code_opens_one_session() {
    let site = Site::start(&[]);
    let address = code_address(site.folder());
    assert!(address.starts_with(&format!("{}/open?code=", site.server.url)), "{address}");
    let code = address.rsplit_once('=').unwrap().1;
    assert_eq!(code.len(), 52, "256 bits");
    let looked = browser().head(&address).call().unwrap();
    assert_eq!(looked.status(), 405, "a look at the address uses nothing up");

    let opened = browser().get(&address).call().unwrap();
    assert_eq!(
        (opened.status().as_u16(), &opened.headers()["location"]),
        (303, &"/".parse().unwrap())
    );
    let header = |name: &str| opened.headers()[name].to_str().unwrap();
    assert_eq!((header("referrer-policy"), header("cache-control")), ("no-referrer", "no-store"));
    let set = header("set-cookie");
    assert!(set.starts_with(&format!("callboard_session_{}=", site.port())), "{set}");
    for word in ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
        assert!(set.contains(word), "{set}");
    }
    assert!(!set.contains("Secure") && !set.contains(code), "{set}");
    let mut all = opened.headers().get_all("set-cookie").iter();
    let former = all.next_back().unwrap().to_str().unwrap();
    assert_eq!(former, "callboard_token=; Path=/; Max-Age=0", "a token of earlier versions goes");
    let page = site.page("/", &cookie_of(&opened)).1;
    assert!(page.contains("human:ana"), "{page}");

    for wrong in [code, "", "nonsense"] {
        let mut refused = site.get(&format!("/open?code={wrong}"), HERE);
        assert_eq!(refused.status(), 401, "{wrong}");
        assert!(!refused.headers().contains_key("set-cookie"));
        assert_eq!(refused.headers()["referrer-policy"], "no-referrer");
        let page = refused.body_mut().read_to_string().unwrap();
        assert!(page.contains("works once") && page.contains("callboard open"), "{page}");
    }
    assert_eq!(site.get("/open", HERE).status(), 401);
    let database = std::fs::read(site.folder().join(".callboard/callboard.db")).unwrap();
    let kept = |text: &str| database.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(!kept(code), "the store has hashes");
}

#[test]
fn a_code_that_was_followed_from_another_site_leads_on_by_a_link() {
    let site = Site::start(&[]);
    let address = code_address(site.folder());
    let mut opened = browser().get(address).header("Sec-Fetch-Site", "cross-site").call().unwrap();
    assert_eq!(opened.status(), 200);
    assert!(site.page("/", &cookie_of(&opened)).1.contains("Sign out"));
    let page = opened.body_mut().read_to_string().unwrap();
    assert!(page.contains("<a href=\"/\">Open the board</a>"), "{page}");
}

#[test]
fn a_forwarded_page_has_a_secure_cookie() {
    let site = Site::start(&[]);
    let opened = browser().get(code_address(site.folder())).header("X-Forwarded-Proto", "https");
    let opened = opened.call().unwrap();
    assert!(opened.headers()["set-cookie"].to_str().unwrap().contains("; Secure"));
}

#[test]
fn a_page_session_opens_nothing_for_agents() {
    let site = Site::start(&[]);
    let (_, token) = token(
        site.folder(),
        &["--actor", "human:ana", "--scopes", "tasks:read,tasks:write,metrics:read"],
    );
    let cookie = session_of(&site.server, &token);
    let (_, id) = cookie.split_once('=').unwrap();
    assert!(!cookie.contains(&token) && !token.contains(id), "{cookie}");
    assert_eq!(site.page("/", &cookie).0, 200);
    assert_eq!(site.get("/metrics", ("Cookie", &cookie)).status(), 401);
    for path in ["/mcp", "/mcp/graph", "/mcp/execute"] {
        let post = |header: (&str, &str)| {
            let request = browser().post(format!("{}{path}", site.server.url));
            request.header(header.0, header.1).send_json(json!({})).unwrap().status().as_u16()
        };
        assert_eq!(post(("Cookie", &cookie)), 401, "{path}");
        assert_eq!(post(("Authorization", &format!("Bearer {id}"))), 401, "{path}");
    }
    for old in ["callboard_token", &format!("callboard_session_{}", site.port())] {
        assert_eq!(site.page("/", &format!("{old}={token}")).0, 401, "a token is no session");
    }
    // A person at the terminal needs no token for the pages.
    let (status, page) = site.page("/", &session(site.folder()));
    assert!(status == 200 && page.contains("human:ana"), "{page}");
}

#[test]
fn a_page_session_ends_with_its_token_and_when_somebody_signs_out() {
    let site = Site::start(&[]);
    let (id, token) = token(site.folder(), &["--actor", "human:ana"]);
    let [first, second] = [(), ()].map(|()| session_of(&site.server, &token));
    assert_ne!(first, second);
    let stream = |cookie: &str| {
        let answer = site.get("/events?after=0", ("Cookie", cookie));
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        answer.into_body().into_reader()
    };
    let until_cut = |mut stream: ureq::BodyReader<'static>| {
        let start = Instant::now();
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(start.elapsed() < Duration::from_secs(8), "it flowed on");
    };
    let flows = stream(&first);
    let logout = browser().post(format!("{}/logout", site.server.url)).header("Cookie", &first);
    let left = logout.send_empty().unwrap();
    assert!(left.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(site.page("/", &first).0, 401, "whoever kept the cookie has nothing");
    until_cut(flows);
    assert_eq!(site.page("/", &second).0, 200, "another session goes on");
    let flows = stream(&second);
    cli(site.folder(), &["token", "revoke", &id]);
    until_cut(flows);
    assert_eq!(site.page("/", &second).0, 401);
}

#[test]
fn pages_answer_under_a_name_of_their_own() {
    let site = Site::start(&[("CALLBOARD_WEB_HOST", "callboard.localhost")]);
    let name = format!("callboard.localhost:{}", site.port());
    let own = ("Host", name.as_str());
    let led = site.get("/mail?all=1", HERE);
    assert_eq!(led.status(), 307);
    assert_eq!(led.headers()["location"], format!("http://{name}/mail?all=1"));
    assert_eq!(site.get("/mail", own).status(), 200);
    assert_eq!(site.get("/events?after=x", own).status(), 400, "the stream's own refusal");
    let mut open = command(site.folder());
    open.arg("open").env("CALLBOARD_WEB_HOST", "callboard.localhost");
    let address = String::from_utf8(open.output().unwrap().stdout).unwrap();
    let path = address.trim().strip_prefix(&format!("http://{name}")).unwrap();
    let opened = site.get(path, own);
    assert_eq!(opened.status(), 303);
    let cookie = cookie_of(&opened);
    let mail = "mail-01890000000000000000000000";
    assert_eq!(site.send("/mail", &[("Cookie", &cookie)], mail).0, 403);
    for path in ["/mcp", "/mcp/graph", "/mcp/execute", "/metrics"] {
        assert_eq!(site.get(path, own).status(), 403, "{path}");
        assert_ne!(site.get(path, HERE).status(), 403, "{path}");
    }
    assert_eq!(site.get("/", ("Host", "other.localhost")).status(), 403);
}

/// Sends one request as another user of this machine; returns the answer.
fn asked_by(uid: u32, server: &Server, head: &str) -> String {
    let address = server.url.strip_prefix("http://").unwrap().replace(':', "/");
    let head = head.replace('\n', "\r\n");
    let script = "exec 3<>/dev/tcp/$1 && printf %s \"$2\" >&3 && cat <&3";
    let mut client = Command::new("bash");
    client.args(["-c", script, "client", &address, &head]).env_clear().current_dir("/");
    let Output { status, stdout, stderr } = client.uid(uid).gid(uid).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn head(path: &str, more: &str) -> String {
    let method = if path.starts_with("/mcp") || path == "/login" { "POST" } else { "GET" };
    let accept = "Accept: application/json, text/event-stream, text/html";
    format!(
        "{method} {path} HTTP/1.1\nHost: 127.0.0.1\n{accept}\nContent-Type: application/json\n\
         Content-Length: 0\nConnection: close\n{more}\n"
    )
}

#[test]
fn without_tokens_another_user_of_the_machine_is_refused() {
    let name = "pages::without_tokens_another_user_of_the_machine_is_refused";
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "skipped: {name}: only root can act as another user");
        return;
    }
    let site = Site::start(&[]);
    let code = code_address(site.folder());
    let code = code.strip_prefix(&site.server.url).unwrap();
    let paths =
        ["/", "/mail", "/mcp", "/mcp/graph?actor=human:ana", "/mcp/execute", "/events?after=x"];
    for path in paths.into_iter().chain(["/metrics", "/login", "/style.css", code]) {
        let said = asked_by(NOBODY, &site.server, &head(path, ""));
        assert!(said.starts_with("HTTP/1.1 403 "), "{path}: {said}");
        assert!(said.contains("callboard token add"), "{path}: {said}");
        let own = asked_by(0, &site.server, &head(path, ""));
        assert!(!own.starts_with("HTTP/1.1 403 "), "{path}: {own}");
        if path == code {
            assert!(own.starts_with("HTTP/1.1 303 "), "the other user did not use it up: {own}");
        }
    }
    for path in ["/livez", "/readyz"] {
        let said = asked_by(NOBODY, &site.server, &head(path, ""));
        assert!(said.starts_with("HTTP/1.1 200 "), "{path}: {said}");
    }
    // From the first token on a token identifies the caller; a code is for the user at the terminal alone.
    let (_, token) = token(site.folder(), &["--actor", "human:ana"]);
    let bearer = format!("Authorization: Bearer {token}\n");
    assert!(asked_by(NOBODY, &site.server, &head("/", "")).starts_with("HTTP/1.1 401 "));
    assert!(asked_by(NOBODY, &site.server, &head("/", &bearer)).starts_with("HTTP/1.1 200 "));
    let code = code_address(site.folder());
    let code = code.strip_prefix(&site.server.url).unwrap();
    let said = asked_by(NOBODY, &site.server, &head(code, ""));
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
}

#[test]
fn a_setting_lets_every_user_of_the_machine_in() {
    let name = "pages::a_setting_lets_every_user_of_the_machine_in";
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "skipped: {name}: only root can act as another user");
        return;
    }
    let site = Site::start(&[("CALLBOARD_HTTP_ANY_LOCAL_USER", "true")]);
    assert!(asked_by(NOBODY, &site.server, &head("/", "")).starts_with("HTTP/1.1 200 "));
    let (status, _) = site.send("/mail", &[], "mail-01890000000000000000000000");
    assert_eq!(status, 403, "forms need a session all the same");
}

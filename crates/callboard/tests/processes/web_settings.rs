//! The page of settings on a real server: doctor, settings, tokens, webhooks, and the choices of a browser.

use ureq::Body;
use ureq::http::Response;

use crate::pages::{browser, session_of};
use crate::peer::board;
use crate::tokens::token;
use crate::web::{HERE, cli};
use crate::web_record::Visitor;

impl Visitor {
    fn send(&self, path: &str, form: &[(&str, &str)]) -> Response<Body> {
        let request = browser().post(format!("{}{path}", self.server.url));
        let request = request.header("Cookie", &self.cookie).header(HERE.0, HERE.1);
        request.send_form(form.iter().copied()).unwrap()
    }

    fn sent(&self, path: &str, form: &[(&str, &str)]) -> (u16, String) {
        let mut answer = self.send(path, form);
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }
}

const AGENTS: &str = "general.max_concurrent_agents";

fn agents_max(folder: &std::path::Path) -> String {
    cli(folder, &["config", "get", AGENTS])["value"].to_string()
}

#[test]
fn a_maintainer_reads_health_and_changes_settings() {
    let folder = board();
    let folder = folder.path();
    let visitor = Visitor::of(folder);
    let page = visitor.page("/settings");
    for part in ["id=\"doctor\"", ">git<", ">database<", "looked 0 s ago", AGENTS, "not on PATH"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("open to this machine only"), "{page}");
    assert!(page.contains("Confined by") && page.contains("its own sandbox"), "{page}");
    assert_eq!(visitor.sent("/settings/update", &[(AGENTS, "5")]).0, 303);
    assert_eq!(agents_max(folder), "5");
    let page = visitor.page("/settings");
    assert!(page.contains("value=\"5\""), "{page}");
    let row =
        page.split(&format!("for=\"{AGENTS}\"")).nth(1).unwrap().split("</tr>").next().unwrap();
    assert!(row.contains("store, ") && row.contains("title=\"human:"), "{row}");
    assert!(row.contains(" s ago</time>"), "{row}");
    let other = page.split("general.").find(|part| part.contains("default")).unwrap();
    assert!(!other.contains("store, "), "{other}");
    let (status, page) = visitor.sent("/settings/update", &[(AGENTS, "99")]);
    assert_eq!(status, 400, "{page}");
    assert!(page.contains("role=\"alert\"") && page.contains("1..10"), "{page}");
    assert!(page.contains("value=\"99\""), "what was typed is kept: {page}");
    assert_eq!(agents_max(folder), "5", "a refused form changes nothing");
    assert_eq!(visitor.sent("/settings/look", &[]).0, 303);
    assert_eq!(visitor.sent("/settings/clients", &[]).0, 303);
    assert_eq!(visitor.sent("/settings/other", &[]).0, 400);
    let away = "/settings/redeliver/job_01j9x2k7m3n4p5q6r7s8t9v0wx";
    assert_eq!(visitor.sent(away, &[]).0, 404);
}

#[test]
fn a_browser_keeps_its_theme_and_keys() {
    let folder = board();
    let visitor = Visitor::of(folder.path());
    let answer = visitor.send("/settings/you", &[("theme", "dark"), ("keys", "off")]);
    assert_eq!(answer.status(), 303);
    let set: Vec<&str> =
        answer.headers().get_all("set-cookie").iter().map(|one| one.to_str().unwrap()).collect();
    assert!(set.iter().any(|one| one.starts_with("callboard_theme=dark;")), "{set:?}");
    let cookie = format!("{}; callboard_theme=dark; callboard_keys=off", visitor.cookie);
    let visitor = Visitor { cookie, ..visitor };
    let page = visitor.page("/settings");
    assert!(
        page.contains("data-theme=\"dark\"") && page.contains("<body data-keys=\"off\""),
        "{page}"
    );
    let odd = visitor.send("/settings/you", &[("theme", "x; Path=/evil")]);
    let is_odd = |one: &ureq::http::HeaderValue| one.to_str().unwrap().contains("evil");
    assert!(!odd.headers().get_all("set-cookie").iter().any(is_odd));
}

#[test]
fn tokens_are_shown_once_and_revoked() {
    let folder = board();
    let folder = folder.path();
    let visitor = Visitor::of(folder);
    let form = [("actor", "agent:ci-1"), ("profile", "viewer"), ("lives", "1d")];
    let (status, page) = visitor.sent("/settings/token", &form);
    assert_eq!(status, 200, "{page}");
    let start = page.find("cb_").expect("the token");
    let text = page[start..].split('<').next().unwrap().to_owned();
    let again = visitor.page("/settings");
    assert!(again.contains("ci-1") && !again.contains(&text), "{again}");
    for wrong in
        [[("actor", "<b>"), ("profile", "viewer")], [("actor", "agent:x"), ("profile", "god")]]
    {
        let (status, page) = visitor.sent("/settings/token", &wrong);
        assert_eq!(status, 400, "{page}");
        assert!(!page.contains("<b>"), "{page}");
    }
    let listed = cli(folder, &["token", "list"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "a refused form makes no token");
    let viewer = Visitor { cookie: session_of(&visitor.server, &text), ..visitor };
    let page = viewer.page("/settings");
    assert!(!page.contains("/settings/update") && !page.contains("Make a token"), "{page}");
    for (id, is_shown) in
        [("doctor", true), ("clients", true), ("you", true), ("general", false), ("tokens", false)]
    {
        assert_eq!(page.contains(&format!("id=\"{id}\"")), is_shown, "{id}: {page}");
    }
    for path in ["/settings/update", "/settings/token", "/settings/revoke"] {
        assert_eq!(viewer.sent(path, &[(AGENTS, "7")]).0, 403, "{path}");
    }
    assert_eq!(agents_max(folder), "3");
    let (_, admin) = token(folder, &["--actor", "human:ana", "--lane", "kagan_admin"]);
    let admin = Visitor { cookie: session_of(&viewer.server, &admin), ..viewer };
    let id = listed["items"][0]["id"].as_str().unwrap();
    assert_eq!(admin.sent("/settings/revoke", &[("id", id)]).0, 303);
    let listed = cli(folder, &["token", "list"]);
    let states: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["live", "revoked"]);
    assert_eq!(admin.sent("/settings/revoke", &[("id", "tok_x")]).0, 400);
}

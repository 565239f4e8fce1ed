//! The pages of jobs on a real server: the queue, the course of a run, its questions, its output and its files.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::agents::{FREE, Shop};
use crate::http::Server;
use crate::peer::command;
use crate::questions;
use crate::web::{HERE, Site, cli};

const HOSTILE: &str = "<script>alert(1)</script>";

/// A server of a shop that starts agents, or one that starts none.
fn site(shop: &Shop, starts: bool) -> Site {
    let mut serve = command(shop.board.path());
    serve.args(["serve", "--listen", "127.0.0.1:0"]).env(FREE.0, FREE.1).stderr(Stdio::null());
    if !starts {
        serve.arg("--no-runner");
    }
    Site::over(Server::over(serve)).opened(shop.board.path())
}

fn add(shop: &Shop) -> String {
    let made = cli(shop.board.path(), &["task", "add", &format!("Say {HOSTILE}")]);
    made["id"].as_str().unwrap().to_owned()
}

fn start(shop: &Shop, task: &str) -> String {
    let started: Value = cli(shop.board.path(), &["run", task]);
    started["job"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned()
}

/// The page of a job once it has these words.
fn until(site: &Site, path: &str, words: &str) -> String {
    loop {
        let page = site.get(path);
        assert_eq!(page.status, 200, "{}", page.text);
        if page.text.contains(words) {
            return page.text;
        }
        assert!(!page.text.contains("Failed"), "{}", page.text);
    }
}

/// Commits nothing itself, and ends as Claude Code does with `--output-format json`.
const PRICED: &str = r#"cat > /dev/null
echo hello > said.txt
printf '%s\n' '{"type":"result","result":"Said.\n<complete/>","total_cost_usd":0.0423,
"usage":{"input_tokens":10,"cache_read_input_tokens":12390,"output_tokens":70}}'
"#;

#[test]
fn a_run_shows_its_commits_its_tokens_and_its_cost() {
    let shop = Shop::open(None, PRICED);
    let settings = shop.at(".callboard/config.local.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{text}\noutput = \"json:result\"\n")).unwrap();
    let site = site(&shop, true);
    let task = add(&shop);
    let path = format!("/jobs/{}", start(&shop, &task));
    let page = until(&site, &path, "Review requested");
    assert!(page.contains("1 commit, with what the agent had not committed"), "{page}");
    assert!(page.contains("12 k read, 70 written") && page.contains("<dd>$0.04</dd>"), "{page}");
    for fact in
        ["<dt>Sandbox</dt>", "<dt>Limits</dt>", "<dt>Exit code</dt><dd>0</dd>", "CALLBOARD_JOB_ID"]
    {
        assert!(page.contains(fact), "{fact}: {page}");
    }
    // The run is over and the task in review: only the attempt still names the agent.
    let shown = cli(shop.board.path(), &["task", "show", &task]);
    let agent = shown["attempts"][0]["actor"].as_str().expect("an actor");
    assert!(site.get(&format!("/jobs?q=actor:{agent}")).text.contains(&path), "{agent}");
    assert!(!site.get("/jobs?q=actor:somebody").text.contains(&path));
    let agents = site.get("/agents").text;
    assert!(
        agents.contains("12 k tokens read, 70 written") && agents.contains("$0.04"),
        "{agents}"
    );
    let stats = site.get("/stats").text;
    assert!(stats.contains("1 of 1 runs reported it"), "{stats}");
    let log = cli(shop.board.path(), &["log", &task]).to_string();
    assert_eq!(log.matches("job.used").count(), 1, "{log}");
}

#[test]
fn a_queued_job_says_why_it_waits_and_is_canceled_and_queued_again() {
    let shop = Shop::open(None, "cat > /dev/null\n");
    let (first, second) = (add(&shop), add(&shop));
    let (job, next) = (start(&shop, &first), start(&shop, &second));
    let site = site(&shop, false);
    let list = site.get("/jobs").text;
    assert!(list.contains("&lt;script&gt;") && !list.contains(HOSTILE), "{list}");
    assert!(
        list.contains("Next in the queue.") && list.contains("Place 2 in the queue."),
        "{list}"
    );
    assert!(list.contains("No process starts agents on "), "{list}");
    assert!(list.contains(&format!("/jobs/{job}")) && list.contains("0 running, 2 queued"));
    assert!(site.get("/jobs?state=running").text.contains("No job is running"));

    let path = format!("/jobs/{job}");
    let page = site.get(&path).text;
    assert!(page.contains("Queued") && page.contains("Next in the queue."), "{page}");
    assert!(page.contains("Nothing is printed yet"), "{page}");
    let end = &job[job.len() - 8..];
    assert!(site.get(&format!("/jobs/{end}")).text.contains(&path), "an end of an id is enough");
    for missing in ["/jobs/zz", "/jobs/job_01k0v3e8xq7rjw2m5c9n4d6t0z", "/jobs/%3Cb%3E"] {
        assert_eq!(site.get(missing).status, 404, "{missing}");
    }
    assert_eq!(site.get(&format!("{path}/files/logs.txt")).status, 404);
    assert_eq!(site.get(&format!("{path}/files/..%2Fsecret")).status, 404);
    assert_eq!(site.get(&format!("{path}/files/check-1.txt")).status, 400);

    let state = |job: &str| cli(shop.board.path(), &["job", "show", job])["state"].clone();
    assert_eq!(site.post(&format!("{path}/explode"), HERE, &[]).status, 400);
    assert_eq!(site.post(&format!("{path}/answer"), HERE, &[("answer", "yes")]).status, 403);
    let foreign = ("Sec-Fetch-Site", "cross-site");
    assert_eq!(site.post(&format!("{path}/cancel"), foreign, &[]).status, 403);
    assert_eq!(state(&job), "QUEUED");
    let canceled = site.post(&format!("{path}/cancel"), HERE, &[]);
    assert_eq!((canceled.status, &*canceled.to), (303, &*path));
    assert_eq!((state(&job), state(&next)), ("CANCELED".into(), "QUEUED".into()));
    assert!(site.get(&path).text.contains("Run again"));
    assert!(site.get(&format!("/jobs/{next}")).text.contains("Next in the queue."));

    // A form that is sent twice queues one job.
    let twice = [0, 1].map(|_| site.post(&format!("{path}/again"), HERE, &[("once", "k1")]));
    assert_eq!((twice[0].status, &twice[0].to), (303, &twice[1].to));
    assert_ne!(twice[0].to, path);
    assert!(site.get(&twice[0].to).text.contains("Place 2 in the queue."));

    let local = site.left();
    assert!(!local.get(&twice[0].to).text.contains("method=\"post\""), "read only");
    assert_eq!(local.post(&format!("{}/cancel", twice[0].to), HERE, &[]).status, 403);
}

#[test]
fn an_agent_that_asks_is_answered_on_the_page_of_its_job() {
    let shop = questions::open(&["make one", "make two"]);
    let site = site(&shop, true);
    let task = add(&shop);
    let path = format!("/jobs/{}", start(&shop, &task));
    let page = until(&site, &path, "Allow once");
    assert!(page.contains("May it run <code>make one</code>?"), "{page}");
    assert!(page.contains("Worktree and start of the agent") && page.contains("Question 1, asks"));
    assert!(site.get("/jobs").text.contains("1 asking"));
    let answer = format!("{path}/answer");
    let unsure = [("number", "1"), ("answer", "perhaps")];
    assert_eq!(site.post(&answer, HERE, &unsure).status, 400);
    let inbox = site.get("/").text;
    assert!(inbox.contains(&format!("action=\"{answer}\"")), "one form, two places: {inbox}");
    assert!(inbox.contains("name=\"next\" value=\"/\""), "{inbox}");
    let yes = [("number", "1"), ("answer", "yes")];
    let answered = site.post(&answer, HERE, &[yes[0], yes[1], ("next", "//evil.example/")]);
    assert_eq!((answered.status, &*answered.to), (303, "/"), "the way back stays on this site");
    let page = until(&site, &path, "May it run <code>make two</code>?");
    assert!(page.contains("Question 1, allowed"), "{page}");
    let late = site.post(&answer, HERE, &yes);
    assert_eq!(late.status, 403);
    assert!(late.text.contains("Nothing was changed"), "{}", late.text);
    let no = [("number", "2"), ("answer", "no"), ("next", "/?kind=question")];
    let answered = site.post(&answer, HERE, &no);
    assert_eq!((answered.status, &*answered.to), (303, "/?kind=question"));

    let page = until(&site, &path, "Succeeded");
    assert!(page.contains("Question 2, refused: <code>make two</code>"), "{page}");
    assert!(page.contains("Review requested") && page.contains("Told yes no"), "{page}");
    let log = site.get(&format!("{path}/files/logs.txt"));
    assert!(log.text.contains("[granted] Try it"), "{}", log.text);
    let facts = site.get("/jobs?state=succeeded").text;
    assert!(facts.contains(&path), "{facts}");
}

#[test]
fn the_output_of_an_agent_is_plain_text_and_a_download() {
    let script = format!(
        "cat > /dev/null\nprintf '\\033[31m{HOSTILE}\\033[0m\\n'\necho hello > hello.txt\necho '<complete/>'\n"
    );
    let shop = Shop::open(None, &script);
    let task = add(&shop);
    let mut run = command(shop.board.path());
    run.args(["run", &task, "--here"]).env(FREE.0, FREE.1);
    assert!(run.output().unwrap().status.success());
    let site = site(&shop, false);
    let jobs = cli(shop.board.path(), &["job", "list"])["works"].clone();
    let path = format!("/jobs/{}", jobs[0]["id"].as_str().unwrap());
    let page = site.get(&path).text;
    assert!(
        page.contains("<span class=\"text\">&lt;script&gt;alert(1)&lt;/script&gt;</span>"),
        "{page}"
    );
    assert!(!page.contains(HOSTILE) && !page.contains('\u{1b}'), "{page}");
    let request = site.agent.get(format!("{}{path}/files/logs.txt", site.server.url));
    let mut file = request.header("Cookie", &site.cookie).call().unwrap();
    assert_eq!(file.headers()["content-disposition"], "attachment");
    assert_eq!(file.headers()["x-content-type-options"], "nosniff");
    assert!(file.headers()["content-type"].to_str().unwrap().starts_with("text/plain"));
    assert!(file.body_mut().read_to_string().unwrap().contains(HOSTILE));
}

#[test]
fn a_step_of_a_check_leads_to_its_log() {
    let script = "cat > /dev/null\necho hello > hello.txt\necho '<complete/>'\n";
    let shop = Shop::open(None, script);
    let at = shop.board.path();
    let made = cli(at, &["task", "add", "Checked", "--check", "echo 'checked <b>'; exit 3"]);
    let task = made["id"].as_str().unwrap();
    let mut run = command(at);
    run.args(["run", task, "--here"]).env(FREE.0, FREE.1);
    run.output().unwrap();
    command(at).args(["check", "run", task]).output().unwrap();
    let site = site(&shop, false);
    let jobs = cli(at, &["job", "list"])["works"].clone();
    let path = format!("/jobs/{}", jobs[0]["id"].as_str().unwrap());
    let page = site.get(&format!("{path}?step=check-1"));
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("checked &lt;b&gt;</span>"), "{}", page.text);
    assert!(!page.text.contains("checked <b>"), "{}", page.text);
    let raw = format!("{path}/files/check-1.txt");
    assert!(page.text.contains(&format!("href=\"{raw}\" download")), "{}", page.text);
    assert!(site.get(&raw).text.contains("checked <b>"));
    assert_eq!(site.get(&format!("{path}/files/check-2.txt")).status, 400);

    // A task that is removed takes its checks along; its job is still shown.
    cli(at, &["task", "rm", task]);
    let left = site.get(&format!("{path}?step=check-1"));
    assert_eq!(left.status, 200, "{}", left.text);
    assert!(left.text.contains("was removed, and its checks with it"), "{}", left.text);
}

/// A job whose agent printed this many lines, of which every thousandth reports a failure.
fn printed(shop: &Shop, lines: usize) -> (Site, String) {
    let task = add(shop);
    let mut run = command(shop.board.path());
    run.args(["run", &task, "--here"]).env(FREE.0, FREE.1);
    assert!(run.output().unwrap().status.success(), "{lines} lines");
    let site = site(shop, false);
    let jobs = cli(shop.board.path(), &["job", "list"])["works"].clone();
    let path = format!("/jobs/{}", jobs[0]["id"].as_str().unwrap());
    (site, path)
}

fn talker(lines: usize) -> String {
    format!(
        "cat > /dev/null\nawk 'BEGIN {{ for (n = 1; n <= {lines}; n++) print \"line \" n (n % 1000 ? \"\" : \" error\") }}'\n\
         echo hello > hello.txt\necho '<complete/>'\n"
    )
}

#[test]
fn a_long_log_is_read_by_windows() {
    const LINES: usize = 100_000;
    let shop = Shop::open(None, &talker(LINES));
    let (site, path) = printed(&shop, LINES);
    let shown = |query: &str| {
        let page = site.get(&format!("{path}{query}"));
        assert_eq!(page.status, 200, "{}", page.text);
        page.text
    };
    let lines = |page: &str| page.matches("<li id=\"l").count();
    let last = shown("");
    assert_eq!(lines(&last), 500);
    // Lines of 60 bytes and their markup; the whole log would be megabytes.
    assert!(last.len() < 150_000, "{} bytes", last.len());
    let total = last.split(" of 1").nth(1).unwrap().split('.').next().unwrap();
    let total: usize = format!("1{total}").parse().unwrap();
    assert!(total >= LINES, "{total}");
    let early = shown("?step=agent&lines=201-700");
    assert!(early.contains(&format!("Lines 201 to 700 of {total}.")) && lines(&early) == 500);
    assert!(early.contains("?step=agent&amp;lines=1-200\">Older lines"), "{early}");
    assert!(early.contains("?step=agent&amp;lines=701-1200\">Newer lines"), "{early}");
    let words = shown("?words=1");
    assert!(words.contains("Agent's words") && !words.contains("callboard: job_"), "{words}");
    let errors = shown("?errors=1");
    assert!(errors.contains(" error</span>") && lines(&errors) <= LINES / 1000 + 10);
    let found = shown("?find=LINE+4242+");
    assert!(lines(&found) == 0 && found.contains("Show all lines"), "{found}");
    let found = shown("?find=LINE+42420");
    assert!(found.contains("<mark>line 42420</mark>") && lines(&found) == 1, "{found}");
    assert!(shown("?lines=x&step=check-9&run=z").contains("has no check 9"));
}

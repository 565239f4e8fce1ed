//! The whole loop with the real program: a plan, agents in parallel worktrees, a conflict, a rejection that the next
//! run reads, everything merged; the person's open work stays as it is.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::peer::{Peer, board, clean, command};

/// Writes its task's text into a file, and into another file after a review said so.
const AGENT: &str = r#"prompt=$(cat)
case "$prompt" in
*"Write one"*) echo one > one.txt ;;
*"Write two"*) echo two > shared.txt ;;
*"Put it into three.txt"*) git rm -q -f shared.txt && echo three > three.txt ;;
*"Write three"*) echo three > shared.txt ;;
*) exit 3 ;;
esac
git add -A && git commit -qm work || exit 4
echo 'It is written.'
echo '<complete/>'
"#;

pub struct Shop {
    pub board: tempfile::TempDir,
}

impl Shop {
    /// A repository whose executor `mine` runs this script.
    pub fn open(agent: &str) -> Self {
        let shop = Self { board: board() };
        shop.write("mine.txt", "committed\n");
        shop.git(&["init", "-q", "-b", "main"]);
        shop.git(&["config", "user.name", "ana"]);
        shop.git(&["config", "user.email", "ana@example.org"]);
        shop.git(&["add", "mine.txt"]);
        shop.git(&["commit", "-q", "-m", "first"]);
        shop.write("agent.sh", agent);
        let words = format!("[\"sh\", {:?}]", shop.at("agent.sh"));
        let settings = format!(
            "[general]\nauto_review = false\n\n\
             [executors.mine]\ncommand = {words}\nwrite_command = {words}\n"
        );
        shop.write(".callboard/config.local.toml", &settings);
        shop
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.board.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        clean(&mut git, self.board.path());
        let done = git.args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        command(self.board.path()).args(arguments).output().unwrap()
    }

    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.ask(arguments);
        let words = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{arguments:?}: {words}");
        String::from_utf8(ran.stdout).unwrap()
    }

    pub fn run(&self, task: &str) -> Child {
        let mut run = command(self.board.path());
        run.args(["run", task, "--agent", "mine", "--wait"]);
        run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Expects the run of an agent to hand its work over.
    pub fn runs(&self, running: Child) {
        let ran = running.wait_with_output().unwrap();
        let words = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{words}");
        assert!(String::from_utf8_lossy(&ran.stdout).contains("in_review"), "{ran:?}");
        assert!(words.ends_with("the agent has ended\n"), "{words}");
    }
}

#[test]
fn a_plan_becomes_commits() {
    let shop = Shop::open(AGENT);
    let mut mcp = command(shop.board.path());
    mcp.args(["mcp", "--toolsets", "board", "--actor", "agent:boss"]);
    let mut boss = Peer::over(mcp);
    boss.hello();
    let tasks = json!([{"title": "Write one", "type": "AUTO"}, {"title": "Write two", "type": "AUTO"},
        {"title": "Write three", "type": "AUTO"}]);
    let plan = boss.call("propose_plan", json!({"tasks": tasks})).unwrap();
    let made = shop.ok(&["plan", "approve", plan["plan_id"].as_str().unwrap()]);
    let made: Vec<&str> = made.lines().collect();
    let [one, two, three] = made[..] else { panic!("three tasks: {made:?}") };
    for task in [two, three] {
        shop.ok(&["task", "dep", "add", task, one]);
        let early = shop.ask(&["run", task, "--agent", "mine"]);
        assert_eq!(early.status.code(), Some(6), "what it waits for is open");
    }
    shop.git(&["switch", "-q", "-c", "mine"]);
    shop.write("mine.txt", "not committed\n");

    shop.runs(shop.run(one));
    shop.ok(&["approve", one, "--merge"]);
    let side_by_side = [two, three].map(|task| shop.run(task));
    side_by_side.into_iter().for_each(|running| shop.runs(running));
    let waiting: Value = serde_json::from_str(&shop.ok(&["review", "--json"])).unwrap();
    assert_eq!(waiting["items"].as_array().map(Vec::len), Some(2), "{waiting}");
    assert!(shop.ok(&["diff", three]).contains("+three\n"));
    shop.ok(&["approve", two, "--merge"]);
    let conflict = shop.ask(&["approve", three, "--merge"]);
    let words = String::from_utf8_lossy(&conflict.stderr).into_owned();
    assert_eq!(conflict.status.code(), Some(5), "{words}");
    assert!(words.contains("shared.txt"), "{words}");
    shop.ok(&["reject", three, "-m", "Put it into three.txt"]);
    shop.runs(shop.run(three));
    shop.ok(&["approve", three, "--merge"]);

    let said = shop.git(&["log", "--format=%s", "main"]);
    let titles: Vec<&str> = said.lines().filter_map(|line| line.split(" (").next()).collect();
    assert_eq!(titles, ["Write three", "Write two", "Write one", "first"]);
    for (file, text) in [("one.txt", "one\n"), ("shared.txt", "two\n"), ("three.txt", "three\n")] {
        assert_eq!(shop.git(&["show", &format!("main:{file}")]), text);
    }
    assert_eq!(shop.git(&["branch", "--show-current"]), "mine\n");
    assert_eq!(fs::read_to_string(shop.at("mine.txt")).unwrap(), "not committed\n");
    assert_eq!(shop.git(&["status", "--short", "-uno"]), " M mine.txt\n");
}

//! Agents that work in a task's own worktree: they write and commit there and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_engine::ports::{DoorKey, WorkCall, WorkReport, Worked, Workers, Worktree};
use callboard_runner::{AgentSettings, ExecutorSettings, LocalAgents, SandboxMode};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, Nobody};
use crate::fixture::git_in;

pub fn worktree(bed: &Bed) -> PathBuf {
    let path = bed.repo.path.join(".callboard/worktrees/T1");
    let shown = path.display().to_string();
    bed.repo.git(&["worktree", "add", "-q", "-b", "callboard/T1", &shown]);
    path
}

/// Our record of a worktree.
fn of(folder: &Path) -> Worktree {
    let repo = folder.ancestors().nth(3).expect("the repository").to_owned();
    Worktree { repo, path: folder.to_owned(), branch: "callboard/T1".into() }
}

pub fn call(folder: PathBuf) -> WorkCall {
    WorkCall {
        job: "job_01".into(),
        attempt: 1,
        executor: "script".into(),
        model: String::new(),
        prompt: "Do it.\n".into(),
        worktrees: vec![of(&folder)],
        folder,
        variables: vec![("CALLBOARD_TASK_ID".into(), "T1".into())],
        ports: None,
        door: None,
        timeout: Duration::from_secs(30),
        terminal: None,
    }
}

/// Whether the agent was seen at work, and its report.
pub async fn work(settings: AgentSettings, call: WorkCall) -> (bool, WorkReport) {
    let (up, seen) = oneshot::channel();
    let agents = LocalAgents::new(settings);
    let (printed, _) = watch::channel(String::new());
    let stop = CancellationToken::new();
    let (_says, hears) = mpsc::channel(1);
    let report = agents.work(call, up, printed, Arc::new(Nobody), hears, stop).await;
    (seen.await.is_ok(), report)
}

#[tokio::test]
async fn it_commits_in_its_worktree_and_nobody_elses_files_change() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let before = bed.repo.git(&["rev-parse", "main"]);
    let agent = bed.script(
        "cat > asked; echo \"$CALLBOARD_TASK_ID\" >> a.txt; git add a.txt && git commit -qm work || exit 1
        echo stray > \"$BED/../stray-$$\" 2>/dev/null && echo stray
        git update-ref refs/heads/main HEAD 2>/dev/null && echo moved
        echo '<complete/>'",
    );
    let (was_up, report) = work(bed.settings(agent), call(folder.clone())).await;
    assert!(was_up, "{}", report.logs);
    assert_eq!(report.end, Worked::Replied("<complete/>\n".into()), "{}", report.logs);
    assert_eq!(git_in(&folder, &["log", "-1", "--format=%s"]).trim(), "work");
    assert_eq!(fs::read_to_string(folder.join("a.txt")).expect("reads"), "one\nT1\n");
    assert_eq!(fs::read_to_string(folder.join("asked")).expect("reads"), "Do it.\n");
    assert_eq!(bed.repo.git(&["rev-parse", "main"]), before);
    assert_eq!(bed.repo.read("a.txt"), "one\n");
    assert!(bed.left_behind().is_empty());
}

/// An agent does not read git's message about a deletion that the sandbox prevents and a commit does not need.
#[tokio::test]
async fn a_commit_in_the_sandbox_says_nothing_of_a_lock() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    bed.repo.git(&["pack-refs", "--all"]);
    let own = git_in(&folder, &["rev-parse", "--path-format=absolute", "--git-dir"]);
    let own = PathBuf::from(own.trim());
    fs::write(own.join("AUTO_MERGE"), git_in(&folder, &["rev-parse", "HEAD^{tree}"]))
        .expect("writes");
    let agent = bed.script(
        "cat > /dev/null; echo two >> a.txt; git commit -qam two 2>&1 && echo committed
        echo three >> a.txt; git commit -qam \"it's three\" 2>&1
        git commit -qm nothing > /dev/null 2>&1; echo status $?
        git no-such-command 2>&1 | head -1 | cut -c 1-20
        echo in | git hash-object --stdin
        git config --get gc.auto; git config --get maintenance.auto",
    );
    let settings = AgentSettings { sandbox: SandboxMode::Os, ..bed.settings(agent) };
    let (_, report) = work(settings, call(folder.clone())).await;
    let reply = match &report.end {
        Worked::Replied(reply) => reply,
        // A kernel without Landlock.
        Worked::NotStarted(words) if words.contains("relay.sandbox = os") => return,
        _ => panic!("{}", report.logs),
    };
    let hash = "4935e88d323e7973308dd73cccf2837fc3c7de22";
    let said = ["committed", "status 1", "git: 'no-such-comman", hash, "0", "false"];
    assert_eq!(reply.lines().collect::<Vec<_>>(), said, "{}", report.logs);
    assert!(!own.join("AUTO_MERGE").exists());
    assert_eq!(git_in(&folder, &["log", "--format=%s"]).lines().next(), Some("it's three"));
}

/// Files of an earlier run in the worktree do not decide where the next run may write.
#[tokio::test]
async fn a_worktree_does_not_say_where_its_agent_writes() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let own = git_in(&folder, &["rev-parse", "--path-format=absolute", "--git-dir"]);
    let own = PathBuf::from(own.trim());
    let fake = folder.join("fake");
    fs::create_dir_all(fake.join("refs")).expect("folders");
    fs::create_dir_all(bed.file("victim")).expect("a folder");
    std::os::unix::fs::symlink(bed.file("victim"), fake.join("objects")).expect("a link");
    fs::write(fake.join("HEAD"), "ref: refs/heads/callboard/T1\n").expect("writes");
    fs::write(folder.join(".git"), format!("gitdir: {}\n", fake.display())).expect("writes");
    let head = fs::read(own.join("HEAD")).expect("reads");
    fs::write(own.join("HEAD"), "ref: refs/heads/T1\n").expect("writes");
    let agent = bed.script(
        "cat > /dev/null; echo x > \"$BED/victim/x\" && echo a victim
        echo x > \"$REFS/evil\" && echo a branch; echo tried",
    );
    let refs = bed.repo.path.join(".git/refs/heads").display().to_string();
    let settings = AgentSettings { sandbox: SandboxMode::Os, ..bed.settings(agent) };
    let mut tries = call(folder.clone());
    tries.variables.push(("REFS".into(), refs));
    let (_, report) = work(settings.clone(), tries.clone()).await;
    match &report.end {
        // A kernel without Landlock.
        Worked::NotStarted(words) if words.contains("relay.sandbox = os") => return,
        Worked::Replied(reply) => assert_eq!(reply, "tried\n", "{}", report.logs),
        _ => panic!("{}", report.logs),
    }
    assert!(!bed.file("victim/x").exists());
    // Nor do links in the folders that it may write.
    fs::write(own.join("HEAD"), head).expect("writes");
    let heads = bed.repo.path.join(".git/refs/heads/callboard");
    fs::remove_dir_all(heads.join("deep")).unwrap_or_default();
    std::os::unix::fs::symlink(bed.file("victim"), heads.join("deep")).expect("a link");
    tries.worktrees[0].branch = "callboard/deep/T1".into();
    let (_, report) = work(settings, tries).await;
    let is_refused = |words: &str| words.contains("is a link to another place");
    assert!(matches!(&report.end, Worked::NotStarted(words) if is_refused(words)), "{report:?}");
}

#[tokio::test]
async fn one_that_only_looks_writes_nowhere() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let agent = bed.script("cat > /dev/null; echo x > new 2>/dev/null && echo wrote; echo done");
    let looks = WorkCall { worktrees: Vec::new(), ..call(folder.clone()) };
    let (_, report) = work(bed.settings(agent), looks).await;
    assert_eq!(report.end, Worked::Replied("done\n".into()), "{}", report.logs);
    assert!(!folder.join("new").exists());
}

#[tokio::test]
async fn what_it_is_given_to_call_stands_in_a_file() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let script = "cat > /dev/null; cat \"$1\"; cat \"$CALLBOARD_TOKEN_FILE\" >&2";
    let file = bed.script(script).command[1].clone();
    let command: Vec<String> = ["sh", &file, "{mcp_config}"].map(str::to_owned).into();
    let agent = ExecutorSettings::command("script", command);
    let door = DoorKey { url: "http://127.0.0.1:1".into(), token: "cb_of_this_run".into() };
    let given = WorkCall { door: Some(door), ..call(folder) };
    let (_, report) = work(bed.settings(agent), given).await;
    let Worked::Replied(reply) = &report.end else { panic!("{}", report.logs) };
    let config: serde_json::Value = serde_json::from_str(reply).expect("JSON");
    let args = &config["mcpServers"]["callboard"]["args"];
    assert_eq!((&args[1], &args[2]), (&"--server".into(), &"http://127.0.0.1:1".into()));
    assert!(report.logs.contains("[CALLBOARD_TOKEN]"), "{}", report.logs);
    assert!(!report.logs.contains("cb_of_this_run"), "{}", report.logs);
}

/// Arguments and variables for the board are set in a run that has a board, and in no other.
#[tokio::test]
async fn an_agent_without_a_board_is_told_of_none() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let file = bed.script("cat > /dev/null; echo \"$* $BOARD ${HELD-unset}\"").command[1].clone();
    let args = ["sh", &file, "-v", "-c", "board={mcp_codex}", "end"];
    let mut agent = ExecutorSettings::command("script", args.map(str::to_owned).into());
    let set = [("BOARD", "{mcp_opencode}"), ("HELD", "{confined}")];
    agent.set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let unconfined =
        AgentSettings { sandbox: SandboxMode::Executor, ..bed.settings(agent.clone()) };
    let (_, report) = work(unconfined.clone(), call(folder.clone())).await;
    assert_eq!(report.end, Worked::Replied("-v end  unset\n".into()), "{}", report.logs);
    let door = DoorKey { url: "http://127.0.0.1:1".into(), token: "cb_of_this_run".into() };
    let given = WorkCall { door: Some(door), ..call(folder) };
    let (_, report) = work(unconfined, given).await;
    let Worked::Replied(reply) = &report.end else { panic!("{}", report.logs) };
    assert!(reply.starts_with("-v -c board={command="), "{reply}");
    assert!(reply.contains(r#"end {"mcp":{"callboard":{"#), "{reply}");
}

#[tokio::test]
async fn what_goes_wrong_is_told_apart() {
    let bed = Bed::new();
    let folder = worktree(&bed);
    let settings = |agent| AgentSettings { sandbox: SandboxMode::Executor, ..bed.settings(agent) };
    let unknown = WorkCall { executor: "nobody".into(), ..call(folder.clone()) };
    let (was_up, report) = work(settings(bed.script("exit 0")), unknown).await;
    assert!(!was_up);
    assert!(matches!(&report.end, Worked::NotStarted(words) if words.contains("'nobody'")));
    let (was_up, report) = work(settings(bed.script("exit 3")), call(folder.clone())).await;
    assert!(was_up);
    assert!(matches!(&report.end, Worked::Failed(words) if words.contains("code 3")));
    let broken = bed.script("exit 0").command[1].clone();
    fs::write(&broken, "#!/no/such/interpreter\n").expect("writes");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&broken, mode).expect("makes it a program");
    let agent = ExecutorSettings::command("script", vec![broken]);
    let (was_up, report) = work(settings(agent), call(folder.clone())).await;
    assert!(!was_up);
    assert!(matches!(&report.end, Worked::NotStarted(words) if words.contains("not found")));
    let late = WorkCall { timeout: Duration::from_millis(200), ..call(folder) };
    let (_, report) = work(settings(bed.script("sleep 600")), late).await;
    assert!(matches!(&report.end, Worked::Failed(words) if words.contains("Timeout")));
    assert!(report.logs.contains("Timeout"), "{}", report.logs);
}

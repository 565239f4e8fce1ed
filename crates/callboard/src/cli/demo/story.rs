//! Four tasks from a plan to main: each in a worktree, each with a check, one repaired, one sent back by a review.

use callboard_domain::ids::TaskId;
use callboard_engine::TaskDraft;
use serde_json::json;

use super::stage::{self, DemoSession, DemoTask, LineComment, Stage, YOU, command, manual};
use crate::output::Failure;

/// A file and its text.
type File = (&'static str, &'static str);

/// A task of the story: its title, its dependencies, its check and the file that does it.
struct StoryPart {
    title: &'static str,
    after: &'static [usize],
    check: &'static str,
    /// A check that a person attests.
    looked_at: Option<&'static str>,
    agent: &'static str,
    /// A first version, with which the check fails.
    wrong: Option<File>,
    file: File,
    /// The comments of a review that sends the task back, and the version that answers them.
    sent_back: Option<(&'static [LineComment], File)>,
}

const STORY: [StoryPart; 4] = [
    StoryPart {
        title: "Write greet.sh",
        after: &[],
        check: "sh greet.sh | grep -q hello",
        looked_at: None,
        agent: "agent:ada",
        wrong: Some(("greet.sh", "echo \"helo ${1:-world}\"\n")),
        file: ("greet.sh", "echo \"hello ${1:-world}\"\n"),
        sent_back: None,
    },
    StoryPart {
        title: "Test greet.sh with a name",
        after: &[0],
        check: "sh test.sh",
        looked_at: None,
        agent: "agent:bob",
        wrong: None,
        file: ("test.sh", "test \"$(sh greet.sh ana)\" = \"hello ana\"\n"),
        sent_back: Some((
            &[LineComment {
                path: "test.sh",
                line: 1,
                text: "Say what was expected when the test fails. The greeting without a name is not tested.",
            }],
            (
                "test.sh",
                "expect() {\n    test \"$1\" = \"$2\" || { echo \"expected '$2', got '$1'\"; exit 1; }\n}\n\
                 expect \"$(sh greet.sh ana)\" \"hello ana\"\n\
                 expect \"$(sh greet.sh)\" \"hello world\"\n",
            ),
        )),
    },
    StoryPart {
        title: "Explain it in the README",
        after: &[0],
        check: "grep -q greet.sh README.md",
        looked_at: Some("reads well"),
        agent: "agent:ada",
        wrong: None,
        file: ("README.md", "# Greetings\n\nRun `sh greet.sh NAME` and be greeted.\n"),
        sent_back: None,
    },
    StoryPart {
        title: "Write down the release",
        after: &[1, 2],
        check: "grep -q 1.0 CHANGES",
        looked_at: None,
        agent: "agent:bob",
        wrong: None,
        file: ("CHANGES", "1.0: it greets\n"),
        sent_back: None,
    },
];

pub(super) async fn tell(stage: &Stage, epic: TaskId) -> Result<(), Failure> {
    let mut made: Vec<DemoTask> = Vec::new();
    for part in &STORY {
        made.push(plan(stage, part, &made, epic).await?);
    }
    for (part, task) in STORY.iter().zip(&made) {
        work(stage, part, task).await?;
    }
    let closed = stage.call(YOU, "list", json!({"status": "done"})).await?;
    let count = closed["tasks"].as_array().map_or(0, Vec::len);
    let all = STORY.len();
    stage.out.line(&format!("{count} of {all} tasks are done, each with its checks passing"))
}

async fn plan(
    stage: &Stage,
    part: &StoryPart,
    made: &[DemoTask],
    epic: TaskId,
) -> Result<DemoTask, Failure> {
    let draft = TaskDraft {
        title: part.title.into(),
        parent: Some(epic),
        deps: part.after.iter().map(|index| made[*index].id).collect(),
        checks: [command(part.check)].into_iter().chain(part.looked_at.map(manual)).collect(),
        ..TaskDraft::default()
    };
    stage.add(draft).await
}

async fn work(stage: &Stage, part: &StoryPart, task: &DemoTask) -> Result<(), Failure> {
    let session = stage.begin(part.agent, task, 1).await?;
    if part.after.is_empty() {
        // Shows that a task cannot be closed just by saying "done".
        let early = json!({"id": task.id, "to": "done"});
        let refusal = stage.call(part.agent, "transition", early).await.err();
        let words = refusal.map_or("closed?".into(), |failure| failure.to_string());
        stage.say(part.agent, "transition", &words).await;
    }
    if let Some(wrong) = part.wrong {
        write(stage, part, &session, wrong).await?;
        run_checks(stage, part, task).await?;
    }
    hand_over(stage, part, task, &session, part.file).await?;
    if let Some((comments, file)) = part.sent_back {
        stage.send_back(task, "Nearly there.", comments).await?;
        let session = stage.begin(part.agent, task, 2).await?;
        hand_over(stage, part, task, &session, file).await?;
    }
    if let Some(looked_at) = part.looked_at {
        stage.step(YOU, "attest", json!({"id": task.id, "index": 1}), looked_at).await?;
    }
    let merge = json!({"task_id": task.id, "action": "merge"});
    stage.step(YOU, "review", merge, &format!("{} merged into main", task.name)).await?;
    Ok(())
}

async fn hand_over(
    stage: &Stage,
    part: &StoryPart,
    task: &DemoTask,
    session: &DemoSession,
    file: File,
) -> Result<(), Failure> {
    write(stage, part, session, file).await?;
    run_checks(stage, part, task).await?;
    let finish = json!({"session": session.id, "summary": format!("{} does it", file.0)});
    stage.step(part.agent, "finish", finish, part.title).await?;
    Ok(())
}

async fn write(
    stage: &Stage,
    part: &StoryPart,
    session: &DemoSession,
    file: File,
) -> Result<(), Failure> {
    let (name, text) = file;
    stage::write(&session.folder, name, text)?;
    let words = format!("wrote {name}");
    let beat = json!({"session": session.id, "progress": words});
    stage.step(part.agent, "heartbeat", beat, &words).await?;
    Ok(())
}

async fn run_checks(stage: &Stage, part: &StoryPart, task: &DemoTask) -> Result<(), Failure> {
    let ran = stage.call(part.agent, "run_checks", json!({"id": task.id})).await?;
    let result = ran["checks"][0]["result"].as_str().unwrap_or("unknown");
    stage.say(part.agent, "run_checks", &format!("{}: {result}", part.check)).await;
    Ok(())
}

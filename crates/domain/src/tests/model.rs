//! A world in memory: applies changes as a store would, and reads commands from lines of text.

use std::ops::{Deref, DerefMut};

use crate::actor::Actor;
use crate::board::card::{Card, Mode};
use crate::board::edit::{EditFields, EditMark};
use crate::board::project::ProjectRoom;
use crate::command::{
    AttemptBegin, Basis, CardUpdate, Checked, Command, CommentAdd, Found, JobEnd, KnowledgeStore,
    LeaseComplete, LeaseTarget, LeaseUpdate, NewCheck, ReviewDecide, ReviewOutcome, ReviewSends,
    ReviewSettle, ReviewVerdict, SessionBegin, TaskCreate, TaskEdit, TaskUpdate,
};
use crate::decide;
use crate::desk::{Desk, RunCounts, TaskRows};
use crate::ids::{AttemptId, Id, Prefix, TaskId};
use crate::knowledge::{EdgeKind, KnowledgeId, NewKnowledge};
use crate::needs::Needs;
use crate::policy::{Phase, Policy};
use crate::pulls::LOCAL;
use crate::refusal::Refusal;
use crate::review::mark::{ReviewMark, WorkRead};
use crate::runs::job::{JobId, JobKind, JobState};
use crate::runs::run::OpenRuns;
use crate::task::attempt::AttemptKind;
use crate::task::comment::{CommentId, CommentKind};
use crate::task::contract::{VerificationContract, VerificationKind};
use crate::task::{Check, Task, Verdict, VerdictSource};
use crate::time::Timestamp;
use crate::world::{Change, Write};

use super::pulls::merged_branch;

#[derive(Clone)]
pub struct Model {
    pub policy: Policy,
    /// Every row there is.
    pub desk: Desk,
    pub events: Vec<&'static str>,
    next: u128,
}

impl Deref for Model {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl DerefMut for Model {
    fn deref_mut(&mut self) -> &mut Desk {
        &mut self.desk
    }
}

pub fn task_named(name: &str) -> TaskId {
    let number = name.bytes().fold(0u128, |sum, byte| sum * 256 + u128::from(byte));
    TaskId { id: Id(number), prefix: Prefix::fallback() }
}

fn attempt_named(name: &str) -> AttemptId {
    AttemptId(Id(1 << 100 | task_named(name).id.0))
}

fn comment_named(name: &str) -> CommentId {
    CommentId(Id(1 << 101 | task_named(name).id.0))
}

/// The verify job that a task's completion queues.
fn job_named(name: &str) -> JobId {
    JobId(Id(1 << 102 | task_named(name).id.0))
}

fn kind_named(word: &str) -> VerificationKind {
    VerificationKind::ALL.into_iter().find(|kind| kind.as_str() == word).expect("a kind")
}

pub fn knowledge_named(name: &str) -> KnowledgeId {
    KnowledgeId(Id(1 << 103 | task_named(name).id.0))
}

pub fn actor(name: &str) -> Actor {
    let kind = match name {
        "ana" => "human",
        "relay" => "system",
        _ => "agent",
    };
    format!("{kind}:{name}").parse().expect("test names are actors")
}

impl Model {
    pub fn new(policy: Policy) -> Self {
        let now = Timestamp(1_000_000_000);
        let desk = Desk { now, ..Desk::default() };
        Self { policy, desk, events: Vec::new(), next: 0 }
    }

    pub fn act(&mut self, who: &str, command: &Command) -> Result<Change, Refusal> {
        let change = self.decided(who, command)?;
        self.carry_out(&change);
        Ok(change)
    }

    /// The answer of the rules; nothing is carried out.
    pub fn decided(&mut self, who: &str, command: &Command) -> Result<Change, Refusal> {
        let (who, policy) = (actor(who), self.policy.clone());
        self.fetch(&command.needs(&who));
        let world = self.desk.world(&policy, &who, command);
        decide(&world, command, self.now)
    }

    pub fn carry_out(&mut self, change: &Change) {
        for write in &change.writes {
            self.apply(write.clone());
        }
        self.events.extend(change.events.iter().map(|event| event.name.as_str()));
    }

    pub fn apply(&mut self, write: Write) {
        self.desk.apply(write).expect("every task is on the desk");
    }

    /// Counts and closures, which a store asks its database for.
    fn fetch(&mut self, needs: &Needs) {
        let rows = &mut self.desk.rows;
        let (mut open, mut here) = (OpenRuns::default(), 0);
        for run in rows.runs.values() {
            let job = &rows.jobs[&run.job];
            match job.state {
                JobState::Queued { .. } => open.queued += u32::from(job.kind == JobKind::Run),
                JobState::Running { .. } | JobState::Stale { .. } => {
                    open.running += u32::from(job.kind == JobKind::Run);
                    let is_here = needs.runs_on.as_ref().is_some_and(|(kind, machine)| {
                        job.kind == *kind && run.runs_on.as_ref() == Some(machine)
                    });
                    here += u32::from(is_here);
                }
                _ => {}
            }
        }
        let here = needs.runs_on.iter().map(|place| (place.clone(), here)).collect();
        rows.counts = RunCounts { open: Some(open), here };
        let own = rows.pulls.iter().filter(|pull| pull.forge == LOCAL);
        rows.pulls_last = own.map(|pull| pull.number).max().unwrap_or(0);
        let edges = |rows: &TaskRows| -> Vec<(TaskId, TaskId)> {
            rows.deps.iter().map(|(_, dep)| (rows.task.id, *dep)).collect()
        };
        rows.ancestry = rows.tasks.values().flat_map(edges).collect();
        let parent = |id: &TaskId| rows.tasks.get(id).and_then(|rows| rows.task.parent);
        let above = needs.above.as_ref().and_then(parent);
        rows.above = std::iter::successors(above, parent).collect();
        let number = rows.org.projects.len() as i64 + 1;
        rows.org.room = needs.org.room.map(|repos| ProjectRoom {
            project: number,
            repos: (0..repos as i64).map(|repo| number * 100 + repo).collect(),
            is_first: rows.org.projects.is_empty(),
        });
    }

    pub fn task(&self, name: &str) -> &Task {
        self.task_of(task_named(name))
    }

    pub fn task_of(&self, id: TaskId) -> &Task {
        &self.rows.tasks[&id].task
    }

    pub fn card(&self, name: &str) -> &Card {
        &self.rows.tasks[&task_named(name)].card
    }

    /// `begin A key=k1 takeover`: a verb, a name, options.
    pub fn command(&mut self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let (verb, name) = (words.next().expect("a verb"), words.next().unwrap_or(""));
        let rest: Vec<&str> = words.collect();
        let option = |key: &str| {
            rest.iter().find_map(|word| word.strip_prefix(&format!("{key}="))).map(str::to_owned)
        };
        let has = |word: &str| rest.contains(&word);
        let (task, attempt) = (task_named(name), attempt_named(name));
        let list = |key: &str| -> Vec<TaskId> {
            let names = option(key).unwrap_or_default();
            names.split(',').filter(|n| !n.is_empty()).map(task_named).collect()
        };
        match verb {
            "create" => Command::TaskCreate(TaskCreate {
                task,
                project: 1,
                reference: option("reference"),
                title: option("title").unwrap_or_else(|| name.into()),
                body: String::new(),
                priority: 500,
                parent: option("parent").as_deref().map(task_named),
                deps: list("deps"),
                checks: option("checks").unwrap_or_default().split(',').filter_map(check).collect(),
                verification: option("verify")
                    .map(|word| VerificationContract::of(kind_named(&word))),
                execution_contract: None,
                over_quota: None,
                card: Box::default(),
                phase: Phase::Initial,
                is_plan: false,
                notes: Vec::new(),
            }),
            "edit" => Command::TaskEdit(TaskEdit {
                task,
                title: option("title"),
                body: None,
                priority: None,
                checks: None,
            }),
            "remove" => Command::TaskRemove { task },
            "card" => Command::CardUpdate(Box::new(CardUpdate {
                title: option("title"),
                mode: option("mode").map(|word| Mode::parse(&word).expect("a mode")),
                parent: option("parent")
                    .map(|name| Some(task_named(&name)).filter(|_| name != "-")),
                to: option("to").map(|word| Phase::parse(&word).expect("a phase")),
                checked: self.checked(task, &option("ran"), option("tree")),
                work: option("work"),
                shown: option("shown").map(|title| self.shown(task, title)),
                ..CardUpdate::of(task)
            })),
            "discard" => Command::CardRemove { task },
            "scribble" => {
                Command::ScratchpadAppend { task, text: option("text").unwrap_or_default() }
            }
            "ask" => {
                let summary = option("summary").unwrap_or_else(|| "did it".into());
                Command::ReviewRequest { task, summary }
            }
            "approve" | "reject" => Command::ReviewDecide(ReviewDecide {
                task,
                verdict: match verb {
                    "approve" => ReviewVerdict::Approve {
                        unmerged: has("unmerged"),
                        as_reviewer: !has("plainly"),
                    },
                    _ => ReviewVerdict::Reject {
                        to: if has("back") { Phase::Initial } else { Phase::Working },
                    },
                },
                feedback: option("feedback").unwrap_or_default(),
                checked: self.checked(task, &option("ran"), option("tree")),
                work: option("work"),
                sends: ReviewSends::default(),
                seen: review_seen(option("seen"), option("read")),
            }),
            "clear" => Command::ReviewClear {
                task,
                needs_approval: has("approved"),
                checked: self.checked(task, &option("ran"), option("tree")),
                work: option("work"),
                seen: review_seen(option("seen"), option("read")),
            },
            "merged" | "unmergeable" | "rebased" | "conflict" => {
                let files = vec!["a.rs".to_owned()];
                let outcome = match verb {
                    "merged" => ReviewOutcome::Merged {
                        commit: Some("c1".into()),
                        pushed: None,
                        branches: vec![merged_branch()],
                    },
                    "unmergeable" => ReviewOutcome::MergeFailed { files },
                    "rebased" => ReviewOutcome::Rebased,
                    _ => ReviewOutcome::RebaseConflict { files },
                };
                Command::ReviewSettle(ReviewSettle { task, outcome, words: "git".into() })
            }
            "pair" => Command::SessionBegin(SessionBegin {
                attempt: attempt_named(&option("as").unwrap_or_else(|| "pair".into())),
                task,
                agent: actor("pair"),
                worktree: None,
                branch: None,
            }),
            "unpair" => Command::SessionEnd { task },
            "claim" => Command::TaskClaim { task },
            "release" => Command::TaskRelease { task },
            "takeback" => Command::TaskTakeBack { task },
            "block" => Command::TaskBlock { task, reason: option("why").unwrap_or_default() },
            "unblock" => Command::TaskUnblock { task },
            "tell" => Command::TaskTell { task, text: option("text").unwrap_or_default() },
            "mend" => {
                let (title, author) = (option("title"), None);
                Command::TaskUpdate(TaskUpdate { task, author, title, deps: None, checks: None })
            }
            "note" => Command::TaskNote { task, text: option("text").unwrap_or_default() },
            "move" => {
                let to = rest.first().copied().unwrap_or("").to_owned();
                let checked = self.checked(task, &option("ran"), option("tree"));
                Command::TaskTransition { task, to, checked, work: option("work") }
            }
            "ran" => {
                let checked = self.checked(task, &option("ran"), option("tree"));
                Command::CheckRun { task, checked: checked.expect("ran=… is given") }
            }
            "attest" => Command::CheckAttest {
                task,
                index: rest[0].parse().expect("an index"),
                pass: !has("fail"),
                tree: option("work"),
            },
            "depend" => Command::DependencyAdd { task, dep: task_named(rest[0]) },
            "undepend" => Command::DependencyRemove { task, dep: task_named(rest[0]) },
            "begin" => {
                self.next += 1;
                let id = option("as").unwrap_or_else(|| format!("s{}", self.next));
                Command::AttemptBegin(AttemptBegin {
                    attempt: attempt_named(&id),
                    task,
                    kind: match (has("lease"), option("kind")) {
                        (_, Some(kind)) => AttemptKind::parse(&kind).expect("a kind"),
                        (true, None) => AttemptKind::Execution,
                        (false, None) => AttemptKind::Graph,
                    },
                    key: Some(option("key").unwrap_or_else(|| id.clone())),
                    expected_actor: option("expected"),
                    client: option("client"),
                    bound_client: option("bound"),
                    model: None,
                    worktree: None,
                    branch: None,
                    head: None,
                    lease_s: has("lease").then_some(60),
                    takeover: has("takeover"),
                })
            }
            "beat" => Command::AttemptHeartbeat { attempt, progress: option("progress") },
            "finish" => Command::AttemptFinish {
                attempt,
                summary: option("summary").unwrap_or_else(|| "did it".into()),
                head: None,
                tree: option("tree"),
            },
            "cancel" => Command::AttemptCancel {
                attempt,
                reason: option("reason").unwrap_or_else(|| "gave up".into()),
            },
            "expire" => Command::AttemptExpire { attempt },
            "take" => {
                self.next += 1;
                let id = option("as").unwrap_or_else(|| format!("l{}", self.next));
                Command::LeaseTake { attempt: attempt_named(&id), task, lease_s: 60 }
            }
            "update" => Command::LeaseUpdate(LeaseUpdate {
                task,
                fence: option("fence").map(|fence| fence.parse().expect("a number")),
                to: match rest.first().copied().unwrap_or("working") {
                    "free" => LeaseTarget::Free,
                    "canceled" => LeaseTarget::Canceled,
                    "done" => LeaseTarget::Elsewhere,
                    _ => LeaseTarget::Working,
                },
                asked: "there",
                extend: !has("quiet"),
                note: option("note"),
            }),
            "complete" => Command::LeaseComplete(LeaseComplete {
                task,
                fence: option("fence").map(|fence| fence.parse().expect("a number")),
                output: option("output").unwrap_or_else(|| "did it".into()),
                external_ref: None,
                learnings: Vec::new(),
                over_quota: None,
                job: job_named(name),
            }),
            "reopen" => Command::TaskReopen { task },
            "comment" => {
                self.next += 1;
                let id = option("as").unwrap_or_else(|| format!("c{}", self.next));
                let kind = CommentKind::parse(rest[0]).expect("a kind");
                Command::CommentAdd(CommentAdd {
                    comment: comment_named(&id),
                    task,
                    kind,
                    body: "words".into(),
                    rationale: (!has("unsaid")).then(|| "because".into()),
                    parent: option("to").as_deref().map(comment_named),
                })
            }
            "resolve" => Command::CommentResolve { comment: comment_named(name), words: None },
            "verify" => Command::VerificationQueue { task, job: job_named(name) },
            "taking" => Command::JobTake { job: job_named(name), lease_s: 60 },
            "ended" => Command::JobEnd {
                job: job_named(name),
                tries: rest[0].parse().expect("a number"),
                end: JobEnd::Done,
            },
            "judge" => {
                let reason = option("why").unwrap_or_else(|| "why".into());
                Command::VerificationJudge {
                    job: job_named(name),
                    tries: self.rows.jobs.get(&job_named(name)).map_or(0, |job| job.tries),
                    found: match rest[0] {
                        "pass" => Found::Passed,
                        "pending" => Found::Pending { reason },
                        _ => Found::Failed { reason },
                    },
                    checked: self.checked(task, &option("ran"), option("tree")),
                    work: option("work"),
                }
            }
            "learn" => Command::KnowledgeStore(KnowledgeStore {
                new: NewKnowledge {
                    id: knowledge_named(name),
                    title: option("title").unwrap_or_else(|| name.into()),
                    body: option("body").unwrap_or_else(|| "because".into()),
                    tags: option("tags")
                        .map_or(Vec::new(), |tags| tags.split(',').map(str::to_owned).collect()),
                    confidence: option("confidence").map(|n| n.parse().expect("a number")),
                },
                expires_at: option("expires")
                    .map(|s| self.now.plus_ms(1000 * s.parse::<i64>().expect("seconds"))),
                task: option("produced")
                    .map(|task| (task_named(&task), EdgeKind::Produced))
                    .or(option("for").map(|task| (task_named(&task), EdgeKind::References))),
                supersedes: option("supersedes").map(|name| knowledge_named(&name)),
                over_quota: None,
            }),
            other => panic!("no verb {other}"),
        }
    }

    /// The task as it is now, but with this title.
    fn shown(&self, id: TaskId, title: String) -> EditMark {
        let TaskRows { task, card, body, .. } = &self.rows.tasks[&id];
        EditMark::of(&EditFields { title, ..EditFields::of(task, card, body) })
    }

    /// `0:pass,1:fail`, run on the task as it is now.
    fn checked(&self, id: TaskId, ran: &Option<String>, tree: Option<String>) -> Option<Checked> {
        let TaskRows { task, deps, .. } = self.rows.tasks.get(&id)?;
        let verdict = |pass| Verdict {
            pass,
            at: self.now,
            tree: tree.clone(),
            source: VerdictSource::Run {
                exit_code: Some(i32::from(!pass)),
                log: "log".into(),
                took_ms: Some(1_200),
            },
        };
        let run = |word: &str| {
            let (index, result) = word.split_once(':').expect("index:result");
            (index.parse().expect("an index"), verdict(result == "pass"))
        };
        let runs = ran.as_ref()?.split(',').filter(|w| !w.is_empty()).map(run).collect();
        let basis = Basis {
            label: task.label.clone(),
            deps: deps.iter().map(|(_, dep)| *dep).collect(),
            checks: task.checks.clone(),
        };
        Some(Checked { basis, tree, runs })
    }

    /// `in_progress w1`: label, assignee, and everything unusual.
    pub fn summary(&self, name: &str) -> String {
        let task = self.task(name);
        let holder =
            task.assignee.as_ref().map_or("-", |a| a.as_str().split_once(':').expect("kind").1);
        let mut text = format!("{} {holder}", task.label);
        if task.open_deps > 0 {
            text += &format!(" open={}", task.open_deps);
        }
        if task.open_blockers > 0 {
            text += &format!(" blockers={}", task.open_blockers);
        }
        if let Some(known) = &task.verification {
            text += &format!(" {}", known.status.as_str());
            text += &known.reason.as_ref().map(|why| format!("({why})")).unwrap_or_default();
        }
        let results: Vec<_> = task.checks.iter().map(Check::result).collect();
        if !results.is_empty() {
            text += &format!(" checks={}", results.join(","));
        }
        text
    }

    /// `queued +30s`: a task's verify job and when it is due.
    pub fn job_of(&self, name: &str) -> String {
        match self.rows.jobs.get(&job_named(name)).map(|job| &job.state) {
            None => "none".into(),
            Some(JobState::Queued { due_at }) => {
                format!("queued +{}s", due_at.ms_since(self.now) / 1000)
            }
            Some(state) => state.as_str().into(),
        }
    }

    pub fn entries_of(&self, name: &str) -> Vec<String> {
        let id = task_named(name);
        self.touched
            .entries
            .range((id, 0)..=(id, u32::MAX))
            .map(|(_, (entry, _))| {
                let did = entry.did.split(" ses_").next().expect("split gives one").to_owned();
                entry.text.as_ref().map_or(did.clone(), |text| format!("{did}({text})"))
            })
            .collect()
    }
}

/// Reads a check: a command, or `manual`.
fn check(word: &str) -> Option<NewCheck> {
    match word {
        "" => None,
        "manual" => {
            Some(NewCheck { desc: "looked at".into(), manual: true, ..NewCheck::default() })
        }
        cmd => Some(NewCheck { desc: cmd.into(), cmd: Some(cmd.into()), ..NewCheck::default() }),
    }
}

/// The review that a line says its actor saw: a verdict as forms carry it, and the state of the files.
fn review_seen(verdict: Option<String>, read: Option<String>) -> ReviewMark {
    let work =
        read.map(|tree| WorkRead { tree, head: "aaaa".into(), head_now: Some("bbbb".into()) });
    ReviewMark { verdict: verdict.map(|text| text.parse().expect("a verdict")), work }
}

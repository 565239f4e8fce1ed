//! A world in memory: applies changes as a store would, and reads commands from lines of text.

use std::collections::BTreeMap;

use crate::actor::Actor;
use crate::attempt::{Attempt, AttemptKind};
use crate::card::{Card, Mode};
use crate::command::{
    AttemptBegin, Basis, CardUpdate, Checked, Command, CommentAdd, Found, JobEnd, KnowledgeStore,
    LeaseComplete, LeaseTarget, LeaseUpdate, NewCheck, ReviewDecide, ReviewOutcome, ReviewSettle,
    ReviewVerdict, SessionBegin, TaskCreate, TaskEdit, TaskUpdate,
};
use crate::comment::{Comment, CommentId, CommentKind};
use crate::contract::{VerificationContract, VerificationKind};
use crate::decide;
use crate::ids::{AttemptId, Id, Prefix, TaskId};
use crate::job::{Job, JobId, JobState};
use crate::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId, NewKnowledge};
use crate::needs::verify_key;
use crate::policy::{Phase, Policy};
use crate::pull::{LOCAL, Pull};
use crate::refusal::Refusal;
use crate::run::{OpenRuns, Run, run_key};
use crate::task::{Check, Dep, Dependent, Entry, Task, Verdict, VerdictSource};
use crate::time::Timestamp;
use crate::world::{Change, CrewWorld, LastEntry, Subject, World, Write};

use super::org::OrgModel;
use super::pulls::merged_branch;

#[derive(Clone)]
pub struct Model {
    pub policy: Policy,
    pub now: Timestamp,
    pub tasks: BTreeMap<TaskId, Task>,
    pub removed: Vec<TaskId>,
    pub deps: Vec<(TaskId, TaskId)>,
    pub attempts: BTreeMap<AttemptId, Attempt>,
    pub entries: BTreeMap<(TaskId, u32), (Entry, Option<AttemptId>)>,
    pub comments: BTreeMap<CommentId, Comment>,
    pub jobs: BTreeMap<JobId, Job>,
    pub runs: BTreeMap<JobId, Run>,
    pub knowledge: BTreeMap<KnowledgeId, KnowledgeEntry>,
    pub edges: Vec<(TaskId, KnowledgeId, EdgeKind)>,
    pub pulls: Vec<Pull>,
    pub events: Vec<&'static str>,
    pub org: OrgModel,
    pub crew: CrewWorld,
    next: u128,
    pub cards: BTreeMap<TaskId, Card>,
    pub scratchpads: BTreeMap<TaskId, String>,
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
    let kind = if name == "ana" { "human" } else { "agent" };
    format!("{kind}:{name}").parse().expect("test names are actors")
}

impl Model {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            now: Timestamp(1_000_000_000),
            tasks: BTreeMap::new(),
            removed: Vec::new(),
            deps: Vec::new(),
            attempts: BTreeMap::new(),
            entries: BTreeMap::new(),
            comments: BTreeMap::new(),
            jobs: BTreeMap::new(),
            runs: BTreeMap::new(),
            knowledge: BTreeMap::new(),
            edges: Vec::new(),
            pulls: Vec::new(),
            events: Vec::new(),
            org: OrgModel::default(),
            crew: CrewWorld::default(),
            next: 0,
            cards: BTreeMap::new(),
            scratchpads: BTreeMap::new(),
        }
    }

    pub fn act(&mut self, who: &str, command: &Command) -> Result<Change, Refusal> {
        let who = actor(who);
        let policy = self.policy.clone();
        let world = self.world(&policy, &who, command);
        let change = decide(&world, command, self.now)?;
        for write in &change.writes {
            self.apply(write);
        }
        self.events.extend(change.events.iter().map(|event| event.name.as_str()));
        Ok(change)
    }

    fn world<'a>(&self, policy: &'a Policy, actor: &'a Actor, command: &Command) -> World<'a> {
        let needs = command.needs(actor);
        let attempt = match (&needs.attempt, &needs.attempt_by_key) {
            (Some(id), _) => self.attempts.get(id).cloned(),
            (None, Some((task, actor, key))) => self
                .attempts
                .values()
                .find(|a| a.task == *task && a.actor == *actor && a.key.as_ref() == Some(key))
                .cloned(),
            (None, None) => None,
        };
        let of_attempt = needs.attempt.and(attempt.as_ref()).map(|attempt| attempt.task);
        let comment = needs.comment.and_then(|id| self.comments.get(&id).cloned());
        let named_job = needs.job.and_then(|id| self.jobs.get(&id).cloned());
        let of_comment = comment.as_ref().map(|comment| comment.task);
        let of_job = named_job.as_ref().and_then(|job| job.task);
        let subject = needs.task.or(of_attempt).or(of_comment).or(of_job);
        let subject = subject.and_then(|id| self.subject(id));
        let key = subject.as_ref().filter(|_| needs.verify_job).map(|s| verify_key(s.task.id));
        let key = key.or_else(|| needs.job_key.clone());
        let under_way = |job: &&Job| Some(&job.key) == key.as_ref() && !job.is_over();
        let job = named_job.or_else(|| self.jobs.values().find(under_way).cloned());
        let of_task = subject.as_ref().filter(|_| needs.run_of_task).map(|s| s.task.id);
        let run_key = needs.run_key.as_deref().map(run_key);
        let fits = |job: &&Job| {
            self.runs.contains_key(&job.id)
                && (of_task.is_some() && job.task == of_task || Some(&job.key) == run_key.as_ref())
        };
        let job =
            job.or_else(|| self.jobs.values().filter(fits).max_by_key(|j| j.created_at).cloned());
        let run = job.as_ref().and_then(|job| self.runs.get(&job.id).cloned());
        let mut open_runs = OpenRuns::default();
        let mut runs_here = 0;
        for run in self.runs.values() {
            let job = &self.jobs[&run.job];
            match job.state {
                JobState::Queued { .. } => open_runs.queued += 1,
                JobState::Running { .. } | JobState::Stale { .. } => {
                    open_runs.running += 1;
                    runs_here +=
                        u32::from(needs.runs_on.as_ref().is_some_and(|(kind, machine)| {
                            job.kind == *kind && run.runs_on.as_ref() == Some(machine)
                        }));
                }
                _ => {}
            }
        }
        let of = subject.as_ref().map(|subject| subject.task.id);
        World {
            policy,
            actor,
            subject,
            attempt,
            comment,
            job,
            named: needs.named.iter().filter_map(|id| self.dep(*id)).collect(),
            ancestry: self.deps.clone(),
            knowledge: needs.knowledge.and_then(|id| self.knowledge.get(&id).cloned()),
            run,
            open_runs,
            runs_here,
            org: self.org.world(actor, &needs.org),
            above: self.above(needs.above),
            crew: self.crew.clone(),
            numbers: self.numbers(),
            pulls_last: self.pulls_last(),
            pulls: match needs.task_pulls {
                true => self.pulls.iter().filter(|pull| pull.task == of).cloned().collect(),
                false => Vec::new(),
            },
        }
    }

    fn numbers(&self) -> BTreeMap<Prefix, u32> {
        let mut last = BTreeMap::new();
        for Task { id, number, .. } in self.tasks.values() {
            let newest = last.entry(id.prefix).or_insert(0);
            *newest = (*newest).max(*number);
        }
        last
    }

    fn pulls_last(&self) -> u64 {
        let own = self.pulls.iter().filter(|pull| pull.forge == LOCAL);
        own.map(|pull| pull.number).max().unwrap_or(0)
    }

    fn subject(&self, id: TaskId) -> Option<Subject> {
        let task = self.tasks.get(&id).filter(|_| !self.removed.contains(&id))?.clone();
        let dependent = |id: &TaskId| {
            let task = &self.tasks[id];
            Dependent { id: *id, project: 1, open_deps: task.open_deps, phase: task.phase }
        };
        let last = self.entries.range(..=(id, u32::MAX)).next_back();
        let last = last.filter(|((task, _), _)| *task == id).map(|(_, (entry, attempt))| {
            LastEntry { did: entry.did.clone(), has_text: entry.text.is_some(), attempt: *attempt }
        });
        let on = |pair: &&(TaskId, TaskId)| pair.1 == id && !self.removed.contains(&pair.0);
        Some(Subject {
            deps: self.deps.iter().filter(|d| d.0 == id).filter_map(|d| self.dep(d.1)).collect(),
            dependents: self.deps.iter().filter(on).map(|d| dependent(&d.0)).collect(),
            newest: task.newest_attempt.map(|id| self.attempts[&id].clone()),
            last_entry: last,
            blockers: self
                .comments
                .values()
                .filter(|c| c.task == id && c.blocks())
                .cloned()
                .collect(),
            card: self.cards.get(&id).cloned().unwrap_or_default(),
            body: Some(String::new()),
            scratchpad: self.scratchpads.get(&id).cloned().unwrap_or_default(),
            task,
        })
    }

    fn above(&self, start: Option<TaskId>) -> Vec<TaskId> {
        let parent = |id: &TaskId| self.tasks.get(id).and_then(|task| task.parent);
        std::iter::successors(start.as_ref().and_then(parent), parent).collect()
    }

    fn dep(&self, id: TaskId) -> Option<Dep> {
        let task = self.tasks.get(&id)?;
        let removed = self.removed.contains(&id);
        let lease_expires_at = None;
        Some(Dep { id, label: task.label.clone(), phase: task.phase, removed, lease_expires_at })
    }

    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::TaskInsert { task, deps, .. } => {
                self.deps.extend(deps.iter().map(|dep| (task.id, *dep)));
                self.tasks.insert(task.id, task.clone());
            }
            Write::TaskUpdate { task } => {
                self.tasks.insert(task.id, task.clone());
            }
            Write::TaskTombstone { task } => self.removed.push(*task),
            Write::BodyReplace { .. } | Write::OutputPut { .. } => {}
            Write::PlanMark { task } => {
                self.tasks.get_mut(task).expect("parents exist").is_plan = true;
            }
            Write::CommentInsert { comment } | Write::CommentUpdate { comment } => {
                self.comments.insert(comment.id, comment.clone());
            }
            Write::JobInsert { job } | Write::JobUpdate { job } => {
                self.jobs.insert(job.id, job.clone());
            }
            Write::JobPut { job } => {
                let known = self.jobs.get(&job.id);
                let job = match known {
                    Some(known) if matches!(known.state, JobState::Running { .. }) => {
                        Job { created_at: job.created_at, ..known.clone() }
                    }
                    Some(known) => Job { tries: known.tries, ..job.clone() },
                    None => job.clone(),
                };
                self.jobs.insert(job.id, job);
            }
            Write::RunInsert { run, .. } | Write::RunUpdate { run } => {
                self.runs.insert(run.job, run.clone());
            }
            Write::CardPut { task, card } => {
                self.cards.insert(*task, card.clone());
            }
            Write::ScratchpadPut { task, text } => {
                self.scratchpads.insert(*task, text.clone());
            }
            Write::DeliveryInsert { .. } | Write::DeliveryTried { .. } => {}
            Write::PullPut { pull } => {
                self.pulls.retain(|known| !known.is(pull));
                self.pulls.push(pull.clone());
            }
            Write::DepInsert { task, dep } => self.deps.push((*task, *dep)),
            Write::DepDelete { task, dep } => self.deps.retain(|d| *d != (*task, *dep)),
            Write::DependentsAdjust { dep, delta } => {
                let removed = self.removed.clone();
                let waits = |d: &&(TaskId, TaskId)| d.1 == *dep && !removed.contains(&d.0);
                for (task, _) in self.deps.clone().iter().filter(waits) {
                    let task = self.tasks.get_mut(task).expect("deps name tasks that exist");
                    task.open_deps =
                        task.open_deps.checked_add_signed(*delta).expect("not below 0");
                }
            }
            Write::AttemptInsert { attempt } | Write::AttemptUpdate { attempt } => {
                self.attempts.insert(attempt.id, attempt.clone());
            }
            Write::EntryPut { task, number, entry, attempt } => {
                self.entries.insert((*task, *number), (entry.clone(), *attempt));
            }
            Write::KnowledgeInsert { entry } => {
                self.knowledge.insert(entry.id, entry.clone());
            }
            Write::KnowledgeLink { task, entry, kind } => self.edges.push((*task, *entry, *kind)),
            Write::KnowledgeSupersede { entry, by } => {
                let old = self.knowledge.get_mut(entry).expect("only what exists is superseded");
                old.superseded_by = Some(*by);
            }
            Write::Org(write) => self.org.apply(write),
            Write::Crew(write) => super::crew::apply(&mut self.crew, write),
        }
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
            }),
            "clear" => Command::ReviewClear {
                task,
                needs_approval: has("approved"),
                checked: self.checked(task, &option("ran"), option("tree")),
                work: option("work"),
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
                    tries: self.jobs.get(&job_named(name)).map_or(0, |job| job.tries),
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

    /// `0:pass,1:fail`, run on the task as it is now.
    fn checked(&self, id: TaskId, ran: &Option<String>, tree: Option<String>) -> Option<Checked> {
        let task = self.tasks.get(&id)?;
        let verdict = |pass| Verdict {
            pass,
            at: self.now,
            tree: tree.clone(),
            source: VerdictSource::Run { exit_code: Some(i32::from(!pass)), log: "log".into() },
        };
        let run = |word: &str| {
            let (index, result) = word.split_once(':').expect("index:result");
            (index.parse().expect("an index"), verdict(result == "pass"))
        };
        let runs = ran.as_ref()?.split(',').filter(|w| !w.is_empty()).map(run).collect();
        let basis = Basis {
            label: task.label.clone(),
            deps: self.deps.iter().filter(|d| d.0 == id).map(|d| d.1).collect(),
            checks: task.checks.clone(),
        };
        Some(Checked { basis, tree, runs })
    }

    /// `in_progress w1`: label, assignee, and everything unusual.
    pub fn summary(&self, name: &str) -> String {
        let task = &self.tasks[&task_named(name)];
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
        match self.jobs.get(&job_named(name)).map(|job| &job.state) {
            None => "none".into(),
            Some(JobState::Queued { due_at }) => {
                format!("queued +{}s", due_at.ms_since(self.now) / 1000)
            }
            Some(state) => state.as_str().into(),
        }
    }

    pub fn entries_of(&self, name: &str) -> Vec<String> {
        let id = task_named(name);
        self.entries
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

//! The world of a command, from the rows on the desk.

use super::Desk;
use crate::actor::Actor;
use crate::board::card::Card;
use crate::command::Command;
use crate::ids::TaskId;
use crate::needs::{Needs, verify_key};
use crate::policy::Policy;
use crate::pulls::Pull;
use crate::review::ReviewDraft;
use crate::runs::job::Job;
use crate::task::attempt::Attempt;
use crate::task::comment::Comment;
use crate::world::{CrewWorld, LastEntry, OrgWorld, Subject, World};

impl Desk {
    /// The world in which `decide` judges the command. Only what `Command::needs` names is copied: a desk of PostgreSQL
    /// holds the rows of a whole batch, and a rule must not see more on one database than on the other.
    pub fn world<'a>(&self, policy: &'a Policy, actor: &'a Actor, command: &Command) -> World<'a> {
        let needs = command.needs(actor);
        let rows = &self.rows;
        let attempt = self.attempt(&needs);
        let comment = needs.comment.and_then(|id| rows.comment(id));
        let named_job = needs.job.and_then(|id| rows.jobs.get(&id));
        let subject = needs.subject(attempt, comment, named_job);
        let job = self.job(&needs, subject, named_job);
        let named = needs.named.iter().filter_map(|id| rows.dep(*id));
        World {
            policy,
            actor,
            subject: subject.and_then(|id| self.subject(id, &needs)),
            attempt: attempt.cloned(),
            comment: comment.cloned(),
            job: job.cloned(),
            named: named.collect(),
            ancestry: match needs.ancestry_of.is_empty() {
                true => Vec::new(),
                false => rows.ancestry.clone(),
            },
            knowledge: needs.knowledge.and_then(|id| rows.knowledge.get(&id)).cloned(),
            run: job.and_then(|job| rows.runs.get(&job.id)).cloned(),
            open_runs: rows.counts.open.unwrap_or_default(),
            runs_here: match &needs.runs_on {
                Some(place) => rows.counts.here.get(place).copied().unwrap_or(0),
                None => 0,
            },
            numbers: (needs.numbers.iter())
                .filter_map(|prefix| Some((*prefix, *rows.numbers.get(prefix)?)))
                .collect(),
            references: (needs.references.iter())
                .filter_map(|name| Some((name.clone(), *rows.references.get(name)?)))
                .collect(),
            pulls_last: rows.pulls_last,
            pulls: match subject.filter(|_| needs.task_pulls) {
                Some(task) => self.pulls_of(task),
                None => Vec::new(),
            },
            drafts: match subject.filter(|_| needs.drafts) {
                Some(task) => self.drafts_of(task, actor),
                None => Vec::new(),
            },
            org: self.org(actor, &needs),
            above: if needs.above.is_some() { rows.above.clone() } else { Vec::new() },
            crew: match needs.crew.is_empty() {
                true => CrewWorld::default(),
                false => rows.crew.clone(),
            },
        }
    }

    /// The attempt that the command names by its id, or by the key under which its actor began it.
    fn attempt(&self, needs: &Needs) -> Option<&Attempt> {
        match (&needs.attempt, &needs.attempt_by_key) {
            (Some(id), _) => self.rows.attempts.get(id),
            (None, Some((task, actor, key))) => self.rows.attempts.values().find(|attempt| {
                attempt.task == *task
                    && attempt.actor == *actor
                    && attempt.key.as_ref() == Some(key)
            }),
            (None, None) => None,
        }
    }

    /// The run that the command needs, or else the job.
    fn job<'r>(
        &'r self,
        needs: &Needs,
        subject: Option<TaskId>,
        named: Option<&'r Job>,
    ) -> Option<&'r Job> {
        let rows = &self.rows;
        let of_task = subject.filter(|_| needs.run_of_task);
        let run = match (&needs.run_key, of_task) {
            // The newest job with the key.
            (Some(key), _) if !key.is_empty() => {
                let of_key = rows.runs.values().filter(|run| run.order.key() == *key);
                of_key.filter_map(|run| rows.jobs.get(&run.job)).max_by_key(|job| job.id)
            }
            // The newest open one: a task may have a job for a patch beside its review.
            (None, Some(task)) => (rows.jobs.values())
                .filter(|job| job.kind.is_run() && job.task == Some(task) && !job.is_over())
                .max_by_key(|job| job.id),
            _ => None,
        };
        let verify_key = subject.filter(|_| needs.verify_job).map(verify_key);
        run.or_else(|| match verify_key.as_ref().or(needs.job_key.as_ref()) {
            Some(key) => rows.job_under_way(key),
            None => named,
        })
    }

    fn pulls_of(&self, task: TaskId) -> Vec<Pull> {
        self.rows.pulls.iter().filter(|pull| pull.task == Some(task)).cloned().collect()
    }

    fn drafts_of(&self, task: TaskId, author: &Actor) -> Vec<ReviewDraft> {
        let drafts = self.rows.drafts.values();
        drafts.filter(|draft| draft.task == task && draft.author == *author).cloned().collect()
    }

    fn org(&self, actor: &Actor, needs: &Needs) -> OrgWorld {
        let (rows, needs) = (&self.rows.org, &needs.org);
        if needs.is_empty() {
            return OrgWorld::default();
        }
        OrgWorld {
            settings: rows.settings.clone(),
            project: needs.project.and_then(|id| rows.projects.get(&id)).cloned(),
            opened: rows.opened.get(actor).copied(),
            room: rows.room.clone().filter(|_| needs.room.is_some()),
            plan: needs.plan.and_then(|id| rows.plans.get(&id)).cloned(),
        }
    }

    fn subject(&self, id: TaskId, needs: &Needs) -> Option<Subject> {
        let rows = self.rows.visible(id)?;
        let dependents = rows.dependents.iter().filter(|_| needs.dependents);
        let last = rows.entries.last().filter(|_| needs.last_entry);
        Some(Subject {
            task: rows.task.clone(),
            deps: self.rows.deps_of(rows),
            dependents: dependents.filter_map(|id| self.rows.dependent(*id)).collect(),
            newest: self.rows.newest(&rows.task).cloned(),
            last_entry: last.map(|row| LastEntry {
                did: row.entry.did.clone(),
                has_text: row.entry.text.is_some(),
                attempt: row.attempt,
            }),
            blockers: match needs.blockers && rows.task.open_blockers > 0 {
                true => self.open_blockers(id),
                false => Vec::new(),
            },
            card: if needs.card { rows.card.clone() } else { Card::default() },
            body: needs.card.then(|| rows.body.clone()),
            scratchpad: match needs.scratchpad {
                true => rows.scratchpad.clone(),
                false => String::new(),
            },
        })
    }

    fn open_blockers(&self, task: TaskId) -> Vec<Comment> {
        let blocks = |comment: &&Comment| comment.task == task && comment.blocks();
        self.rows.comments.values().filter(blocks).cloned().collect()
    }
}

impl Needs {
    /// The task that the command is about: the one it names, or that of the attempt, comment or job it names.
    pub fn subject(
        &self,
        attempt: Option<&Attempt>,
        comment: Option<&Comment>,
        job: Option<&Job>,
    ) -> Option<TaskId> {
        let of_attempt = self.attempt.and(attempt).map(|attempt| attempt.task);
        let of_comment = self.comment.and(comment).map(|comment| comment.task);
        let of_job = self.job.and(job).and_then(|job| job.task);
        self.task.or(of_attempt).or(of_comment).or(of_job)
    }
}

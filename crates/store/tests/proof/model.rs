//! The desk, SQLite and PostgreSQL answer every command alike, and keep the same rows and events.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::command::{Command, TaskCreate};
use callboard_domain::desk::Desk;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::{Digest, RetryKey};
use callboard_domain::review::{ReviewComment, ReviewCommentId};
use callboard_domain::time::Timestamp;
use callboard_store::clock::ManualClock;
use callboard_store::postgres::PostgresStore;
use callboard_store::sqlite::SqliteStore;
use callboard_store::transfer::{Address, LEFT_OUT, transfer};
use callboard_store::{
    Applied, ApplyError, EventQuery, Home, Op, OrgStore, Place, ReviewStore, ReviewerOf, Store,
};
use serde_json::json;

use crate::compare::{lines, rows_kept, same};
use crate::desk::DeskBoard;
use crate::heard::{self, AllHeard, LastHeard};
use crate::office::{Kind, Office, actor};
use crate::rows::{DATABASE, Rows, difference, rows};
use crate::schema::Schema;
use crate::seeded::{Round, is_usual, seeds};
use crate::story;

const ROUNDS: u64 = 12;
const STEPS: usize = 250;
/// How many of a hundred commands are tried on the desk first, and given only if they change something there.
const WISHES: usize = 70;
/// How many commands of one kind are tried.
const WISH_TRIES: usize = 100;
/// How often a failed round is run again to find a shorter one.
const SHORTER_TRIES: usize = 150;

const ORG: &str = "default";
const START: Timestamp = Timestamp(1_700_000_000_000_000);

/// One step of a round.
#[derive(Clone, Debug)]
enum Act {
    Advance(i64),
    Restart,
    /// Commands that share a commit.
    Apply(Vec<Op>),
    /// A reviewer keeps a draft. No command does that, so the desk takes the draft of SQLite's answer; a command sends it.
    Draft(ReviewerOf, ReviewCommentId, ReviewComment),
}

/// Whether PostgreSQL takes the numbers of new rows from a sequence.
fn is_numbered_by_a_sequence(op: &Op) -> bool {
    Kind::of(&op.command) == Kind::ProjectCreate
}

/// A reply as text; two boards agree when the texts do.
type Said = Result<Applied, Refusal>;

struct Boards {
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
    schema: Option<Schema>,
    desk: DeskBoard,
    heard: LastHeard,
    sqlite: Option<SqliteStore>,
    postgres: Option<PostgresStore>,
    home: Home,
}

fn open_sqlite(folder: &Path, clock: &Arc<ManualClock>) -> SqliteStore {
    SqliteStore::open(&folder.join(DATABASE), clock.clone()).unwrap()
}

async fn open_postgres(schema: Option<&Schema>, clock: &Arc<ManualClock>) -> Option<PostgresStore> {
    Some(PostgresStore::open(schema?.url(), Some(clock.clone())).await.unwrap())
}

impl Boards {
    async fn new(schema: Option<Schema>) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let folder = tempfile::tempdir().unwrap();
        let sqlite = open_sqlite(folder.path(), &clock);
        let home = sqlite.settle(Place::of_org(ORG)).await.unwrap();
        let postgres = open_postgres(schema.as_ref(), &clock).await;
        if let Some(postgres) = &postgres {
            assert_eq!(postgres.settle(Place::of_org(ORG)).await.unwrap(), home);
        }
        let project = sqlite.project_in(ORG, home.project.id).await.unwrap().unwrap();
        let (desk, sqlite) = (DeskBoard::new(project), Some(sqlite));
        let heard = LastHeard::default();
        Self { clock, folder, schema, desk, heard, sqlite, postgres, home }
    }

    async fn restart(&mut self) {
        (self.sqlite, self.postgres) = (None, None);
        self.sqlite = Some(open_sqlite(self.folder.path(), &self.clock));
        self.postgres = open_postgres(self.schema.as_ref(), &self.clock).await;
    }

    fn sqlite(&self) -> &SqliteStore {
        self.sqlite.as_ref().unwrap()
    }

    /// Takes a step on every board. The error says how they differ.
    async fn act(&mut self, act: &Act) -> Result<Vec<Said>, String> {
        let ops = match act {
            Act::Advance(ms) => {
                self.clock.advance_ms(*ms);
                return Ok(Vec::new());
            }
            Act::Restart => {
                self.restart().await;
                return Ok(Vec::new());
            }
            Act::Draft(of, id, comment) => {
                self.draft(of, *id, comment).await?;
                return Ok(Vec::new());
            }
            Act::Apply(ops) => ops,
        };
        let now = self.sqlite().now();
        // PostgreSQL gives each of these a commit of its own.
        let are_apart = ops.iter().any(|op| op.command.needs(&op.actor).is_wide());
        let mut desk: Vec<Said> = Vec::new();
        for op in ops {
            desk.push(self.desk.apply(op, now));
            self.heard.note(self.desk.desk.rows.attempts.values());
            if are_apart {
                self.heard.settle(self.desk.desk.rows.attempts.values());
            }
        }
        self.heard.settle(self.desk.desk.rows.attempts.values());
        let sqlite = said(self.sqlite().apply_all(ops.clone()).await)?;
        for (n, op) in ops.iter().enumerate() {
            let told = |said: &Said| text(said, Compare::Rules);
            alike("the desk", "SQLite", told(&desk[n]), told(&sqlite[n]), &op.command)?;
        }
        if let Some(postgres) = &self.postgres {
            let postgres = match ops.iter().any(is_numbered_by_a_sequence) {
                true => self.one_by_one(postgres, ops).await?,
                false => said(postgres.apply_all(ops.clone()).await)?,
            };
            for (n, op) in ops.iter().enumerate() {
                let told = |said: &Said| text(said, Compare::Stores);
                alike("SQLite", "PostgreSQL", told(&sqlite[n]), told(&postgres[n]), &op.command)?;
            }
        }
        Ok(sqlite)
    }

    async fn draft(
        &mut self,
        of: &ReviewerOf,
        id: ReviewCommentId,
        comment: &ReviewComment,
    ) -> Result<(), String> {
        let put = self.sqlite().review_draft_put(of.clone(), id, comment.clone()).await;
        let kept = judged(put)?;
        let Desk { rows, touched, .. } = &mut self.desk.desk;
        let is_sent = touched.comments_sent.iter().any(|sent| sent.id == id);
        let is_room = rows.visible(of.task).is_some() && !is_sent;
        same("whether there is room for a draft", &is_room, &kept.is_ok())?;
        if let Some(postgres) = &self.postgres {
            let put = postgres.review_draft_put(of.clone(), id, comment.clone()).await;
            same("the drafts of SQLite and PostgreSQL", &kept, &judged(put)?)?;
        }
        rows.drafts.extend(kept.ok().map(|draft| (id, draft)));
        Ok(())
    }

    /// As PostgreSQL does it with these commands, but without the gaps that refused and repeated ones leave in its numbers:
    /// the desk and SQLite have none.
    async fn one_by_one(&self, postgres: &PostgresStore, ops: &[Op]) -> Result<Vec<Said>, String> {
        let beside = self.schema.as_ref().unwrap().connect().await;
        let mut answers = Vec::new();
        for op in ops {
            answers.extend(said(postgres.apply_all(vec![op.clone()]).await)?);
            for table in ["projects", "repos"] {
                let last = format!(
                    "SELECT setval(pg_get_serial_sequence('{table}', 'id'), \
                     coalesce(max(id), 0) + 1, false) FROM {table}"
                );
                beside.batch_execute(&last).await.unwrap();
            }
        }
        Ok(answers)
    }

    /// Compares everything that is left at the end.
    async fn end(&mut self) -> Result<(), String> {
        let all = EventQuery { limit: usize::MAX, ..EventQuery::default() };
        let events = self.sqlite().events(all.clone()).await.unwrap();
        same("the events of the desk and SQLite", &self.desk.events, &events)?;
        rows_kept(&self.desk.desk, self.sqlite(), ORG).await?;
        let heard = heard::ended(self.folder.path());
        same("the last heartbeats of the desk and SQLite", &self.heard.sqlite, &heard)?;
        same("the findings of SQLite", &self.sqlite().verify().await.unwrap(), &Vec::new())?;
        if let Some(postgres) = self.postgres.take() {
            let logged = postgres.events(all).await.unwrap();
            same("the events of SQLite and PostgreSQL", &events, &logged)?;
            same("the findings of PostgreSQL", &postgres.verify().await.unwrap(), &Vec::new())?;
            drop(postgres);
            self.sqlite = None;
            let (two, heard) = self.moved().await;
            same("the last heartbeats of the desk and PostgreSQL", &self.heard.postgres, &heard)?;
            heard::forget(self.folder.path());
            let one = rows(self.folder.path());
            let differing = difference(&shared(one), &shared(two));
            same("the rows of SQLite and PostgreSQL", &String::new(), &differing)?;
        }
        Ok(())
    }

    /// The rows of PostgreSQL, moved into a file, and apart from them the last heartbeats of its ended attempts.
    async fn moved(&self) -> (Rows, AllHeard) {
        let folder = tempfile::tempdir().unwrap();
        let from = Address::Postgres(self.schema.as_ref().unwrap().url().to_owned());
        let to = Address::Sqlite(folder.path().join(DATABASE));
        transfer(&from, &to, self.clock.clone(), Arc::new(|_| {})).await.unwrap();
        let heard = heard::ended(folder.path());
        heard::forget(folder.path());
        (rows(folder.path()), heard)
    }
}

/// The tables that a move carries; the others are each database's own.
fn shared(mut rows: Rows) -> Rows {
    rows.retain(|table, _| LEFT_OUT.iter().all(|(left, _)| left != table));
    rows
}

fn said(verdicts: Vec<Result<Applied, ApplyError>>) -> Result<Vec<Said>, String> {
    verdicts.into_iter().map(judged).collect()
}

fn judged<T>(verdict: Result<T, ApplyError>) -> Result<Result<T, Refusal>, String> {
    match verdict {
        Ok(applied) => Ok(Ok(applied)),
        Err(ApplyError::Refused(refusal)) => Ok(Err(refusal)),
        Err(ApplyError::Store(error)) => Err(format!("a store failed: {error}")),
    }
}

#[derive(Clone, Copy)]
enum Compare {
    /// The desk does not measure how long a task was free.
    Rules,
    /// PostgreSQL may number events after the reply.
    Stores,
}

fn text(said: &Said, compare: Compare) -> String {
    let told = said.clone().map(|applied| match compare {
        Compare::Rules => Applied { taken: None, ..applied },
        Compare::Stores => Applied { last_seq: None, ..applied },
    });
    format!("{told:#?}")
}

fn alike(a: &str, b: &str, one: String, two: String, about: &impl Debug) -> Result<(), String> {
    if one == two {
        return Ok(());
    }
    Err(format!("{a} (-) and {b} (+) answer {about:?} differently:\n{}", lines(&one, &two)))
}

/// The random acts of a round.
struct Author {
    office: Office,
    org: Arc<str>,
    keys: usize,
    /// Commands that were sent, for repeats.
    sent: Vec<Op>,
    /// Commands that arrive later than they were given.
    late: Vec<Op>,
    /// The kinds of commands that changed something in this round.
    done: Done,
    /// The steps that are left of a story.
    story: VecDeque<(Actor, Command)>,
    goes_back: bool,
}

impl Author {
    fn op(&mut self, desk: &mut DeskBoard) -> Op {
        let rng = &mut self.office.rng;
        // Only a call with a key is repeated as it was: any other one gets new ids.
        if !self.sent.is_empty() && rng.percent(8) {
            let mut op = self.sent[rng.below(self.sent.len())].clone();
            if let Some(key) = op.retry_key.as_ref().filter(|_| rng.percent(15)) {
                let other = Digest::of(&json!({"other": true}));
                op.retry_key = Some(RetryKey::new("key", key.key(), other).unwrap());
            }
            return op;
        }
        if rng.percent(60)
            && let Some((actor, command)) = self.story.pop_front()
        {
            return self.op_with(actor, command);
        }
        if self.office.rng.percent(WISHES)
            && let Some(op) = self.wish(desk)
        {
            return op;
        }
        let kinds = if self.office.rng.percent(40) { Kind::EVERYDAY } else { Kind::ALL };
        let kind = *self.office.rng.pick(kinds);
        self.op_of(kind)
    }

    /// A command that changes something, in half of the cases of a kind that changed nothing yet in this round. Many kinds
    /// are accepted only after others; chance alone would hardly give them in order.
    fn wish(&mut self, desk: &mut DeskBoard) -> Option<Op> {
        let any = self.office.rng.percent(50);
        let missed = |kind: &&Kind| any || !self.done.contains(kind);
        let kinds: Vec<Kind> = Kind::ALL.iter().filter(missed).copied().collect();
        let kind = *kinds.get(self.office.rng.below(kinds.len()))?;
        let now = self.office.now;
        let mut tries = (0..WISH_TRIES).map(|_| self.op_of(kind));
        tries.find(|op| desk.would_change(op, now))
    }

    fn op_of(&mut self, kind: Kind) -> Op {
        let (actor, command) = self.office.command(kind);
        self.op_with(actor, command)
    }

    fn op_with(&mut self, actor: Actor, command: Command) -> Op {
        self.keys += 1;
        let key = self.office.rng.percent(50).then(|| {
            RetryKey::new("key", &format!("k{}", self.keys), Digest::of(&json!({}))).unwrap()
        });
        let policy = Arc::default();
        Op { org: self.org.clone(), actor, tool: "test", retry_key: key, policy, command }
    }

    fn act(&mut self, desk: &mut DeskBoard) -> Act {
        if let Some((task, author, id, comment)) = self.office.draft() {
            return Act::Draft(ReviewerOf { org: self.org.clone(), task, author }, id, comment);
        }
        let rng = &mut self.office.rng;
        match rng.below(100) {
            0 => Act::Restart,
            1..=14 => Act::Advance(rng.below(30_000) as i64),
            15..=17 => Act::Advance(rng.below(900_000) as i64),
            18..=19 if self.goes_back => Act::Advance(-(rng.below(5_000) as i64)),
            _ => {
                let count = if rng.percent(25) { 2 + rng.below(5) } else { 1 };
                let mut ops: Vec<Op> = (0..count).map(|_| self.op(desk)).collect();
                if ops.len() == 1 && self.office.rng.percent(10) {
                    self.late.append(&mut ops);
                }
                if !self.late.is_empty() && self.office.rng.percent(10) {
                    let place = self.office.rng.below(self.late.len());
                    ops.push(self.late.remove(place));
                }
                self.sent.extend(ops.iter().filter(|op| op.retry_key.is_some()).cloned());
                Act::Apply(ops)
            }
        }
    }
}

/// Plays acts on new boards.
async fn play(acts: &[Act], with_postgres: bool) -> Result<(), String> {
    let schema = if with_postgres { Schema::new() } else { None };
    let mut boards = Boards::new(schema).await;
    for act in acts {
        boards.act(act).await?;
    }
    boards.end().await
}

/// Leaves acts out as long as the boards still differ.
async fn shorter(mut acts: Vec<Act>, with_postgres: bool) -> (Vec<Act>, String) {
    let mut why = String::from("the boards agree when the acts are played again");
    let (mut part, mut tries) = (acts.len() / 2, 0);
    while part > 0 {
        let mut from = 0;
        while from < acts.len() && tries < SHORTER_TRIES {
            tries += 1;
            let mut fewer = acts.clone();
            fewer.drain(from..(from + part).min(acts.len()));
            match play(&fewer, with_postgres).await {
                Err(error) => (acts, why) = (fewer, error),
                Ok(()) => from += part,
            }
        }
        part /= 2;
    }
    // Then single commands of a commit.
    for n in 0..acts.len() {
        let mut from = 0;
        while let Act::Apply(ops) = &acts[n]
            && from < ops.len()
            && tries < 2 * SHORTER_TRIES
        {
            tries += 1;
            let mut fewer = ops.clone();
            fewer.remove(from);
            let mut script = acts.clone();
            script[n] = Act::Apply(fewer);
            match play(&script, with_postgres).await {
                Err(error) => (acts, why) = (script, error),
                Ok(()) => from += 1,
            }
        }
    }
    (acts, why)
}

/// The kinds of commands that changed something.
type Done = BTreeSet<Kind>;

async fn round(seed: u64, with_postgres: bool) -> Done {
    let _round = Round(seed);
    let schema = if with_postgres { Schema::new() } else { None };
    let mut boards = Boards::new(schema).await;
    let Home { org, project } = boards.home.clone();
    let mut office = Office::new(seed, project.id, project.prefix);
    let story = match seed.is_multiple_of(2) {
        true => story::crew(&mut office),
        false => story::sessions(&mut office),
    };
    let story = story.into();
    // PostgreSQL's time goes on from its last look, SQLite's from the last event: only one of them can be the desk's.
    let goes_back = !with_postgres && seed.is_multiple_of(4);
    let (sent, late) = (Vec::new(), Vec::new());
    let done = Done::new();
    let mut author = Author { office, org, keys: 0, sent, late, done, story, goes_back };
    let mut acts = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..STEPS {
        author.office.now = boards.sqlite().now();
        let act = author.act(&mut boards.desk);
        acts.push(act.clone());
        match boards.act(&act).await {
            Ok(said) => {
                let Act::Apply(ops) = &act else { continue };
                for (op, applied) in
                    ops.iter().zip(said).filter_map(|(op, said)| Some((op, said.ok()?)))
                {
                    author.office.hear(&op.command, &applied.outcome);
                    if applied.changed {
                        author.done.insert(Kind::of(&op.command));
                    }
                }
            }
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    if outcome.is_ok() {
        outcome = boards.end().await;
    }
    if let Err(error) = outcome {
        drop(boards);
        let (acts, again) = shorter(acts, with_postgres).await;
        let acts: Vec<String> = acts.iter().map(shown).collect();
        panic!("{error}\n\nWith {} acts:\n{}\n{again}", acts.len(), acts.join("\n"));
    }
    author.done
}

fn shown(act: &Act) -> String {
    match act {
        Act::Advance(ms) => format!("advance {ms} ms"),
        Act::Restart => "restart".into(),
        Act::Draft(of, id, comment) => format!("{of:?} drafts {id:?} {comment:?}"),
        Act::Apply(ops) => {
            let op = |op: &Op| {
                let key = op.retry_key.as_ref().map_or("", |key| key.key());
                format!("{} [{key}]> {:?}", op.actor.as_str(), op.command)
            };
            ops.iter().map(op).collect::<Vec<_>>().join("\n  with ")
        }
    }
}

/// Fails if the rounds of a usual run left a command out.
fn assert_every_kind_was_carried_out(done: &Done) {
    if is_usual() {
        let missed: Vec<&Kind> = Kind::ALL.iter().filter(|kind| !done.contains(kind)).collect();
        assert!(missed.is_empty(), "never carried out: {missed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_what_the_rules_decide() {
    let mut done = Done::default();
    for seed in seeds(ROUNDS) {
        done.extend(round(seed, false).await);
    }
    assert_every_kind_was_carried_out(&done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_keeps_what_sqlite_keeps() {
    if Schema::new().is_none() {
        return;
    }
    let mut done = Done::default();
    for seed in seeds(ROUNDS) {
        done.extend(round(seed, true).await);
    }
    assert_every_kind_was_carried_out(&done);
}

/// A session tells of its progress and ends in commands that are given together, alone and beside a command about the org,
/// which PostgreSQL does not take into their commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commits_of_commands_given_together_are_known() {
    let Some(schema) = Schema::new() else { return };
    let Home { org, project } = Boards::new(Some(schema)).await.home;
    let mut office = Office::new(1, project.id, project.prefix);
    let mut steps: VecDeque<_> = story::sessions(&mut office).into();
    let op = |(actor, command)| {
        let (org, policy) = (org.clone(), Arc::default());
        Op { org, actor, tool: "test", retry_key: None, policy, command }
    };
    for wide in [None, Some(Command::ProjectOpen { project: project.id })] {
        let session: Vec<Op> = steps.drain(..5).map(op).collect();
        let Command::TaskCreate(TaskCreate { task, .. }) = session[0].command else { panic!() };
        let begun = session[..2].iter().map(|op| Act::Apply(vec![op.clone()]));
        let beside = wide.into_iter().chain([session[2].command.clone()]);
        let last = beside.chain([Command::TaskRemove { task }]);
        let ended = Act::Apply(last.map(|command| op((actor("agent:w1"), command))).collect());
        let acts: Vec<Act> = begun.chain([Act::Advance(20_000), ended]).collect();
        if let Err(error) = play(&acts, true).await {
            panic!("{error}");
        }
    }
}

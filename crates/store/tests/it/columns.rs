//! What every store must do with the columns of the board and the sources of the inbox.

use callboard_domain::board::card::Mode;
use callboard_domain::board::column::{Column, OpenDepState};
use callboard_domain::board::filter::FilterText;
use callboard_domain::board::plan::{PlanId, PlannedPriority, PlannedTask};
use callboard_domain::command::{
    Basis, Checked, Command, CommentAdd, NewCheck, PlanPropose, TaskCreate,
};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::task::comment::{CommentId, CommentKind};
use callboard_domain::task::{Verdict, VerdictSource};
use callboard_domain::time::Timestamp;
use callboard_store::{BoardRow, ColumnPage, ColumnsQuery, StuckQuery};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id};

conformance! {
    tasks_stand_in_their_columns_and_orders,
    a_lease_that_is_over_changes_the_column,
    filters_narrow_every_column,
    counts_go_on_behind_the_limit,
    what_stands_around_tasks_is_read,
    sources_of_the_inbox_are_found,
    failing_tasks_are_counted,
    open_deps_are_pairs_of_open_tasks,
}

async fn made(f: &Fixture, title: &str, change: impl FnOnce(&mut TaskCreate)) -> TaskId {
    let mut new = f.new_task(title, &[]);
    change(&mut new);
    let id = new.task;
    f.done("human:ana", Command::TaskCreate(new)).await;
    f.clock.advance_ms(1);
    id
}

fn query(f: &Fixture, filter: &str) -> ColumnsQuery {
    let read = FilterText::parse(filter);
    assert_eq!(read.hints, [], "{filter}");
    ColumnsQuery {
        org: f.home.org.clone(),
        project: None,
        columns: Column::ALL.to_vec(),
        terms: read.terms,
        done_since: Timestamp(0),
        policy: f.policy.clone(),
        limit: 50,
    }
}

fn stuck(f: &Fixture, project: Option<i64>) -> StuckQuery {
    StuckQuery { org: f.home.org.clone(), project, policy: f.policy.clone(), limit: 10 }
}

fn titles(rows: &[BoardRow]) -> String {
    let titles: Vec<&str> = rows.iter().map(|row| row.task.title.as_str()).collect();
    titles.join(" ")
}

/// `a b | c | | | d`: the columns in their order.
async fn shown(f: &Fixture, query: ColumnsQuery) -> String {
    let pages = f.store.board_columns(query).await.unwrap();
    assert!(pages.iter().map(|page| page.column).eq(Column::ALL));
    for ColumnPage { rows, count, column } in &pages {
        assert_eq!(rows.len(), *count, "{column:?}");
    }
    let columns: Vec<String> = pages.iter().map(|page| titles(&page.rows)).collect();
    columns.join("|")
}

async fn tasks_stand_in_their_columns_and_orders(f: Fixture) {
    let first = made(&f, "first", |_| {}).await;
    made(&f, "urgent", |new| new.priority = 100).await;
    made(&f, "waits", |new| new.deps = vec![first]).await;
    let stuck = made(&f, "stuck", |new| new.priority = 100).await;
    f.done("agent:w1", Command::TaskBlock { task: stuck, reason: "no key".into() }).await;
    let talked = made(&f, "talked", |_| {}).await;
    let comment = CommentAdd {
        comment: CommentId(next_id()),
        task: talked,
        kind: CommentKind::Blocker,
        body: "no".into(),
        rationale: Some("because".into()),
        parent: None,
    };
    f.done("human:ana", Command::CommentAdd(comment)).await;
    let claimed = made(&f, "claimed", |_| {}).await;
    f.done("agent:w1", Command::TaskClaim { task: claimed }).await;
    made(&f, "working", |new| new.phase = Phase::Working).await;
    made(&f, "review1", |new| new.phase = Phase::Review).await;
    made(&f, "review2", |new| new.phase = Phase::Review).await;
    made(&f, "old", |new| new.phase = Phase::ClosedDone).await;
    f.clock.advance_ms(60_000);
    made(&f, "done1", |new| new.phase = Phase::ClosedDone).await;
    made(&f, "done2", |new| new.phase = Phase::ClosedCanceled).await;
    let epic = made(&f, "epic", |new| new.is_plan = true).await;
    f.done("human:ana", Command::TaskRemove { task: made(&f, "gone", |_| {}).await }).await;
    let all = "stuck waits talked|urgent first claimed|working|review1 review2|done2 done1 old";
    assert_eq!(shown(&f, query(&f, "")).await, all);
    let since = f.store.now().plus_ms(-30_000);
    let day = ColumnsQuery { done_since: since, ..query(&f, "") };
    assert!(shown(&f, day).await.ends_with("|done2 done1"));
    let here = ColumnsQuery { project: Some(f.home.project.id), ..query(&f, "") };
    assert_eq!(shown(&f, here).await, all);
    let nowhere = ColumnsQuery { project: Some(0), ..query(&f, "") };
    assert_eq!(shown(&f, nowhere).await, "||||");
    let rows = f.store.board_tasks(&f.home.org, &[first, epic], &f.policy).await.unwrap();
    assert_eq!(rows.len(), 2);
}

async fn a_lease_that_is_over_changes_the_column(f: Fixture) {
    let (leased, other) = (made(&f, "leased", |_| {}).await, made(&f, "other", |_| {}).await);
    made(&f, "third", |_| {}).await;
    for task in [leased, other] {
        f.done("agent:w1", f.begin(task, "k", Some(60))).await;
    }
    f.done("agent:w1", Command::TaskBlock { task: other, reason: "no key".into() }).await;
    assert_eq!(shown(&f, query(&f, "")).await, "|third|leased other||");
    f.clock.advance_ms(61_000);
    assert_eq!(shown(&f, query(&f, "")).await, "other|leased third|||");
    let ready = ColumnsQuery { columns: vec![Column::Ready], ..query(&f, "") };
    let pages = f.store.board_columns(ready).await.unwrap();
    assert_eq!((pages.len(), titles(&pages[0].rows)), (1, "leased third".into()));
}

async fn filters_narrow_every_column(f: Fixture) {
    let epic = made(&f, "Time_line", |new| new.is_plan = true).await;
    let name = f.record(epic).await.task.name();
    let check = |cmd: Option<&str>| NewCheck {
        desc: "\"pass\":false \"kind\":".into(),
        cmd: cmd.map(Into::into),
        ..NewCheck::default()
    };
    let a = made(&f, "alpha 100%", |new| {
        (new.parent, new.priority) = (Some(epic), 100);
        new.checks = vec![check(None), check(None)];
    })
    .await;
    let b = made(&f, "beta", |new| new.checks = vec![check(None)]).await;
    made(&f, "gamma", |new| new.phase = Phase::Review).await;
    f.done("agent:w1", Command::TaskClaim { task: b }).await;
    f.done("human:ana", f.begin(a, "k", None)).await;
    let attest = |task, index, pass| Command::CheckAttest { task, index, pass, tree: None };
    for (filter, expected) in [
        ("", "|beta|alpha 100%|gamma|"),
        ("ALPHA", "||alpha 100%||"),
        ("0%", "||alpha 100%||"),
        ("1%", "||||"),
        ("-alpha", "|beta||gamma|"),
        ("\"pha 1\"", "||alpha 100%||"),
        ("a -gamma -beta", "||alpha 100%||"),
        ("actor:w1", "|beta|||"),
        ("actor:agent:w1", "|beta|||"),
        ("actor:ana", "||alpha 100%||"),
        ("actor:human:w1", "||||"),
        ("-actor:w1", "||alpha 100%|gamma|"),
        ("epic:time_l", "||alpha 100%||"),
        ("epic:timexl", "||||"),
        ("-epic:time", "|beta||gamma|"),
        (&format!("epic:{name} alpha"), "||alpha 100%||"),
        (&format!("epic:{}", name.to_string().to_lowercase()), "||alpha 100%||"),
        ("check:open", "|beta|alpha 100%||"),
        ("check:fail", "||||"),
        ("check:pass", "||||"),
        ("-check:open", "|||gamma|"),
        ("label:backlog", "|beta|||"),
        ("-label:backlog", "||alpha 100%|gamma|"),
        ("phase:review", "|||gamma|"),
        ("-phase:ready", "||alpha 100%|gamma|"),
        ("priority:P0", "||alpha 100%||"),
        ("project:demo", "|beta|alpha 100%|gamma|"),
        ("project:other", "||||"),
        ("verb:task.claimed since:1d", "|beta|alpha 100%|gamma|"),
    ] {
        assert_eq!(shown(&f, query(&f, filter)).await, expected, "{filter}");
    }
    f.done("human:ana", attest(a, 0, false)).await;
    f.done("human:ana", attest(b, 0, true)).await;
    for (filter, expected) in [
        ("check:fail", "||alpha 100%||"),
        ("check:pass", "|beta|||"),
        ("check:open", "||alpha 100%||"),
    ] {
        assert_eq!(shown(&f, query(&f, filter)).await, expected, "{filter}");
    }
    f.done("human:ana", attest(a, 1, true)).await;
    assert_eq!(shown(&f, query(&f, "check:open")).await, "||||");
}

async fn counts_go_on_behind_the_limit(f: Fixture) {
    let new = |n: usize| f.new_task(&format!("t{n}"), &[]);
    f.done("human:ana", Command::TaskCreateAll((0..30).map(new).collect())).await;
    for (filter, rows, count) in [("", 5, 30), ("t1", 5, 11), ("t29", 1, 1)] {
        let few = ColumnsQuery { limit: 5, columns: vec![Column::Ready], ..query(&f, filter) };
        let pages = f.store.board_columns(few).await.unwrap();
        assert_eq!((pages[0].rows.len(), pages[0].count), (rows, count), "{filter}");
    }
}

async fn what_stands_around_tasks_is_read(f: Fixture) {
    let epic = made(&f, "epic", |new| new.is_plan = true).await;
    let closed = made(&f, "d0", |new| new.phase = Phase::ClosedDone).await;
    let silent = made(&f, "d1", |_| {}).await;
    f.done("agent:w1", f.begin(silent, "k", None)).await;
    let review = made(&f, "d2", |new| new.phase = Phase::Review).await;
    let ready = made(&f, "d3", |_| {}).await;
    let more = made(&f, "d4", |_| {}).await;
    let deps = vec![closed, silent, review, ready, more];
    let task = made(&f, "waits", |new| (new.deps, new.parent) = (deps, Some(epic))).await;
    made(&f, "over", |new| (new.phase, new.parent) = (Phase::ClosedDone, Some(epic))).await;
    let states = async || {
        let around = f.store.board_around(&f.home.org, &[task, ready], &f.policy).await.unwrap();
        assert!(around[&ready.id].deps.is_empty());
        let cards = f.store.board_cards(&f.home.org, &[task, ready]).await.unwrap();
        assert!(cards.iter().all(|(id, card)| *card == around[id].card), "{cards:?}");
        let deps = around[&task.id].deps.iter();
        deps.map(|dep| (dep.title.clone(), dep.state)).collect::<Vec<_>>()
    };
    let expected = |first| {
        let of = |title: &str, state| (title.to_owned(), state);
        [of("d1", first), of("d2", OpenDepState::Review), of("d3", OpenDepState::Waiting)]
    };
    assert_eq!(states().await, expected(OpenDepState::Working));
    f.clock.advance_ms(i64::from(f.policy.stale_after_s) * 1000 + 1000);
    assert_eq!(states().await, expected(OpenDepState::Silent));
    let epics = f.store.epics_progress(&f.home.org, &[epic]).await.unwrap();
    let [epic] = &epics[..] else { panic!("{epics:?}") };
    assert_eq!((epic.title.as_str(), epic.closed, epic.tasks), ("epic", 1, 2));
}

async fn sources_of_the_inbox_are_found(f: Fixture) {
    let (org, limit) = (f.home.org.clone(), 10);
    // Silent holders: by the end of the lease, without a lease last.
    let mut tasks = Vec::new();
    for (title, lease_s) in [("free", None), ("long", Some(7000)), ("short", Some(5000))] {
        let task = made(&f, title, |_| {}).await;
        f.done("agent:w1", f.begin(task, title, lease_s)).await;
        tasks.push(task);
    }
    let silent = async |project| titles(&f.store.tasks_silent(stuck(&f, project)).await.unwrap());
    assert_eq!(silent(None).await, "");
    let at_work = async |project| {
        let actors = f.store.actors_at_work(stuck(&f, project)).await.unwrap();
        actors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(at_work(None).await, "agent:w1", "each actor once");
    assert_eq!(at_work(Some(0)).await, "");
    f.clock.advance_ms(i64::from(f.policy.stale_after_s) * 1000 + 1000);
    assert_eq!(at_work(None).await, "", "silent");
    assert_eq!(silent(None).await, "short long free");
    assert_eq!(silent(Some(0)).await, "");
    f.done("agent:w1", f.to(tasks[0], "in_review")).await;
    assert_eq!(silent(Some(f.home.project.id)).await, "short long", "handed over");
    // Blocks and comments.
    f.done("agent:w1", Command::TaskBlock { task: tasks[1], reason: "no".into() }).await;
    let rows = f.store.tasks_stuck(stuck(&f, None)).await.unwrap();
    assert_eq!(titles(&rows), "long");
    assert!(f.store.tasks_stuck(stuck(&f, Some(0))).await.unwrap().is_empty());
    for kind in [CommentKind::Nack, CommentKind::Note, CommentKind::Blocker] {
        let comment = CommentAdd {
            comment: CommentId(next_id()),
            task: tasks[2],
            kind,
            body: kind.as_str().into(),
            rationale: Some("because".into()),
            parent: None,
        };
        f.done("human:ana", Command::CommentAdd(comment)).await;
        f.clock.advance_ms(1);
    }
    let open = f.store.comments_open(&org, limit).await.unwrap();
    let kinds: Vec<_> = open.iter().map(|comment| comment.kind.as_str()).collect();
    assert_eq!(kinds, ["nack", "blocker"]);
    let words = None;
    f.done("human:ana", Command::CommentResolve { comment: open[0].id, words }).await;
    assert_eq!(f.store.comments_open(&org, limit).await.unwrap().len(), 1);
    // Plans, epics.
    for _ in 0..2 {
        let tasks = vec![PlannedTask {
            title: "a".into(),
            mode: Mode::Auto,
            description: String::new(),
            acceptance_criteria: Vec::new(),
            priority: PlannedPriority::High,
        }];
        let plan = PlanPropose { plan: PlanId(next_id()), tasks, todos: Vec::new() };
        f.done("agent:w1", Command::PlanPropose(plan)).await;
    }
    let plans = f.store.plans_open(&org, limit).await.unwrap();
    assert!(plans.len() == 2 && plans[0].id < plans[1].id);
    f.done("human:ana", Command::PlanReject { plan: plans[0].id, words: None }).await;
    assert_eq!(f.store.plans_open(&org, limit).await.unwrap(), plans[1..]);
    made(&f, "epic", |new| (new.is_plan, new.phase) = (true, Phase::Review)).await;
    let rows = f.store.epics_in_review(stuck(&f, None)).await.unwrap();
    assert_eq!(titles(&rows), "epic");
    assert!(f.store.checks_ran(&org, tasks[0]).await.unwrap().is_empty());
    let command = NewCheck { desc: "c".into(), cmd: Some("false".into()), ..NewCheck::default() };
    let checked = made(&f, "checked", |new| new.checks = vec![command]).await;
    for exit_code in [1, 2] {
        let task = f.record(checked).await.task;
        let basis = Basis { label: task.label, deps: Vec::new(), checks: task.checks };
        let (log, took_ms) = ("log".into(), Some(1_200));
        let source = VerdictSource::Run { exit_code: Some(exit_code), log, took_ms };
        let verdict = Verdict { pass: false, at: f.store.now(), tree: None, source };
        let ran = Checked { basis, tree: None, runs: vec![(0, verdict)] };
        f.done("agent:w1", Command::CheckRun { task: checked, checked: ran }).await;
        f.done("agent:w1", Command::TaskNote { task: checked, text: "again".into() }).await;
    }
    let ran = f.store.checks_ran(&org, checked).await.unwrap();
    assert!(ran.len() == 2 && ran[0].seq > ran[1].seq, "{ran:?}");
    assert_eq!(ran[0].read().check_index(), Some(0));
    assert_eq!(ran[0].data["took_ms"], 1_200);
    let verdict = f.record(checked).await.task.checks[0].verdict.clone();
    assert_eq!(verdict.and_then(|verdict| verdict.took_ms()), Some(1_200));
    f.assert_sound().await;
}

async fn failing_tasks_are_counted(f: Fixture) {
    let check = || vec![NewCheck { desc: "c".into(), ..NewCheck::default() }];
    let attest = |task, pass| Command::CheckAttest { task, index: 0, pass, tree: None };
    for (title, phase, pass) in [
        ("ready", Phase::Initial, Some(false)),
        ("working", Phase::Working, Some(false)),
        ("review", Phase::Review, Some(true)),
        ("review too", Phase::Review, Some(false)),
        ("fresh", Phase::Initial, None),
    ] {
        let task = made(&f, title, |new| (new.phase, new.checks) = (phase, check())).await;
        if let Some(pass) = pass {
            f.done("human:ana", attest(task, pass)).await;
        }
    }
    let failing =
        async |project| titles(&f.store.tasks_with_failing(stuck(&f, project)).await.unwrap());
    assert_eq!(failing(None).await, "working review too");
    assert_eq!(failing(Some(f.home.project.id)).await, "working review too");
    assert_eq!(failing(Some(0)).await, "");
    let in_review = async |project, limit| {
        let query = StuckQuery { limit, ..stuck(&f, project) };
        f.store.tasks_in_review(query).await.unwrap()
    };
    let review = ColumnsQuery { columns: vec![Column::Review], ..query(&f, "") };
    let rows = f.store.board_columns(review).await.unwrap();
    let rows: Vec<_> = rows[0].rows.iter().map(|row| &row.task).collect();
    let seen = in_review(None, 10).await;
    assert_eq!(seen.len(), 2);
    for (seen, task) in seen.iter().zip(&rows) {
        let (id, at) = (seen.id, seen.phase_at);
        assert_eq!((id, seen.name, at), (task.id, task.name(), task.phase_at));
        assert_eq!(seen.verification, task.verification);
    }
    assert_eq!(in_review(Some(f.home.project.id), 1).await, seen[..1]);
    assert_eq!(in_review(Some(0), 10).await, []);
    let all = Column::ALL.to_vec();
    for (filter, columns, failing) in [
        ("", all.clone(), 3),
        ("", vec![Column::Review], 1),
        ("", vec![Column::Blocked], 0),
        ("review", all.clone(), 1),
        ("check:fail", all.clone(), 3),
        ("check:fail too", all.clone(), 1),
        ("-check:fail", all, 0),
    ] {
        let query = ColumnsQuery { columns: columns.clone(), limit: 1, ..query(&f, filter) };
        let found = f.store.tasks_failing(query).await.unwrap();
        assert_eq!(found, failing, "{filter} {columns:?}");
    }
    let away = ColumnsQuery { project: Some(0), ..query(&f, "") };
    assert_eq!(f.store.tasks_failing(away).await.unwrap(), 0);
}

async fn open_deps_are_pairs_of_open_tasks(f: Fixture) {
    let closed = made(&f, "closed", |new| new.phase = Phase::ClosedDone).await;
    let epic = made(&f, "epic", |new| new.is_plan = true).await;
    let first = made(&f, "first", |_| {}).await;
    let second = made(&f, "second", |new| new.deps = vec![first, closed, epic]).await;
    let third = made(&f, "third", |new| new.deps = vec![second]).await;
    made(&f, "plan", |new| (new.deps, new.is_plan) = (vec![first], true)).await;
    made(&f, "alone", |_| {}).await;
    let pairs = async |project| {
        let mut found = f.store.deps_open(stuck(&f, project)).await.unwrap();
        found.sort();
        found
    };
    assert_eq!(pairs(None).await, [(first, second), (second, third)]);
    assert_eq!(pairs(Some(f.home.project.id)).await.len(), 2);
    assert_eq!(pairs(Some(0)).await, []);
    f.done("human:ana", f.to(first, "done")).await;
    assert_eq!(pairs(None).await, [(second, third)]);
}

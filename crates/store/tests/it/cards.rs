//! What every store must do with cards, notes and the board's list.

use std::sync::Arc;

use callboard_domain::board::card::{AgentMessage, Card, Failed, Mode, ReviewState, Terminal};
use callboard_domain::command::{CardUpdate, Command, ReviewDecide, ReviewVerdict, TaskCreate};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::time::Timestamp;
use callboard_store::{CardPage, CardQuery, CardRow, EventQuery, TaskQuery, TaskScope};

use crate::conformance::conformance;
use crate::fixture::{Database, Fixture};

conformance! {
    a_card_is_read_back_whole,
    a_task_without_a_card_has_the_default_one,
    changes_within_one_moment_are_told_apart,
    a_phase_is_dated_and_no_edit_moves_that,
    the_board_is_listed_in_its_order,
    pages_behind_any_offset_make_up_the_list,
    a_count_that_differs_from_the_rows_is_found,
    words_are_found_in_titles_and_bodies,
    many_tasks_are_made_together_or_not_at_all,
    a_reference_stands_once_in_a_project,
    of_two_imports_at_one_time_one_makes_the_tasks,
    a_parent_is_changed_and_never_a_circle,
    the_parts_of_a_task_are_listed,
    notes_go_with_their_task,
    a_refused_call_leaves_an_event_and_nothing_else,
}

const ODD: &str = "\u{1f980} 'card' \\ \"é\"\n";

async fn card(f: &Fixture, task: TaskId) -> Card {
    f.store.card("default", task).await.unwrap().unwrap()
}

async fn made(f: &Fixture, title: &str, card: Card, phase: Phase) -> TaskId {
    let mut new = f.new_task(title, &[]);
    (new.card, new.phase) = (Box::new(card), phase);
    let id = new.task;
    f.done("human:ana", Command::TaskCreate(new)).await;
    id
}

fn update(task: TaskId, change: impl FnOnce(&mut CardUpdate)) -> Command {
    let mut update = CardUpdate::of(task);
    change(&mut update);
    Command::CardUpdate(Box::new(update))
}

async fn a_card_is_read_back_whole(f: Fixture) {
    let wanted = Card {
        mode: Mode::Auto,
        criteria: vec![ODD.trim().into(), "two".into()],
        terminal: Some(Terminal::Cursor),
        agent: Some("codex".into()),
        base_branch: Some("release/1".into()),
        created_by: Some(ODD.trim().into()),
        workspace: Some("task-1-a".into()),
        branch: Some("callboard/task-1-a".into()),
        failed: Some(Failed { reason: ODD.into(), at: Timestamp(2) }),
        told: vec![AgentMessage {
            by: "human:ana".parse().unwrap(),
            at: Timestamp(3),
            text: ODD.into(),
        }],
        ..Card::default()
    };
    let task = made(&f, "A", wanted.clone(), Phase::Working).await;
    assert_eq!(card(&f, task).await, wanted);
    let summary = ODD.to_owned();
    f.done("agent:w1", Command::ReviewRequest { task, summary }).await;
    let verdict = ReviewVerdict::Reject { to: Phase::Working };
    let decision = ReviewDecide {
        task,
        verdict,
        feedback: ODD.into(),
        checked: None,
        work: None,
        sends: Default::default(),
        seen: Default::default(),
    };
    f.done("human:ana", Command::ReviewDecide(decision)).await;
    let kept = card(&f.neighbour().await, task).await;
    let review = kept.review.clone().unwrap();
    assert_eq!((review.state, review.summary.as_str()), (ReviewState::Rejected, ODD.trim()));
    assert_eq!(review.feedback.as_deref(), Some(ODD.trim()));
    assert!(review.decided_at.is_some());
    assert_eq!(Card { review: None, ..kept }, wanted);
    let change = |update: &mut CardUpdate| {
        (update.agent, update.mode) = (Some(String::new()), Some(Mode::Pair));
        update.terminal = Some(None);
        update.criteria = Some(Vec::new());
    };
    f.done("human:ana", update(task, change)).await;
    let kept = card(&f, task).await;
    assert_eq!((kept.mode, kept.agent, kept.terminal), (Mode::Pair, None, None));
    assert!(kept.criteria.is_empty() && kept.review.is_some());
}

async fn a_task_without_a_card_has_the_default_one(f: Fixture) {
    let task = f.create("A", &[]).await;
    assert_eq!(card(&f, task).await, Card::default());
    f.done("human:ana", update(task, |update| update.to = Some(Phase::Review))).await;
    assert_eq!(card(&f, task).await, Card::default());
    let unknown = TaskId { id: crate::fixture::next_id(), ..task };
    assert_eq!(f.store.card("default", unknown).await.unwrap(), None);
    f.done("human:ana", Command::TaskRemove { task }).await;
    assert_eq!(f.store.card("default", task).await.unwrap(), None);
    let gone = f.store.removed("default", task).await.unwrap().unwrap();
    assert_eq!(gone.phase, Phase::Review);
}

/// The clock stands still, and the commands may well share one batch.
async fn changes_within_one_moment_are_told_apart(f: Fixture) {
    let task = f.create("A", &[]).await;
    let titles = (0..20).map(|n| {
        let change = move |update: &mut CardUpdate| update.title = Some(format!("title {n}"));
        f.act("human:ana", update(task, change))
    });
    let mut moments = vec![f.store.task("default", task).await.unwrap().unwrap().task.updated_at];
    for applied in futures_util::future::join_all(titles).await {
        let callboard_store::Outcome::Task(record) = applied.unwrap().outcome else { panic!() };
        moments.push(record.task.updated_at);
    }
    moments.sort();
    assert!(moments.windows(2).all(|pair| pair[0] < pair[1]), "{moments:?}");
}

fn query() -> CardQuery {
    CardQuery {
        org: Arc::from("default"),
        project: None,
        phases: Vec::new(),
        without: Vec::new(),
        words: Vec::new(),
        with_scratchpad: false,
        policy: Arc::default(),
        offset: 0,
        limit: 100,
    }
}

fn titles(page: &CardPage) -> Vec<&str> {
    page.cards.iter().map(|row| row.task.title.as_str()).collect()
}

async fn a_phase_is_dated_and_no_edit_moves_that(f: Fixture) {
    let task = f.create("A", &[]).await;
    let since = async || f.store.task("default", task).await.unwrap().unwrap().task.phase_at;
    let first = since().await;
    f.clock.advance_ms(1000);
    f.done("human:ana", update(task, |update| update.to = Some(Phase::Review))).await;
    let second = since().await;
    assert_eq!(second.ms_since(first), 1000);
    f.clock.advance_ms(1000);
    f.done("human:ana", update(task, |update| update.title = Some("B".into()))).await;
    f.done("human:ana", Command::TaskNote { task, text: "here".into() }).await;
    assert_eq!(since().await, second);
    f.done("human:ana", f.to(task, "done")).await;
    assert_eq!(since().await.ms_since(second), 1000);
}

async fn the_board_is_listed_in_its_order(f: Fixture) {
    let done = made(&f, "done", Card::default(), Phase::ClosedDone).await;
    let low = made(&f, "low", Card::default(), Phase::Initial).await;
    f.done("human:ana", update(low, |update| update.priority = Some(900))).await;
    f.clock.advance_ms(1);
    let first = made(&f, "first", Card::default(), Phase::Initial).await;
    f.clock.advance_ms(1);
    f.create("second", &[first, done]).await;
    made(&f, "doing", Card { mode: Mode::Auto, ..Card::default() }, Phase::Working).await;
    let all = f.store.cards(query()).await.unwrap();
    assert_eq!(titles(&all), ["first", "second", "low", "doing", "done"]);
    assert_eq!(all.total, 5);
    assert_eq!(all.cards[1].deps.len(), 2);
    assert_eq!(all.cards[3].card.mode, Mode::Auto);
    assert_eq!(all.cards[0].scratchpad, None);
    let page = CardQuery { offset: 1, limit: 2, ..query() };
    let page = f.store.cards(page).await.unwrap();
    assert_eq!((titles(&page), page.total), (vec!["second", "low"], 5));
    let text = ODD.to_owned();
    f.done("agent:w1", Command::ScratchpadAppend { task: low, text }).await;
    let some = CardQuery {
        phases: vec![Phase::Initial],
        without: vec![first],
        with_scratchpad: true,
        project: Some(f.home.project.id),
        ..query()
    };
    let some = f.store.cards(some).await.unwrap();
    assert_eq!(titles(&some), ["second", "low"]);
    assert_eq!(some.cards[1].scratchpad.as_deref(), Some(ODD.trim()));
    assert_eq!(some.cards[0].scratchpad.as_deref(), Some(""));
    let nowhere = CardQuery { project: Some(0), ..query() };
    assert_eq!(f.store.cards(nowhere).await.unwrap().total, 0);
}

/// Whatever the offset, and with leases that are over: a lapsed task stands in the first column among the others.
async fn pages_behind_any_offset_make_up_the_list(f: Fixture) {
    let phases = [Phase::Initial, Phase::Review, Phase::ClosedDone, Phase::ClosedCanceled];
    for n in 0..24_u16 {
        f.clock.advance_ms(1);
        let task = made(&f, &format!("{n}"), Card::default(), phases[usize::from(n) % 4]).await;
        f.done("human:ana", update(task, |update| update.priority = Some(n * 7 % 5))).await;
    }
    let (mut held, mut gone) = (Vec::new(), Vec::new());
    for n in 0..6_u16 {
        let task = f.create(&format!("held {n}"), &[]).await;
        f.done("human:ana", update(task, |update| update.priority = Some(n))).await;
        f.done("agent:w1", f.begin(task, &format!("k{n}"), Some(60 + u32::from(n % 2) * 600)))
            .await;
        held.push(task);
    }
    for n in 0..2 {
        gone.push(f.create(&format!("gone {n}"), &[]).await);
    }
    f.done("human:ana", Command::CardRemove { task: gone[0] }).await;
    for lapses in [false, true] {
        if lapses {
            f.clock.advance_ms(61_000);
        }
        for without in [Vec::new(), vec![held[0], held[1], gone[0]]] {
            let of =
                |offset, limit| CardQuery { without: without.clone(), offset, limit, ..query() };
            let all = f.store.cards(of(0, 100)).await.unwrap();
            let place = |row: &CardRow| {
                let column = match row.task.phase {
                    Phase::Initial => 0,
                    Phase::Working => 1,
                    Phase::Review => 2,
                    Phase::ClosedDone | Phase::ClosedCanceled => 3,
                };
                (column, row.task.priority, row.task.created_at, row.task.id.id)
            };
            assert!(all.cards.is_sorted_by_key(place), "{:?}", titles(&all));
            let excluded = if without.is_empty() { 0 } else { 2 };
            assert_eq!((all.cards.len(), all.total), (31 - excluded, 31 - excluded as u64));
            for limit in [1, 4, 7] {
                for offset in 0..all.cards.len() + 2 {
                    let page = f.store.cards(of(offset, limit)).await.unwrap();
                    let wanted: Vec<&str> =
                        titles(&all).into_iter().skip(offset).take(limit).collect();
                    assert_eq!(titles(&page), wanted, "offset {offset}, limit {limit}");
                    assert_eq!(page.total, all.total);
                }
            }
        }
    }
    f.assert_sound().await;
}

async fn a_count_that_differs_from_the_rows_is_found(f: Fixture) {
    f.create("A", &[]).await;
    f.assert_sound().await;
    let wrong = "UPDATE list_counts SET count = count + 1 WHERE list = 'task'";
    match &*f.place {
        Database::Folder(folder) => {
            let db = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
            db.execute_batch(wrong).unwrap();
        }
        Database::Schema(schema) => schema.connect().await.batch_execute(wrong).await.unwrap(),
    }
    let found = f.store.verify().await.unwrap();
    let words: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
    let project = f.home.project.id;
    assert_eq!(words, [format!("a list counts other rows than it has: task ready {project}")]);
}

async fn words_are_found_in_titles_and_bodies(f: Fixture) {
    let body = |title: &str, body: &str| TaskCreate { body: body.into(), ..f.new_task(title, &[]) };
    for (title, text) in
        [("Add a LOGIN", "With a password_hash."), ("Other", "100% login"), ("Plain", "ÄRGER")]
    {
        f.clock.advance_ms(1);
        f.done("human:ana", Command::TaskCreate(body(title, text))).await;
    }
    let found = async |words: &[&str]| {
        let words = words.iter().map(ToString::to_string).collect();
        let page = f.store.cards(CardQuery { words, ..query() }).await.unwrap();
        assert_eq!(page.total, page.cards.len() as u64);
        titles(&page).join(", ")
    };
    for (words, expected) in [
        (&["login"][..], "Add a LOGIN, Other"),
        (&["login", "password"], "Add a LOGIN"),
        (&["password_hash"], "Add a LOGIN"),
        (&["passwordxhash"], ""),
        (&["0%"], "Other"),
        (&["1%"], ""),
        (&["o_her"], ""),
        (&["!"], ""),
        (&["Ärger"], "Plain"),
        (&["ärger"], ""),
    ] {
        assert_eq!(found(words).await, expected, "{words:?}");
    }
    let done =
        CardQuery { words: vec!["login".into()], phases: vec![Phase::ClosedDone], ..query() };
    assert_eq!(f.store.cards(done).await.unwrap().total, 0);
}

async fn many_tasks_are_made_together_or_not_at_all(f: Fixture) {
    let [a, b] = ["A", "B"].map(|title| f.new_task(title, &[]));
    let nowhere = TaskCreate { parent: Some(b.task), ..f.new_task("C", &[]) };
    let all = Command::TaskCreateAll(vec![a.clone(), nowhere]);
    assert_eq!(f.code("human:ana", all).await, "TASK_NOT_FOUND");
    assert_eq!(f.store.cards(query()).await.unwrap().total, 0);
    let parent = f.create("P", &[]).await;
    let below = TaskCreate { parent: Some(parent), ..b };
    f.done("human:ana", Command::TaskCreateAll(vec![a, below])).await;
    let made = f.store.cards(query()).await.unwrap();
    assert_eq!(made.total, 3);
    let parents: Vec<_> = made.cards.iter().map(|row| row.task.parent).collect();
    assert_eq!(parents.iter().filter(|above| **above == Some(parent)).count(), 1);
}

fn imported(f: &Fixture, names: &[&str]) -> Vec<TaskCreate> {
    let new = |name: &&str| TaskCreate {
        reference: Some((*name).to_owned()),
        ..f.new_task(&format!("Task {name}"), &[])
    };
    names.iter().map(new).collect()
}

async fn a_reference_stands_once_in_a_project(f: Fixture) {
    let odd = format!("beads:{}", ODD.trim());
    let [new, other] =
        [imported(&f, &[&odd]), imported(&f, &["beads:b"])].map(|mut all| all.remove(0));
    let (id, b) = (new.task, other.task);
    f.done("human:ana", Command::TaskCreateAll(vec![new, other])).await;
    assert_eq!(f.record(id).await.task.reference, Some(odd.clone()));
    assert_eq!(f.neighbour().await.record(b).await.task.reference.as_deref(), Some("beads:b"));
    let again = || Command::TaskCreateAll(imported(&f, &["beads:c", "beads:b"]));
    assert_eq!(f.code("human:ana", again()).await, "CONFLICT");
    assert_eq!(f.store.cards(query()).await.unwrap().total, 2, "nothing of the list was made");
    let alone = || Command::TaskCreate(imported(&f, &["beads:b"]).remove(0));
    assert_eq!(f.code("human:ana", alone()).await, "CONFLICT");
    let twice = Command::TaskCreateAll(imported(&f, &["beads:d", "beads:d"]));
    assert_eq!(f.code("human:ana", twice).await, "INVALID_INPUT");
    // Edits keep the name, and a removed task gives it away.
    let change = |update: &mut CardUpdate| update.title = Some("Another title".into());
    f.done("human:ana", update(b, change)).await;
    assert_eq!(f.record(b).await.task.reference.as_deref(), Some("beads:b"));
    f.done("human:ana", Command::TaskRemove { task: b }).await;
    f.done("human:ana", again()).await;
    assert_eq!(f.store.cards(query()).await.unwrap().total, 3);
    f.assert_sound().await;
}

async fn of_two_imports_at_one_time_one_makes_the_tasks(f: Fixture) {
    let others = [f.neighbour().await, f.neighbour().await, f.neighbour().await];
    for round in 0..5 {
        let names: Vec<String> = (0..20).map(|n| format!("markdown:plan-{round}.md#{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let asked = others
            .iter()
            .map(|other| other.act("human:ana", Command::TaskCreateAll(imported(other, &names))));
        let answers = futures_util::future::join_all(asked).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    }
    assert_eq!(f.store.cards(query()).await.unwrap().total, 100);
    f.assert_sound().await;
}

async fn the_parts_of_a_task_are_listed(f: Fixture) {
    let whole = f.create("P", &[]).await;
    let mut parts = Vec::new();
    for (title, parent) in [("A", Some(whole)), ("B", None), ("C", Some(whole))] {
        let new = TaskCreate { parent, ..f.new_task(title, &[]) };
        let task = new.task;
        f.done("human:ana", Command::TaskCreate(new)).await;
        parts.extend(parent.map(|_| task));
    }
    let of =
        || TaskQuery { parent: Some(whole), ..TaskQuery::of(f.home.project.id, f.policy.clone()) };
    let backlog = || Some("backlog".to_owned());
    let [a, c] = parts[..] else { panic!("two parts") };
    for (query, found) in [
        (of(), vec![a, c]),
        (TaskQuery { newest_first: true, limit: 1, ..of() }, vec![c]),
        (TaskQuery { after: Some(a.id), ..of() }, vec![c]),
        (TaskQuery { label: backlog(), ready: Some(true), ..of() }, vec![a, c]),
        (TaskQuery { label: Some("done".into()), ..of() }, vec![]),
        (TaskQuery { assignee: Some(None), scope: TaskScope::Open, ..of() }, vec![a, c]),
        (TaskQuery { parent: Some(a), ..of() }, vec![]),
    ] {
        let rows = f.store.tasks(query.clone()).await.unwrap();
        let ids: Vec<_> = rows.iter().map(|row| row.task.id).collect();
        assert_eq!(ids, found, "{query:?}");
    }
}

async fn a_parent_is_changed_and_never_a_circle(f: Fixture) {
    let (a, b) = (f.create("A", &[]).await, f.create("B", &[]).await);
    let below = |task, parent| update(task, move |update| update.parent = Some(parent));
    let both = [f.code("human:ana", below(a, Some(b))), f.code("human:ana", below(b, Some(a)))];
    let mut codes = futures_util::future::join_all(both).await;
    codes.sort();
    assert_eq!(codes, ["", "PARENT_CYCLE"]);
    f.done("human:ana", below(a, None)).await;
    f.done("human:ana", below(b, None)).await;
    f.done("human:ana", below(a, Some(b))).await;
    let record = f.store.task("default", a).await.unwrap().unwrap();
    assert_eq!(record.task.parent, Some(b));
    assert!(f.store.task("default", b).await.unwrap().unwrap().task.is_plan);
}

async fn notes_go_with_their_task(f: Fixture) {
    let task = f.create("A", &[]).await;
    let before = f.store.task("default", task).await.unwrap().unwrap();
    for text in ["one", "two"] {
        let text = text.to_owned();
        f.done("agent:w1", Command::ScratchpadAppend { task, text }).await;
    }
    let notes = f.store.scratchpad("default", task).await.unwrap();
    assert_eq!(notes.as_deref(), Some("one\ntwo"));
    assert_eq!(f.store.task("default", task).await.unwrap().unwrap(), before);
    f.done("human:ana", Command::CardRemove { task }).await;
    assert_eq!(f.store.scratchpad("default", task).await.unwrap(), None);
    assert!(f.store.verify().await.unwrap().is_empty());
}

async fn a_refused_call_leaves_an_event_and_nothing_else(f: Fixture) {
    let task = f.create("A", &[]).await;
    let before = f.store.last_seq().await.unwrap();
    let refuse =
        Command::CallRefuse { tool: "t", action: None, code: "NO".into(), task: Some(task) };
    let applied = f.done("agent:w1", refuse).await;
    assert_eq!(applied.last_seq, Some(before + 1));
    let after = EventQuery { after: before, limit: 10, ..EventQuery::default() };
    let events = f.store.events(after).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].name.as_str(), events[0].task()), ("call.refused", None));
    assert_eq!(events[0].data["task"], task.to_string());
    assert!(f.store.verify().await.unwrap().is_empty());
}

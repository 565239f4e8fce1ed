//! What every store must do with a crew's agents, mail and decisions.

use callboard_domain::command::*;
use callboard_domain::crew::{Agent, AgentId, DecisionId, MailId};
use callboard_domain::ids::{AttemptId, IdKind};
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_store::{AgentQuery, DecisionQuery, MAIL_SHOWN_CHARS, MailQuery, Outcome};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id, place};

conformance! {
    an_agent_is_read_back_whole_and_is_there_once,
    of_two_processes_one_adds_an_agent,
    an_inbox_is_paged_newest_first_and_counted,
    a_mail_is_sent_once_and_first_read_once,
    answers_to_a_mail_are_found_oldest_first,
    a_log_is_kept_without_events,
    orgs_have_crews_of_their_own,
}

const ODD: &str = "\u{1f980} 'mail' \\ \"é\"\n";

fn id(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

fn add(name: &str, kind: AgentType) -> AgentAdd {
    AgentAdd { agent: id(name), kind, epic: None, task: None, or_keep: false, workers_max: None }
}

fn send(from: Option<&str>, to: Option<&str>, body: &str) -> MailSend {
    let (from, to) = (from.map(id), to.map(id));
    MailSend { mail: MailId(next_id()), from, to, subject: ODD.into(), body: body.into() }
}

fn inbox(fx: &Fixture, to: Option<&str>, limit: usize) -> MailQuery {
    let org = fx.home.org.clone();
    MailQuery { org, to: to.map(id), unread_only: false, before: None, limit }
}

async fn agent(fx: &Fixture, name: &str) -> Option<Agent> {
    fx.store.agent(&fx.home.org, &id(name)).await.unwrap()
}

/// One row of each kind, for tests that move a store.
pub async fn fill(fx: &Fixture) {
    let (epic, task) = (fx.create("an epic", &[]).await, fx.create("a task", &[]).await);
    let boss = AgentAdd { epic: Some(epic), ..add("s1", AgentType::Supervisor) };
    let given = CrewAssign {
        by: Some(id("human:ana")),
        task,
        worker: id("w1"),
        was_on: None,
        from: None,
        sender: None,
        attempt: AttemptId(next_id()),
        place: WorkPlace::default(),
        misses: None,
        mails: [MailId(next_id()), MailId(next_id())],
    };
    let worker = AgentAdd { task: Some(Box::new(given)), ..add("w1", AgentType::Worker) };
    fx.done("human:ana", Command::AgentAdd(boss)).await;
    fx.done("human:ana", Command::AgentAdd(worker)).await;
    let sent = send(Some("w1"), Some("s1"), ODD);
    fx.done("agent:w1", Command::MailSend(sent.clone())).await;
    fx.done("agent:s1", Command::MailRead { mail: sent.mail, by: Some(id("s1")) }).await;
    let answer = MailReply {
        mail: MailId(next_id()),
        original: sent.mail,
        by: Some(id("s1")),
        body: ODD.into(),
    };
    fx.done("agent:s1", Command::MailReply(answer)).await;
    fx.done("agent:w1", Command::MailSend(send(Some("w1"), None, ODD))).await;
    fx.done("agent:w1", log("w1", Some("{}"))).await;
    fx.done("agent:w1", log("w1", None)).await;
}

fn log(agent: &str, context: Option<&str>) -> Command {
    Command::DecisionLog(DecisionLog {
        decision: DecisionId(next_id()),
        agent: id(agent),
        words: ODD.into(),
        reasoning: "because".into(),
        context: context.map(str::to_owned),
        by_hand: context.is_none(),
    })
}

async fn an_agent_is_read_back_whole_and_is_there_once(fx: Fixture) {
    fill(&fx).await;
    let boss = agent(&fx, "s1").await.unwrap();
    let worker = agent(&fx, "w1").await.unwrap();
    assert_eq!((boss.kind, worker.kind), (AgentType::Supervisor, AgentType::Worker));
    assert!(boss.epic.is_some() && boss.task.is_none() && worker.task.is_some());
    assert_eq!(agent(&fx, "w9").await, None);
    let again = Command::AgentAdd(add("w1", AgentType::Supervisor));
    assert_eq!(fx.code("human:ana", again).await, "AGENT_EXISTS");
    fx.clock.advance_ms(60_000);
    fx.done("agent:w1", Command::AgentTouch { agent: id("w1") }).await;
    let seen = agent(&fx, "w1").await.unwrap();
    assert_eq!(seen.last_active_at, Timestamp(1_700_000_060_000_000));
    assert_eq!(Agent { last_active_at: worker.last_active_at, ..seen }, worker);
    let children = TaskCreate { is_plan: true, ..fx.new_task("an epic", &[]) };
    let plan = children.task;
    fx.done("human:ana", Command::TaskCreate(children)).await;
    assert_eq!(fx.store.epics(&fx.home.org, 9).await.unwrap(), [plan]);
    assert!(fx.record(plan).await.task.is_plan);
    let query = |kind, epic| AgentQuery { org: fx.home.org.clone(), kind, epic, limit: 10 };
    for (query, names) in [
        (query(None, None), &["s1", "w1"][..]),
        (query(Some(AgentType::Worker), None), &["w1"]),
        (query(None, boss.epic), &["s1"]),
        (query(Some(AgentType::Worker), boss.epic), &[]),
    ] {
        let found = fx.store.agents(query).await.unwrap();
        let found: Vec<_> = found.iter().map(|agent| agent.id.as_str()).collect();
        assert_eq!(found, names);
    }
    fx.done("human:ana", Command::AgentRemove { agent: id("w1") }).await;
    assert_eq!(agent(&fx, "w1").await, None);
    let from_gone = fx.store.mails(inbox(&fx, Some("s1"), 9)).await.unwrap();
    assert_eq!((from_gone.len(), from_gone[0].from_type), (1, None));
    fx.assert_sound().await;
}

async fn of_two_processes_one_adds_an_agent(fx: Fixture) {
    let other = fx.neighbour().await;
    for round in 0..10 {
        let new = || Command::AgentAdd(add(&format!("w{round}"), AgentType::Worker));
        let (one, two) = tokio::join!(fx.code("human:ana", new()), other.code("human:bob", new()));
        let mut codes = [one, two];
        codes.sort_unstable();
        assert_eq!(codes, ["", "AGENT_EXISTS"]);
    }
}

async fn an_inbox_is_paged_newest_first_and_counted(fx: Fixture) {
    fx.done("human:ana", Command::AgentAdd(add("w1", AgentType::Worker))).await;
    fx.done("human:ana", Command::AgentAdd(add("w2", AgentType::Worker))).await;
    let mut sent = Vec::new();
    for number in 0..5 {
        let mail = send(Some("w2"), Some("w1"), &format!("{number}"));
        sent.push(mail.mail);
        fx.done("agent:w2", Command::MailSend(mail)).await;
    }
    fx.done("agent:w2", Command::MailSend(send(Some("w2"), None, ODD))).await;
    fx.done("human:ana", Command::MailSend(send(None, Some("w2"), ODD))).await;
    fx.done("agent:w1", Command::MailRead { mail: sent[3], by: Some(id("w1")) }).await;
    sent.reverse();
    let page = fx.store.mails(inbox(&fx, Some("w1"), 2)).await.unwrap();
    let ids = |page: &[callboard_store::MailSeen]| -> Vec<MailId> {
        page.iter().map(|seen| seen.mail.id).collect()
    };
    assert_eq!(ids(&page), sent[..2]);
    assert_eq!(page[0].from_type, Some(AgentType::Worker));
    let next = MailQuery { before: Some(sent[1]), ..inbox(&fx, Some("w1"), 9) };
    assert_eq!(ids(&fx.store.mails(next).await.unwrap()), sent[2..]);
    let unread = MailQuery { unread_only: true, ..inbox(&fx, Some("w1"), 9) };
    let unread = ids(&fx.store.mails(unread).await.unwrap());
    assert_eq!(unread, [sent[0], sent[2], sent[3], sent[4]]);
    for (to, count) in [(Some("w1"), 4), (Some("w2"), 1), (None, 1), (Some("w3"), 0)] {
        let to = to.map(id);
        assert_eq!(fx.store.mails_unread(&fx.home.org, to.as_ref()).await.unwrap(), count);
    }
    let people = fx.store.mails(inbox(&fx, None, 9)).await.unwrap();
    assert_eq!((people.len(), people[0].mail.to.as_ref()), (1, None));

    let long = send(Some("w2"), Some("w1"), &"é".repeat(MAIL_SHOWN_CHARS + 1));
    fx.done("agent:w2", Command::MailSend(long.clone())).await;
    let listed = fx.store.mails(inbox(&fx, Some("w1"), 1)).await.unwrap();
    assert_eq!(listed[0].mail.body.chars().count(), MAIL_SHOWN_CHARS);
    assert_eq!(listed[0].body_chars, MAIL_SHOWN_CHARS + 1);
    let whole = fx.store.mail(&fx.home.org, long.mail).await.unwrap().unwrap();
    assert_eq!(whole.mail.body, long.body);
}

async fn a_mail_is_sent_once_and_first_read_once(fx: Fixture) {
    fx.done("human:ana", Command::AgentAdd(add("w1", AgentType::Worker))).await;
    let mail = send(None, Some("w1"), ODD);
    let first = fx.done("human:ana", Command::MailSend(mail.clone())).await;
    fx.clock.advance_ms(60_000);
    let again = fx.done("human:ana", Command::MailSend(mail.clone())).await;
    assert_eq!(again.last_seq, None);
    for applied in [first, again] {
        let Outcome::Mail(kept) = applied.outcome else { panic!("no mail") };
        assert_eq!((kept.id, kept.created_at), (mail.mail, Timestamp(1_700_000_000_000_000)));
    }
    let range = (mail.mail.0, mail.mail.0);
    let ids = async |org: &str, kind| fx.store.ids(org, kind, range, 9).await.unwrap();
    assert_eq!(ids(&fx.home.org, IdKind::Mail).await, [mail.mail.0]);
    for kind in [IdKind::Decision, IdKind::Job, IdKind::Knowledge, IdKind::Plan] {
        assert_eq!(ids(&fx.home.org, kind).await, [], "{kind:?}");
    }
    let read = || Command::MailRead { mail: mail.mail, by: Some(id("w1")) };
    let foreign = Command::MailRead { mail: mail.mail, by: Some(id("w2")) };
    assert_eq!(fx.code("agent:w2", foreign).await, "AUTHORIZATION_DENIED");
    let Outcome::Mail(kept) = fx.done("agent:w1", read()).await.outcome else { panic!("no mail") };
    assert_eq!(kept.read_at, Some(Timestamp(1_700_000_060_000_000)));
    fx.clock.advance_ms(60_000);
    assert_eq!(fx.done("agent:w1", read()).await.last_seq, None);
    let kept = fx.store.mail(&fx.home.org, mail.mail).await.unwrap().unwrap();
    assert_eq!(kept.mail.read_at, Some(Timestamp(1_700_000_060_000_000)));
    let unknown = Command::MailRead { mail: MailId(next_id()), by: Some(id("w1")) };
    assert_eq!(fx.code("agent:w1", unknown).await, "MAIL_NOT_FOUND");
}

async fn answers_to_a_mail_are_found_oldest_first(fx: Fixture) {
    for name in ["s1", "w1"] {
        fx.done("human:ana", Command::AgentAdd(add(name, AgentType::Supervisor))).await;
    }
    let to_people = send(Some("s1"), None, "which one?");
    let to_agent = send(Some("w1"), Some("s1"), "and here?");
    for mail in [&to_people, &to_agent] {
        fx.done("agent:s1", Command::MailSend(mail.clone())).await;
    }
    let answer = |original, by: Option<&str>, body: &str| MailReply {
        mail: MailId(next_id()),
        original,
        by: by.map(id),
        body: body.into(),
    };
    let first = answer(to_people.mail, None, ODD);
    let second = answer(to_people.mail, None, "again");
    let other = answer(to_agent.mail, Some("s1"), "there");
    for reply in [&first, &second, &other] {
        fx.done("human:ana", Command::MailReply(reply.clone())).await;
    }
    // Their answer to the first answer goes to people.
    let back = answer(first.mail, Some("s1"), "thanks");
    fx.done("agent:s1", Command::MailReply(back.clone())).await;
    let org = &fx.home.org;
    for (original, limit, expected) in [
        (to_people.mail, 9, vec![first.mail, second.mail]),
        (to_people.mail, 1, vec![first.mail]),
        (to_agent.mail, 9, vec![other.mail]),
        (first.mail, 9, vec![back.mail]),
        (back.mail, 9, vec![]),
    ] {
        let mail = fx.store.mail(org, original).await.unwrap().expect("there").mail;
        let found = fx.store.mail_answers(org, &mail, limit).await.unwrap();
        let ids: Vec<MailId> = found.iter().map(|seen| seen.mail.id).collect();
        assert_eq!(ids, expected);
        let whole = fx.store.mail(org, original).await.unwrap().expect("there");
        assert!(found.iter().all(|seen| seen.mail.in_reply_to == Some(whole.mail.id)));
    }
    fx.store.settle(place("other")).await.unwrap();
    let mail = fx.store.mail(org, to_people.mail).await.unwrap().expect("there").mail;
    assert_eq!(fx.store.mail_answers("other", &mail, 9).await.unwrap(), []);
}

async fn a_log_is_kept_without_events(fx: Fixture) {
    let before = fx.store.last_seq().await.unwrap();
    fx.done("agent:w1", log("w1", Some("{\n  \"é\": 1\n}"))).await;
    fx.done("agent:w2", log("w2", Some("{}"))).await;
    assert_eq!(fx.store.last_seq().await.unwrap(), before);
    fx.done("agent:w1", log("w1", None)).await;
    assert_eq!(fx.store.last_seq().await.unwrap(), before + 1, "an agent wrote that");
    let query = |agent: Option<&str>, before, limit| DecisionQuery {
        org: fx.home.org.clone(),
        agent: agent.map(id),
        before,
        limit,
    };
    let all = fx.store.decisions(query(None, None, 9)).await.unwrap();
    let agents: Vec<_> = all.iter().map(|row| row.agent.as_str()).collect();
    assert_eq!(agents, ["w1", "w2", "w1"]);
    assert_eq!(all[2].context.as_deref(), Some("{\n  \"é\": 1\n}"));
    assert_eq!((all[0].context.as_ref(), all[0].decision.as_str()), (None, ODD));
    let own = fx.store.decisions(query(Some("w1"), Some(all[0].id), 9)).await.unwrap();
    assert_eq!(own, all[2..]);
}

async fn orgs_have_crews_of_their_own(fx: Fixture) {
    let other = fx.store.settle(place("other")).await.unwrap();
    let (mine, theirs) = (send(None, Some("w1"), ODD), send(None, Some("w1"), ODD));
    for (org, mail) in [(&fx.home.org, &mine), (&other.org, &theirs)] {
        for command in
            [Command::AgentAdd(add("w1", AgentType::Worker)), Command::MailSend(mail.clone())]
        {
            let op = callboard_store::Op { org: org.clone(), ..fx.op("human:ana", command) };
            fx.store.apply(op).await.unwrap();
        }
    }
    let inbox = fx.store.mails(inbox(&fx, Some("w1"), 9)).await.unwrap();
    assert_eq!(inbox.len(), 1);
    assert_eq!(fx.store.mail(&fx.home.org, theirs.mail).await.unwrap(), None);
    let foreign = Command::MailRead { mail: theirs.mail, by: Some(id("w1")) };
    assert_eq!(fx.code("agent:w1", foreign).await, "MAIL_NOT_FOUND");
}

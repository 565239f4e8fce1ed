//! A crew's agents, mail and log, and the rules of each.

use super::model::{Model, task_named};
use crate::command::*;
use crate::crew::{AgentId, DecisionId, MailId};
use crate::ids::Id;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rights::AgentType;

fn id(name: &str) -> AgentId {
    AgentId::parse(name).expect("an agent's id")
}

fn add(name: &str, kind: AgentType) -> AgentAdd {
    AgentAdd { agent: id(name), kind, epic: None, task: None, or_keep: false, workers_max: None }
}

fn mail(number: u128) -> MailId {
    MailId(Id(number))
}

fn send(number: u128, from: &str, to: Option<&str>) -> Command {
    Command::MailSend(MailSend {
        mail: mail(number),
        from: Some(id(from)),
        to: to.map(id),
        subject: "Help".into(),
        body: "I am stuck".into(),
    })
}

fn reply(number: u128, original: u128, by: &str) -> Command {
    Command::MailReply(MailReply {
        mail: mail(number),
        original: mail(original),
        by: Some(id(by)),
        body: "So am I".into(),
    })
}

fn read(number: u128, by: Option<&str>) -> Command {
    Command::MailRead { mail: mail(number), by: by.map(id) }
}

fn crew() -> Model {
    let mut model = Model::new(Policy::default());
    for (name, kind) in [("s1", AgentType::Supervisor), ("w1", AgentType::Worker)] {
        model.act("ana", &Command::AgentAdd(add(name, kind))).expect("added");
    }
    model.events.clear();
    model
}

#[test]
fn an_agent_is_there_once_and_keeps_its_type() {
    let mut model = crew();
    let again = add("w1", AgentType::Supervisor);
    let exists = Refusal::AgentExists { agent: id("w1") };
    assert_eq!(model.act("ana", &Command::AgentAdd(again.clone())), Err(exists));
    let kept = Command::AgentAdd(AgentAdd { or_keep: true, ..again });
    assert!(model.act("w1", &kept).expect("kept").is_empty());
    let worker = model.rows.crew.agent(&id("w1")).expect("there");
    assert_eq!((worker.kind, worker.idle_since), (AgentType::Worker, Some(model.now)));
    let nowhere = AgentAdd { epic: Some(task_named("A")), ..add("s2", AgentType::Supervisor) };
    let refused = model.act("ana", &Command::AgentAdd(nowhere));
    assert!(matches!(refused, Err(Refusal::EpicNotFound { .. })), "{refused:?}");

    model.now = model.now.plus_s(60);
    let seen = model.act("w1", &Command::AgentTouch { agent: id("w1") }).expect("seen");
    assert!(seen.events.is_empty());
    assert_eq!(model.rows.crew.agent(&id("w1")).expect("there").last_active_at, model.now);
    model.act("ana", &Command::AgentRemove { agent: id("w1") }).expect("removed");
    let gone = model.act("w1", &Command::AgentTouch { agent: id("w1") }).expect("nothing");
    assert!(gone.is_empty());
    assert_eq!(model.events, ["agent.removed"]);
}

#[test]
fn mail_is_sent_once_read_by_its_recipient_and_answered() {
    let mut model = crew();
    model.act("w1", &send(1, "w1", Some("s1"))).expect("sent");
    assert!(model.act("w1", &send(1, "w1", Some("s1"))).expect("sent before").is_empty());
    let unknown = Refusal::AgentNotFound { agent: "s2".into() };
    assert_eq!(model.act("w1", &send(2, "w1", Some("s2"))), Err(unknown));

    let foreign = Err(Refusal::MailOfAnother { mail: mail(1) });
    for by in [Some("w1"), Some("s2"), None] {
        assert_eq!(model.act("w1", &read(1, by)), foreign, "{by:?}");
    }
    assert_eq!(model.act("w1", &reply(3, 1, "w1")), foreign);
    model.act("s1", &read(1, Some("s1"))).expect("read");
    let first = model.now;
    model.now = model.now.plus_s(1);
    assert!(model.act("s1", &read(1, Some("s1"))).expect("read before").is_empty());
    assert_eq!(model.rows.crew.mail(mail(1)).expect("there").read_at, Some(first));

    model.act("s1", &reply(3, 1, "s1")).expect("answered");
    model.act("w1", &reply(4, 3, "w1")).expect("answered");
    let answers: Vec<_> = model.rows.crew.mails[1..]
        .iter()
        .map(|mail| (mail.to.clone(), mail.subject.as_str(), mail.in_reply_to))
        .collect();
    let (to_w1, to_s1) = (Some(id("w1")), Some(id("s1")));
    assert_eq!(answers, [(to_w1, "Re: Help", Some(mail(1))), (to_s1, "Re: Help", Some(mail(3)))]);
    model.act("ana", &Command::AgentRemove { agent: id("w1") }).expect("removed");
    let gone = Refusal::AgentNotFound { agent: "w1".into() };
    assert_eq!(model.act("s1", &reply(5, 4, "s1")), Err(gone));
    let events = ["mail.sent", "mail.read", "mail.sent", "mail.sent", "agent.removed"];
    assert_eq!(model.events, events);
}

#[test]
fn what_is_for_people_is_in_no_agents_inbox() {
    let mut model = crew();
    let change = model.act("w1", &send(1, "w1", None)).expect("sent");
    let said = serde_json::json!({
        "mailId": mail(1), "toAgentId": null, "isForHuman": true, "subject": "Help",
    });
    assert_eq!(change.events[0].data, said);
    assert!(model.act("s1", &read(1, Some("s1"))).is_err());
    model.act("ana", &read(1, None)).expect("read");
}

#[test]
fn only_what_an_agent_wrote_is_an_event() {
    let mut model = crew();
    let log = |by_hand, words: &str| {
        Command::DecisionLog(DecisionLog {
            decision: DecisionId(Id(1)),
            agent: id("w1"),
            words: words.into(),
            reasoning: "because".into(),
            context: None,
            by_hand,
        })
    };
    assert_eq!(model.act("w1", &log(false, "Invoked tool: x")).expect("kept").writes.len(), 1);
    assert!(model.act("w1", &log(true, "  ")).is_err());
    model.act("w1", &log(true, "Chose Redis")).expect("kept");
    assert_eq!(model.events, ["decision.logged"]);
}

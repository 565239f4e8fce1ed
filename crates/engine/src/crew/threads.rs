//! Letters as people read them: in threads, each letter with its answers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use callboard_domain::crew::{AgentId, Mail, MailId};
use callboard_store::{AgentQuery, MailQuery, MailSeen};

use crate::context::{OpContext, Scope};
use crate::crew::agents::{MailFilter, MailPage};
use crate::{At, Engine, EngineError};

/// How many letters of a thread are shown.
const LETTERS_MAX: usize = 100;
/// How many answers to one letter are looked up.
const ANSWERS_MAX: usize = 20;
/// How many letters are looked up to find the first letters of a list's threads. A letter beyond that begins a thread
/// of its own.
const LOOKUPS_MAX: usize = 200;
/// How many agents are asked for letters from people, and how many letters of each are read.
const AGENTS_MAX: usize = 50;
const SENT_MAX: usize = 50;

/// A box of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MailBox {
    /// Letters to the reader that are not read yet.
    #[default]
    Unread,
    /// Letters that people wrote to agents; for people alone. An agent has the box `All` in its place.
    Sent,
    /// Every letter to the reader.
    All,
}

/// Letters of a list that belong together, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailThread {
    pub letters: Vec<MailSeen>,
}

impl MailThread {
    /// The newest letter that is not read yet, else the newest one.
    pub fn next(&self) -> &MailSeen {
        let unread = self.letters.iter().find(|seen| seen.mail.read_at.is_none());
        unread.unwrap_or(&self.letters[0])
    }
}

/// A page of threads.
#[derive(Clone, Debug)]
pub struct MailThreads {
    /// Threads with unread letters first, then by their newest letter.
    pub threads: Vec<MailThread>,
    pub unread: u64,
    /// The oldest letter of the page, when there are older ones.
    pub before: Option<MailId>,
}

impl Engine {
    /// The letters of a box in threads. `to` is the owner of the inbox; `None`: people.
    pub async fn mail_threads(
        &self,
        op: &OpContext,
        to: Option<AgentId>,
        kind: MailBox,
        before: Option<MailId>,
        limit: usize,
    ) -> Result<At<MailThreads>, EngineError> {
        let found = match (kind, &to) {
            (MailBox::Sent, None) => self.mail_sent(op, before, limit).await?,
            // Letters to other agents are not for an agent.
            (MailBox::Unread | MailBox::All | MailBox::Sent, _) => {
                let include_read = kind != MailBox::Unread;
                self.mail_list(op, MailFilter { to, include_read, before, limit }).await?
            }
        };
        let before = found.mails.last().filter(|_| found.more).map(|seen| seen.mail.id);
        let threads = self.in_threads(&op.principal.org, found.mails).await?;
        let it = MailThreads { threads, unread: found.unread, before };
        Ok(At { it, now: self.parts.store.now() })
    }

    /// Letters from people among the newest letters of each agent, the newest first.
    async fn mail_sent(
        &self,
        op: &OpContext,
        before: Option<MailId>,
        limit: usize,
    ) -> Result<MailPage, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let query = AgentQuery { org: org.clone(), kind: None, epic: None, limit: AGENTS_MAX };
        let mut mails = Vec::new();
        for agent in store.agents(query).await? {
            let query = MailQuery {
                org: org.clone(),
                to: Some(agent.id),
                unread_only: false,
                before,
                limit: SENT_MAX,
            };
            let found = store.mails(query).await?;
            mails.extend(found.into_iter().filter(|seen| seen.mail.from.is_none()));
        }
        mails.sort_by_key(|seen| std::cmp::Reverse(seen.mail.id));
        let more = mails.len() > limit;
        mails.truncate(limit);
        let unread = store.mails_unread(org, None).await?;
        Ok(MailPage { mails, unread, more })
    }

    async fn in_threads(
        &self,
        org: &str,
        mails: Vec<MailSeen>,
    ) -> Result<Vec<MailThread>, EngineError> {
        // The letter that each known letter answers.
        let mut answers: HashMap<MailId, Option<MailId>> =
            mails.iter().map(|seen| (seen.mail.id, seen.mail.in_reply_to)).collect();
        let mut lookups = 0;
        let mut threads: Vec<(MailId, MailThread)> = Vec::new();
        for seen in mails {
            let mut root = seen.mail.id;
            while let Some(original) = answers.get(&root).copied().flatten() {
                if let Entry::Vacant(unknown) = answers.entry(original) {
                    if lookups == LOOKUPS_MAX {
                        break;
                    }
                    lookups += 1;
                    let found = self.parts.store.mail(org, original).await?;
                    unknown.insert(found.and_then(|seen| seen.mail.in_reply_to));
                }
                root = original;
            }
            match threads.iter_mut().find(|(known, _)| *known == root) {
                Some((_, thread)) => thread.letters.push(seen),
                None => threads.push((root, MailThread { letters: vec![seen] })),
            }
        }
        let mut threads: Vec<MailThread> = threads.into_iter().map(|(_, thread)| thread).collect();
        threads.sort_by_key(|thread| thread.next().mail.read_at.is_some());
        Ok(threads)
    }

    /// A letter that `by` received or sent, with the whole thread around it, oldest first; `None`: people. Letters of
    /// the thread that `by` neither sent nor received are left out.
    pub async fn mail_thread(
        &self,
        op: &OpContext,
        id: MailId,
        by: Option<&AgentId>,
    ) -> Result<At<Vec<MailSeen>>, EngineError> {
        let asked = self.mail_get(op, id, by).await?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let mut root = asked.clone();
        for _ in 0..LETTERS_MAX {
            let Some(original) = root.mail.in_reply_to else { break };
            let Some(found) = store.mail(org, original).await? else { break };
            if found.mail.judge_reader(by).is_err() {
                break;
            }
            root = found;
        }
        let mut letters = vec![root];
        let mut at = 0;
        while at < letters.len() && letters.len() < LETTERS_MAX {
            let answers = store.mail_answers(org, &letters[at].mail, ANSWERS_MAX).await?;
            let theirs = |seen: &MailSeen| seen.mail.judge_reader(by).is_ok();
            letters.extend(answers.into_iter().filter(theirs));
            at += 1;
        }
        if letters.iter().all(|seen| seen.mail.id != id) {
            letters.push(asked);
        }
        letters.sort_by_key(|seen| seen.mail.id);
        Ok(At { it: letters, now: store.now() })
    }
}

/// The letter of a thread that an answer of `by` goes to: the newest one that an agent wrote to them.
pub fn answerable<'l>(letters: &'l [MailSeen], by: Option<&AgentId>) -> Option<&'l Mail> {
    let mut newest = letters.iter().rev().map(|seen| &seen.mail);
    newest.find(|mail| mail.to.as_ref() == by && mail.from.is_some())
}

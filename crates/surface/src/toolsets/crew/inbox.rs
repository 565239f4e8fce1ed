//! `callboard://crew/inbox`: the caller's own unread mail as a resource, so that subscribers are notified of new mail
//! instead of polling.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::crew::AgentId;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, EngineError, MailFilter};
use tokio::sync::mpsc;

use super::mail::{self, PAGE_DEFAULT};
use crate::front::{ResourceInfo, ResourceText};
use crate::hooks::Resources;
use crate::lookup::{LookupError, ResourceError};

const URI: &str = "callboard://crew/inbox";
const JSON: &str = "application/json";

pub(super) struct Inbox;

#[async_trait]
impl Resources for Inbox {
    fn fixed(&self) -> Vec<ResourceInfo> {
        let (uri, name, title) = (URI.into(), "crew_inbox".into(), "Your unread mail".into());
        vec![ResourceInfo { uri, name, title, media_type: JSON }]
    }

    fn holds(&self, uri: &str) -> bool {
        uri == URI
    }

    async fn read(
        &self,
        engine: &Engine,
        principal: &Principal,
        _uri: &str,
    ) -> Result<ResourceText, ResourceError> {
        Ok(read(engine, principal).await?)
    }

    async fn watch(
        &self,
        engine: &Arc<Engine>,
        principal: &Principal,
        _uri: &str,
        changes: mpsc::Sender<String>,
    ) -> Result<(), LookupError> {
        Ok(watch(engine, principal, changes).await?)
    }
}

/// The inbox as `mcp__mail__list_inbox` lists it without arguments.
async fn read(engine: &Engine, principal: &Principal) -> Result<ResourceText, EngineError> {
    let op = OpContext::new(principal.clone(), "resources");
    let to = Some(AgentId::of(&principal.actor));
    let limit = PAGE_DEFAULT as usize;
    let filter = MailFilter { to, include_read: false, before: None, limit };
    let text = mail::listed(&engine.mail_list(&op, filter).await?).to_string();
    Ok(ResourceText { media_type: JSON, text, ttl_ms: None })
}

async fn watch(
    engine: &Arc<Engine>,
    principal: &Principal,
    changes: mpsc::Sender<String>,
) -> Result<(), EngineError> {
    // Begun before the read below, so that mail in between is not missed.
    let watch = engine.mail_watch(Some(&AgentId::of(&principal.actor))).await?;
    // A caller that may not read may not subscribe either.
    read(engine, principal).await?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = changes.closed() => return,
                () = watch.changed() => {}
            }
            if changes.send(URI.into()).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

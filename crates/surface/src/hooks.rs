//! The hooks of a toolset: the parts that a toolset may add to a server besides its tools. `front`, `ticket`, `mcp/` and
//! `http` loop over the hooks of the toolsets that they serve, and name no toolset.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobId;
use callboard_engine::context::Principal;
use callboard_engine::{Engine, EngineError};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::front::{Front, ResourceInfo, ResourceTemplate, ResourceText};
use crate::http::WayIn;
use crate::lookup::{LookupError, ResourceError};
use crate::ticket::Ticket;

/// The hooks of one toolset; `None` for each part that the toolset does not have.
#[derive(Clone, Copy)]
pub struct Hooks {
    pub resources: Option<&'static dyn Resources>,
    pub notices: Option<&'static dyn Notices>,
    pub tickets: Option<&'static dyn Tickets>,
    pub callers: Option<&'static dyn Callers>,
    /// The work that goes on after an answer of this tool.
    pub started: Option<fn(tool: &str, answer: &Value) -> Option<Started>>,
    /// Routes besides `/mcp`. Each route checks host and caller itself.
    pub routes: Option<fn(WayIn) -> Router>,
}

impl Hooks {
    pub const NONE: Self = Self {
        resources: None,
        notices: None,
        tickets: None,
        callers: None,
        started: None,
        routes: None,
    };
}

/// One page of resources and the cursor of the next page.
pub type ResourcePage = (Vec<ResourceInfo>, Option<String>);

/// Resources besides the tasks, which every toolset has.
#[async_trait]
pub trait Resources: Send + Sync {
    fn templates(&self) -> &'static [ResourceTemplate] {
        &[]
    }

    /// Resources that every caller has, listed before all pages.
    fn fixed(&self) -> Vec<ResourceInfo> {
        Vec::new()
    }

    /// Whether `page` made this cursor.
    fn made(&self, _cursor: &str) -> bool {
        false
    }

    /// A page of resources; `None` when this toolset lists only `fixed`.
    async fn page(
        &self,
        _engine: &Engine,
        _principal: &Principal,
        _after: Option<&str>,
    ) -> Result<Option<ResourcePage>, EngineError> {
        Ok(None)
    }

    /// Whether a URI belongs to this toolset, whether or not there is a resource behind the URI.
    fn holds(&self, uri: &str) -> bool;

    async fn read(
        &self,
        engine: &Engine,
        principal: &Principal,
        uri: &str,
    ) -> Result<ResourceText, ResourceError>;

    /// Sends the URI after each change until the receiver is dropped. A URI of `Notices` is only judged: its changes
    /// are notices.
    async fn watch(
        &self,
        engine: &Arc<Engine>,
        principal: &Principal,
        uri: &str,
        changes: mpsc::Sender<String>,
    ) -> Result<(), LookupError>;

    /// At most `limit` values of a template's argument that start with the typed text; `None` for an argument of
    /// another toolset.
    async fn complete(
        &self,
        _engine: &Engine,
        _principal: &Principal,
        _argument: &str,
        _typed: &str,
        _limit: usize,
    ) -> Result<Option<Vec<String>>, EngineError> {
        Ok(None)
    }
}

/// Resources whose changes are told one by one, in order and with their version.
pub trait Notices: Send + Sync {
    /// Whether changes of this URI are told as notices.
    fn tell_of(&self, uri: &str) -> bool;

    /// The watch of one client. The watch sends notices until it or their receiver is dropped.
    fn watch(
        &self,
        engine: &Arc<Engine>,
        principal: &Principal,
        notices: mpsc::Sender<Notice>,
    ) -> Box<dyn NoticeWatch>;
}

/// The followed resources of one client.
pub trait NoticeWatch: Send + Sync {
    /// Follows one resource, beginning with a notice of its current version.
    fn follow(&self, uri: &str, answered: Answered);

    /// Follows all resources of the work with this id.
    fn follow_work(&self, id: &str, from: NoticesFrom, answered: Answered);

    /// Stops following a resource.
    fn leave(&self, uri: &str);
}

/// Resolves when the client has the answer to the request that asks for notices, so that no notice overtakes it.
pub type Answered = Option<oneshot::Receiver<()>>;

/// One message for a client that follows a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    Updated {
        uri: String,
        version: u64,
    },
    /// Work has ended: the method and the parameters of the notice.
    Ended {
        method: &'static str,
        params: Value,
    },
}

/// The first notice of followed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticesFrom {
    /// The first step of the work.
    Start,
    /// The state of the work when it is followed.
    Now,
}

/// Work that goes on after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The id of the work's ticket.
    pub id: String,
    /// The notices that the caller gets; `None` where the work has no notices.
    pub notices: Option<NoticesFrom>,
}

/// Jobs as tickets. A job that belongs to another toolset is refused with `JobNotFound`.
#[async_trait]
pub trait Tickets: Send + Sync {
    async fn find(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
    ) -> Result<Ticket, EngineError>;

    /// Answers the open question of the work; other keys are ignored.
    async fn answer(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
        answers: Map<String, Value>,
    ) -> Result<(), EngineError>;

    /// Asks the work to stop, unless it is over.
    async fn cancel(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
    ) -> Result<(), EngineError>;
}

/// Callers that the toolset knows by itself. Its tools judge the caller and the retry key, and answer every refusal.
#[async_trait]
pub trait Callers: Send + Sync {
    /// The caller with the rights that the store has on record, whatever the connection says.
    async fn on_record(&self, engine: &Engine, principal: Principal) -> Principal;

    /// Whether the caller sees a tool.
    fn see(&self, principal: &Principal, tool: &str) -> bool;

    /// The answer to a refused call.
    fn refused(&self, engine: &Engine, refusal: &Refusal) -> Value;
}

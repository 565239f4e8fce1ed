//! The error of a lookup by a name that a client sent: a URI, a ticket's id, the name of a prompt.

use callboard_engine::EngineError;

use crate::front::{NoResource, Unknown};

/// Why a lookup has no answer. MCP answers `Absent` with a protocol error that names the missing thing, and `Failed`
/// with the error of the engine.
#[derive(Debug)]
pub enum LookupError<A = Unknown> {
    Absent(A),
    Failed(EngineError),
}

/// A lookup of a resource, which says why there is none.
pub type ResourceError = LookupError<NoResource>;

impl<A> From<EngineError> for LookupError<A> {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl From<Unknown> for LookupError {
    fn from(absent: Unknown) -> Self {
        Self::Absent(absent)
    }
}

impl From<NoResource> for ResourceError {
    fn from(absent: NoResource) -> Self {
        Self::Absent(absent)
    }
}

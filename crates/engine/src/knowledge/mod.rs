//! Knowledge: search, the digest of a task, and embeddings.

pub(crate) mod digest;
pub(crate) mod embed;
pub(crate) mod look;
pub(crate) mod store;

//! Texts into vectors: a model that runs in this process, or an endpoint somebody else runs.
//! Nothing is ever downloaded.

mod bert;
mod crowd;
mod installed;
mod model;
mod openai;
mod weights;
mod wordpiece;

pub use installed::{InstallError, KNOWN, ModelFolder, install};
pub use model::ModelEmbedder;
pub use openai::{OpenAiEmbedder, OpenAiPlace};

//! Turns texts into vectors: by a model in this process, or by an outside endpoint. Nothing is ever downloaded.

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

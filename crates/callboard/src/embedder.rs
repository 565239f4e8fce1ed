//! The embedder that the settings choose. Making one does not read a model yet.

use std::path::PathBuf;
use std::sync::Arc;

use callboard_engine::ports::Embedder;
use callboard_runner::embed::{ModelEmbedder, ModelFolder, OpenAiEmbedder, OpenAiPlace};

use crate::config::{EmbedderChoice, Settings};
use crate::place;

/// `None` if none is wanted; the error says why a wanted one cannot be used.
pub fn of(settings: &Settings) -> Result<Option<Arc<dyn Embedder>>, String> {
    let model = |folder| Some(Arc::new(ModelEmbedder::new(folder)) as Arc<dyn Embedder>);
    let installed = || models_folder().and_then(|models| ModelFolder::installed(&models));
    match &settings.embedder {
        EmbedderChoice::Off => Ok(None),
        // A missing model is no fault here: search by words works without one.
        EmbedderChoice::Auto => Ok(installed().and_then(model)),
        EmbedderChoice::Model(Some(folder)) => ModelFolder::find(folder).map(model),
        EmbedderChoice::Model(None) => {
            installed().map(model).ok_or_else(|| "no model is installed".into())
        }
        EmbedderChoice::OpenAi { url, model, key_variable } => {
            // A local endpoint often has no key, so a missing variable is no error.
            let key = std::env::var(key_variable).ok().filter(|key| !key.is_empty());
            let place = OpenAiPlace { url: url.clone(), model: model.clone(), key };
            Ok(Some(Arc::new(OpenAiEmbedder::new(place))))
        }
    }
}

pub fn why_none(settings: &Settings) -> &'static str {
    match settings.embedder {
        EmbedderChoice::Off => "knowledge.embedder is off; knowledge is found by its words",
        EmbedderChoice::Auto | EmbedderChoice::Model(_) | EmbedderChoice::OpenAi { .. } => {
            "no model is installed; knowledge is found by its words \
             (callboard model install --from FOLDER)"
        }
    }
}

/// The folder in which models are installed for this user.
pub fn models_folder() -> Option<PathBuf> {
    place::data_folder().map(|folder| folder.join("models"))
}

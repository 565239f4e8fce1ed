//! The model that runs in this process. Creating one is free; its files are read on first use.

use async_trait::async_trait;
use callboard_engine::ports::{EmbedFault, Embedder};
use callboard_engine::store::knowledge::Calibration;

use super::bert::Bert;
use super::crowd::{Crowd, Worker};
use super::installed::ModelFolder;

pub struct ModelEmbedder {
    folder: ModelFolder,
    crowd: Crowd,
}

impl ModelEmbedder {
    pub fn new(folder: ModelFolder) -> Self {
        let path = folder.path.clone();
        let load = move || {
            let model = Bert::read(&path)?;
            Ok(Box::new(move |text: &str| model.embed(text)) as Worker)
        };
        Self { crowd: Crowd::new(load), folder }
    }
}

#[async_trait]
impl Embedder for ModelEmbedder {
    fn model(&self) -> &str {
        &self.folder.id
    }

    fn calibration(&self) -> Calibration {
        self.folder.calibration
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedFault> {
        self.crowd.embed(texts).await
    }
}

//! The switch between projects: the project that a person opened gets that person's new tasks and is the one on the board.

use axum::Form;
use axum::response::Response;
use serde::Deserialize;

use super::frame::Screen;
use super::{Page, done};

#[derive(Deserialize)]
pub(super) struct ProjectForm {
    /// The id of the project; the engine judges whether the reader may open it.
    project: i64,
}

pub(super) async fn open(page: Page, Form(form): Form<ProjectForm>) -> Response {
    match page.engine.project_open(&page.op(), form.project).await {
        Ok(project) => {
            done(Screen::Board.path(), &format!("{} is your project now.", project.name))
        }
        Err(error) => page.failure(Screen::Board, &error).await,
    }
}

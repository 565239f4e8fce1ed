//! The stream of events with clients that do not read.

use std::time::Duration;

use callboard_engine::context::OpContext;
use callboard_engine::{EventsWanted, TaskDraft};
use callboard_surface::events::{EventsOptions, told};
use tokio_util::sync::CancellationToken;

use crate::world::{World, principal};

#[tokio::test]
async fn a_reader_that_does_not_read_loses_its_stream_and_no_memory_is_spent_on_it() {
    let world = World::new().await;
    let engine = world.front.engine();
    let op = OpContext::new(principal("human:ana"), "events");
    let follow = engine.event_follow(&op, None, EventsWanted::default()).await.unwrap();
    let options = EventsOptions {
        patience: Duration::ZERO,
        ..EventsOptions::until(CancellationToken::new())
    };
    let mut told = told(follow, options);
    for n in 0..100 {
        let draft = TaskDraft { title: format!("{n}"), ..TaskDraft::default() };
        engine.task_create(&op, draft).await.unwrap();
    }
    while !told.is_closed() {
        tokio::task::yield_now().await;
    }
    let mut kept = 0;
    while told.recv().await.is_some() {
        kept += 1;
    }
    assert_eq!(kept, 64);
}

//! The tables, once for both databases: per table the columns, `read` and `values`. A backend only reads single
//! columns (`Cells`) and binds values (`Cell`). No SQL that differs between the databases stands here.

pub(crate) mod cell;
mod reader;

pub(crate) mod agent;
pub(crate) mod attempt;
pub(crate) mod card;
pub(crate) mod comment;
pub(crate) mod decision;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod event;
pub(crate) mod handle;
pub(crate) mod job;
pub(crate) mod knowledge;
pub(crate) mod mail;
pub(crate) mod page_key;
pub(crate) mod plan;
pub(crate) mod project;
pub(crate) mod pull;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod task;
pub(crate) mod token;

pub(crate) use cell::{Cell, Table, Values, json};
pub(crate) use reader::{Cells, Damaged, Reader};

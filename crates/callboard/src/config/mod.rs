//! Settings: a table of keys, the layers values come from, and the typed result.
//!
//! Raw values are judged once, here; nothing behind `Settings` reads a file or a variable.

mod http;
mod key;
mod layer;
#[cfg(test)]
mod reference;
mod retention;
mod schema;
mod settings;
mod value;
mod workspace;

pub use key::{KEYS, Key, Kind};
pub use layer::{FlagValue, LOCAL, Resolved, unknown};
pub use schema::schema;
pub use settings::{EmbedderChoice, Settings, StoreUrl};
pub use value::{Value, without_password};

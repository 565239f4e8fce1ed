//! The real program in real processes: races, kills, broken input, full disks. Anything that can
//! be shown in one process is a transcript instead.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "tests play the user who starts programs")]

mod calls;
mod disk;
mod http;
mod kill;
mod metrics;
mod peer;
mod race;
mod stdin;
mod tokens;
mod versions;
mod watch;

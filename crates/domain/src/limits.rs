//! How large things may be. A toolset may take less at its own door, never more.

pub const TITLE_CHARS_MAX: usize = 500;
pub const BODY_BYTES_MAX: usize = 256 * 1024;
pub const DEPS_MAX: usize = 100;
pub const CHECKS_MAX: usize = 50;
pub const CHECK_DESC_CHARS_MAX: usize = 500;
pub const CHECK_CMD_CHARS_MAX: usize = 8000;
pub const CHECK_CWD_CHARS_MAX: usize = 1000;
pub const CHECK_TIMEOUT_S_MAX: u32 = 3600;
pub const NOTE_CHARS_MAX: usize = 8000;
pub const PROGRESS_CHARS_MAX: usize = 2000;
pub const SUMMARY_CHARS_MAX: usize = 20_000;
pub const REASON_CHARS_MAX: usize = 4000;
pub const KEY_CHARS_MAX: usize = 200;
pub const PULL_REF_CHARS_MAX: usize = 1000;
pub const ENTRIES_SHOWN_MAX: usize = 200;

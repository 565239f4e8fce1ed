//! Size limits. A toolset may accept less at its own door, never more.

pub const TITLE_CHARS_MAX: usize = 500;
pub const BODY_BYTES_MAX: usize = 256 * 1024;
pub const DEPS_MAX: usize = 100;
/// Tasks that one call may create.
pub const TASKS_AT_ONCE_MAX: usize = 100;
/// Tasks that one import may create.
pub const IMPORTED_AT_ONCE_MAX: usize = 5000;
/// Length of an imported task's name in its old backlog.
pub const REFERENCE_CHARS_MAX: usize = 500;
/// Text of all files of one import.
pub const IMPORT_BYTES_MAX: usize = 32 * 1024 * 1024;
pub const CHECKS_MAX: usize = 50;
pub const CHECK_DESC_CHARS_MAX: usize = 500;
pub const CHECK_CMD_CHARS_MAX: usize = 8000;
pub const CHECK_CWD_CHARS_MAX: usize = 1000;
pub const CHECK_TIMEOUT_S_MAX: u32 = 3600;
/// Length of a search query.
pub const SEARCH_CHARS_MAX: usize = 200;
pub const SEARCH_WORDS_MAX: usize = 10;
pub const NOTE_CHARS_MAX: usize = 8000;
/// Messages that wait for one task's agent.
pub const TOLD_MAX: usize = 50;
pub const PROGRESS_CHARS_MAX: usize = 2000;
pub const SUMMARY_CHARS_MAX: usize = 20_000;
pub const REASON_CHARS_MAX: usize = 4000;
/// Length of a session's key.
pub const KEY_CHARS_MAX: usize = 200;
/// Length of the retry key that makes a call safe to repeat.
pub const RETRY_KEY_CHARS_MAX: usize = 500;
pub const FORGE_REF_CHARS_MAX: usize = 1000;
pub const ENTRIES_SHOWN_MAX: usize = 200;
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;
pub const CONTRACT_BYTES_MAX: usize = 64 * 1024;
pub const COMMENT_CHARS_MAX: usize = 8000;
pub const RATIONALE_CHARS_MAX: usize = 4000;
/// Open blockers that one actor may have on one task.
pub const BLOCKERS_MAX: usize = 3;
/// How much of a completion's output the attempt keeps beside it.
pub const OUTPUT_SHOWN_CHARS: usize = 2000;
pub const CONTRACT_ITEMS_MAX: usize = 100;
pub const CONTRACT_ITEM_CHARS_MAX: usize = 500;
pub const COMMENTS_SHOWN_MAX: usize = 200;
pub const CRITERIA_MAX: usize = 100;
pub const CRITERION_CHARS_MAX: usize = 1000;
pub const SCRATCHPAD_CHARS_MAX: usize = 50_000;
pub const REVIEW_CHARS_MAX: usize = 10_000;
/// Length of one comment of a review.
pub const REVIEW_TEXT_BYTES_MAX: usize = 4 * 1024;
/// Lines of code that a comment quotes.
pub const REVIEW_QUOTE_LINES_MAX: usize = 20;
pub const REVIEW_QUOTE_LINE_CHARS_MAX: usize = 400;
/// Length of a path; a key of an index must hold it.
pub const REVIEW_PATH_BYTES_MAX: usize = 1024;
/// Drafts of one author on one task, and comments of one rejection.
pub const REVIEW_DRAFTS_MAX: usize = 200;
/// Length of a rejection with its comments.
pub const REVIEW_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Sent comments of one task that are shown, the newest.
pub const REVIEW_COMMENTS_SHOWN_MAX: usize = 500;
/// Files that one author has ticked off on one task.
pub const REVIEW_VIEWED_MAX: usize = 2000;
/// Length of a snooze's key and fingerprint.
pub const SNOOZE_KEY_BYTES_MAX: usize = 200;
/// Snoozes of one actor.
pub const SNOOZES_MAX: usize = 500;
/// Length of a plain name: of an executor, a branch, a person.
pub const NAME_CHARS_MAX: usize = 200;

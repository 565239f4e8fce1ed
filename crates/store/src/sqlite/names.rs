//! Names and ids for the completion of a shell. The file is opened for reading alone: nothing is migrated, no writer starts
//! and no lock is waited for, because a shell asks at every press of a key.

use std::path::Path;

use callboard_domain::board::plan::PlanId;
use callboard_domain::crew::MailId;
use callboard_domain::ids::Id;
use callboard_domain::pulls::LOCAL;
use callboard_domain::runs::job::JobId;
use callboard_domain::token::TokenId;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, params};

/// The newest rows that are compared with what was typed; it bounds the time of an answer.
const COMPARED_MAX: i64 = 1_000;

/// The kind of thing that a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferedKind {
    /// An open task, by its short name.
    Task,
    /// A job with a run.
    Job,
    Mail,
    Plan,
    /// A token that is not revoked.
    Token,
    /// An agent of the crew.
    Agent,
    /// A pull request of this board, by its number.
    Pull,
}

/// A name as a shell offers it, with the title of the thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedName {
    /// Such as `SHOP-7` or `job_…`.
    pub name: String,
    pub title: String,
}

/// The newest things of an org whose names begin with `typed`, in any case; none when the file cannot be read, is of
/// another version, or is locked.
pub fn offered_names(
    database: &Path,
    org: &str,
    kind: OfferedKind,
    typed: &str,
    limit: usize,
) -> Vec<OfferedName> {
    read(database, org, kind, typed, limit).unwrap_or_default()
}

impl OfferedKind {
    /// Selects the id and the title. Values: the org and the number of rows; of tasks also the typed beginning.
    fn sql(self) -> &'static str {
        match self {
            Self::Task => {
                "SELECT t.prefix || '-' || t.number, t.title \
                 FROM tasks t JOIN orgs o ON o.id = t.org AND o.name = ?1 \
                 WHERE t.removed_at IS NULL AND t.phase NOT IN ('closed_done', 'closed_canceled') \
                     AND substr(t.prefix || '-' || t.number, 1, length(?3)) = upper(?3) \
                 ORDER BY t.id DESC LIMIT ?2"
            }
            Self::Job => {
                "SELECT r.job, j.state || ': ' || coalesce(t.title, '') \
                 FROM orgs o JOIN runs r ON r.org = o.id JOIN jobs j ON j.id = r.job \
                     LEFT JOIN tasks t ON t.id = r.task \
                 WHERE o.name = ?1 AND ?3 IS NOT NULL ORDER BY r.job DESC LIMIT ?2"
            }
            Self::Mail => {
                "SELECT m.id, coalesce(m.from_agent, 'you') || ': ' || m.subject \
                 FROM mails m JOIN orgs o ON o.id = m.org AND o.name = ?1 \
                 WHERE ?3 IS NOT NULL ORDER BY m.id DESC LIMIT ?2"
            }
            Self::Plan => {
                "SELECT p.id, p.state || ': ' || coalesce(json_extract(p.tasks, '$[0].title'), '') \
                 FROM plans p JOIN orgs o ON o.id = p.org AND o.name = ?1 \
                 WHERE ?3 IS NOT NULL ORDER BY p.id DESC LIMIT ?2"
            }
            // Tokens are of the whole server.
            Self::Token => {
                "SELECT id, actor FROM tokens \
                 WHERE revoked_at IS NULL AND ?1 IS NOT NULL AND ?3 IS NOT NULL \
                 ORDER BY id DESC LIMIT ?2"
            }
            Self::Agent => {
                "SELECT a.id, a.type FROM crew_agents a JOIN orgs o ON o.id = a.org AND o.name = ?1 \
                 WHERE ?3 IS NOT NULL ORDER BY a.id LIMIT ?2"
            }
            Self::Pull => {
                "SELECT cast(p.number AS TEXT), p.status || ': ' || p.title \
                 FROM pulls p JOIN orgs o ON o.id = p.org AND o.name = ?1 \
                 WHERE p.forge = ?4 AND ?3 IS NOT NULL ORDER BY p.created_at DESC LIMIT ?2"
            }
        }
    }

    /// The id as people type it.
    fn shown(self, id: ValueRef<'_>) -> Option<String> {
        let bytes = match id {
            ValueRef::Text(text) => return std::str::from_utf8(text).ok().map(str::to_owned),
            ValueRef::Blob(bytes) => bytes.try_into().ok()?,
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => return None,
        };
        let id = Id::from_bytes(bytes);
        match self {
            Self::Job => Some(JobId(id).to_string()),
            Self::Mail => Some(MailId(id).to_string()),
            Self::Plan => Some(PlanId(id).to_string()),
            Self::Token => Some(TokenId(id).to_string()),
            Self::Task | Self::Agent | Self::Pull => None,
        }
    }
}

fn read(
    database: &Path,
    org: &str,
    kind: OfferedKind,
    typed: &str,
    limit: usize,
) -> rusqlite::Result<Vec<OfferedName>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(database, flags)?;
    // A locked file gives no names; a wait would let the shell hang.
    db.busy_timeout(std::time::Duration::ZERO)?;
    let mut statement = db.prepare(kind.sql())?;
    let most = if kind == OfferedKind::Task { limit as i64 } else { COMPARED_MAX };
    let mut found = match kind {
        OfferedKind::Pull => statement.query(params![org, most, typed, LOCAL])?,
        _ => statement.query(params![org, most, typed])?,
    };
    let mut names = Vec::new();
    while let Some(row) = found.next()? {
        let Some(name) = kind.shown(row.get_ref(0)?) else { continue };
        let is_meant =
            name.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed));
        if is_meant {
            names.push(OfferedName { name, title: row.get(1)? });
        }
        if names.len() == limit {
            break;
        }
    }
    Ok(names)
}

//! Checks of the project: its folder, settings, database, and whether agents could connect.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use callboard_engine::Engine;
use callboard_engine::ports::{CheckRunner, RepositoryFault};
use callboard_engine::store::clock::{Clock, SystemClock};
use callboard_runner::LocalChecks;
use rustix::fs::Access;

use super::{Finding, clients, growth, handshake, machine};
use crate::cli::context::Context;
use crate::cli::repository::{FIRST_COMMIT, lacks_commit};
use crate::cli::trust;
use crate::compose::{self, App};
use crate::config::Settings;
use crate::embedder;
use crate::holders;
use crate::output::Failure;
use crate::place::Place;

pub(super) async fn look(context: &Context) -> Vec<Finding> {
    let place = match Place::find() {
        Ok(Some(place)) => place,
        Ok(None) => return without_project().await,
        Err(failure) => return vec![Finding::failed("project", &failure)],
    };
    let mut found = of_place(&place).await;
    let settings = match context.settings(Some(&place), None) {
        Ok(settings) => settings,
        Err(failure) => {
            found.push(Finding::failed("config", &failure));
            return found;
        }
    };
    found.push(Finding::ok("config", "every setting can be read"));
    found.push(machine::shell(&settings.check_shell));
    found.push(machine::port(settings.listen));
    found.push(embedder(&settings));
    found.extend(lost_files(&settings, &place));
    found.extend(clients::look(&place).await);
    match App::open(&settings, Some(&place), context.org()).await {
        Err(failure) => found.push(Finding::failed("database", &failure)),
        Ok(app) => {
            context.say_migrated(&app);
            found.push(match trust::words(&settings, &app) {
                None => Finding::ok("trust", "no setting needs callboard trust"),
                Some(words) => Finding::warn("trust", words, "callboard trust --show"),
            });
            found.extend(opened(&app, &settings).await);
            found.extend(growth::look(&app.engine).await);
            found.extend(worktrees(&app.engine).await);
        }
    }
    found
}

/// A folder without a board of its own. Its agents may use a server (`callboard init --server`).
async fn without_project() -> Vec<Finding> {
    let words = "no .callboard folder here or in any folder above";
    match Place::to_make() {
        Ok(place) if clients::is_on_a_server(&place.root) => {
            let words = format!("{words}; the agents here use a server");
            let mut found = vec![Finding::ok("project", words)];
            found.extend(clients::look(&place).await);
            found
        }
        place => {
            let mut found = vec![Finding::fail("project", words, "callboard init")];
            if let Ok(place) = place {
                found.extend(clients::look_at_user(&place.root).await);
            }
            found
        }
    }
}

/// The folder of the project.
pub(super) async fn of_place(place: &Place) -> Vec<Finding> {
    vec![
        Finding::ok("project", place.root.display().to_string()),
        repository(place).await,
        permissions(&place.folder()),
        machine::disk(&place.root),
    ]
}

async fn repository(place: &Place) -> Finding {
    if !place.is_in_git() {
        return Finding::warn(
            "repository",
            "the project is not in git; worktrees and reviews need git",
            format!("git init {}", place.root.display()),
        );
    }
    if let Err(RepositoryFault::Failed(words)) =
        LocalChecks::new(false).repository(&place.root).await
    {
        return Finding::warn(
            "repository",
            format!("{} {words}", place.root.display()),
            "make git work there for this user: worktrees and reviews need it",
        );
    }
    match lacks_commit(&place.root).await {
        true => Finding::warn(
            "repository",
            "the repository has no commit yet; worktrees start from one",
            FIRST_COMMIT,
        ),
        false => Finding::ok("repository", "the project is in git"),
    }
}

/// The embedder. Without one, knowledge is still found by its words.
pub(super) fn embedder(settings: &Settings) -> Finding {
    match embedder::of(settings) {
        Ok(Some(embedder)) => Finding::ok("embedder", embedder.model()),
        Ok(None) => Finding::ok("embedder", embedder::why_none(settings)),
        Err(words) => Finding::warn(
            "embedder",
            format!("{words}; knowledge is found by its words alone"),
            "callboard model install --from FOLDER, or set knowledge.embedder to off",
        ),
    }
}

/// Keeps other users of the machine out of a folder that they could enter.
pub(super) fn close_to_others(folder: &Path) -> std::io::Result<()> {
    let mut permissions = std::fs::metadata(folder)?.permissions();
    if permissions.mode() & 0o077 == 0 {
        return Ok(());
    }
    // The owner's own bits stay as they are.
    permissions.set_mode(permissions.mode() & 0o700);
    std::fs::set_permissions(folder, permissions)
}

fn permissions(folder: &Path) -> Finding {
    let needed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let others = |name: &str| {
        let found = std::fs::metadata(folder.join(name)).ok()?;
        Some(found.permissions().mode() & 0o077 != 0)
    };
    match rustix::fs::access(folder, needed) {
        // A folder that only its owner may enter protects its files.
        Ok(()) if others(".") == Some(true) && others("callboard.db") == Some(true) => {
            Finding::warn(
                "permissions",
                format!("other users of this machine can read {}", folder.display()),
                format!("chmod 700 {}", folder.display()),
            )
        }
        Ok(()) => Finding::ok("permissions", format!("{} can be written", folder.display())),
        Err(error) => Finding::fail(
            "permissions",
            format!("{} cannot be written: {error}", folder.display()),
            format!("chown -R $USER {}", folder.display()),
        ),
    }
}

/// Processes that still have a deleted or replaced database open. They refuse every call, but no other process knows,
/// and a new board at the old path looks whole.
pub(super) fn lost_files(settings: &Settings, place: &Place) -> Vec<Finding> {
    let Some(database) = compose::store_path(settings, Some(place)) else { return Vec::new() };
    let lost: Vec<u32> = holders::of(&database)
        .iter()
        .filter(|holder| holder.is_lost && holder.is_callboard)
        .map(|holder| holder.process)
        .collect();
    let finding = |process: u32| {
        Finding::fail(
            "server",
            format!(
                "process {process} has a file of {} open that was deleted or replaced; it refuses \
                 every call",
                database.display()
            ),
            format!(
                "kill {process}, restore a backup if tasks are missing, then start the server again"
            ),
        )
    };
    lost.into_iter().map(finding).collect()
}

async fn opened(app: &App, settings: &Settings) -> Vec<Finding> {
    vec![
        database(app).await.unwrap_or_else(|failure| Finding::failed("database", &failure)),
        clock(&app.engine),
        handshake::shake(app, settings).await,
    ]
}

/// The disk space of worktrees, measured now. Nothing where there is no quota, or no repository.
async fn worktrees(engine: &Engine) -> Option<Finding> {
    const MB: u64 = 1024 * 1024;
    let (quota, used) = (engine.disk_quota()?, engine.disk_measure().await?);
    let words = format!("{} MB of {} MB are used", used.bytes / MB, quota / MB);
    Some(match used.bytes > quota {
        true => Finding::warn("worktrees", words, "callboard gc, or raise workspace.quota_mb"),
        false => Finding::ok("worktrees", words),
    })
}

/// Whether the store is ahead: then it got a time from a wrong clock, or this machine's clock is wrong.
pub(super) fn clock(engine: &Engine) -> Finding {
    // Machines on a network may differ by seconds; five minutes come from a clock that was set wrong.
    const AHEAD_MAX_MS: i64 = 5 * 60_000;
    let ahead_ms = engine.store().now().ms_since(SystemClock.now());
    if ahead_ms <= AHEAD_MAX_MS {
        return Finding::ok("clock", "the store is not ahead of this machine");
    }
    Finding::warn(
        "clock",
        format!("the store's time is {} minutes ahead of this machine's clock", ahead_ms / 60_000),
        "run date; if the clock is right, an earlier write came from a wrong clock: time goes on from \
         that write, and no data is lost",
    )
}

/// Whether the database can be written to. Its rows are not compared, which takes longer.
pub(super) async fn answers(engine: &Engine) -> Finding {
    let store = engine.store();
    match async { store.ping().await.and(store.last_seq().await) }.await {
        Ok(events) => Finding::ok("database", format!("can be written; {events} events")),
        Err(error) => Finding::fail("database", error.to_string(), "callboard doctor"),
    }
}

async fn database(app: &App) -> Result<Finding, Failure> {
    let store = app.engine.store();
    store.ping().await?;
    let damage = store.verify().await?;
    let Some(first) = damage.first() else {
        let (events, floor) = (store.last_seq().await?, store.log_floor().await?);
        let words = match floor.is_raised() {
            false => format!("whole; {events} events agree with the tables"),
            true => format!("whole; events {} to {events} agree with the tables", floor.seq),
        };
        return Ok(Finding::ok("database", words));
    };
    let others = damage.len() - 1;
    let words = match others {
        0 => first.what.clone(),
        _ => format!("{} (and {others} more)", first.what),
    };
    Ok(Finding::fail("database", words, first.fix.clone()))
}

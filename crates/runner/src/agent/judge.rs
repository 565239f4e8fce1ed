//! Judges an agent's answer: readable, allowed, applicable, in this order. The first "no" is the verdict. Artifacts are
//! kept from the moment they can be read.

use std::collections::{HashMap, HashSet};

use callboard_domain::relay::patch::{self, FilePatch};
use callboard_domain::relay::reply::{Reply, settle_line_ends};
use callboard_domain::relay::scope::{Offence, ScopeRule, with_parents};
use callboard_domain::relay::spec::Scope;
use callboard_domain::relay::{FailReason, RunVerdict};

use super::Outcome;
use crate::run_log::RunLog;
use crate::workspace::{Applied, Workspace};

/// The verdict on an agent's output. Patch and text are kept also when the patch is refused, so that a person can see
/// why.
pub(super) async fn judge(
    scope: &Scope,
    workspace: &Workspace,
    output: &str,
    bytes_max: usize,
    log: &mut RunLog,
) -> Outcome {
    let bad = |summary: String| Outcome::failed(FailReason::BadArtifacts, summary);
    let reply = match Reply::read(output) {
        Ok(reply) => reply,
        Err(missing) => return bad(missing.to_string()),
    };
    let patch = settled(&reply.diff, workspace).await;
    let out = reply.out_md();
    for (name, text) in [("patch.diff", &patch), ("out.md", &out)] {
        if text.len() > bytes_max {
            return bad(format!("{name} has more than {bytes_max} bytes"));
        }
    }
    let verdict = verdict(scope, workspace, &patch, log).await;
    let (verdict, summary) = match verdict {
        Ok(()) => {
            let lines = patch::line_count(&patch);
            let summary = format!("Completed successfully with {lines} line diff");
            (RunVerdict::Succeeded, summary)
        }
        Err((reason, summary)) => (RunVerdict::Failed(reason), summary),
    };
    Outcome { verdict, summary, patch: Some(patch), out: Some(out) }
}

/// Whether a patch may be kept: inside its scope, and applicable. An empty patch is a result, too.
async fn verdict(
    scope: &Scope,
    workspace: &Workspace,
    patch: &str,
    log: &mut RunLog,
) -> Result<(), (FailReason, String)> {
    if patch.is_empty() {
        return Ok(());
    }
    let internal = |cause| (FailReason::InternalError, cause);
    let rule = ScopeRule::new(scope);
    let files = patch::files(patch);
    // A folder above a path can be a link that leads elsewhere, so parents are looked at as well.
    let touched: HashSet<&str> =
        files.iter().flat_map(FilePatch::paths).flat_map(with_parents).collect();
    // Git is asked about plain paths only; the others are offences by themselves.
    let plain = |path: &&str| !path.starts_with('/') && !path.split('/').any(|part| part == "..");
    let touched = touched.into_iter().filter(plain).collect();
    let links = workspace.links(&touched).await.map_err(internal)?;
    let is_link = |path: &str| links.contains(path);
    if let Some(offence) = rule.first_offence(&files, &is_link) {
        return Err(refused(&offence));
    }
    match workspace.apply(patch).await.map_err(internal)? {
        Applied::Conflict(words) => {
            log.note(words);
            Err((FailReason::Conflict, "Patch does not apply cleanly".into()))
        }
        Applied::Cleanly(changes) => {
            // The changes that git made are judged as well, in case git reads a header in another way than we do.
            let offence = changes.iter().find_map(|change| {
                let made = change
                    .is_link
                    .then(|| Offence { path: change.path.clone(), why: "is a symbolic link" });
                made.or_else(|| rule.offence(&change.path, &is_link))
            });
            offence.map_or(Ok(()), |offence| Err(refused(&offence)))
        }
    }
}

/// The failure of a patch that leaves its scope.
fn refused(offence: &Offence) -> (FailReason, String) {
    (FailReason::Policy, format!("Patch refused: {} {}", offence.path, offence.why))
}

/// The diff with the line ends of the files it changes.
async fn settled(diff: &str, workspace: &Workspace) -> String {
    let mut has_crlf = HashMap::new();
    if diff.contains('\r') {
        for path in patch::files(diff).into_iter().filter_map(|file| file.old) {
            let text = workspace.file(&path).await.unwrap_or_default();
            has_crlf.insert(path, text.contains("\r\n"));
        }
    }
    settle_line_ends(diff, &|path| has_crlf.get(path).copied().unwrap_or(false))
}

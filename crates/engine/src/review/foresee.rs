//! The loop that asks git how merges of the work in review would go, so that the board and the inbox name conflicts
//! before a person opens the review. Git is asked only while these lists are read.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::board::card::Card;
use callboard_domain::board::column::Column;
use callboard_domain::board::why::WhyOutlook;
use callboard_domain::event::EventName;
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;
use callboard_store::{BackQuery, ColumnsQuery};
use tokio_util::sync::CancellationToken;

use crate::{Engine, EngineError};

/// The shortest time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// An answer of git is good for so long: commits that others make in the repository are no events.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// How many tasks in review are looked at. One answer takes about ten processes of git.
const LOOKED_AT: usize = 50;
/// How many tasks are asked about in one round, the longest wait first.
const ASKED_AT_ONCE: usize = 10;

impl Engine {
    pub(crate) async fn reviews_foresee_until(&self, stop: CancellationToken) {
        if self.parts.workshop.is_none() {
            return stop.cancelled().await;
        }
        loop {
            // Every agent's stdio server runs this loop, too, and shows no list.
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.foreseen.read() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                looked = self.reviews_foresee() => {
                    if let Err(error) = looked {
                        tracing::debug!(%error, "cannot foresee the merges of reviews");
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Asks git about the tasks in review of this process's org whose answer is missing or old.
    async fn reviews_foresee(&self) -> Result<(), EngineError> {
        let org = self.parts.home.org.clone();
        let query = ColumnsQuery {
            org: org.clone(),
            project: None,
            columns: vec![Column::Review],
            terms: Vec::new(),
            done_since: Timestamp(0),
            policy: self.parts.policy.clone(),
            limit: LOOKED_AT,
        };
        let pages = self.parts.store.board_columns(query).await?;
        let rows = pages.into_iter().flat_map(|page| page.rows);
        let mut tasks: Vec<Task> = rows.map(|row| row.task).collect();
        self.foreseen.keep_only(&tasks);
        if self.was_merged(&org).await? {
            self.foreseen.forget();
        }
        tasks.sort_by_key(|task| task.phase_at);
        let is_due = |task: &Task| {
            self.foreseen.asked(task).is_none_or(|asked| asked.elapsed() >= ASK_AGAIN_AFTER)
        };
        tasks.retain(is_due);
        tasks.truncate(ASKED_AT_ONCE);
        if tasks.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
        let cards = self.parts.store.board_cards(&org, &ids).await?;
        let nothing = Card::default();
        for task in &tasks {
            let card = cards.get(&task.id.id).unwrap_or(&nothing);
            let outlook = self.outlook_of(&org, task, card).await?;
            self.foreseen.keep(task, outlook);
        }
        Ok(())
    }

    /// Whether work was merged since the last look, here or by another process. Only events since then are searched.
    async fn was_merged(&self, org: &Arc<str>) -> Result<bool, EngineError> {
        let newest = self.last_seq_in(org).await?;
        let after = self.foreseen.heard_until(newest);
        let names = Some(vec![EventName::ReviewMerged]);
        let merges = BackQuery { names, after, ..BackQuery::of(org.clone(), 1) };
        // The first look knows nothing that could be forgotten.
        let is_searched = 0 < after && after < newest;
        Ok(is_searched && !self.parts.store.events_back(merges).await?.is_empty())
    }

    /// How merging the committed work would go, in all repositories together; `None` if git cannot say.
    async fn outlook_of(
        &self,
        org: &str,
        task: &Task,
        card: &Card,
    ) -> Result<Option<WhyOutlook>, EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(None) };
        let parts = self.worktrees_known(org, task, card).await?;
        let mut all = WhyOutlook::default();
        let mut found = None;
        for part in parts {
            let Some(place) = &part.worktree else { continue };
            let asked = shop.merges.merge_outlook(&place.repo, &place.branch, &part.target).await;
            let Ok(outlook) = asked else { return Ok(None) };
            all.conflicts += outlook.conflicts.len();
            all.behind += outlook.behind;
            all.target.get_or_insert(part.target);
            found = Some(());
        }
        Ok(found.map(|()| all))
    }
}

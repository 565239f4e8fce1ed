//! Calls that outlive their request. The process that runs a call keeps its handle in the store alive and reads there
//! what the caller wants of it. Any process answers questions about it from the store.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::handle::{
    Handle, HandleChange, HandleEnd, HandleId, HandleState, KEPT_MS, Live,
};
use callboard_domain::token::{TokenId, TokenState};
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::context::{OpContext, Scope};
use crate::{At, Engine, EngineError};

/// How often a process renews the leases of the calls it runs. Also how late it hears of a cancellation that another
/// process received.
const KEEP_EVERY: Duration = Duration::from_secs(2);
/// How many handles are renewed in one write: other writes must get their turn.
const KEPT_AT_ONCE: usize = 256;
/// How often a process tries to write the end of a call before it leaves the handle to its lease.
const END_TRIES: u32 = 5;
/// How long calls get to clean up when their process ends.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Progress of a call, in words; only the newest words are kept.
#[derive(Clone, Default)]
pub struct Words(Arc<Mutex<Option<String>>>);

impl Words {
    pub fn say(&self, words: &str) {
        *locked(&self.0) = Some(words.to_owned());
    }

    fn newest(&self) -> Option<String> {
        locked(&self.0).clone()
    }
}

/// A call that this process runs under a handle.
pub struct LongCall {
    id: HandleId,
    /// The token that the caller showed; the call ends with it.
    token: Option<TokenId>,
    words: Words,
    cancel: CancellationToken,
    /// The process is ending: a call cut short by that has failed, its caller did not cancel it.
    stopping: AtomicBool,
    seen: watch::Sender<Handle>,
}

/// The long calls of this process.
#[derive(Default)]
pub(crate) struct Running {
    calls: Mutex<Calls>,
    ended: Notify,
}

#[derive(Default)]
struct Calls {
    by_id: HashMap<HandleId, Arc<LongCall>>,
    /// Whether `keep_handles` runs.
    are_kept: bool,
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Makes the handle of a call that is under way. `op` is the call's: cancelling it stops the work. `handle_run`
    /// must follow, or the handle fails when its lease expires.
    pub async fn handle_open(
        &self,
        op: &OpContext,
        scope: Scope,
        words: Words,
    ) -> Result<Arc<LongCall>, EngineError> {
        let now = self.parts.store.now();
        let handle = Handle {
            id: HandleId(self.parts.ids.next_id()),
            org: op.principal.org.clone(),
            actor: op.principal.actor.clone(),
            tool: op.tool.to_owned(),
            scope,
            runner: self.runner(),
            state: HandleState::Live(Live::new(now)),
            message: words.newest(),
            created_at: now,
            updated_at: now,
            expires_at: now.plus_ms(KEPT_MS),
        };
        self.parts.store.handle_add(handle.clone()).await?;
        Ok(Arc::new(LongCall {
            id: handle.id,
            token: op.principal.token,
            words,
            cancel: op.cancel.clone(),
            stopping: AtomicBool::new(false),
            seen: watch::Sender::new(handle),
        }))
    }

    /// Runs a call to its end, in the background.
    pub fn handle_run(
        self: &Arc<Self>,
        call: Arc<LongCall>,
        work: impl Future<Output = HandleEnd> + Send + 'static,
    ) {
        {
            let mut calls = locked(&self.long_calls.calls);
            calls.by_id.insert(call.id, call.clone());
            if !std::mem::replace(&mut calls.are_kept, true) {
                tokio::spawn(self.clone().keep_handles());
            }
        }
        let engine = self.clone();
        tokio::spawn(async move {
            let end = work.await;
            let end = match end {
                HandleEnd::Cancelled if call.stopping.load(Ordering::SeqCst) => {
                    HandleEnd::Failed(None)
                }
                end => end,
            };
            engine.end_handle(call.id, end).await;
            locked(&engine.long_calls.calls).by_id.remove(&call.id);
            engine.long_calls.ended.notify_waiters();
        });
    }

    /// Renews the handles of all calls of this process, as long as there are any.
    async fn keep_handles(self: Arc<Self>) {
        let mut tick = tokio::time::interval_at(Instant::now() + KEEP_EVERY, KEEP_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let calls: Vec<Arc<LongCall>> = {
                let mut calls = locked(&self.long_calls.calls);
                calls.are_kept = !calls.by_id.is_empty();
                calls.by_id.values().cloned().collect()
            };
            if calls.is_empty() {
                return;
            }
            for some in calls.chunks(KEPT_AT_ONCE) {
                self.keep(some).await;
            }
            self.end_with_tokens(&calls).await;
        }
    }

    async fn keep(&self, calls: &[Arc<LongCall>]) {
        let keep =
            |call: &Arc<LongCall>| (call.id, HandleChange::Keep { message: call.words.newest() });
        match self.parts.store.handles_change(calls.iter().map(keep).collect()).await {
            Ok(handles) => {
                let mut kept: HashMap<_, _> =
                    handles.into_iter().map(|handle| (handle.id, handle)).collect();
                for call in calls {
                    self.hear(call, kept.remove(&call.id));
                }
            }
            Err(error) => tracing::warn!(%error, calls = calls.len(), "cannot keep handles"),
        }
    }

    /// Takes over what the store has about a call of this process.
    fn hear(&self, call: &LongCall, handle: Option<Handle>) {
        let live = handle.as_ref().and_then(|handle| handle.live(self.parts.store.now()));
        // Cancelled, or lost: the caller was already told that the call failed.
        if live.is_none_or(|live| live.cancel_asked) {
            call.cancel.cancel();
        }
        if let Some(handle) = handle {
            call.seen.send_replace(handle);
        }
    }

    async fn end_with_tokens(&self, calls: &[Arc<LongCall>]) {
        let tokens: HashSet<TokenId> = calls.iter().filter_map(|call| call.token).collect();
        for token in tokens {
            if self.token_is_over(token).await {
                calls
                    .iter()
                    .filter(|call| call.token == Some(token))
                    .for_each(|c| c.cancel.cancel());
            }
        }
    }

    /// Whether a token no longer lives. While the store is unavailable, it counts as alive.
    async fn token_is_over(&self, token: TokenId) -> bool {
        if self.run_tokens().is_live(token) {
            return false;
        }
        let issued = self.issued.as_ref().and_then(|issued| issued.get(token));
        if let Some(issued) = issued {
            return issued.state(self.parts.store.now()) != TokenState::Live;
        }
        match self.parts.store.token(token).await {
            Ok(Some(kept)) => kept.token.state(self.parts.store.now()) != TokenState::Live,
            Ok(None) => true,
            Err(_) => false,
        }
    }

    async fn end_handle(&self, id: HandleId, end: HandleEnd) {
        for _ in 0..END_TRIES {
            let change = HandleChange::End(end.clone());
            match self.parts.store.handle_change(id, change).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, handle = %id, "cannot end a handle"),
            }
            tokio::time::sleep(KEEP_EVERY).await;
        }
    }

    /// Ends the long calls of this process. When this returns, their handles are ended too, unless that took too long.
    pub async fn handles_stop(&self) {
        for call in locked(&self.long_calls.calls).by_id.values() {
            call.stopping.store(true, Ordering::SeqCst);
            call.cancel.cancel();
        }
        let all_ended = async {
            loop {
                let ended = self.long_calls.ended.notified();
                if locked(&self.long_calls.calls).by_id.is_empty() {
                    return;
                }
                ended.await;
            }
        };
        // The handle of a call that is not done by then ends with its lease.
        let _ = tokio::time::timeout(STOP_WITHIN, all_ended).await;
    }

    /// The one rule for who may see or end a handle: its caller, with the scope that the call needed. For all others
    /// the handle does not exist.
    async fn handle_of(&self, op: &OpContext, id: HandleId) -> Result<Option<Handle>, EngineError> {
        let found = self.parts.store.handle(&op.principal.org, id).await?;
        let now = self.parts.store.now();
        let Some(handle) = found.filter(|found| found.is_there_for(&op.principal.actor, now))
        else {
            return Ok(None);
        };
        op.principal.judge(&handle.tool, handle.scope)?;
        Ok(Some(handle))
    }

    pub async fn handle_get(
        &self,
        op: &OpContext,
        id: HandleId,
    ) -> Result<Option<At<Handle>>, EngineError> {
        let found = self.handle_of(op, id).await?;
        Ok(found.map(|it| At { it, now: self.parts.store.now() }))
    }

    /// Passes answers on to the work. False when there is no such handle.
    pub async fn handle_answer(
        &self,
        op: &OpContext,
        id: HandleId,
        answers: Map<String, Value>,
    ) -> Result<bool, EngineError> {
        self.handle_tell(op, id, HandleChange::Answer { answers }).await
    }

    /// Asks the work to stop; a call that is over stays as it is. False when there is no such handle.
    pub async fn handle_cancel(&self, op: &OpContext, id: HandleId) -> Result<bool, EngineError> {
        self.handle_tell(op, id, HandleChange::Cancel).await
    }

    async fn handle_tell(
        &self,
        op: &OpContext,
        id: HandleId,
        change: HandleChange,
    ) -> Result<bool, EngineError> {
        if self.handle_of(op, id).await?.is_none() {
            return Ok(false);
        }
        let told = self.parts.store.handle_change(id, change).await?;
        let here = locked(&self.long_calls.calls).by_id.get(&id).cloned();
        if let Some(call) = here {
            self.hear(&call, told);
        }
        Ok(true)
    }

    /// Asks the caller, under keys that were never used for this call; returns when all are answered.
    pub async fn handle_ask(
        &self,
        call: &LongCall,
        questions: Map<String, Value>,
    ) -> Result<Map<String, Value>, EngineError> {
        let keys: Vec<String> = questions.keys().cloned().collect();
        let mut seen = call.seen.subscribe();
        self.parts.store.handle_change(call.id, HandleChange::Ask { questions }).await?;
        let answers = |handle: &Handle| match &handle.state {
            HandleState::Live(live) => {
                let answer = |key: &String| Some((key.clone(), live.answers.get(key)?.clone()));
                keys.iter().map(answer).collect::<Option<Map<String, Value>>>()
            }
            HandleState::Completed { .. } | HandleState::Failed { .. } | HandleState::Cancelled => {
                None
            }
        };
        tokio::select! {
            () = call.cancel.cancelled() => Err(EngineError::Canceled),
            answered = seen.wait_for(|handle| answers(handle).is_some()) => {
                let answered = answered.ok().and_then(|handle| answers(&handle));
                answered.ok_or(EngineError::Canceled)
            }
        }
    }
}

impl LongCall {
    /// The handle as this process last saw it.
    pub fn handle(&self) -> Handle {
        self.seen.borrow().clone()
    }
}

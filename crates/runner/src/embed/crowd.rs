//! A few threads that embed texts one by one. Short jobs go first, so that a search does not wait behind a batch of
//! entries. The threads start, and load the model, with the first job.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use callboard_engine::ports::EmbedFault;
use tokio::sync::oneshot;

/// Embedding is work for the processor, and the machine has agents to run besides.
const THREADS_MAX: usize = 4;

type Answer = Result<Vec<Vec<f32>>, EmbedFault>;
pub(super) type Worker = Box<dyn Fn(&str) -> Vec<f32> + Send + Sync>;
type Load = Box<dyn FnOnce() -> Result<Worker, String> + Send>;

/// Dropping the crowd ends its threads after the text that each works on.
pub(super) struct Crowd(Arc<CrowdShared>);

struct CrowdShared {
    state: Mutex<CrowdState>,
    bell: Condvar,
}

struct CrowdState {
    /// Taken by the first job.
    load: Option<Load>,
    /// Why the model could not be loaded. It is not tried again: a file that is damaged stays so.
    broken: Option<String>,
    /// Jobs that are not answered yet, in the order they came.
    jobs: Vec<EmbedJob>,
    /// The number of the newest job.
    next: u64,
    closing: bool,
}

struct EmbedJob {
    id: u64,
    texts: Vec<String>,
    /// How many texts the threads have taken, from the front.
    taken: usize,
    /// The vectors by the place of their texts, because threads finish in any order.
    done: Vec<Option<Vec<f32>>>,
    reply: oneshot::Sender<Answer>,
}

impl EmbedJob {
    fn left(&self) -> usize {
        self.texts.len() - self.taken
    }
}

impl CrowdShared {
    fn state(&self) -> MutexGuard<'_, CrowdState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crowd {
    pub fn new(load: impl FnOnce() -> Result<Worker, String> + Send + 'static) -> Self {
        let state = CrowdState {
            load: Some(Box::new(load)),
            broken: None,
            jobs: Vec::new(),
            next: 0,
            closing: false,
        };
        Self(Arc::new(CrowdShared { state: Mutex::new(state), bell: Condvar::new() }))
    }

    pub async fn embed(&self, texts: Vec<String>) -> Answer {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.give(texts);
        let gone = || EmbedFault::Unavailable("the model's threads ended".into());
        answer?.await.map_err(|_| gone())?
    }

    /// Queues a job. The state is locked throughout, so that two first jobs load one model.
    fn give(&self, texts: Vec<String>) -> Result<oneshot::Receiver<Answer>, EmbedFault> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.0.state();
        if let Some(words) = &state.broken {
            return Err(EmbedFault::Unavailable(words.clone()));
        }
        state.next += 1;
        let (id, done) = (state.next, vec![None; texts.len()]);
        state.jobs.push(EmbedJob { id, texts, taken: 0, done, reply });
        if let Some(load) = state.load.take() {
            let shared = self.0.clone();
            let first = std::thread::Builder::new().name("callboard-embed".into());
            if let Err(error) = first.spawn(move || start(&shared, load)) {
                state.broken = Some(format!("cannot start a thread for the model: {error}"));
                state.jobs.clear();
            }
        }
        drop(state);
        self.0.bell.notify_all();
        Ok(answer)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.0.state().closing = true;
        self.0.bell.notify_all();
    }
}

fn start(shared: &Arc<CrowdShared>, load: Load) {
    let worker: Arc<Worker> = match load() {
        Ok(worker) => Arc::new(worker),
        Err(words) => {
            let mut state = shared.state();
            for job in state.jobs.drain(..) {
                let _ = job.reply.send(Err(EmbedFault::Unavailable(words.clone())));
            }
            state.broken = Some(words);
            return;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    for _ in 1..threads {
        let (shared, worker) = (shared.clone(), worker.clone());
        let another = std::thread::Builder::new().name("callboard-embed".into());
        if let Err(error) = another.spawn(move || work(&shared, &worker)) {
            tracing::warn!(%error, "cannot start all threads for the model");
        }
    }
    work(shared, &worker);
}

fn work(shared: &CrowdShared, worker: &Worker) {
    loop {
        let Some((id, index, text)) = take(shared) else { return };
        let vector = worker(&text);
        put(shared, id, index, vector);
    }
}

/// The next text of the job with the fewest left; waits for one.
fn take(shared: &CrowdShared) -> Option<(u64, usize, String)> {
    let mut state = shared.state();
    loop {
        if state.closing {
            return None;
        }
        // A caller that went away, as a search that ran out of time does, costs no more work.
        state.jobs.retain(|job| !job.reply.is_closed());
        let open = state.jobs.iter_mut().filter(|job| job.left() > 0);
        if let Some(job) = open.min_by_key(|job| job.left()) {
            let index = job.taken;
            job.taken += 1;
            return Some((job.id, index, std::mem::take(&mut job.texts[index])));
        }
        state = shared.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn put(shared: &CrowdShared, id: u64, index: usize, vector: Vec<f32>) {
    let mut state = shared.state();
    // The job was given up meanwhile.
    let Some(place) = state.jobs.iter().position(|job| job.id == id) else { return };
    state.jobs[place].done[index] = Some(vector);
    if state.jobs[place].done.iter().all(Option::is_some) {
        let job = state.jobs.remove(place);
        // The caller may be gone.
        let _ = job.reply.send(Ok(job.done.into_iter().flatten().collect()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn texts_are_answered_in_order_and_loading_happens_once() {
        let crowd = Crowd::new(|| Ok(Box::new(|text: &str| vec![text.len() as f32])));
        let texts = |n: usize| (0..n).map(|n| "x".repeat(n)).collect::<Vec<_>>();
        let (a, b) = tokio::join!(crowd.embed(texts(50)), crowd.embed(texts(3)));
        let numbers = |n: usize| (0..n).map(|n| vec![n as f32]).collect::<Vec<_>>();
        assert_eq!((a, b), (Ok(numbers(50)), Ok(numbers(3))));
        assert_eq!(crowd.embed(Vec::new()).await, Ok(Vec::new()));
    }

    #[tokio::test]
    async fn a_model_that_cannot_be_loaded_says_why_every_time() {
        let crowd = Crowd::new(|| Err("no such file".into()));
        for _ in 0..2 {
            let answer = crowd.embed(vec!["x".into()]).await;
            assert_eq!(answer, Err(EmbedFault::Unavailable("no such file".into())));
        }
    }
}

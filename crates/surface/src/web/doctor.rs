//! The lines of `callboard doctor` on a page. The program brings the look; this file limits its time and keeps what it
//! found for a while, so that no page waits for a slow machine.

use std::fmt::{self, Display, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::{Extension, Router};
use tokio::sync::{Mutex, watch};

/// How long a page waits for the look.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// How long the result of a look is shown.
const KEPT: Duration = Duration::from_secs(60);

/// How long a look at the clients may take, how long a page waits for it, and how long its result is shown.
const CLIENTS_LIMIT: Duration = Duration::from_secs(30);
const CLIENTS_WAIT: Duration = Duration::from_millis(300);
const CLIENTS_KEPT: Duration = Duration::from_secs(600);

/// The word of a line, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DoctorWord {
    Ok,
    Warn,
    Fail,
}

impl Display for DoctorWord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

/// One requirement: its name, what was found, and the exact fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorLine {
    pub name: String,
    pub word: DoctorWord,
    pub message: String,
    pub fix: Option<String>,
}

type Looking = Pin<Box<dyn Future<Output = Vec<DoctorLine>> + Send>>;
type Look = Box<dyn Fn() -> Looking + Send + Sync>;

/// Looks for what keeps the board from working here.
pub struct Doctor {
    look: Look,
    kept: Mutex<Option<(Instant, Arc<Vec<DoctorLine>>)>>,
    clients: Option<ClientsDoctor>,
}

/// The look at the files of agents' clients. It starts programs and greets a server, so it goes on beside the page.
struct ClientsDoctor {
    look: Look,
    kept: watch::Sender<ClientsKept>,
}

#[derive(Clone, Default)]
struct ClientsKept {
    found: Option<(Instant, Arc<Vec<DoctorLine>>)>,
    is_looking: bool,
}

/// What is known of the clients.
pub(super) struct ClientsSeen {
    /// The lines with their age; `None` before the first look has ended.
    pub found: Option<(Arc<Vec<DoctorLine>>, Duration)>,
    pub is_looking: bool,
}

impl Doctor {
    pub fn new(look: impl Fn() -> Looking + Send + Sync + 'static) -> Self {
        Self { look: Box::new(look), kept: Mutex::default(), clients: None }
    }

    /// Also looks at the clients of agents.
    pub fn with_clients(mut self, look: impl Fn() -> Looking + Send + Sync + 'static) -> Self {
        self.clients = Some(ClientsDoctor { look: Box::new(look), kept: watch::Sender::default() });
        self
    }

    /// The lines of the clients. A look that is due begins here and goes on by itself; a page waits a moment for it.
    /// `None` for a server that has no clients to look at.
    pub(super) async fn clients(&self, is_fresh: bool) -> Option<ClientsSeen> {
        let clients = self.clients.as_ref()?;
        let mut begins = false;
        clients.kept.send_if_modified(|kept| {
            let is_due = kept.found.as_ref().is_none_or(|(at, _)| at.elapsed() >= CLIENTS_KEPT);
            // One look at a time, however many pages ask.
            begins = (is_fresh || is_due) && !kept.is_looking;
            kept.is_looking |= begins;
            begins
        });
        if begins {
            let (looking, kept) = ((clients.look)(), clients.kept.clone());
            tokio::spawn(async move {
                let lines = tokio::time::timeout(CLIENTS_LIMIT, looking).await;
                let lines = lines.unwrap_or_else(|_| vec![too_slow("clients", "30 seconds")]);
                let found = Some((Instant::now(), Arc::new(lines)));
                kept.send_replace(ClientsKept { found, is_looking: false });
            });
        }
        let mut kept = clients.kept.subscribe();
        let ended = kept.wait_for(|kept| !kept.is_looking);
        // A look that takes longer is shown by a later page.
        let _ = tokio::time::timeout(CLIENTS_WAIT, ended).await;
        let ClientsKept { found, is_looking } = clients.kept.borrow().clone();
        let found = found.map(|(at, lines)| (lines, at.elapsed()));
        Some(ClientsSeen { found, is_looking })
    }

    /// Pages that show what this doctor finds.
    pub fn of(self: Arc<Self>, pages: Router) -> Router {
        pages.layer(Extension(self))
    }

    /// The worst word of the last look, with the count of its lines. Never looks and never waits: every page asks.
    pub(super) fn worst(&self) -> Option<(DoctorWord, usize)> {
        let kept = self.kept.try_lock().ok()?;
        let (_, lines) = kept.as_ref()?;
        let worst =
            lines.iter().map(|line| line.word).max().filter(|word| *word != DoctorWord::Ok)?;
        Some((worst, lines.iter().filter(|line| line.word == worst).count()))
    }

    /// The lines, and their age. With `is_fresh` the look is made now.
    pub(super) async fn lines(&self, is_fresh: bool) -> (Arc<Vec<DoctorLine>>, Duration) {
        // Held while looking: pages that come meanwhile share one look.
        let mut kept = self.kept.lock().await;
        if let Some((at, lines)) = &*kept
            && !is_fresh
            && at.elapsed() < KEPT
        {
            return (lines.clone(), at.elapsed());
        }
        let lines = match tokio::time::timeout(LOOK_LIMIT, (self.look)()).await {
            Ok(lines) => lines,
            Err(_) => vec![too_slow("doctor", "a second")],
        };
        let lines = Arc::new(lines);
        *kept = Some((Instant::now(), lines.clone()));
        (lines, Duration::ZERO)
    }
}

fn too_slow(name: &str, after: &str) -> DoctorLine {
    DoctorLine {
        name: name.into(),
        word: DoctorWord::Warn,
        message: format!("the look was stopped after {after}"),
        fix: Some("callboard doctor".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn line(message: String) -> DoctorLine {
        DoctorLine { name: "git".into(), word: DoctorWord::Ok, message, fix: None }
    }

    #[tokio::test]
    async fn a_look_is_kept_until_a_fresh_one_is_asked_for() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let doctor = Doctor::new(move || {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { vec![line(number.to_string())] })
        });
        for (is_fresh, message) in [(false, "0"), (false, "0"), (true, "1"), (false, "1")] {
            assert_eq!(doctor.lines(is_fresh).await.0[0].message, message);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_look_is_stopped_and_says_so() {
        let doctor = Doctor::new(|| Box::pin(std::future::pending()));
        let (lines, _) = doctor.lines(false).await;
        assert_eq!((lines.len(), lines[0].word), (1, DoctorWord::Warn));
        assert_eq!(lines[0].fix.as_deref(), Some("callboard doctor"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_at_the_clients_goes_on_beside_the_page() {
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        let doctor = Doctor::new(|| Box::pin(async { Vec::new() }));
        assert!(doctor.clients(false).await.is_none(), "nothing to look at");
        let doctor = doctor.with_clients(move || {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                vec![line(number.to_string())]
            })
        });
        for _ in 0..3 {
            let seen = doctor.clients(false).await.expect("clients");
            assert!(seen.is_looking && seen.found.is_none(), "a page waits only a moment");
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        for (is_fresh, message, is_looking) in [(false, "0", false), (true, "0", true)] {
            let seen = doctor.clients(is_fresh).await.expect("clients");
            let (lines, _) = seen.found.expect("the first look has ended");
            assert_eq!((&*lines[0].message, seen.is_looking), (message, is_looking));
        }
        assert_eq!(begun.load(Ordering::SeqCst), 2, "one look at a time");
    }
}

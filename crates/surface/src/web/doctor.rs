//! The lines of `callboard doctor` on a page. The program brings the look; this file limits its time and keeps what it
//! found for a while, so that no page waits for a slow machine.

use std::fmt::{self, Display, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::{Extension, Router};
use tokio::sync::Mutex;

/// How long a page waits for the look.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// How long the result of a look is shown.
const KEPT: Duration = Duration::from_secs(60);

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

/// Looks for what keeps the board from working here.
pub struct Doctor {
    look: Box<dyn Fn() -> Looking + Send + Sync>,
    kept: Mutex<Option<(Instant, Arc<Vec<DoctorLine>>)>>,
}

impl Doctor {
    pub fn new(look: impl Fn() -> Looking + Send + Sync + 'static) -> Self {
        Self { look: Box::new(look), kept: Mutex::default() }
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
            Err(_) => vec![DoctorLine {
                name: "doctor".into(),
                word: DoctorWord::Warn,
                message: "the look was stopped after a second".into(),
                fix: Some("callboard doctor".into()),
            }],
        };
        let lines = Arc::new(lines);
        *kept = Some((Instant::now(), lines.clone()));
        (lines, Duration::ZERO)
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
}

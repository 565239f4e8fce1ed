//! The callers that wait for one commit: each gave one command, or several that go together.

use tokio::sync::oneshot;

use crate::{Applied, ApplyError, StoreError};

pub(crate) type Verdict = Result<Applied, ApplyError>;

/// A caller that waits for the verdicts on its commands.
pub(crate) enum Caller {
    One(oneshot::Sender<Verdict>),
    All(oneshot::Sender<Vec<Verdict>>),
}

/// The callers of one batch, each with the number of its commands.
#[derive(Default)]
pub(crate) struct Callers(Vec<(Caller, usize)>);

impl Callers {
    pub fn push(&mut self, caller: Caller, commands: usize) {
        self.0.push((caller, commands));
    }

    /// Hands out the verdicts of a batch, which come in the order of the commands. A caller that went away does not
    /// need its answer.
    pub fn answer(self, verdicts: impl IntoIterator<Item = Verdict>) {
        let mut verdicts = verdicts.into_iter();
        for (caller, commands) in self.0 {
            match caller {
                Caller::One(reply) => {
                    if let Some(verdict) = verdicts.next() {
                        let _ = reply.send(verdict);
                    }
                }
                Caller::All(reply) => {
                    let _ = reply.send(verdicts.by_ref().take(commands).collect());
                }
            }
        }
    }

    /// Answers every command with this error.
    pub fn refuse(self, error: &StoreError) {
        self.answer(std::iter::repeat_with(|| Err(error.clone().into())));
    }
}

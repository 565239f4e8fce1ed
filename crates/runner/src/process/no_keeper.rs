//! On systems other than Linux no process adopts the children of others, so there is no keeper.

use std::convert::Infallible;
use std::io;
use std::process::ExitStatus;

use rustix::process::Pid;
use tokio::process::Command;

pub(super) const IS_THERE: bool = false;

pub(super) struct KeeperPipes(Infallible);

pub(super) struct Keeper {
    pub(super) leader: Pid,
    never: Infallible,
}

pub(super) fn post(_: &mut Command) -> io::Result<KeeperPipes> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Keeper {
    pub(super) fn new(ends: KeeperPipes) -> io::Result<Self> {
        match ends.0 {}
    }

    pub(super) fn forsaken(&self) -> Option<Pid> {
        match self.never {}
    }

    pub(super) async fn leader_exit(&mut self) -> Option<ExitStatus> {
        match self.never {}
    }

    pub(super) fn ask_to_end(&mut self) {
        match self.never {}
    }

    pub(super) fn end(&mut self) {
        match self.never {}
    }
}

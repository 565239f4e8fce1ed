//! The counts of runs that a batch keeps: a database is asked once, and the desk of each command goes on from there.

use std::collections::HashMap;

use callboard_domain::desk::RunCounts;
use callboard_domain::needs::Needs;
use callboard_domain::runs::run::OpenRuns;
use rusqlite::{Connection, Result};

use crate::sqlite::runs;

/// No other process writes while the batch does, so a count stays true until a command of the batch changes it.
#[derive(Default)]
pub(crate) struct Counts {
    open: HashMap<i64, OpenRuns>,
    /// Of every org: places belong to the machine.
    here: RunCounts,
}

impl Counts {
    /// The counts for a command. A command that asks for none changes those that others asked for.
    pub fn lay_out(&mut self, db: &Connection, org: i64, needs: &Needs) -> Result<RunCounts> {
        if needs.open_runs && !self.open.contains_key(&org) {
            self.open.insert(org, runs::open(db, org)?);
        }
        if let Some((kind, machine)) = &needs.runs_on
            && !self.here.here.contains_key(&(*kind, machine.clone()))
        {
            let count = runs::count_on(db, *kind, machine)?;
            self.here.here.insert((*kind, machine.clone()), count);
        }
        Ok(RunCounts { open: self.open.get(&org).copied(), here: self.here.here.clone() })
    }

    /// The counts after a command was carried out.
    pub fn take_back(&mut self, org: i64, counts: RunCounts) {
        if let Some(open) = counts.open {
            self.open.insert(org, open);
        }
        self.here.here = counts.here;
    }
}

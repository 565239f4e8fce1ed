//! The numbers of organisations. An org is never renamed or removed, so a number once learned holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StoreError;
use crate::postgres::db::Db;
use crate::postgres::errors::Trouble;
use crate::postgres::read;

#[derive(Default)]
pub(crate) struct Orgs(Mutex<HashMap<Arc<str>, i64>>);

impl Orgs {
    /// A panic while the map was held leaves at worst a missing entry, so a poisoned lock is used on.
    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number, if it is cached; does not query the database.
    pub fn learned(&self, name: &str) -> Option<i64> {
        self.known().get(name).copied()
    }

    pub async fn find(&self, db: &Db, name: &str) -> Result<Option<i64>, Trouble> {
        let known = self.learned(name);
        if known.is_some() {
            return Ok(known);
        }
        let found = read::find_org(db, name).await?;
        // Only what was found is kept: an unknown org may be made by another process at any time.
        if let Some(id) = found {
            self.known().insert(name.into(), id);
        }
        Ok(found)
    }

    /// As `find`, but an unknown org is an error.
    pub async fn get(&self, db: &Db, name: &str) -> Result<i64, Trouble> {
        self.find(db, name).await?.ok_or_else(|| unknown(name).into())
    }
}

pub(crate) fn unknown(name: &str) -> StoreError {
    StoreError::Unavailable(format!("no organisation is called '{name}'"))
}

//! The tables, once for both databases: per table the columns, `read` and `values`. A backend only reads single
//! columns (`Cells`) and binds values (`Cell`). No SQL that differs between the databases stands here.

// A column stands in up to four places of its file: the SELECT list, the reader in the order of that list, the pairs
// of `table!`, and `STEPS` if the column changes. The test below compares the names in `STEPS` with the table.
pub(crate) mod cell;
mod reader;

pub(crate) mod agent;
pub(crate) mod attempt;
pub(crate) mod card;
pub(crate) mod comment;
pub(crate) mod decision;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod event;
pub(crate) mod handle;
pub(crate) mod job;
pub(crate) mod knowledge;
pub(crate) mod mail;
pub(crate) mod page_key;
pub(crate) mod plan;
pub(crate) mod project;
pub(crate) mod pull;
pub(crate) mod retry;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod task;
pub(crate) mod token;

pub(crate) use cell::{Cell, Table, Values, json};
pub(crate) use reader::{Cells, Damaged, RowReader};

#[cfg(test)]
mod tests {
    use super::*;

    /// `Values::of` panics for a column that its table does not declare, so a wrong name in `STEPS` must fail here.
    #[test]
    fn columns_that_change_stand_in_their_table() {
        let steps: [(&Table, &[&str]); 10] = [
            (&attempt::ATTEMPTS, &attempt::LIVE),
            (&attempt::ATTEMPTS, &attempt::ENDED),
            (&comment::COMMENTS, &comment::STEPS),
            (&delivery::DELIVERIES, &delivery::STEPS),
            (&handle::HANDLES, &crate::handles::STEPS),
            (&job::JOBS, &job::STEPS),
            (&plan::PLANS, &plan::STEPS),
            (&review::DRAFTS, &review::DRAFT_STEPS),
            (&run::RUNS, &run::STEPS),
            (&task::TASKS, &task::STEPS),
        ];
        for (table, steps) in steps {
            for step in steps {
                assert!(table.columns.contains(step), "{}.{step}", table.name);
            }
        }
    }
}

//! What a runner asks for together, so that one commit serves several jobs: which waiting jobs it leases, and which leases
//! it renews. Each job is judged by itself in that commit.

use crate::ids::TaskId;

/// The most jobs that are leased in one commit.
pub const LEASED_MAX: usize = 64;

/// A job that waits in the queue of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedJob<G> {
    /// The jobs that share its limit.
    pub group: G,
    /// How many runs of the group there may be.
    pub limit: u32,
    /// How many of them this process runs.
    pub at_work: u32,
    pub task: Option<TaskId>,
}

/// The places in the queue of the jobs to lease together, the first ones first: of each group as many as it has places for,
/// of each task one, at most `most`. A group that looks full gets one try: only the store knows how many runs there are,
/// because other processes of the machine start and end them too.
pub fn lease_together<G: PartialEq>(queue: &[QueuedJob<G>], most: usize) -> Vec<usize> {
    let mut picked: Vec<usize> = Vec::new();
    for (place, job) in queue.iter().enumerate() {
        let beside = || picked.iter().map(|place| &queue[*place]);
        let of_group = beside().filter(|other| other.group == job.group).count();
        let free = job.limit.saturating_sub(job.at_work).max(1) as usize;
        let is_of_task = job.task.is_some() && beside().any(|other| other.task == job.task);
        if of_group < free && !is_of_task {
            picked.push(place);
        }
        if picked.len() >= most.min(LEASED_MAX) {
            break;
        }
    }
    picked
}

/// Whether a lease is renewed with another one that is due: half of its heartbeat has passed. So the leases of a process
/// soon share one commit, and none is renewed more than twice as often as it must be.
pub fn renews_along(age_ms: u128, every_ms: u128) -> bool {
    age_ms.saturating_mul(2) >= every_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Id, Prefix};

    /// A queue as words `group limit at_work [task]`, separated by commas, and the places that are picked.
    fn picked(queue: &str, most: usize) -> String {
        let queue: Vec<QueuedJob<String>> = queue
            .split(',')
            .map(|words| {
                let words: Vec<&str> = words.split_whitespace().collect();
                let count = |at: usize| words[at].parse().expect("a number");
                let task = words.get(3).map(|task| TaskId {
                    id: Id(task.parse().expect("a number")),
                    prefix: Prefix::fallback(),
                });
                QueuedJob { group: words[0].into(), limit: count(1), at_work: count(2), task }
            })
            .collect();
        let places = lease_together(&queue, most);
        places.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn jobs_are_leased_together_as_far_as_there_are_places() {
        for (queue, most, expected) in [
            ("a 3 0, a 3 0, a 3 0, a 3 0", 64, "0 1 2"),
            ("a 3 2, a 3 2", 64, "0"),
            ("a 3 0, a 3 0, a 3 0", 1, "0"),
            // A group that looks full gets one try.
            ("a 3 3, a 3 3", 64, "0"),
            ("a 0 0, a 0 0", 64, "0"),
            // A full group does not hold the others up, and each has a limit of its own.
            ("a 1 1, b 2 0, a 1 1, b 2 0, b 2 0", 64, "0 1 3"),
            // Two jobs of one task: the second is judged after the first began.
            ("a 3 0 7, a 3 0 7, a 3 0 8", 64, "0 2"),
            ("a 3 0, a 3 0 7, b 3 0 7, b 3 0", 64, "0 1 3"),
            ("a 3 0, b 3 0, a 3 0", 2, "0 1"),
        ] {
            assert_eq!(picked(queue, most), expected, "{queue}");
        }
        let many = ["a 1000 0"; 100].join(",");
        assert_eq!(picked(&many, usize::MAX).split(' ').count(), LEASED_MAX);
    }

    #[test]
    fn a_lease_is_renewed_with_others_after_half_of_its_heartbeat() {
        for (age_ms, every_ms, expected) in [
            (15_000, 15_000, true),
            (7_500, 15_000, true),
            (7_499, 15_000, false),
            (0, 15_000, false),
            (40_000, 15_000, true),
        ] {
            assert_eq!(renews_along(age_ms, every_ms), expected, "{age_ms}");
        }
    }
}

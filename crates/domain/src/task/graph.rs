//! Tasks that wait for each other: the longest way through them, the tasks around one, and the task whose end lets most
//! others start. Deps have no cycle; an edge that would close one is left alone.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::ids::TaskId;

/// Open tasks and the deps among them. A dep that is not among the tasks is closed and holds nothing.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    tasks: Vec<TaskId>,
    /// The tasks that each task waits for, by place.
    deps: Vec<Vec<usize>>,
    /// The tasks that wait for each task, by place.
    waiting: Vec<Vec<usize>>,
}

/// What the end of a task brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relief {
    pub task: TaskId,
    /// Tasks that wait for this one alone.
    pub starts: usize,
    /// Tasks that wait for this one, at any distance.
    pub behind: usize,
}

impl TaskGraph {
    pub fn of(tasks: impl IntoIterator<Item = (TaskId, Vec<TaskId>)>) -> Self {
        let (tasks, wanted): (Vec<TaskId>, Vec<Vec<TaskId>>) = tasks.into_iter().unzip();
        let places: HashMap<TaskId, usize> =
            tasks.iter().enumerate().map(|(place, task)| (*task, place)).collect();
        let mut graph = Self {
            deps: vec![Vec::new(); tasks.len()],
            waiting: vec![Vec::new(); tasks.len()],
            tasks,
        };
        for (place, wanted) in wanted.iter().enumerate() {
            for dep in wanted.iter().filter_map(|dep| places.get(dep)) {
                graph.deps[place].push(*dep);
                graph.waiting[*dep].push(place);
            }
        }
        graph
    }

    /// The graph of deps and the tasks that wait for them, without tasks that stand alone.
    pub fn of_edges(edges: impl IntoIterator<Item = (TaskId, TaskId)>) -> Self {
        let mut tasks: BTreeMap<TaskId, Vec<TaskId>> = BTreeMap::new();
        for (dep, task) in edges {
            tasks.entry(dep).or_default();
            tasks.entry(task).or_default().push(dep);
        }
        Self::of(tasks)
    }

    /// Each dep with the task that waits for it.
    pub fn edges(&self) -> impl Iterator<Item = (TaskId, TaskId)> + '_ {
        let of = |place: usize| self.deps[place].iter().map(move |dep| (*dep, place));
        (0..self.tasks.len()).flat_map(of).map(|(dep, task)| (self.tasks[dep], self.tasks[task]))
    }

    pub fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    /// Tasks that wait for no other and that no other waits for.
    pub fn alone(&self) -> impl Iterator<Item = TaskId> + '_ {
        let is_alone =
            |place: &usize| self.deps[*place].is_empty() && self.waiting[*place].is_empty();
        (0..self.tasks.len()).filter(is_alone).map(|place| self.tasks[place])
    }

    /// The places in an order in which every task stands behind its deps.
    fn in_order(&self) -> Vec<usize> {
        let mut open: Vec<usize> = self.deps.iter().map(Vec::len).collect();
        let mut free: VecDeque<usize> =
            (0..self.tasks.len()).filter(|place| open[*place] == 0).collect();
        let mut order = Vec::with_capacity(self.tasks.len());
        while let Some(place) = free.pop_front() {
            order.push(place);
            for next in &self.waiting[place] {
                open[*next] -= 1;
                if open[*next] == 0 {
                    free.push_back(*next);
                }
            }
        }
        order
    }

    /// The longest chain of tasks that wait for each other, from the first to the last; empty where none waits. Of
    /// equal chains the one with the older tasks wins.
    pub fn longest_way(&self) -> Vec<TaskId> {
        let mut length = vec![1_usize; self.tasks.len()];
        let mut before: Vec<Option<usize>> = vec![None; self.tasks.len()];
        for place in self.in_order() {
            for dep in &self.deps[place] {
                let is_better = length[*dep] + 1 > length[place]
                    || (length[*dep] + 1 == length[place]
                        && before[place].is_some_and(|best| self.tasks[*dep] < self.tasks[best]));
                if is_better {
                    (length[place], before[place]) = (length[*dep] + 1, Some(*dep));
                }
            }
        }
        let by_length = |place: &usize| (length[*place], std::cmp::Reverse(self.tasks[*place]));
        let last = (0..self.tasks.len()).filter(|place| length[*place] > 1).max_by_key(by_length);
        let mut way: Vec<TaskId> = std::iter::successors(last, |place| before[*place])
            .map(|place| self.tasks[place])
            .collect();
        way.reverse();
        way
    }

    /// The tasks at most `depth` edges away from these, nearest first, at most `limit`.
    pub fn around(&self, starts: &[TaskId], depth: usize, limit: usize) -> Vec<TaskId> {
        let is_start = |place: &usize| starts.contains(&self.tasks[*place]);
        let mut seen: HashSet<usize> = (0..self.tasks.len()).filter(is_start).collect();
        let mut ring: Vec<usize> =
            (0..self.tasks.len()).filter(|place| seen.contains(place)).collect();
        let mut found: Vec<usize> = ring.clone();
        for _ in 0..depth {
            let near = |place: &usize| {
                self.deps[*place].iter().chain(&self.waiting[*place]).copied().collect::<Vec<_>>()
            };
            ring = ring.iter().flat_map(near).filter(|place| seen.insert(*place)).collect();
            found.extend(&ring);
        }
        found.into_iter().take(limit).map(|place| self.tasks[place]).collect()
    }

    /// The graph of some of its tasks.
    pub fn part(&self, tasks: &[TaskId]) -> Self {
        let kept: HashSet<TaskId> = tasks.iter().copied().collect();
        let wanted = |place: &usize| kept.contains(&self.tasks[*place]);
        Self::of((0..self.tasks.len()).filter(wanted).map(|place| {
            (self.tasks[place], self.deps[place].iter().map(|dep| self.tasks[*dep]).collect())
        }))
    }

    /// The tasks that wait for nothing and whose end helps others: those that let most start first, then those with
    /// most behind them.
    pub fn reliefs(&self, limit: usize) -> Vec<Relief> {
        let mut found: Vec<Relief> = (0..self.tasks.len())
            .filter(|place| self.deps[*place].is_empty() && !self.waiting[*place].is_empty())
            .map(|place| self.relief(place))
            .collect();
        found.sort_by_key(|it| (std::cmp::Reverse((it.starts, it.behind)), it.task));
        found.truncate(limit);
        found
    }

    fn relief(&self, place: usize) -> Relief {
        let starts = self.waiting[place].iter().filter(|next| self.deps[**next].len() == 1).count();
        let mut behind: HashSet<usize> = HashSet::new();
        let mut open = vec![place];
        while let Some(place) = open.pop() {
            open.extend(self.waiting[place].iter().filter(|next| behind.insert(**next)));
        }
        Relief { task: self.tasks[place], starts, behind: behind.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Id, Prefix};

    fn id(name: char) -> TaskId {
        TaskId { id: Id(name as u128), prefix: Prefix::fallback() }
    }

    /// Reads `a b:a c:ab`: each task, and behind the colon its deps.
    fn graph(text: &str) -> TaskGraph {
        TaskGraph::of(text.split_whitespace().map(|part| {
            let (name, deps) = part.split_once(':').unwrap_or((part, ""));
            (id(name.chars().next().expect("a name")), deps.chars().map(id).collect())
        }))
    }

    fn names(tasks: impl IntoIterator<Item = TaskId>) -> String {
        let name = |task: TaskId| u8::try_from(task.id.0).map(char::from).expect("a letter");
        tasks.into_iter().map(name).collect()
    }

    #[test]
    fn the_longest_way_goes_from_the_first_to_the_last() {
        for (text, way) in [
            ("", ""),
            ("a b c", ""),
            ("a b:a", "ab"),
            ("a b:a c:b d:a", "abc"),
            ("d:c c:b b:a a", "abcd"),
            ("a b c:ab", "ac"),
            ("a b:a c d:c", "ab"),
            ("b:x", ""),
        ] {
            let whole = graph(text);
            assert_eq!(names(whole.longest_way()), way, "{text}");
            // The edges alone say as much of the way as all tasks do.
            assert_eq!(names(TaskGraph::of_edges(whole.edges()).longest_way()), way, "{text}");
        }
    }

    #[test]
    fn the_tasks_around_one_are_near_first() {
        let chain = graph("a b:a c:b d:c e:d f");
        for (start, depth, limit, found) in [
            ('c', 0, 9, "c"),
            ('c', 1, 9, "cbd"),
            ('c', 2, 9, "cbdae"),
            ('c', 2, 3, "cbd"),
            ('f', 2, 9, "f"),
            ('z', 2, 9, ""),
        ] {
            assert_eq!(names(chain.around(&[id(start)], depth, limit)), found, "{start} {depth}");
        }
        assert_eq!(names(chain.part(&[id('b'), id('c')]).longest_way()), "bc");
        assert_eq!(names(chain.alone()), "f");
        assert_eq!(chain.edges().count(), 4);
    }

    #[test]
    fn what_lets_most_start_helps_most() {
        for (text, said) in [
            ("a b", ""),
            ("a b:a c:b", "a1/2"),
            ("a b:a c:a d e:d", "a2/2 d1/1"),
            ("a b c:ab d:b", "b1/2 a0/1"),
            ("a b c:ab d:c e:ab", "a0/3 b0/3"),
        ] {
            let found = graph(text).reliefs(9);
            let words =
                found.iter().map(|it| format!("{}{}/{}", names([it.task]), it.starts, it.behind));
            assert_eq!(words.collect::<Vec<_>>().join(" "), said, "{text}");
        }
    }
}

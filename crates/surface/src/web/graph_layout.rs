//! A layered picture of tasks and their deps, left to right: where each node stands and how each edge runs. Plain
//! numbers; the page draws them.

/// The size of a node, and the space between columns and rows.
pub(super) const NODE_WIDTH: f64 = 168.0;
pub(super) const NODE_HEIGHT: f64 = 66.0;
const COLUMN_GAP: f64 = 40.0;
const ROW_GAP: f64 = 16.0;
/// The height of an edge on its way through a column.
const LANE_HEIGHT: f64 = 8.0;
/// The distance of two edges that end at one node.
const PORT_GAP: f64 = 9.0;
/// Nodes and lanes together. A picture with more is no picture.
const SLOTS_MAX: usize = 2000;
/// Passes over all slots, left to right and back in turn.
const SWEEPS: usize = 6;

/// Where everything stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// In pixels of the picture, like everything here.
    pub width: f64,
    pub height: f64,
    /// The top left corner of each node.
    pub nodes: Vec<(f64, f64)>,
    /// The way of each edge, in the order of the edges.
    pub ways: Vec<String>,
}

/// A node, or the place of an edge in a column that the edge passes.
#[derive(Clone, Debug, Default)]
struct Slot {
    column: usize,
    is_node: bool,
    /// The height of its middle.
    middle: f64,
    /// The slots on the left that an edge joins to it; `after` those on the right.
    before: Vec<usize>,
    after: Vec<usize>,
}

impl Slot {
    fn height(&self) -> f64 {
        if self.is_node { NODE_HEIGHT } else { LANE_HEIGHT }
    }
}

/// Lays nodes `0..count` out; each edge goes from a dep to the node that waits for it. `None` where the picture would be
/// too large.
pub(super) fn layout(count: usize, edges: &[(usize, usize)]) -> Option<Layout> {
    let columns = columns_of(count, edges);
    let node = |column: &usize| Slot { column: *column, is_node: true, ..Slot::default() };
    let mut slots: Vec<Slot> = columns.iter().map(node).collect();
    let mut chains = Vec::new();
    for (from, to) in edges {
        let mut chain = vec![*from];
        // An edge that passes a column gets a lane there, so that it does not run through a node.
        for column in columns[*from] + 1..columns[*to] {
            chain.push(slots.len());
            slots.push(Slot { column, ..Slot::default() });
        }
        chain.push(*to);
        for pair in chain.windows(2) {
            slots[pair[0]].after.push(pair[1]);
            slots[pair[1]].before.push(pair[0]);
        }
        chains.push(chain);
        if slots.len() > SLOTS_MAX {
            return None;
        }
    }
    let mut order = vec![Vec::new(); columns.iter().max().map_or(0, |last| last + 1)];
    for (place, slot) in slots.iter().enumerate() {
        order[slot.column].push(place);
    }
    stack(&mut slots, &order);
    // First the order within columns, which decides on crossings; then the heights, which straighten edges.
    for sweep in 0..SWEEPS {
        sort(&mut slots, &mut order, sweep % 2 == 0);
    }
    for sweep in 0..SWEEPS {
        settle(&mut slots, &order, sweep % 2 == 0);
    }
    Some(drawn(count, &slots, &chains))
}

/// The column of each node: behind all of its deps.
fn columns_of(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut columns = vec![0; count];
    // A chain has at most `count` nodes, so a cycle ends too.
    for _ in 0..count {
        let mut changed = false;
        for (from, to) in edges {
            // The second condition keeps a cycle from pushing its nodes to the right without end.
            if columns[*to] <= columns[*from] && columns[*from] + 1 < count {
                columns[*to] = columns[*from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    columns
}

/// Puts the slots of each column below each other.
fn stack(slots: &mut [Slot], order: &[Vec<usize>]) {
    for column in order {
        let mut top = 0.0;
        for place in column {
            let height = slots[*place].height();
            slots[*place].middle = top + height / 2.0;
            top += height + ROW_GAP;
        }
    }
}

/// The mean height of the slots on one side; `None` where there is none.
fn pull(slots: &[Slot], place: usize, forward: bool) -> Option<f64> {
    let near = if forward { &slots[place].before } else { &slots[place].after };
    let sum: f64 = near.iter().map(|other| slots[*other].middle).sum();
    (!near.is_empty()).then(|| sum / near.len() as f64)
}

/// The columns in the order of a sweep.
fn columns(count: usize, forward: bool) -> Vec<usize> {
    if forward { (0..count).collect() } else { (0..count).rev().collect() }
}

/// Orders the slots of each column by the slots that they are joined to, so that fewer edges cross.
fn sort(slots: &mut [Slot], order: &mut [Vec<usize>], forward: bool) {
    for column in columns(order.len(), forward) {
        let mut wanted: Vec<(f64, usize)> = order[column]
            .iter()
            .map(|place| (pull(slots, *place, forward).unwrap_or(slots[*place].middle), *place))
            .collect();
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        order[column] = wanted.into_iter().map(|(_, place)| place).collect();
        stack(slots, std::slice::from_ref(&order[column]));
    }
}

/// Moves the slots of each column towards the slots that they are joined to, without changing their order.
fn settle(slots: &mut [Slot], order: &[Vec<usize>], forward: bool) {
    for column in columns(order.len(), forward) {
        let mut free = 0.0;
        let mut late = 0.0;
        for place in &order[column] {
            let half = slots[*place].height() / 2.0;
            let wanted = pull(slots, *place, forward).unwrap_or(slots[*place].middle);
            let middle = wanted.max(free + half);
            // A node that has no room is pushed down. The column as a whole then moves up by the mean push.
            late += middle - wanted;
            slots[*place].middle = middle;
            free = middle + half + ROW_GAP;
        }
        let top = order[column]
            .first()
            .map_or(0.0, |first| slots[*first].middle - slots[*first].height() / 2.0);
        let up = (late / order[column].len().max(1) as f64).min(top);
        for place in &order[column] {
            slots[*place].middle -= up;
        }
    }
}

/// The picture, moved so that its top is 0.
fn drawn(count: usize, slots: &[Slot], chains: &[Vec<usize>]) -> Layout {
    let left = |slot: &Slot| slot.column as f64 * (NODE_WIDTH + COLUMN_GAP);
    let tops = slots.iter().map(|slot| slot.middle - slot.height() / 2.0);
    let top = tops.fold(f64::INFINITY, f64::min);
    let bottom = slots.iter().map(|slot| slot.middle + slot.height() / 2.0).fold(0.0, f64::max);
    let width = slots.iter().map(|slot| left(slot) + NODE_WIDTH).fold(0.0, f64::max);
    let nodes = slots[..count]
        .iter()
        .map(|slot| (left(slot), slot.middle - NODE_HEIGHT / 2.0 - top))
        .collect();
    // A curve from column to column; its handles lie in the gap, so that it enters and leaves level.
    let way = |chain: &Vec<usize>| {
        let mut words = String::new();
        for pair in chain.windows(2) {
            let (from, to) = (&slots[pair[0]], &slots[pair[1]]);
            let (x, y) = (left(from) + NODE_WIDTH, from.middle - top);
            let (end_x, mut end_y) = (left(to), to.middle - top);
            if to.is_node {
                end_y += port(slots, pair[0], pair[1]);
            }
            let start = if from.is_node { "M" } else { "L" };
            let bend = x + COLUMN_GAP / 2.0;
            words += &format!(
                "{start}{x:.0} {y:.0}C{bend:.0} {y:.0} {bend:.0} {end_y:.0} {end_x:.0} {end_y:.0}"
            );
        }
        words
    };
    let height = if slots.is_empty() { 0.0 } else { bottom - top };
    Layout { width, height, nodes, ways: chains.iter().map(way).collect() }
}

/// How far from the middle of a node an edge ends: edges end in the order in which they come.
fn port(slots: &[Slot], from: usize, to: usize) -> f64 {
    let mut before = slots[to].before.clone();
    before.sort_by(|a, b| slots[*a].middle.total_cmp(&slots[*b].middle));
    let place = before.iter().position(|other| *other == from).unwrap_or(0) as f64;
    let (last, room) = (before.len().saturating_sub(1) as f64, NODE_HEIGHT - 2.0 * PORT_GAP);
    let gap = if last > 0.0 { PORT_GAP.min(room / last) } else { 0.0 };
    (place - last / 2.0) * gap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaps(layout: &Layout) -> bool {
        let nodes = &layout.nodes;
        let meet = |a: &(f64, f64), b: &(f64, f64)| {
            (a.0 - b.0).abs() < 1.0 && (a.1 - b.1).abs() < NODE_HEIGHT
        };
        nodes.iter().enumerate().any(|(n, a)| nodes[..n].iter().any(|b| meet(a, b)))
    }

    #[test]
    fn a_node_stands_behind_its_deps_and_on_no_other() {
        for (count, edges) in [
            (0, &[][..]),
            (1, &[]),
            (3, &[(0, 1), (1, 2)]),
            (3, &[(2, 1), (1, 0), (2, 0)]),
            (6, &[(0, 5), (1, 5), (2, 5), (3, 4), (4, 5)]),
            (8, &[(0, 4), (0, 5), (1, 5), (2, 6), (3, 6), (4, 7), (5, 7), (6, 7), (0, 7)]),
        ] {
            let layout = layout(count, edges).expect("a small picture");
            assert_eq!((layout.nodes.len(), layout.ways.len()), (count, edges.len()));
            for (from, to) in edges {
                assert!(layout.nodes[*from].0 < layout.nodes[*to].0, "{edges:?}");
            }
            assert!(!overlaps(&layout), "{layout:?}");
            for (x, y) in &layout.nodes {
                assert!(*x >= 0.0 && x + NODE_WIDTH <= layout.width + 0.5, "{layout:?}");
                assert!(*y >= 0.0 && y + NODE_HEIGHT <= layout.height + 0.5, "{layout:?}");
            }
        }
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        let layout = layout(4, &[(0, 3), (1, 2)]).expect("a small picture");
        let y = |node: usize| layout.nodes[node].1;
        assert_eq!(y(0) < y(1), y(3) < y(2), "{layout:?}");
    }

    #[test]
    fn a_picture_that_would_be_too_large_is_none() {
        let all: Vec<(usize, usize)> =
            (0..100).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
        assert!(layout(100, &all).is_none());
        let chain: Vec<(usize, usize)> = (1..100).map(|to| (to - 1, to)).collect();
        assert!(layout(100, &chain).is_some());
        assert!(layout(2, &[(0, 1), (1, 0)]).is_some(), "a cycle ends");
    }
}

//! Vectors: one byte per dimension with a common scale, contiguous per org in memory, read from the table when
//! first needed and kept current by their stamps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The memory limit of all orgs together; the least recently used go first.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// The scale is one f32 in front of the values.
const SCALE_BYTES: usize = 4;

/// A vector in its stored form: the scale, then a byte per dimension.
pub(crate) fn pack(vector: &[f32]) -> Vec<u8> {
    let (scale, values) = quantised(vector);
    scale.to_le_bytes().into_iter().chain(values.into_iter().map(|value| value as u8)).collect()
}

/// The vector at length 1, as integers times a scale.
fn quantised(vector: &[f32]) -> (f32, Vec<i8>) {
    let length = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
    let largest = vector.iter().fold(0f32, |most, v| most.max(v.abs()));
    // A vector of zeros, or one that a model spoiled, becomes zeros: its cosine with anything is 0.
    if !length.is_finite() || largest <= 0.0 {
        return (0.0, vec![0; vector.len()]);
    }
    // The largest value becomes 127. The length divides the scale, so that a product of two rows is a cosine.
    let step = largest / 127.0;
    (step / length, vector.iter().map(|v| (v / step).round() as i8).collect())
}

/// The vector of a query.
pub(crate) struct Needle {
    scale: f32,
    /// Widened once, so that the products in `dot` need no conversion of this side.
    values: Vec<i16>,
}

impl Needle {
    pub fn of(vector: &[f32]) -> Self {
        let (scale, values) = quantised(vector);
        Self { scale, values: values.into_iter().map(i16::from).collect() }
    }
}

/// A row of the table.
pub(crate) struct VectorRow {
    pub stamp: i64,
    pub entry: u32,
    pub bytes: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct OrgVectors {
    /// Rows up to this stamp are present.
    stamp: i64,
    /// The entry of each row. An entry has several rows when its text was embedded in parts.
    entries: Vec<u32>,
    scales: Vec<f32>,
    values: Vec<i8>,
    /// 0 until the first row.
    dimensions: usize,
}

impl OrgVectors {
    pub fn stamp(&self) -> i64 {
        self.stamp
    }

    /// Appends rows that are newer than all present ones; another caller has appended the others.
    pub fn append(&mut self, rows: Vec<VectorRow>, stamp: i64) {
        let seen = self.stamp;
        for VectorRow { stamp, entry, bytes } in rows {
            if stamp <= seen || bytes.len() <= SCALE_BYTES {
                continue;
            }
            let (scale, values) = bytes.split_at(SCALE_BYTES);
            if self.dimensions == 0 {
                self.dimensions = values.len();
            }
            // A vector of another length would shift every row behind it. It is left out; its entry is found by words.
            if values.len() != self.dimensions {
                continue;
            }
            self.scales.push(f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]));
            self.entries.push(entry);
            self.values.extend(values.iter().map(|byte| *byte as i8));
            self.stamp = self.stamp.max(stamp);
        }
        self.stamp = self.stamp.max(stamp);
    }

    fn bytes(&self) -> usize {
        self.values.len() + self.entries.len() * 8
    }

    /// The best cosine of every entry's parts; `None` where an entry has no vector yet.
    pub fn cosines(&self, needle: &Needle, entries: u32) -> Vec<Option<f32>> {
        let mut best: Vec<Option<f32>> = vec![None; entries as usize];
        if self.dimensions == 0 || needle.values.len() != self.dimensions {
            return best;
        }
        let rows = self.values.chunks_exact(self.dimensions);
        for ((row, entry), scale) in rows.zip(&self.entries).zip(&self.scales) {
            let cosine = dot(row, &needle.values) as f32 * scale * needle.scale;
            if let Some(known) = best.get_mut(*entry as usize)
                && known.is_none_or(|known| cosine > known)
            {
                *known = Some(cosine);
            }
        }
        best
    }
}

/// Products of 16-bit numbers, summed as 32-bit ones: compilers turn this shape into the vector instruction that
/// every x86-64 and ARM has for it.
fn dot(a: &[i8], b: &[i16]) -> i32 {
    a.iter().zip(b).map(|(x, y)| i32::from(i16::from(*x)) * i32::from(*y)).sum()
}

type Shelf = Arc<RwLock<OrgVectors>>;

/// The vectors of orgs in memory, by org and model.
#[derive(Default)]
pub(crate) struct VectorCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    shelves: HashMap<(i64, String), (u64, Shelf)>,
    /// Counts the uses of all orgs; it stands for the time in the order of recent use.
    uses: u64,
}

impl VectorCache {
    pub fn shelf(&self, org: i64, model: &str) -> Shelf {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let now = kept.uses;
        let place = kept.shelves.entry((org, model.to_owned())).or_default();
        place.0 = now;
        place.1.clone()
    }

    /// Drops the least recently used orgs until the rest fits.
    pub fn trim(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A shelf that is being filled counts as empty: a wait here would hold up every search.
        let size = |shelf: &Shelf| shelf.try_read().map_or(0, |vectors| vectors.bytes());
        let mut total: usize = kept.shelves.values().map(|(_, shelf)| size(shelf)).sum();
        while total > KEPT_BYTES_MAX && kept.shelves.len() > 1 {
            let oldest = kept.shelves.iter().min_by_key(|(_, (used, _))| *used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            if let Some((_, shelf)) = kept.shelves.remove(&key) {
                total -= size(&shelf);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_the_angle() {
        let wave = |turn: f32| -> Vec<f32> { (0..384).map(|n| (n as f32 * turn).sin()).collect() };
        let (a, b) = (wave(0.1), wave(0.13));
        let length = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        let exact = |a: &[f32], b: &[f32]| {
            a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>() / length(a) / length(b)
        };
        let mut org = OrgVectors::default();
        let row = |entry, vector: &[f32]| VectorRow { stamp: 1, entry, bytes: pack(vector) };
        org.append(vec![row(0, &a), row(2, &b), row(2, &a)], 1);
        let found = org.cosines(&Needle::of(&b), 3);
        assert!((found[0].expect("there") - exact(&a, &b)).abs() < 0.01);
        assert!((found[2].expect("there") - 1.0).abs() < 0.01, "the best part counts");
        assert_eq!(found[1], None);
    }

    #[test]
    fn rows_are_taken_in_once_and_odd_ones_never() {
        let mut org = OrgVectors::default();
        let row = |stamp, n| VectorRow { stamp, entry: 0, bytes: pack(&vec![1.0; n]) };
        org.append(vec![row(1, 4)], 1);
        org.append(vec![row(1, 4), row(2, 5), row(2, 4)], 3);
        assert_eq!((org.entries.len(), org.stamp()), (2, 3));
        assert_eq!(org.cosines(&Needle::of(&[1.0; 5]), 1), [None], "another model's");
        assert_eq!(org.cosines(&Needle::of(&[0.0; 4]), 1), [Some(0.0)]);
    }
}

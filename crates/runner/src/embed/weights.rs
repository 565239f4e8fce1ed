//! Reads a `model.safetensors`: a length, a JSON table of contents, then the numbers.

use std::collections::HashMap;
use std::path::Path;

use ndarray::{Array1, Array2};
use serde::Deserialize;

pub(super) struct Weights {
    bytes: Vec<u8>,
    contents: HashMap<String, Tensor>,
    /// Where the numbers begin; offsets of tensors count from here.
    data: usize,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// The file begins with the length of its table, as a little-endian u64.
const LENGTH_BYTES: usize = 8;

impl Weights {
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(bytes).map_err(|words| format!("{}: {words}", path.display()))
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let length = bytes.get(..LENGTH_BYTES).and_then(|b| b.try_into().ok());
        let length = u64::from_le_bytes(length.ok_or("is too short")?);
        let length = usize::try_from(length).map_err(|_| "has a damaged header")?;
        // Every length comes from the file, so none may overflow or reach past its end.
        let data = LENGTH_BYTES.checked_add(length).ok_or("has a damaged header")?;
        let header = bytes.get(LENGTH_BYTES..data).ok_or("is too short")?;
        let table: HashMap<String, serde_json::Value> =
            serde_json::from_slice(header).map_err(|e| format!("has a damaged header: {e}"))?;
        let tensors = table.into_iter().filter(|(name, _)| name != "__metadata__");
        let tensor = |(name, value): (String, serde_json::Value)| {
            let tensor = serde_json::from_value(value).map_err(|e| format!("{name}: {e}"))?;
            // Some writers prefix every name with the model's kind.
            Ok((name.strip_prefix("bert.").map_or(name.clone(), str::to_owned), tensor))
        };
        let contents = tensors.map(tensor).collect::<Result<_, String>>()?;
        Ok(Self { bytes, contents, data })
    }

    fn numbers(&self, name: &str) -> Result<(Vec<f32>, &[usize]), String> {
        let tensor = self.contents.get(name).ok_or_else(|| format!("has no {name}"))?;
        if tensor.dtype != "F32" {
            return Err(format!("{name} is {}, not F32", tensor.dtype));
        }
        let [start, end] = tensor.data_offsets;
        let place = self.data.saturating_add(start)..self.data.saturating_add(end);
        let bytes = self.bytes.get(place).ok_or_else(|| format!("{name} is cut off"))?;
        let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let numbers = bytes.chunks_exact(4).map(number).collect();
        Ok((numbers, &tensor.shape))
    }

    pub fn vector(&self, name: &str) -> Result<Array1<f32>, String> {
        self.numbers(name).map(|(numbers, _)| numbers.into())
    }

    pub fn matrix(&self, name: &str) -> Result<Array2<f32>, String> {
        let (numbers, shape) = self.numbers(name)?;
        let [rows, columns] = *shape else { return Err(format!("{name} is not a matrix")) };
        Array2::from_shape_vec((rows, columns), numbers).map_err(|e| format!("{name}: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn numbers_are_read_and_damage_is_told() {
        let header =
            r#"{"__metadata__":{},"bert.a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
        let data = [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat();
        let weights = Weights::parse(file(header, &data)).expect("readable");
        assert_eq!(weights.matrix("a").expect("there"), ndarray::array![[1.0, 2.0]]);
        assert!(weights.vector("b").is_err());
        assert!(Weights::parse(file(header, &data[..7])).expect("header").matrix("a").is_err());
        for bad in [vec![], vec![255; 9], file("{", &[]), file(r#"{"a":1}"#, &[])] {
            assert!(Weights::parse(bad).is_err());
        }
    }
}

//! A BERT encoder, forward only: tokens in, the mean of their vectors out, at length 1.

use std::path::Path;

use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use serde::Deserialize;

use super::weights::Weights;
use super::wordpiece::WordPiece;

/// The longest input that sentence models of this size were trained on.
const PIECES_MAX: usize = 256;

/// The part of `config.json` that the encoder needs.
#[derive(Deserialize)]
struct Config {
    hidden_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    max_position_embeddings: usize,
    layer_norm_eps: f32,
    hidden_act: String,
    model_type: String,
}

/// A model in memory, as 32-bit floats. Vectors of tokens are rows.
pub(super) struct Bert {
    tokenizer: WordPiece,
    words: Array2<f32>,
    positions: Array2<f32>,
    kind: Array1<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    heads: usize,
    pieces_max: usize,
}

/// One layer of the encoder: attention, then two linear steps, each added to its input and normalized.
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: Norm,
    inner: Linear,
    outer: Linear,
    outer_norm: Norm,
}

struct Linear {
    /// One row per output, as stored.
    weight: Array2<f32>,
    bias: Array1<f32>,
}

/// Layer normalization: each row gets mean 0 and variance 1, then a learned scale and shift.
struct Norm {
    weight: Array1<f32>,
    bias: Array1<f32>,
    eps: f32,
}

impl Linear {
    fn read(weights: &Weights, name: &str) -> Result<Self, String> {
        Ok(Self {
            weight: weights.matrix(&format!("{name}.weight"))?,
            bias: weights.vector(&format!("{name}.bias"))?,
        })
    }

    /// `x` times the transposed weights, plus the bias.
    fn of(&self, x: &ArrayView2<'_, f32>) -> Array2<f32> {
        let mut y = x.dot(&self.weight.t());
        y += &self.bias;
        y
    }
}

impl Norm {
    fn read(weights: &Weights, name: &str, eps: f32) -> Result<Self, String> {
        Ok(Self {
            weight: weights.vector(&format!("{name}.weight"))?,
            bias: weights.vector(&format!("{name}.bias"))?,
            eps,
        })
    }

    fn over(&self, x: &mut Array2<f32>) {
        for mut row in x.rows_mut() {
            let count = row.len() as f32;
            let mean = row.sum() / count;
            let spread = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / count;
            let scale = 1.0 / (spread + self.eps).sqrt();
            for ((v, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *v = (*v - mean) * scale * weight + bias;
            }
        }
    }
}

impl Layer {
    fn read(weights: &Weights, number: usize, eps: f32) -> Result<Self, String> {
        let linear = |name: &str| Linear::read(weights, &format!("encoder.layer.{number}.{name}"));
        let norm = |name: &str| Norm::read(weights, &format!("encoder.layer.{number}.{name}"), eps);
        Ok(Self {
            query: linear("attention.self.query")?,
            key: linear("attention.self.key")?,
            value: linear("attention.self.value")?,
            attended: linear("attention.output.dense")?,
            attended_norm: norm("attention.output.LayerNorm")?,
            inner: linear("intermediate.dense")?,
            outer: linear("output.dense")?,
            outer_norm: norm("output.LayerNorm")?,
        })
    }

    fn over(&self, x: &mut Array2<f32>, heads: usize) {
        let attended = self.attended.of(&self.attention(x, heads).view());
        *x += &attended;
        self.attended_norm.over(x);
        let mut inner = self.inner.of(&x.view());
        inner.mapv_inplace(gelu);
        *x += &self.outer.of(&inner.view());
        self.outer_norm.over(x);
    }

    /// Scaled dot-product attention, each head on its own columns. There is no mask, because texts are embedded one by
    /// one.
    fn attention(&self, x: &Array2<f32>, heads: usize) -> Array2<f32> {
        let x = x.view();
        let (queries, keys, values) = (self.query.of(&x), self.key.of(&x), self.value.of(&x));
        let mut found = Array2::zeros(x.raw_dim());
        let width = x.ncols() / heads;
        for head in 0..heads {
            let part = s![.., head * width..(head + 1) * width];
            let mut scores = queries.slice(part).dot(&keys.slice(part).t());
            scores /= (width as f32).sqrt();
            scores.rows_mut().into_iter().for_each(|mut row| {
                // The largest score is subtracted first, or `exp` would overflow.
                let most = row.fold(f32::NEG_INFINITY, |a, b| a.max(*b));
                row.mapv_inplace(|v| (v - most).exp());
                let sum = row.sum();
                row /= sum;
            });
            found.slice_mut(part).assign(&scores.dot(&values.slice(part)));
        }
        found
    }
}

/// The exact form, by the error function, which these models were trained with.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function by Abramowitz and Stegun 7.1.26; its error is below 2e-7.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let sum = ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t
        + 0.254_829_6)
        * t;
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

impl Bert {
    /// Reads the folder of a sentence-transformers model.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join("config.json");
        let at = |words: String| format!("{}: {words}", path.display());
        let text = std::fs::read(&path).map_err(|e| at(e.to_string()))?;
        let config: Config = serde_json::from_slice(&text).map_err(|e| at(e.to_string()))?;
        // Another architecture would give vectors without meaning instead of an error.
        if config.model_type != "bert" || config.hidden_act != "gelu" {
            return Err(at("is not a BERT model with gelu".into()));
        }
        if config.num_attention_heads == 0
            || !config.hidden_size.is_multiple_of(config.num_attention_heads)
        {
            return Err(at("num_attention_heads does not divide hidden_size".into()));
        }
        let weights = Weights::read(&folder.join("model.safetensors"))?;
        let eps = config.layer_norm_eps;
        let layer = |number| Layer::read(&weights, number, eps);
        let kinds = weights.matrix("embeddings.token_type_embeddings.weight")?;
        Ok(Self {
            tokenizer: WordPiece::read(&folder.join("tokenizer.json"))?,
            words: weights.matrix("embeddings.word_embeddings.weight")?,
            positions: weights.matrix("embeddings.position_embeddings.weight")?,
            // A single text is always the first segment.
            kind: kinds.row(0).to_owned(),
            norm: Norm::read(&weights, "embeddings.LayerNorm", eps)?,
            layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
            heads: config.num_attention_heads,
            pieces_max: config.max_position_embeddings.min(PIECES_MAX),
        })
    }

    /// The vector of a text, of length 1, so that a dot product is the cosine. Pieces after the limit are ignored.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let pieces = self.tokenizer.pieces(text, self.pieces_max);
        let mut x = Array2::zeros((pieces.len(), self.words.ncols()));
        for ((mut row, piece), position) in
            x.rows_mut().into_iter().zip(&pieces).zip(self.positions.rows())
        {
            // A vocabulary that is longer than the table of words belongs to another model; its pieces count as zero.
            if (*piece as usize) < self.words.nrows() {
                row += &self.words.row(*piece as usize);
            }
            row += &position;
            row += &self.kind;
        }
        self.norm.over(&mut x);
        for layer in &self.layers {
            layer.over(&mut x, self.heads);
        }
        let mean = x.mean_axis(Axis(0)).unwrap_or_default();
        let length = mean.dot(&mean).sqrt().max(f32::MIN_POSITIVE);
        (mean / length).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_is_near() {
        for (x, exact) in [(0.0, 0.0), (0.5, 0.520_499_9), (-1.0, -0.842_700_8), (3.0, 0.999_977_9)]
        {
            assert!((erf(x) - exact).abs() < 1e-6, "{x}");
        }
    }
}

//! Embeddings: texts as vectors whose cosine tells how near they are in meaning.

use crate::ModelError;
use futures::future::BoxFuture;

/// A model that turns texts into vectors. Implemented for OpenAI's embeddings and for the embedded engine.
pub trait Embedder: Send + Sync {
    /// `provider/model`. Vectors of two models cannot be compared.
    fn id(&self) -> &str;

    /// One vector of length 1 for each text, in their order. Dropping the future ends the request.
    fn embed<'a>(&'a self, texts: &'a [String]) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>>;
}

/// Checks what a model answered, and brings every vector to length 1.
pub(crate) fn normalized(mut vectors: Vec<Vec<f32>>, texts: usize) -> Result<Vec<Vec<f32>>, ModelError> {
    let wrong = |message: String| Err(ModelError::Protocol { message });
    if vectors.len() != texts {
        return wrong(format!("{} vectors for {texts} texts", vectors.len()));
    }
    let width = vectors.first().map_or(0, Vec::len);
    for vector in &mut vectors {
        let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        if vector.len() != width || !length.is_finite() || length == 0.0 {
            return wrong(format!("a vector of {} numbers and length {length}, beside one of {width}", vector.len()));
        }
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_out_with_length_one_and_wrong_ones_are_refused() {
        assert_eq!(normalized(vec![vec![3.0, 4.0]], 1), Ok(vec![vec![0.6, 0.8]]));
        for wrong in [vec![], vec![vec![0.0, 0.0]], vec![vec![f32::NAN]], vec![vec![1.0], vec![1.0]]] {
            assert!(normalized(wrong, 1).is_err());
        }
        assert!(normalized(vec![vec![1.0], vec![1.0, 2.0]], 2).is_err());
    }
}

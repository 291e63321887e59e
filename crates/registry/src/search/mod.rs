//! Which capabilities fit a request. Text is cut into stemmed words (English) and pairs of characters (Chinese,
//! Japanese, Korean); a vocabulary tells which of them speak of the same. A score says how likely a capability is what
//! the request asks for.

mod concepts;
mod document;
#[cfg(test)]
mod fit;
mod index;
mod near;
mod quality;
mod rank;
mod request;
mod shelf;
mod similar;
mod terms;
mod units;

pub(crate) use document::{Bag, Document};
pub(crate) use index::Index;
pub(crate) use near::{digest as text_digest, search_near, text};
pub use quality::{Described, Labelled, Quality, Query, quality};
pub(crate) use rank::{Found, search};
pub use shelf::{Shelf, Shelved};
pub(crate) use similar::similar;
pub use similar::similarity;

/// From this score on a capability likely fits the request.
pub const FITS: f64 = 0.5;
/// From this score on two definitions with compatible signatures mean the same.
pub const SIMILAR: f64 = 0.6;

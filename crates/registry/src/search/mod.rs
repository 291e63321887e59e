//! Which capabilities fit a request. Text is cut into stemmed words (English) and pairs of characters (Chinese,
//! Japanese, Korean); a score says how much of what the request asks for the capability speaks of.

mod index;
mod quality;
mod rank;
mod terms;

pub(crate) use index::Index;
pub use quality::{Described, Labelled, Quality, Query, quality};
pub use rank::{FITS, SIMILAR, similarity};
pub(crate) use rank::{Found, search, similar};
pub(crate) use terms::Terms;

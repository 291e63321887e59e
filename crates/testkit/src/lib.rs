//! What tests share. A dev-dependency only.

mod script;
mod skip;

pub use script::{ScriptedModel, call, text};
pub use skip::skipped;

//! What tests share. A dev-dependency only.

mod script;

pub use script::{ScriptedModel, call, text};

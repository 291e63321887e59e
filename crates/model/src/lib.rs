//! The one way to a language model. A [`ModelHandle`] is resolved once per conversation; a [`Request`] can only be
//! made from a handle, so no part of jarvis can fall back to another model unseen.

mod account;
mod cassette;
mod embed;
mod error;
mod estimate;
pub mod fetch;
mod handle;
#[cfg(feature = "local")]
mod local;
mod net;
mod price;
mod tool;
mod wire;

pub use cassette::{record, replay};
pub use embed::Embedder;
pub use error::ModelError;
pub use estimate::{Tokens, estimate_message, estimate_tokens};
pub use handle::{
    Backend, Completion, Constraint, Delta, Finish, MalformedCall, ModelHandle, Request, Spent, Traits, local_traits,
};
#[cfg(feature = "local")]
pub use local::{LocalConfig, local, local_embedder};
pub use price::Price;
pub use tool::Tool;
pub use wire::{ApiKey, Endpoint, Wire, anthropic, openai, openai_embedder};

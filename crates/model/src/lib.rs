//! The one way to a language model. A [`ModelHandle`] is resolved once per conversation; a [`Request`] can only be
//! made from a handle, so no part of jarvis can fall back to another model unseen.

mod error;
mod handle;

pub use error::ModelError;
pub use handle::{Backend, Completion, Constraint, Delta, Finish, MalformedCall, ModelHandle, Request, Traits};

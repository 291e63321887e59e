//! Subagents: a task of its own for a loop of its own, with a part of the tools and a part of the turn's budget. Not the
//! subagent's words say what was done, but what jarvis saw of it.

mod catalogue;
mod claims;
mod definition;
mod delegate;
mod evidence;
mod role;
mod tree;

pub use catalogue::{AgentFolders, Catalogue};
pub use definition::Agent;
pub(crate) use delegate::{DELEGATE, Delegation, Shared};
pub(crate) use evidence::Recorder;
pub(crate) use role::Role;
pub(crate) use tree::LEFT_OUT;

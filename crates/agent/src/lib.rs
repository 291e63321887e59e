//! Sessions and the turn loop: a user message in, events out, one model handle for all of it.

mod answer;
mod bootstrap;
mod find;
mod history;
mod native;
mod session;
mod staged;
mod turn;

pub use bootstrap::{Bootstrap, specs as bootstrap_specs};
pub use find::{Finding, find};
pub use session::{Mode, Price, Session, SessionParts, TurnEnd, TurnLimits};

//! Sessions and the turn loop: a user message in, events out, one model handle for all of it.

mod agents;
mod answer;
mod bootstrap;
mod calls;
mod context;
mod conversation;
mod create;
mod external;
mod find;
mod native;
mod record;
mod remember;
mod repair;
mod session;
mod staged;
mod toolbox;
mod turn;

pub use agents::{Agent, AgentFolders, BrokenAgent, Catalogue, Origin};
pub use bootstrap::{Bootstrap, specs as bootstrap_specs};
pub use context::{Strategy, Summary};
pub use external::{Around, External, ExternalTool, Sampled, Sampler};
pub use find::{Finding, find};
pub use jarvis_model::Price;
pub use record::Record;
pub use remember::Memory;
pub use session::{Mode, Session, SessionParts, TurnEnd, TurnLimits};

//! Sessions and the turn loop: a user message in, events out, one model handle for all of it.

mod agents;
mod answer;
mod bootstrap;
mod calls;
mod checkpoint;
mod commands;
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
mod skills;
mod staged;
mod title;
mod toolbox;
mod turn;
mod undo;

pub use agents::{Agent, AgentFolders, BrokenAgent, Catalogue, Origin};
pub use bootstrap::{Bootstrap, specs as bootstrap_specs};
pub use checkpoint::{CheckpointError, Checkpoints, Restored, Undone, undo_last};
pub use commands::{CommandCatalogue, CommandFolders, Definition as CommandDefinition, PromptCommand, read_arguments};
pub use context::{Strategy, Summary};
pub use create::{ServerProbe, Workshop};
pub use external::{Around, External, ExternalTool, Sampled, Sampler};
pub use find::{Finding, find};
pub use jarvis_model::Price;
pub use native::unfenced;
pub use record::Record;
pub use remember::Memory;
pub use session::{Input, Mode, Session, SessionParts, TurnEnd, TurnLimits};
pub use skills::{Skill, SkillCatalogue, SkillFolders};

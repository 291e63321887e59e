//! Servers of the Model Context Protocol as tools of the agent: programs in the jail, or addresses that may be reached.

mod bounded;
mod brought;
mod call;
mod config;
mod definition;
mod handler;
mod import;
mod live;
mod offers;
mod one;
mod refused;
mod result;
mod servers;
mod store;

pub use brought::{BroughtRule, BroughtRules, bring};
pub use config::{ConfigError, ServerConfig, ServerConfigs, ServerSandbox};
pub use definition::Definition;
pub use import::{ImportError, Imported, import};
pub use servers::{FindProgram, Servers, Setup, Tested};
pub use store::Store;

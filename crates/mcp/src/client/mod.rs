//! Servers of the Model Context Protocol as tools of the agent: programs in the jail, or addresses that may be reached.

mod config;
mod definition;
mod store;

pub use config::{ConfigError, ServerConfig, ServerConfigs, ServerSandbox};
pub use definition::Definition;
pub use store::Store;

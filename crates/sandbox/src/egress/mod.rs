//! What may leave, and where to: one policy for the broker's `fetch` and for the proxy of jailed processes.

mod addresses;
mod policy;
mod proxy;
mod resolve;
mod tally;

pub use jarvis_policy::{PatternError, check_host};
pub use policy::{EgressDenied, EgressPolicy};
pub use proxy::{EgressProxy, ProxyLimits, ProxyListener};
pub use resolve::Resolver;

pub(crate) use policy::without_dot;
pub(crate) use resolve::{Unreachable, resolve, system};
pub(crate) use tally::{HostTally, Tally};

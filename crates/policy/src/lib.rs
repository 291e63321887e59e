//! Pure decisions. [`review`] answers whether a new version may have what it asks for: yes, no, or a question for a
//! person. [`decide`] answers whether one plan may run: a [`Permit`], which alone the sandbox accepts, or a refusal.

mod decide;
mod external;
mod hosts;
mod process;
mod review;
mod tool;
mod within;

pub use decide::{Approved, Decision, Deny, Permit, decide};
pub use external::{
    ExternalAsk, ExternalCall, ExternalPermit, ExternalVerdict, ToolRule, review_external, review_server,
};
pub use hosts::{Pattern, PatternError, ambiguous, check_host};
pub use process::{CommandView, ProcessAsk, ProcessPermit, ProcessVerdict, review_process};
pub use review::{Approval, Ask, NetworkRule, Policy, Verdict, Version, review};
pub use tool::{Reach, ToolAsk, ToolPermit, ToolVerdict, review_tool};
pub use within::within;

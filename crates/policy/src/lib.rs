//! Pure decisions. [`review`] answers whether a new version may have what it asks for: yes, no, or a question for a
//! person. [`decide`] answers whether one plan may run: a [`Permit`], which alone the sandbox accepts, or a refusal.

mod decide;
mod external;
mod hosts;
mod process;
mod review;
mod rule;
mod tool;
mod within;

pub use decide::{Approved, Decision, Deny, Permit, decide};
pub use external::{
    ExternalAsk, ExternalCall, ExternalPermit, ExternalVerdict, ToolRule, review_external, review_server,
};
pub use hosts::{Pattern, PatternError, Reached, ambiguous, check_host, may_be_private};
pub use process::{CommandView, ProcessAsk, ProcessPermit, ProcessVerdict, review_process};
pub use review::{Approval, Ask, NetworkRule, Policy, Verdict, Version, review};
pub use rule::{
    Action, Attempt, BEFORE, Compiled, Condition, Effect, Example, Given, PERMISSIONS, Reasoned, Rule, RuleFile,
    Ruling, SimpleCommand, judge,
};
pub use tool::{Reach, ToolAsk, ToolPermit, ToolVerdict, review_tool, review_tool_ruled};
pub use within::within;

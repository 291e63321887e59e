//! Pure decisions: may this run? The answer is a [`Permit`] (which alone the sandbox accepts), a question for a
//! person, or a refusal with its reason.

mod decide;

pub use decide::{Approval, Ask, Decision, Deny, NetworkRule, Permit, Policy, decide, describe};

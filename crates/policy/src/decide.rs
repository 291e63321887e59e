//! The one decision every execution passes.

use crate::{NetworkRule, Policy, within};
use jarvis_protocol::{Capability, ExecPlan, Grants, Limits};
use std::path::Path;

/// What was approved for one version of some code: by [`review`](crate::review), or, for a version that is registered,
/// by the review it passed then. Nobody else makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    grants: Grants,
    why: String,
}

impl Approved {
    pub(crate) fn new(grants: Grants, why: impl Into<String>) -> Self {
        Self { grants, why: why.into() }
    }

    /// The grants are part of the version that was approved; whoever calls has checked its digest.
    pub fn with_version(capability: &Capability) -> Self {
        let why = if capability.grants.is_empty() { "pure computation" } else { "approved with this version" };
        Self::new(capability.grants.clone(), why)
    }

    /// The same for a version that runs within another one's call: what both were approved for.
    pub fn within(&self, caller: &Grants, workspace: &Path) -> Self {
        Self::new(within(caller, &self.grants, workspace), self.why.clone())
    }

    /// What was approved.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// For code that reaches nothing.
    pub fn nothing() -> Self {
        Self::new(Grants::default(), "pure computation")
    }

    /// Who said yes, or why nobody had to.
    pub fn why(&self) -> &str {
        &self.why
    }
}

/// The right to run one plan, once. Only [`decide`] makes it; whoever holds it can run that plan and no other.
#[derive(Debug)]
pub struct Permit {
    plan: ExecPlan,
    why: String,
}

impl Permit {
    pub fn plan(&self) -> &ExecPlan {
        &self.plan
    }

    /// The reason for the decision, for the audit.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Gives up the permit for its plan; called by the executor.
    pub fn into_plan(self) -> ExecPlan {
        self.plan
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deny {
    pub reason: String,
    pub hint: Option<String>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a permit is made once per execution and moved at once")]
pub enum Decision {
    Permit(Permit),
    Deny(Deny),
}

/// A plan runs with what was approved and nothing beyond, within the limits, and without network where that is closed.
pub fn decide(policy: &Policy, plan: ExecPlan, approved: &Approved) -> Decision {
    if let Some(deny) = over_ceiling(policy, &plan.limits) {
        return Decision::Deny(deny);
    }
    if let Some(deny) = closed_network(policy, plan.subject.name().as_str(), &plan.grants) {
        return Decision::Deny(deny);
    }
    let beyond = plan.grants.beyond(&approved.grants);
    if !beyond.is_empty() {
        return Decision::Deny(Deny {
            reason: format!("nobody approved this for `{}`: {beyond}", plan.subject.name()),
            hint: Some("register it again where you can be asked".to_owned()),
        });
    }
    Decision::Permit(Permit { plan, why: approved.why.clone() })
}

pub(crate) fn closed_network(policy: &Policy, name: &str, grants: &Grants) -> Option<Deny> {
    (policy.network == NetworkRule::Closed && !grants.network.is_empty()).then(|| Deny {
        reason: format!("the network is closed by config, and `{name}` needs {}", grants.network.join(", ")),
        hint: Some("set sandbox.network to \"ask\" in config".to_owned()),
    })
}

fn over_ceiling(policy: &Policy, limits: &Limits) -> Option<Deny> {
    let ceiling = policy.ceiling;
    let problem = [
        ("timeout_ms", limits.timeout_ms, ceiling.timeout_ms),
        ("memory_mb", limits.memory_mb, ceiling.memory_mb),
        ("output_bytes", limits.output_bytes, ceiling.output_bytes),
    ]
    .into_iter()
    .find(|(_, asked, most)| *asked == 0 || asked > most)?;
    Some(Deny {
        reason: format!("limit {} = {} is outside 1 to {}", problem.0, problem.1, problem.2),
        hint: Some("change `limits` in the definition".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::{CapabilityName, Runtime, Subject};
    use serde_json::json;

    fn plan(grants: Grants) -> ExecPlan {
        ExecPlan {
            subject: Subject::Candidate { name: CapabilityName::new("probe").unwrap(), digest: String::new() },
            runtime: Runtime::Typescript,
            code: String::new(),
            args: json!({}),
            grants,
            limits: Limits::STANDARD,
            dependencies: Vec::new(),
            fixed: None,
        }
    }

    fn network(host: &str) -> Grants {
        Grants { network: vec![host.to_owned()], ..Grants::default() }
    }

    #[test]
    fn pure_code_needs_nobody() {
        let decision = decide(&Policy::closed(), plan(Grants::default()), &Approved::nothing());
        assert!(matches!(decision, Decision::Permit(_)));
    }

    #[test]
    fn what_nobody_approved_does_not_run_and_what_was_approved_does() {
        let asked = plan(network("api.example.com"));
        assert!(matches!(decide(&Policy::closed(), asked.clone(), &Approved::nothing()), Decision::Deny(_)));
        let other = Approved::new(network("other.example.com"), "a person");
        assert!(matches!(decide(&Policy::closed(), asked.clone(), &other), Decision::Deny(_)));
        let same = Approved::new(network("api.example.com"), "a person");
        assert!(matches!(decide(&Policy::closed(), asked, &same), Decision::Permit(_)));
    }

    #[test]
    fn a_closed_network_beats_an_approval() {
        let policy = Policy { network: NetworkRule::Closed, ..Policy::closed() };
        let approved = Approved::new(network("api.example.com"), "a person");
        assert!(matches!(decide(&policy, plan(network("api.example.com")), &approved), Decision::Deny(_)));
    }

    #[test]
    fn absurd_limits_are_refused() {
        for limits in [Limits { timeout_ms: 0, ..Limits::STANDARD }, Limits { memory_mb: 1 << 40, ..Limits::STANDARD }]
        {
            let plan = ExecPlan { limits, ..plan(Grants::default()) };
            assert!(matches!(decide(&Policy::closed(), plan, &Approved::nothing()), Decision::Deny(_)));
        }
    }
}

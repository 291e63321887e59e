//! The one decision every execution passes.

use jarvis_protocol::{ExecPlan, Grants, Limits, Subject};
use serde::{Deserialize, Serialize};

/// What a person (or the config) allows beforehand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// What to do with grants nobody has approved yet.
    pub approval: Approval,
    pub network: NetworkRule,
    /// Hosts allowed for this run (`--allow-net HOST`).
    pub allowed_hosts: Vec<String>,
    /// The largest limits a plan may ask for.
    pub ceiling: Limits,
}

impl Policy {
    /// Closed: grants are asked for, the network is asked for, limits are bounded.
    pub fn closed() -> Self {
        Self {
            approval: Approval::Ask,
            network: NetworkRule::Ask,
            allowed_hosts: Vec::new(),
            ceiling: Limits { timeout_ms: 300_000, memory_mb: 1024, output_bytes: 16 << 20 },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    Ask,
    Auto,
    Deny,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkRule {
    Ask,
    Open,
    Closed,
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

/// A question for a person about one plan. The plan cannot be put in from outside, so a yes is a yes to what was decided on.
#[derive(Debug)]
pub struct Ask {
    plan: ExecPlan,
    /// Grants that need a person's word.
    pub grants: Grants,
    pub reason: String,
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
    Ask(Box<Ask>),
    Deny(Deny),
}

/// Decides on one plan. `approved` are the grants that a person has accepted for this very version (they are part of
/// the registered version), so only what goes beyond them is a question.
pub fn decide(policy: &Policy, plan: ExecPlan, approved: &Grants) -> Decision {
    if let Some(deny) = over_ceiling(policy, &plan.limits) {
        return Decision::Deny(deny);
    }
    if plan.grants.is_empty() {
        return Decision::Permit(Permit { plan, why: "pure computation: no grants".to_owned() });
    }
    if policy.network == NetworkRule::Closed && !plan.grants.network.is_empty() {
        return Decision::Deny(Deny {
            reason: format!(
                "the network is closed by config, and `{}` needs {}",
                plan.subject.name(),
                plan.grants.network.join(", ")
            ),
            hint: Some("set sandbox.network to \"ask\" in config".to_owned()),
        });
    }
    let mut open = plan.grants.beyond(approved);
    open.network.retain(|host| !policy.allowed_hosts.contains(host));
    if open.is_empty() {
        return Decision::Permit(Permit { plan, why: "every grant was approved".to_owned() });
    }
    match policy.approval {
        Approval::Auto => Decision::Permit(Permit { plan, why: "grants allowed by --approve auto".to_owned() }),
        Approval::Deny => Decision::Deny(Deny {
            reason: format!("`{}` asks for {}", plan.subject.name(), describe(&open)),
            hint: Some("run it where you can be asked, or with --approve auto or --allow-net HOST".to_owned()),
        }),
        Approval::Ask => {
            let what = match &plan.subject {
                Subject::Candidate { .. } => "a new version",
                Subject::Capability { .. } => "a registered version",
            };
            let reason = format!("{what} of `{}` asks for {}", plan.subject.name(), describe(&open));
            Decision::Ask(Box::new(Ask { plan, grants: open, reason }))
        }
    }
}

impl Ask {
    /// A person said yes to this very question.
    pub fn allow(self) -> Permit {
        Permit { plan: self.plan, why: "a person allowed it".to_owned() }
    }
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

/// `network api.example.com; read data/` for people.
pub fn describe(grants: &Grants) -> String {
    [("network", &grants.network), ("read", &grants.read), ("write", &grants.write), ("secrets", &grants.secrets)]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(kind, list)| format!("{kind} {}", list.join(", ")))
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::{CapabilityName, Runtime};
    use serde_json::json;

    fn plan(grants: Grants) -> ExecPlan {
        ExecPlan {
            subject: Subject::Candidate { name: CapabilityName::new("probe").unwrap(), digest: String::new() },
            runtime: Runtime::Typescript,
            code: String::new(),
            args: json!({}),
            grants,
            limits: Limits::STANDARD,
            fixed: None,
        }
    }

    fn network(host: &str) -> Grants {
        Grants { network: vec![host.to_owned()], ..Grants::default() }
    }

    #[test]
    fn pure_code_needs_nobody() {
        assert!(matches!(decide(&Policy::closed(), plan(Grants::default()), &Grants::default()), Decision::Permit(_)));
    }

    #[test]
    fn a_grant_beyond_the_approved_version_is_a_question_and_an_approved_one_is_not() {
        let asked = decide(&Policy::closed(), plan(network("api.example.com")), &Grants::default());
        assert!(matches!(&asked, Decision::Ask(ask) if ask.grants == network("api.example.com")));
        let same = decide(&Policy::closed(), plan(network("api.example.com")), &network("api.example.com"));
        assert!(matches!(same, Decision::Permit(_)));
    }

    #[test]
    fn a_closed_network_beats_an_approval() {
        let policy = Policy { network: NetworkRule::Closed, approval: Approval::Auto, ..Policy::closed() };
        let denied = decide(&policy, plan(network("api.example.com")), &network("api.example.com"));
        assert!(matches!(denied, Decision::Deny(_)));
    }

    #[test]
    fn absurd_limits_are_refused() {
        for limits in [Limits { timeout_ms: 0, ..Limits::STANDARD }, Limits { memory_mb: 1 << 40, ..Limits::STANDARD }]
        {
            let mut plan = plan(Grants::default());
            plan.limits = limits;
            assert!(matches!(decide(&Policy::closed(), plan, &Grants::default()), Decision::Deny(_)));
        }
    }
}

//! May a new version have what it asks for?

use crate::decide::{Approved, Deny, closed_network};
use crate::hosts::may_be_private;
use jarvis_protocol::{Grants, Limits, ProcessLimits, Status};
use serde::{Deserialize, Serialize};

/// What a person (or the config) allows beforehand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// What to do with what nobody has approved yet.
    pub approval: Approval,
    pub network: NetworkRule,
    /// Hosts allowed without asking (`--allow-net HOST`) in versions that are registered meanwhile.
    pub allowed_hosts: Vec<String>,
    /// The largest limits a plan may ask for.
    pub ceiling: Limits,
    /// The same for a process in the jail.
    pub process_ceiling: ProcessLimits,
}

impl Policy {
    /// Closed: grants are asked for, the network is asked for, limits are bounded.
    pub fn closed() -> Self {
        Self {
            approval: Approval::Ask,
            network: NetworkRule::Ask,
            allowed_hosts: Vec::new(),
            ceiling: Limits { timeout_ms: 300_000, memory_mb: 1024, output_bytes: 16 << 20 },
            process_ceiling: ProcessLimits {
                timeout_ms: 3_600_000,
                memory_mb: 64 << 10,
                processes: 4096,
                file_mb: 64 << 10,
                disk_mb: 16 << 10,
                output_bytes: 64 << 20,
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    Closed,
}

/// A new version, as far as approval goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Version<'a> {
    pub name: &'a str,
    pub grants: &'a Grants,
    /// Grants and status of the version that it replaces.
    pub previous: Option<(&'a Grants, Status)>,
    /// Packages that would be installed for it.
    pub dependencies: &'a [String],
    /// Calls with a recorded answer that the new parameters no longer fit, so that nothing checks them any more.
    pub dropped_examples: usize,
    /// Why the registry as a whole wants somebody to look, such as a burst of registrations.
    pub alarm: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Approved(Approved),
    Ask(Ask),
    Denied(Deny),
}

/// A question for a person. It can only be answered as it was put.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    grants: Grants,
    /// What the code could reach and no flag allowed beforehand.
    pub open: Grants,
    pub reason: String,
}

impl Ask {
    /// A person said yes to this very question.
    pub fn allow(self) -> Approved {
        Approved::new(self.grants, format!("a person: {}", self.reason))
    }
}

/// Pure computation passes by itself. Everything else needs a yes for this very code: a yes for other code with the
/// same grants is none.
pub fn review(policy: &Policy, version: &Version<'_>) -> Verdict {
    if let Some(deny) = closed_network(policy, version.name, version.grants) {
        return Verdict::Denied(deny);
    }
    if policy.network == NetworkRule::Closed && !version.dependencies.is_empty() {
        return Verdict::Denied(Deny {
            reason: format!("the network is closed by config, and `{}` needs packages", version.name),
            hint: Some("set sandbox.network to \"ask\" in config".to_owned()),
        });
    }
    let mut open = version.grants.clone();
    open.network.retain(|host| !policy.allowed_hosts.contains(host));
    let Some(reason) = question(version, &open) else {
        let why = if version.grants.is_empty() { "pure computation" } else { "hosts allowed by --allow-net" };
        return Verdict::Approved(Approved::new(version.grants.clone(), why));
    };
    // Where every question is answered by a yes, nobody sees where a name leads.
    let unseen = open.network.iter().find(|host| policy.approval == Approval::Auto && may_be_private(host));
    if let Some(host) = unseen {
        return Verdict::Denied(Deny {
            reason: format!("`{}` asks for {host}, which may be this machine or its network", version.name),
            hint: Some(format!("allow it by name: --allow-net {host}; or be asked: --approve ask")),
        });
    }
    match policy.approval {
        Approval::Auto => Verdict::Approved(Approved::new(version.grants.clone(), format!("--approve auto: {reason}"))),
        Approval::Deny => Verdict::Denied(Deny {
            reason: format!("`{}` would need a yes: {reason}", version.name),
            hint: Some("run it where you can be asked, or with --approve auto".to_owned()),
        }),
        Approval::Ask => Verdict::Ask(Ask { grants: version.grants.clone(), open, reason }),
    }
}

/// Everything about it that a person should look at.
fn question(version: &Version<'_>, open: &Grants) -> Option<String> {
    let mut reasons = Vec::new();
    if !open.is_empty() {
        reasons.push(match version.previous {
            Some((before, _)) if version.grants.beyond(before).is_empty() => {
                format!("new code would have what was allowed to the old: {open}")
            }
            _ => format!("it asks for {open}"),
        });
    }
    if !version.dependencies.is_empty() {
        reasons.push(format!("it would install {} from the package index", version.dependencies.join(", ")));
    }
    if let Some((_, status)) = version.previous
        && status != Status::Active
    {
        reasons.push(format!("it is {}, and a new version would be active", status.as_str()));
    }
    if version.dropped_examples > 0 {
        let count = version.dropped_examples;
        reasons.push(format!("{count} recorded answers no longer fit its parameters and would go unchecked"));
    }
    reasons.extend(version.alarm.clone());
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(host: &str) -> Grants {
        Grants { network: vec![host.to_owned()], ..Grants::default() }
    }

    fn version<'a>(grants: &'a Grants, previous: Option<(&'a Grants, Status)>) -> Version<'a> {
        Version { name: "probe", grants, previous, dependencies: &[], dropped_examples: 0, alarm: None }
    }

    fn reason(verdict: Verdict) -> String {
        match verdict {
            Verdict::Ask(ask) => ask.reason,
            other => panic!("no question: {other:?}"),
        }
    }

    #[test]
    fn pure_computation_and_hosts_allowed_beforehand_pass_by_themselves() {
        let none = Grants::default();
        assert!(matches!(review(&Policy::closed(), &version(&none, None)), Verdict::Approved(_)));
        let host = network("api.example.com");
        let policy = Policy { allowed_hosts: host.network.clone(), ..Policy::closed() };
        assert!(matches!(review(&policy, &version(&host, None)), Verdict::Approved(_)));
        let other = network("other.example.com");
        assert!(matches!(review(&policy, &version(&other, None)), Verdict::Ask(_)));
    }

    #[test]
    fn each_reason_to_look_is_a_question() {
        let (none, host) = (Grants::default(), network("api.example.com"));
        let policy = Policy::closed();
        assert!(reason(review(&policy, &version(&host, None))).contains("asks for network api.example.com"));
        let same = version(&host, Some((&host, Status::Active)));
        assert!(reason(review(&policy, &same)).contains("new code"));
        let off = version(&none, Some((&none, Status::Disabled)));
        assert!(reason(review(&policy, &off)).contains("disabled"));
        let alarm = Version { alarm: Some("5 within 10 minutes".to_owned()), ..version(&none, None) };
        assert!(reason(review(&policy, &alarm)).contains("5 within"));
        let packages = ["numpy==2.0.0".to_owned()];
        let installing = Version { dependencies: &packages, ..version(&none, None) };
        assert!(reason(review(&policy, &installing)).contains("numpy==2.0.0"));
        let dropped = Version { dropped_examples: 2, ..version(&none, Some((&none, Status::Active))) };
        assert!(reason(review(&policy, &dropped)).contains("2 recorded answers"));
    }

    #[test]
    fn what_may_be_this_machine_is_not_allowed_unseen() {
        let auto = Policy { approval: Approval::Auto, ..Policy::closed() };
        for (host, unseen) in [
            ("127.0.0.1:6379", true),
            ("localhost:80", true),
            // It may have any address.
            ("rebound.example.com:8080", true),
            ("GET http://[::1]:9/x", true),
            ("api.example.com", false),
            ("*.example.com:8443", false),
            // Without a port it does not open what is not public.
            ("127.0.0.1", false),
        ] {
            let grants = network(host);
            let verdict = review(&auto, &version(&grants, None));
            assert_eq!(matches!(verdict, Verdict::Denied(_)), unseen, "{host}: {verdict:?}");
            let named = Policy { allowed_hosts: grants.network.clone(), ..auto.clone() };
            assert!(matches!(review(&named, &version(&grants, None)), Verdict::Approved(_)), "{host}");
        }
    }

    #[test]
    fn deny_says_no_where_ask_would_ask_and_a_closed_network_asks_nobody() {
        let host = network("api.example.com");
        let deny = Policy { approval: Approval::Deny, ..Policy::closed() };
        assert!(matches!(review(&deny, &version(&host, None)), Verdict::Denied(_)));
        let closed = Policy { network: NetworkRule::Closed, approval: Approval::Auto, ..Policy::closed() };
        assert!(matches!(review(&closed, &version(&host, None)), Verdict::Denied(_)));
    }
}

//! May a tool of a server that somebody else wrote be called, and may the server itself be started?

use crate::decide::Deny;
use crate::process::{CommandView, ProcessVerdict, review_process};
use crate::{Approval, Policy};
use jarvis_protocol::ProcessPlan;
use serde::{Deserialize, Serialize};

/// The longest that a server runs at a stretch.
const SERVER_MS: u64 = 86_400_000;

/// What a person said beforehand about one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolRule {
    Allow,
    /// Each time.
    Ask,
    Deny,
}

/// One call of a tool that is not jarvis's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalCall {
    pub server: String,
    /// Where the config speaks of it: `mcp.servers.NAME`.
    pub set_up: String,
    pub tool: String,
    /// Of the definition that the call is made by.
    pub definition: String,
    /// The server says that it changes nothing.
    pub read_only: bool,
    pub rule: Option<ToolRule>,
    /// A person said yes to this definition before.
    pub allowed_before: bool,
}

/// The right to make one call. Only [`review_external`] and a person's yes to its question make it.
#[derive(Debug)]
pub struct ExternalPermit {
    call: ExternalCall,
    why: String,
}

impl ExternalPermit {
    pub fn call(&self) -> &ExternalCall {
        &self.call
    }

    /// The reason for the decision, for the audit.
    pub fn why(&self) -> &str {
        &self.why
    }
}

#[derive(Debug)]
pub enum ExternalVerdict {
    Permit(ExternalPermit),
    Ask(ExternalAsk),
    Denied(Deny),
}

/// A question for a person. It can only be answered as it was put.
#[derive(Debug)]
pub struct ExternalAsk {
    call: ExternalCall,
    pub reason: String,
}

impl ExternalAsk {
    /// A person said yes to this very question.
    pub fn allow(self) -> ExternalPermit {
        ExternalPermit { call: self.call, why: format!("a person: {}", self.reason) }
    }
}

/// What says that it only reads, and what a person allowed by this very definition, passes by itself; a rule of the
/// config goes before both.
pub fn review_external(policy: &Policy, call: ExternalCall) -> ExternalVerdict {
    let place = format!("`{}` of the MCP server `{}`", call.tool, call.server);
    let free = match call.rule {
        Some(ToolRule::Deny) => {
            return ExternalVerdict::Denied(Deny {
                reason: format!("{place} is denied by config"),
                hint: Some(format!("{}.tools in config says so", call.set_up)),
            });
        }
        Some(ToolRule::Allow) => Some("allowed by config"),
        Some(ToolRule::Ask) => None,
        None if call.read_only => Some("its server says that it only reads"),
        None => call.allowed_before.then_some("a person allowed this definition before"),
    };
    if let Some(why) = free {
        return ExternalVerdict::Permit(ExternalPermit { why: why.to_owned(), call });
    }
    let reason = format!("it would call {place}, which may change something");
    match policy.approval {
        Approval::Auto => ExternalVerdict::Permit(ExternalPermit { call, why: format!("--approve auto: {reason}") }),
        Approval::Deny => ExternalVerdict::Denied(Deny {
            reason: format!("it would need a yes: {reason}"),
            hint: Some(format!(
                "run it where you can be asked, or allow the tool: jarvis config set {}.tools.{} allow",
                call.set_up, call.tool
            )),
        }),
        Approval::Ask => ExternalVerdict::Ask(ExternalAsk { call, reason }),
    }
}

/// May a server be started as a person set it up? The hosts of its config were granted by whoever wrote it; that
/// programs may not have the network at all goes before.
pub fn review_server(policy: &Policy, plan: ProcessPlan) -> ProcessVerdict {
    let mut policy = policy.clone();
    policy.allowed_hosts.extend(plan.network.iter().cloned());
    policy.process_ceiling.timeout_ms = SERVER_MS;
    review_process(&policy, plan, &CommandView::Harmless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkRule;
    use jarvis_protocol::{Preset, ProcessLimits};

    fn call(read_only: bool, rule: Option<ToolRule>, allowed_before: bool) -> ExternalCall {
        let (server, tool, definition) = ("files".to_owned(), "write".to_owned(), "d".to_owned());
        let set_up = format!("mcp.servers.{server}");
        ExternalCall { server, set_up, tool, definition, read_only, rule, allowed_before }
    }

    /// What a verdict is, in one word.
    fn word(approval: Approval, call: ExternalCall) -> &'static str {
        match review_external(&Policy { approval, ..Policy::closed() }, call) {
            ExternalVerdict::Permit(_) => "yes",
            ExternalVerdict::Ask(_) => "ask",
            ExternalVerdict::Denied(_) => "no",
        }
    }

    #[test]
    fn only_what_reads_or_was_allowed_passes_unasked_and_the_config_goes_before() {
        use ToolRule::{Allow, Ask, Deny};
        for (read_only, rule, before, ask, deny, auto) in [
            (false, None, false, "ask", "no", "yes"),
            (true, None, false, "yes", "yes", "yes"),
            (false, None, true, "yes", "yes", "yes"),
            (false, Some(Allow), false, "yes", "yes", "yes"),
            (true, Some(Ask), true, "ask", "no", "yes"),
            (true, Some(Deny), true, "no", "no", "no"),
        ] {
            let words = [Approval::Ask, Approval::Deny, Approval::Auto].map(|a| word(a, call(read_only, rule, before)));
            assert_eq!(words, [ask, deny, auto], "{read_only} {rule:?} {before}");
        }
    }

    #[test]
    fn a_server_has_the_hosts_of_its_config_unless_the_network_is_closed() {
        let plan = || ProcessPlan {
            argv: vec!["node".to_owned()],
            dir: "/work".into(),
            preset: Preset::ReadOnly,
            read: Vec::new(),
            write: Vec::new(),
            network: vec!["api.example.com".to_owned()],
            limits: ProcessLimits { timeout_ms: SERVER_MS, ..ProcessLimits::STANDARD },
        };
        let open = Policy { approval: Approval::Deny, ..Policy::closed() };
        assert!(matches!(review_server(&open, plan()), ProcessVerdict::Permit(_)));
        let closed = Policy { network: NetworkRule::Closed, approval: Approval::Auto, ..Policy::closed() };
        assert!(matches!(review_server(&closed, plan()), ProcessVerdict::Denied(_)));
        let whole = ProcessPlan { preset: Preset::Full, ..plan() };
        assert!(matches!(review_server(&open, whole), ProcessVerdict::Denied(_)));
    }
}

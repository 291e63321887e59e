//! May a built-in tool touch this file or this host?

use crate::decide::Deny;
use crate::{Approval, Effect, NetworkRule, Policy, Ruling};
use jarvis_protocol::Grants;
use std::fmt;

/// The one thing that a call of a built-in tool touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// An absolute path, without `..`.
    Read {
        path: String,
        inside: bool,
    },
    Write {
        path: String,
        inside: bool,
    },
    /// A host (with its port, where it is not the usual one) and what is asked of it. `allowed`: a flag did so beforehand.
    Fetch {
        host: String,
        method: String,
        allowed: bool,
    },
    /// Files in `.jarvis` that later turns act on: a skill, an MCP server, a command, a rule.
    Make {
        /// `skill`, …
        kind: String,
        /// Absolute.
        path: String,
        replaces: bool,
        /// What else it does, such as packages that are installed for it.
        note: Option<String>,
    },
}

impl Reach {
    /// The same as the grants of a capability would say it.
    pub fn grants(&self) -> Grants {
        let mut grants = Grants::default();
        match self {
            Reach::Read { path, .. } => grants.read.push(path.clone()),
            Reach::Write { path, .. } | Reach::Make { path, .. } => grants.write.push(path.clone()),
            Reach::Fetch { host, .. } => grants.network.push(host.clone()),
        }
        grants
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::Read { path, .. } => write!(f, "read {path}"),
            Reach::Write { path, .. } => write!(f, "change {path}"),
            Reach::Fetch { host, method, .. } => write!(f, "send {method} to {host}"),
            Reach::Make { kind, path, replaces, note } => {
                write!(f, "{} the {kind} {path}", if *replaces { "replace" } else { "make" })?;
                note.as_ref().map_or(Ok(()), |note| write!(f, " ({note})"))
            }
        }
    }
}

/// The right to touch it, once. Only [`review_tool`] and a person's yes to its question make it.
#[derive(Debug)]
pub struct ToolPermit {
    reach: Reach,
    why: String,
    by_person: bool,
}

impl ToolPermit {
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The reason for the decision, for the audit.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// A person said yes to this very question.
    pub fn by_person(&self) -> bool {
        self.by_person
    }

    /// Gives up the permit for what it allows; called by the sandbox.
    pub fn into_grants(self) -> Grants {
        self.reach.grants()
    }
}

#[derive(Debug)]
pub enum ToolVerdict {
    Permit(ToolPermit),
    Ask(ToolAsk),
    Denied(Deny),
}

/// A question for a person. It can only be answered as it was put.
#[derive(Debug)]
pub struct ToolAsk {
    reach: Reach,
    pub reason: String,
}

impl ToolAsk {
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// A person said yes to this very question.
    pub fn allow(self) -> ToolPermit {
        ToolPermit { reach: self.reach, why: format!("a person: {}", self.reason), by_person: true }
    }
}

/// Files of the workspace pass by themselves; everything outside it, every host, and what later turns act on is asked for,
/// each time.
pub fn review_tool(policy: &Policy, reach: Reach) -> ToolVerdict {
    review_tool_ruled(policy, reach, None)
}

/// The same under what a person's rules say to it. They open nothing that config closes.
pub fn review_tool_ruled(policy: &Policy, reach: Reach, ruling: Option<&Ruling>) -> ToolVerdict {
    if matches!(reach, Reach::Fetch { .. }) && policy.network == NetworkRule::Closed {
        return ToolVerdict::Denied(Deny {
            reason: "the network is closed by config".to_owned(),
            hint: Some("set sandbox.network to \"ask\" in config".to_owned()),
        });
    }
    let said = ruling.map(|ruling| ruling.effect);
    if let Some(ruling) = ruling.filter(|ruling| ruling.effect == Effect::Deny) {
        return ToolVerdict::Denied(Deny {
            reason: ruling.reason.clone(),
            hint: Some("`jarvis rule list` shows the rules; a person can change them".to_owned()),
        });
    }
    let free = match &reach {
        Reach::Read { inside, .. } | Reach::Write { inside, .. } => inside.then_some("it lies in the workspace"),
        Reach::Fetch { allowed, .. } => allowed.then_some("the host was allowed beforehand"),
        // Whoever reads the workspace follows it from then on.
        Reach::Make { .. } => None,
    };
    // What later turns act on is a person's own yes, each time: a rule that allowed it could make others.
    let ruled = ruling.filter(|r| r.effect == Effect::Allow && !matches!(reach, Reach::Make { .. }));
    let free = free.map(str::to_owned).filter(|_| said != Some(Effect::Ask));
    if let Some(why) = free.or_else(|| ruled.map(|ruling| ruling.reason.clone())) {
        return ToolVerdict::Permit(ToolPermit { why, reach, by_person: false });
    }
    let reason = match (&reach, ruling.filter(|ruling| ruling.effect == Effect::Ask)) {
        (_, Some(ruling)) => format!("it would {reach}; {}", ruling.reason),
        (Reach::Fetch { .. } | Reach::Make { .. }, None) => format!("it would {reach}"),
        (Reach::Read { .. } | Reach::Write { .. }, None) => format!("it would {reach}, outside the workspace"),
    };
    match policy.approval {
        Approval::Auto => {
            ToolVerdict::Permit(ToolPermit { reach, why: format!("--approve auto: {reason}"), by_person: false })
        }
        Approval::Deny => ToolVerdict::Denied(Deny {
            reason: format!("it would need a yes: {reason}"),
            hint: Some("run it where you can be asked, or with --approve auto".to_owned()),
        }),
        Approval::Ask => ToolVerdict::Ask(ToolAsk { reach, reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches() -> [(Reach, bool); 7] {
        let path = || "/srv/a.txt".to_owned();
        let fetch = |allowed| Reach::Fetch { host: "example.com".to_owned(), method: "GET".to_owned(), allowed };
        [
            (Reach::Read { path: path(), inside: true }, true),
            (Reach::Write { path: path(), inside: true }, true),
            (Reach::Read { path: path(), inside: false }, false),
            (Reach::Write { path: path(), inside: false }, false),
            (fetch(true), true),
            (fetch(false), false),
            (Reach::Make { kind: "skill".to_owned(), path: path(), replaces: false, note: None }, false),
        ]
    }

    #[test]
    fn only_the_workspace_and_allowed_hosts_need_nobody() {
        for (reach, free) in reaches() {
            for (approval, asks) in [(Approval::Ask, true), (Approval::Deny, false), (Approval::Auto, false)] {
                let policy = Policy { approval, ..Policy::closed() };
                let verdict = review_tool(&policy, reach.clone());
                let fits = match &verdict {
                    ToolVerdict::Permit(permit) => (free || approval == Approval::Auto) && *permit.reach() == reach,
                    ToolVerdict::Ask(ask) => !free && asks && *ask.reach() == reach,
                    ToolVerdict::Denied(_) => !free && approval == Approval::Deny,
                };
                assert!(fits, "{reach:?} {approval:?}: {verdict:?}");
            }
        }
    }

    #[test]
    fn a_closed_network_is_closed_whatever_was_approved() {
        let policy = Policy { approval: Approval::Auto, network: NetworkRule::Closed, ..Policy::closed() };
        for (reach, _) in reaches() {
            let denied = matches!(review_tool(&policy, reach.clone()), ToolVerdict::Denied(_));
            assert_eq!(denied, matches!(reach, Reach::Fetch { .. }), "{reach:?}");
        }
    }

    #[test]
    fn a_rule_tightens_anything_and_opens_only_what_would_be_asked() {
        let ruling = |effect| Ruling { effect, rule: "r".to_owned(), reason: "rule `r`: because".to_owned() };
        for (reach, free) in reaches() {
            let make = matches!(reach, Reach::Make { .. });
            for approval in [Approval::Ask, Approval::Deny, Approval::Auto] {
                let policy = Policy { approval, ..Policy::closed() };
                let verdict = |effect| review_tool_ruled(&policy, reach.clone(), Some(&ruling(effect)));
                assert!(matches!(verdict(Effect::Deny), ToolVerdict::Denied(deny) if deny.reason.contains("`r`")));
                let asked = verdict(Effect::Ask);
                assert!(
                    match approval {
                        Approval::Ask => matches!(asked, ToolVerdict::Ask(_)),
                        Approval::Deny => matches!(asked, ToolVerdict::Denied(_)),
                        Approval::Auto => matches!(asked, ToolVerdict::Permit(_)),
                    },
                    "{reach:?}"
                );
                let allowed = matches!(verdict(Effect::Allow), ToolVerdict::Permit(_));
                assert_eq!(allowed, free || !make || approval == Approval::Auto, "{reach:?} {approval:?}");
            }
            let closed = Policy { network: NetworkRule::Closed, ..Policy::closed() };
            let verdict = review_tool_ruled(&closed, reach.clone(), Some(&ruling(Effect::Allow)));
            assert_eq!(matches!(verdict, ToolVerdict::Denied(_)), matches!(reach, Reach::Fetch { .. }), "{reach:?}");
        }
    }
}

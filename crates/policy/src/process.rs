//! May a process run, and with how much of the machine?

use crate::decide::Deny;
use crate::{Approval, NetworkRule, Policy};
use jarvis_protocol::{Preset, ProcessLimits, ProcessPlan};

/// What the classification of a command line found, where the process is a shell with one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandView {
    Harmless,
    /// A person should look, and why.
    Questionable(String),
    /// Never, and why.
    Forbidden(String),
}

/// The right to run one process, once. Only [`review_process`] and a person's yes to its question make it.
#[derive(Debug)]
pub struct ProcessPermit {
    plan: ProcessPlan,
    why: String,
}

impl ProcessPermit {
    pub fn plan(&self) -> &ProcessPlan {
        &self.plan
    }

    /// The reason for the decision, for the audit.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Gives up the permit for its plan; called by the jail.
    pub fn into_plan(self) -> ProcessPlan {
        self.plan
    }
}

#[derive(Debug)]
pub enum ProcessVerdict {
    Permit(ProcessPermit),
    Ask(ProcessAsk),
    Denied(Deny),
}

/// A question for a person. It can only be answered as it was put.
#[derive(Debug)]
pub struct ProcessAsk {
    plan: ProcessPlan,
    pub reason: String,
}

impl ProcessAsk {
    pub fn plan(&self) -> &ProcessPlan {
        &self.plan
    }

    /// A person said yes to this very question.
    pub fn allow(self) -> ProcessPermit {
        ProcessPermit { plan: self.plan, why: format!("a person: {}", self.reason) }
    }
}

/// Inside the first two presets, without network, a harmless command passes by itself. Everything else is asked for,
/// each time.
pub fn review_process(policy: &Policy, plan: ProcessPlan, command: &CommandView) -> ProcessVerdict {
    if let Some(deny) = refused(policy, &plan, command) {
        return ProcessVerdict::Denied(deny);
    }
    let Some(reason) = question(policy, &plan, command) else {
        let why = format!("{} in the jail", plan.preset.as_str());
        return ProcessVerdict::Permit(ProcessPermit { plan, why });
    };
    match policy.approval {
        Approval::Auto => ProcessVerdict::Permit(ProcessPermit { plan, why: format!("--approve auto: {reason}") }),
        Approval::Deny => ProcessVerdict::Denied(Deny {
            reason: format!("it would need a yes: {reason}"),
            hint: Some("run it where you can be asked, or with --approve auto".to_owned()),
        }),
        Approval::Ask => ProcessVerdict::Ask(ProcessAsk { plan, reason }),
    }
}

fn refused(policy: &Policy, plan: &ProcessPlan, command: &CommandView) -> Option<Deny> {
    let no = |reason: String, hint: &str| Some(Deny { reason, hint: Some(hint.to_owned()) });
    if plan.argv.first().is_none_or(String::is_empty) {
        return no("there is no program to run".to_owned(), "name a program");
    }
    if let CommandView::Forbidden(reason) = command {
        return no(reason.clone(), "do it yourself in a terminal of your own, if you mean it");
    }
    if let Some((name, asked, most)) = over_ceiling(&plan.limits, &policy.process_ceiling) {
        return no(format!("limit {name} = {asked} is outside 1 to {most}"), "choose another limit");
    }
    if policy.network == NetworkRule::Closed && !plan.network.is_empty() {
        return no("the network is closed by config".to_owned(), "set sandbox.network to \"ask\" in config");
    }
    None
}

fn over_ceiling(asked: &ProcessLimits, most: &ProcessLimits) -> Option<(&'static str, u64, u64)> {
    [
        ("timeout_ms", asked.timeout_ms, most.timeout_ms),
        ("memory_mb", asked.memory_mb, most.memory_mb),
        ("processes", asked.processes, most.processes),
        ("file_mb", asked.file_mb, most.file_mb),
        ("disk_mb", asked.disk_mb, most.disk_mb),
        ("output_bytes", asked.output_bytes, most.output_bytes),
    ]
    .into_iter()
    .find(|(_, asked, most)| *asked == 0 || asked > most)
}

/// The first thing about it that a person should look at.
fn question(policy: &Policy, plan: &ProcessPlan, command: &CommandView) -> Option<String> {
    if plan.preset == Preset::Full {
        return Some("it could change all your files".to_owned());
    }
    let open: Vec<&str> =
        plan.network.iter().filter(|host| !policy.allowed_hosts.contains(host)).map(String::as_str).collect();
    if !open.is_empty() {
        return Some(format!("it asks for network {}", open.join(", ")));
    }
    match command {
        CommandView::Questionable(reason) => Some(reason.clone()),
        CommandView::Harmless | CommandView::Forbidden(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(preset: Preset) -> ProcessPlan {
        ProcessPlan {
            argv: vec!["ls".to_owned()],
            dir: "/work".into(),
            preset,
            read: Vec::new(),
            write: Vec::new(),
            network: Vec::new(),
            limits: ProcessLimits::STANDARD,
        }
    }

    fn with(approval: Approval) -> Policy {
        Policy { approval, ..Policy::closed() }
    }

    fn reason(verdict: ProcessVerdict) -> String {
        match verdict {
            ProcessVerdict::Ask(ask) => ask.reason,
            other => panic!("no question: {other:?}"),
        }
    }

    #[test]
    fn in_the_jail_and_without_network_a_harmless_command_needs_nobody() {
        for preset in [Preset::ReadOnly, Preset::WorkspaceWrite] {
            let verdict = review_process(&with(Approval::Deny), plan(preset), &CommandView::Harmless);
            assert!(matches!(verdict, ProcessVerdict::Permit(_)), "{verdict:?}");
        }
    }

    #[test]
    fn all_else_is_a_question_and_deny_answers_it_with_no() {
        let full = plan(Preset::Full);
        assert!(
            reason(review_process(&Policy::closed(), full.clone(), &CommandView::Harmless)).contains("all your files")
        );
        let network = ProcessPlan { network: vec!["pypi.example".to_owned()], ..plan(Preset::ReadOnly) };
        let asked = review_process(&Policy::closed(), network.clone(), &CommandView::Harmless);
        assert!(reason(asked).contains("pypi.example"));
        let allowed = Policy { allowed_hosts: network.network.clone(), ..Policy::closed() };
        let verdict = review_process(&allowed, network.clone(), &CommandView::Harmless);
        assert!(matches!(verdict, ProcessVerdict::Permit(_)), "{verdict:?}");
        let doubt = CommandView::Questionable("git push".to_owned());
        assert!(reason(review_process(&Policy::closed(), plan(Preset::ReadOnly), &doubt)).contains("git push"));
        for asked in [full, network] {
            let verdict = review_process(&with(Approval::Deny), asked, &CommandView::Harmless);
            assert!(matches!(verdict, ProcessVerdict::Denied(_)), "{verdict:?}");
        }
    }

    #[test]
    fn what_is_forbidden_or_absurd_is_refused_whatever_was_approved() {
        let auto = with(Approval::Auto);
        let forbidden = CommandView::Forbidden("rm -rf /".to_owned());
        let none = ProcessPlan { argv: Vec::new(), ..plan(Preset::ReadOnly) };
        let zero = ProcessLimits { timeout_ms: 0, ..ProcessLimits::STANDARD };
        let absurd = ProcessLimits { memory_mb: u64::MAX, ..ProcessLimits::STANDARD };
        let closed = Policy { network: NetworkRule::Closed, ..auto.clone() };
        for (policy, plan, command) in [
            (&auto, plan(Preset::Full), &forbidden),
            (&auto, none, &CommandView::Harmless),
            (&auto, ProcessPlan { limits: zero, ..plan(Preset::ReadOnly) }, &CommandView::Harmless),
            (&auto, ProcessPlan { limits: absurd, ..plan(Preset::ReadOnly) }, &CommandView::Harmless),
            (
                &closed,
                ProcessPlan { network: vec!["a.b".to_owned()], ..plan(Preset::ReadOnly) },
                &CommandView::Harmless,
            ),
        ] {
            let verdict = review_process(policy, plan, command);
            assert!(matches!(verdict, ProcessVerdict::Denied(_)), "{verdict:?}");
        }
    }
}

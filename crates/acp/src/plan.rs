//! The growing of a capability as a plan: forge's own states are its steps.

use agent_client_protocol::v1::schema::{Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus};
use jarvis_protocol::ForgeStep;

const STEPS: [&str; 5] = [
    "Write the code",
    "Check it without running it",
    "Try it on its examples in the sandbox",
    "Have what it may reach approved",
    "Keep it as a new version",
];

#[derive(Debug, Default)]
pub(crate) struct Growing {
    capability: Option<String>,
}

impl Growing {
    /// The plan as it is now; `None` where a step says nothing about it.
    pub fn step(&mut self, step: ForgeStep, capability: Option<&str>) -> Option<Plan> {
        if let Some(name) = capability.filter(|name| !name.is_empty()) {
            self.capability = Some(name.to_owned());
        }
        // How many steps are done, and whether the next one has begun.
        let (done, goes_on) = match step {
            ForgeStep::Gap | ForgeStep::Spec | ForgeStep::Repair => (0, true),
            ForgeStep::Code => (1, true),
            ForgeStep::Checked => (2, true),
            ForgeStep::Verified => (3, true),
            ForgeStep::Approved => (4, true),
            ForgeStep::Registered => (STEPS.len(), true),
            ForgeStep::Rejected => (0, false),
            // What is there already is not made.
            ForgeStep::Reused => return None,
        };
        let entries = STEPS.iter().enumerate().map(|(at, step)| {
            let status = match at {
                at if at < done => PlanEntryStatus::Completed,
                at if at == done && goes_on => PlanEntryStatus::InProgress,
                _ => PlanEntryStatus::Pending,
            };
            let content = match &self.capability {
                Some(name) => format!("{name}: {step}"),
                None => (*step).to_owned(),
            };
            PlanEntry::new(content, PlanEntryPriority::Medium, status)
        });
        Some(Plan::new(entries.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(growing: &mut Growing, step: ForgeStep) -> String {
        let plan = growing.step(step, Some("读"));
        let entries = plan.map(|plan| plan.entries).unwrap_or_default();
        assert!(entries.iter().all(|entry| entry.content.starts_with("读: ")));
        entries
            .iter()
            .map(|entry| match entry.status {
                PlanEntryStatus::Completed => '#',
                PlanEntryStatus::InProgress => '>',
                _ => '.',
            })
            .collect()
    }

    #[test]
    fn a_repair_begins_again_and_what_is_refused_is_not_done() {
        let mut growing = Growing::default();
        let steps = [ForgeStep::Spec, ForgeStep::Code, ForgeStep::Checked, ForgeStep::Repair, ForgeStep::Code];
        let seen: Vec<_> = steps.into_iter().map(|step| states(&mut growing, step)).collect();
        assert_eq!(seen, [">....", "#>...", "##>..", ">....", "#>..."]);
        assert_eq!(states(&mut growing, ForgeStep::Registered), "#####");
        assert_eq!(states(&mut growing, ForgeStep::Rejected), ".....");
        assert_eq!(states(&mut growing, ForgeStep::Reused), "");
    }
}

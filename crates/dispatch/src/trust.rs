//! What comes from elsewhere: imports, and versions that nobody on this machine has allowed anything yet.

use crate::{ApprovalRequest, Approver, CallError, Dispatch};
use jarvis_audit::Kind;
use jarvis_policy::{Approved, Verdict, Version, review};
use jarvis_protocol::{Capability, ErrorBody, ErrorKind};
use jarvis_registry::{ImportOptions, ImportReport, Incoming, Watch};
use serde_json::json;

/// Names that a record of an import lists.
const NAMED: usize = 100;

impl Dispatch {
    /// Takes over capabilities from elsewhere, quarantined, as one change.
    pub fn import(
        &self,
        entries: Vec<Incoming>,
        options: &ImportOptions,
        watch: Watch<'_>,
    ) -> Result<ImportReport, CallError> {
        let names: Vec<&str> = entries.iter().take(NAMED).map(|entry| entry.capability.name.as_str()).collect();
        let change = json!({"change": "import", "from": options.from, "count": entries.len(), "names": names});
        self.record(Kind::Registry, "import", change)?;
        self.registry().import(entries, options, watch).map_err(|e| CallError::Fatal(e.body()))
    }

    /// Has somebody on this machine allowed what this version may reach? That it is registered does not say so: it may
    /// have come by a pull.
    pub fn is_approved(&self, capability: &Capability) -> Result<bool, CallError> {
        self.registry().is_approved(capability).map_err(|e| CallError::Fatal(e.body()))
    }

    /// Asks for it where nobody has, and keeps the answer.
    pub async fn approve(&self, capability: &Capability, approver: &mut dyn Approver) -> Result<(), CallError> {
        if self.is_approved(capability)? {
            return Ok(());
        }
        let name = capability.name.as_str();
        // The yes is kept by digest, so what was shown must be what has it.
        let code = self.registry().code(capability).map_err(|e| CallError::Fatal(e.body()))?;
        if !code.matches_digest {
            return Err(CallError::RespondToModel(changed_by_hand(capability)));
        }
        let version = Version {
            name,
            grants: &capability.grants,
            previous: None,
            dependencies: &capability.dependencies,
            dropped_examples: 0,
            alarm: None,
        };
        let approved = match review(self.policy(), &version) {
            Verdict::Approved(approved) => approved,
            Verdict::Denied(deny) => return Err(self.refused(name, deny)?),
            Verdict::Ask(ask) => {
                let request = ApprovalRequest {
                    id: format!("{name}-{}", self.now().as_millisecond()),
                    capability: name.to_owned(),
                    grants: ask.open.clone(),
                    before: None,
                    reason: format!("it came from elsewhere, and {}", ask.reason),
                    lasting: true,
                    call: None,
                };
                if !approver.ask(&request).await {
                    self.record_decision(name, "nobody allowed it", &request.reason)?;
                    return Err(CallError::RespondToModel(unapproved(capability)));
                }
                ask.allow()
            }
        };
        self.keep(capability, &approved)
    }

    /// What brings a quarantined one into use.
    pub fn way_back(&self, capability: &Capability) -> Result<String, CallError> {
        let name = &capability.name;
        if capability.tool_path.is_empty() {
            return Ok(format!("it has no code yet: jarvis cap register --definition {name}.json --code FILE"));
        }
        if self.registry().is_unchecked(capability).map_err(|e| CallError::Fatal(e.body()))? {
            return Ok(format!("it was imported and not checked here yet: jarvis cap check {name}"));
        }
        Ok(crate::after::quarantine_hint(name))
    }

    fn keep(&self, capability: &Capability, approved: &Approved) -> Result<(), CallError> {
        self.record_decision(capability.name.as_str(), "allowed", approved.why())?;
        self.registry().approve(capability, &self.now().to_string()).map_err(|e| CallError::Fatal(e.body()))
    }
}

pub(crate) fn changed_by_hand(capability: &Capability) -> ErrorBody {
    let name = &capability.name;
    let message =
        format!("the code or definition of `{name}` was changed by hand since it was verified, so it does not run");
    ErrorBody::new(ErrorKind::Denied, message).hint(format!("jarvis cap check {name} makes a checked version of it"))
}

pub(crate) fn unapproved(capability: &Capability) -> ErrorBody {
    let name = &capability.name;
    let mut wants = vec![capability.grants.to_string()];
    if !capability.dependencies.is_empty() {
        wants.push(format!("packages {}", capability.dependencies.join(", ")));
    }
    wants.retain(|want| !want.is_empty());
    let message = format!("nobody on this machine has allowed `{name}` {}: {}", capability.version, wants.join("; "));
    ErrorBody::new(ErrorKind::Denied, message).hint(format!(
        "look at it (jarvis cap show {name} --code), then run it where you can be asked: jarvis cap run {name}"
    ))
}

//! Registered versions looked at again: are file and definition what was verified, and do the recorded examples still
//! pass? What was changed by hand becomes a version; what is quarantined comes back when it passes.

use crate::verify::{Verified, VerifyError, judge, sources, verify};
use crate::{Accepted, Draft, Emit, Forge, ForgeError, Way, call_error, check, registry_error};
use jarvis_dispatch::{Approved, Approver};
use jarvis_protocol::{Capability, CapabilityName, ErrorBody, ErrorKind, Event, Example, ForgeStep, Status};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What a check did.
#[derive(Debug, Clone, PartialEq)]
pub enum Rechecked {
    /// It is what was verified, and passes.
    Passed(Verified),
    /// It was quarantined, and passes.
    Activated(Verified),
    /// It was changed by hand, or got another example, and is a new version.
    Registered(Accepted),
}

/// One recorded example, run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    pub example: Example,
    pub got: Option<Value>,
    /// None where it passed.
    pub problem: Option<String>,
    pub wall_us: u64,
}

impl Forge {
    /// `given`: examples that a person adds; with them it becomes a new version.
    pub async fn check(
        &self,
        name: &CapabilityName,
        given: Vec<Example>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Rechecked, ForgeError> {
        let (capability, code, untouched) = self.read(name)?;
        let quarantined = capability.status == Status::Quarantined;
        let mut draft = Draft {
            capability,
            code,
            request: None,
            change: "changed by hand".to_owned(),
            instead_of: None,
            restored: false,
        };
        if !untouched || !given.is_empty() {
            if untouched {
                draft.change = "examples added by a person".to_owned();
            }
            draft.capability.examples.extend(given);
            draft.capability.model = None;
            // Whoever types `check` has looked at it: that it was quarantined needs no other word.
            let accepted = self.submit_as(draft, Way::Checked, emit, approver, cancel).await?;
            return Ok(Rechecked::Registered(accepted));
        }
        let capability = draft.capability.clone();
        let mut approved = Approved::with_version(&capability);
        if quarantined {
            // The calls that it failed at must run; only for this look, since nothing of it changes.
            self.add_failures(&capability, &mut draft)?;
            let reaches = !capability.grants.is_empty() || !capability.dependencies.is_empty();
            if reaches {
                let problems = check::definition_problems(self.dispatch(), &capability);
                if !problems.is_empty() {
                    return Err(ForgeError::Problems { step: ForgeStep::Checked, problems });
                }
                // It may have come from elsewhere, or have been taken out with reason: a yes for what it reaches.
                approved = self.approve(&draft, Some(&capability), true, 0, emit, approver).await?;
                self.dispatch().install(name, &capability.dependencies, cancel).await.map_err(call_error)?;
            }
        }
        let checked = check::check(self.dispatch(), &draft).await.map_err(call_error)?;
        let checked = checked.map_err(|problems| ForgeError::Problems { step: ForgeStep::Checked, problems })?;
        let verified = match verify(self.dispatch(), &draft, &checked, &approved, cancel).await {
            Ok(verified) => verified,
            Err(VerifyError::Problems(problems)) => {
                return Err(ForgeError::Problems { step: ForgeStep::Verified, problems });
            }
            Err(VerifyError::Fatal(body)) => return Err(ForgeError::Fatal(body)),
        };
        self.step(emit, ForgeStep::Verified, name, crate::describe(&verified), verified.counts())?;
        if !quarantined {
            return Ok(Rechecked::Passed(verified));
        }
        self.keep_approval(&capability)?;
        self.dispatch().set_status(name, Status::Active).map_err(call_error)?;
        emit(Event::Capability {
            name: name.to_string(),
            status: Status::Active,
            detail: format!("version {} passed its checks", capability.version),
        });
        Ok(Rechecked::Activated(verified))
    }

    /// Runs the recorded examples; changes nothing. What nobody has approved runs without grants.
    pub async fn test(&self, name: &CapabilityName, cancel: &CancellationToken) -> Result<Vec<Tested>, ForgeError> {
        let (capability, code, untouched) = self.read(name)?;
        if capability.status == Status::Retired {
            let body = ErrorBody::new(ErrorKind::Denied, format!("`{name}` is retired, so it does not run"));
            return Err(ForgeError::Fatal(body.hint(format!("jarvis cap enable {name} puts it into use"))));
        }
        let known = untouched && capability.status != Status::Quarantined;
        let approved = if known { Approved::with_version(&capability) } else { Approved::nothing() };
        let (now, _) = sources(self.dispatch());
        let mut tested = Vec::new();
        for example in &capability.examples {
            let args = example.args.clone();
            let ran = self.dispatch().run_candidate(&capability, &code, args, Some(now), &approved, cancel).await;
            let (got, problem, wall_us) = match ran {
                Ok(execution) => {
                    let problem = judge(&capability, example, &execution).err();
                    (execution.result, problem, execution.wall_us)
                }
                Err(jarvis_dispatch::CallError::RespondToModel(body)) => (None, Some(body.message), 0),
                Err(jarvis_dispatch::CallError::Fatal(body)) => return Err(ForgeError::Fatal(body)),
            };
            tested.push(Tested { example: example.clone(), got, problem, wall_us });
        }
        Ok(tested)
    }

    /// Puts it into use by a person's word. A quarantined one that reaches outside needs a yes for that, too: it may have
    /// come from elsewhere.
    pub async fn enable(
        &self,
        name: &CapabilityName,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
    ) -> Result<(), ForgeError> {
        let (capability, code, _) = self.read(name)?;
        let reaches = !capability.grants.is_empty() || !capability.dependencies.is_empty();
        if capability.status == Status::Quarantined && reaches {
            let change = "enabled".to_owned();
            let draft =
                Draft { capability: capability.clone(), code, request: None, change, instead_of: None, restored: true };
            self.approve(&draft, Some(&capability), true, 0, emit, approver).await?;
        }
        self.keep_approval(&capability)?;
        self.dispatch().set_status(name, Status::Active).map_err(call_error)
    }

    /// What was allowed just now is not asked for again at the first run.
    fn keep_approval(&self, capability: &Capability) -> Result<(), ForgeError> {
        let registry = self.dispatch().registry();
        if capability.status == Status::Quarantined && !registry.is_approved(capability).map_err(registry_error)? {
            registry.approve(capability, &self.dispatch().now().to_string()).map_err(registry_error)?;
        }
        Ok(())
    }

    /// Definition, code, and whether the two are what was verified.
    fn read(&self, name: &CapabilityName) -> Result<(Capability, String, bool), ForgeError> {
        let registry = self.dispatch().registry();
        let capability = registry.get(name).map_err(registry_error)?.ok_or_else(|| crate::not_found(name))?;
        if capability.tool_path.is_empty() {
            let message = format!("`{name}` has no code yet: it was imported as a definition alone");
            let hint = format!("register code for it: jarvis cap register --definition {name}.json --code FILE");
            return Err(ForgeError::Fatal(ErrorBody::new(ErrorKind::InvalidRequest, message).hint(hint)));
        }
        let code = registry.code(&capability).map_err(registry_error)?;
        Ok((capability, code.text, code.matches_digest))
    }
}

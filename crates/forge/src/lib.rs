//! Self-extension: a draft becomes a registered version only by passing checks, verification and approval.
//!
//! [`Forge::submit`] is the one way in: a model with tool calling, a weak model led by [`grow`], a person with
//! `jarvis cap register` and another agent over MCP all come through it.

mod check;
mod grants;
pub mod grow;
mod keys;
mod literal;
mod probe;
mod verify;

use jarvis_dispatch::{Approval, ApprovalRequest, Approver, CallError, Dispatch, describe_grants};
use jarvis_protocol::{Capability, CapabilityName, ErrorBody, ErrorKind, Event, Example, ForgeStep, Status, Version};
use jarvis_registry::NewVersion;
pub use keys::check_keys;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
pub use verify::Verified;

/// Registrations within [`BURST_MINUTES`] after which a person is asked even for pure computation.
pub const BURST: usize = 5;
pub const BURST_MINUTES: i64 = 10;
/// Registry size from which on a person is asked.
pub const CROWDED: usize = 100;

/// What somebody wants registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub capability: Capability,
    pub code: String,
    /// The request it was written for, if one led to it.
    pub request: Option<String>,
    /// One line for the changelog.
    pub change: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    pub name: CapabilityName,
    pub version: Version,
    /// Set when an earlier version was replaced.
    pub previous: Option<Version>,
    pub verified: Verified,
}

/// Why a draft was not registered. Nothing of it stays behind but the audit record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ForgeError {
    /// Something registered does this already.
    #[error("`{name}` does this already: {why}")]
    Duplicate { name: CapabilityName, why: String },
    #[error("{}", problems.join("; "))]
    Problems { step: ForgeStep, problems: Vec<String> },
    #[error("{reason}")]
    NotApproved { reason: String, hint: Option<String> },
    #[error("{}", .0.message)]
    Fatal(ErrorBody),
}

impl ForgeError {
    /// For a model or a script: what to mend.
    pub fn for_model(&self) -> String {
        match self {
            ForgeError::Duplicate { name, .. } => {
                format!(
                    "{self}. Use it with execute_capability, or register under the name `{name}` to replace its code."
                )
            }
            ForgeError::Problems { step, problems } => {
                let stage = if *step == ForgeStep::Verified { "verification" } else { "the checks" };
                format!("not registered, {stage} failed: {}. Mend this and register again.", problems.join("; "))
            }
            ForgeError::NotApproved { reason, hint } => {
                let hint = hint.as_deref().map(|h| format!(" ({h})")).unwrap_or_default();
                format!("not registered: {reason}{hint}")
            }
            ForgeError::Fatal(body) => body.message.clone(),
        }
    }

    pub fn body(&self) -> ErrorBody {
        match self {
            ForgeError::Fatal(body) => body.clone(),
            ForgeError::NotApproved { reason, hint } => {
                ErrorBody { kind: ErrorKind::Denied, message: reason.clone(), hint: hint.clone() }
            }
            ForgeError::Duplicate { name, .. } => ErrorBody::new(ErrorKind::Forge, self.to_string())
                .hint(format!("register it as `{name}` to make a new version of that one")),
            ForgeError::Problems { .. } => ErrorBody::new(ErrorKind::Forge, self.to_string()),
        }
    }
}

#[derive(Clone)]
pub struct Forge {
    dispatch: Arc<Dispatch>,
}

type Emit<'a> = &'a mut (dyn FnMut(Event) + Send);

impl Forge {
    pub fn new(dispatch: Arc<Dispatch>) -> Self {
        Self { dispatch }
    }

    pub fn dispatch(&self) -> &Arc<Dispatch> {
        &self.dispatch
    }

    /// Nothing registered fits what was looked for.
    pub fn gap(&self, emit: Emit<'_>, looked_for: &str) -> Result<(), ForgeError> {
        let record = json!({"step": ForgeStep::Gap, "looked_for": looked_for});
        self.dispatch.record_forge("", record).map_err(|e| ForgeError::Fatal(fatal_body(e)))?;
        emit(Event::Forge { step: ForgeStep::Gap, capability: None, detail: "nothing registered fits".to_owned() });
        Ok(())
    }

    /// A definition and its code have come from outside (a model that drives tools, a person).
    pub fn received(&self, draft: &Draft, emit: Emit<'_>) -> Result<(), ForgeError> {
        let capability = &draft.capability;
        let spec = format!("{} — {}", capability.signature(), capability.capability);
        let record = json!({"about": capability.capability, "parameters": capability.parameters});
        self.step(emit, ForgeStep::Spec, &capability.name, spec, record)?;
        let lines = draft.code.lines().count();
        self.step(emit, ForgeStep::Code, &capability.name, format!("{lines} lines"), json!({"lines": lines}))
    }

    /// Checks, verifies, asks where asking is due, and registers. Each transition is an event and an audit record.
    pub async fn submit(
        &self,
        mut draft: Draft,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Accepted, ForgeError> {
        let result = self.pass(&mut draft, emit, approver, cancel).await;
        if let Err(error) = &result {
            self.reject(emit, &draft.capability.name, error)?;
        }
        result
    }

    pub(crate) fn reject(&self, emit: Emit<'_>, name: &CapabilityName, error: &ForgeError) -> Result<(), ForgeError> {
        let reason = error.to_string();
        self.step(emit, ForgeStep::Rejected, name, reason.clone(), json!({"reason": reason}))
    }

    /// The same without the last word: whoever leads a model repairs first, and rejects when it gives up.
    pub(crate) async fn pass(
        &self,
        draft: &mut Draft,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Accepted, ForgeError> {
        let previous = self.dispatch.registry().get(&draft.capability.name).map_err(registry_error)?;
        if previous.is_none() {
            self.refuse_duplicate(&draft.capability)?;
        }
        if let Some(previous) = &previous {
            inherit_examples(&mut draft.capability, &previous.examples);
        }
        grants::anchor(&mut draft.capability.grants, self.dispatch.workspace());
        let checked =
            check::check(draft).map_err(|problems| ForgeError::Problems { step: ForgeStep::Checked, problems })?;
        let name = draft.capability.name.clone();
        self.step(emit, ForgeStep::Checked, &name, "parses, schema valid, grants declared".into(), json!({}))?;

        // What reaches outside is asked for before it first runs; pure code runs first, so that nobody is asked in vain.
        if !draft.capability.grants.is_empty() {
            self.approve(draft, previous.as_ref(), emit, approver).await?;
        }
        let verified = match verify::verify(&self.dispatch, draft, &checked, cancel).await {
            Ok(verified) => verified,
            Err(verify::VerifyError::Problems(problems)) => {
                return Err(ForgeError::Problems { step: ForgeStep::Verified, problems });
            }
            Err(verify::VerifyError::Fatal(error)) => return Err(ForgeError::Fatal(fatal_body(error))),
        };
        let counts = serde_json::to_value(&verified).unwrap_or_default();
        self.step(emit, ForgeStep::Verified, &name, describe(&verified), counts)?;
        if draft.capability.grants.is_empty() {
            self.approve(draft, previous.as_ref(), emit, approver).await?;
        }
        if cancel.is_cancelled() {
            return Err(ForgeError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
        }
        self.register(draft, verified, emit)
    }

    /// What is registered and does the same already, with arguments that go together.
    pub fn duplicate_of(&self, capability: &Capability) -> Result<Option<Capability>, ForgeError> {
        let similar = self.dispatch.registry().find_similar(capability).map_err(registry_error)?;
        Ok(similar.into_iter().map(|hit| hit.capability).find(|found| found.status == Status::Active))
    }

    fn refuse_duplicate(&self, capability: &Capability) -> Result<(), ForgeError> {
        match self.duplicate_of(capability)? {
            Some(found) => Err(ForgeError::Duplicate {
                why: format!("{} ({})", found.capability, found.signature()),
                name: found.name,
            }),
            None => Ok(()),
        }
    }

    async fn approve(
        &self,
        draft: &Draft,
        previous: Option<&Capability>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
    ) -> Result<(), ForgeError> {
        let name = &draft.capability.name;
        let before = previous.map(|p| p.grants.clone()).unwrap_or_default();
        let grants = draft.capability.grants.beyond(&before);
        let policy = self.dispatch.policy();
        let alarm = self.alarm()?;
        // A yes was for that code: other code with the same grants is another question.
        let mut open = draft.capability.grants.clone();
        open.network.retain(|host| !policy.allowed_hosts.contains(host));
        let switched_off = previous.filter(|p| p.status != Status::Active);
        if open.is_empty() && alarm.is_none() && switched_off.is_none() {
            let why = if draft.capability.grants.is_empty() { "pure computation" } else { "hosts allowed beforehand" };
            let record = json!({"by": "policy", "grants": draft.capability.grants});
            return self.step(emit, ForgeStep::Approved, name, why.into(), record);
        }
        let reason = match (alarm, switched_off) {
            (Some(alarm), _) => alarm,
            (None, Some(off)) => format!("it is {}, and a new version would be active", status_word(off.status)),
            (None, None) if grants.is_empty() => {
                format!("new code would have what was allowed to the old: {}", describe_grants(&open))
            }
            (None, None) => format!("it asks for {}", describe_grants(&open)),
        };
        let allowed = match policy.approval {
            Approval::Auto => true,
            Approval::Deny => false,
            Approval::Ask => {
                let request = ApprovalRequest {
                    id: format!("{name}-{}", self.dispatch.now().as_millisecond()),
                    capability: name.to_string(),
                    grants: open.clone(),
                    reason: reason.clone(),
                };
                emit(Event::ApprovalRequested {
                    id: request.id.clone(),
                    capability: request.capability.clone(),
                    grants: request.grants.clone(),
                    reason: request.reason.clone(),
                });
                approver.ask(&request).await
            }
        };
        if !allowed {
            return Err(ForgeError::NotApproved {
                reason: format!("nobody approved `{name}`: {reason}"),
                hint: Some("run it where you can be asked, or with --approve auto".to_owned()),
            });
        }
        let by = if policy.approval == Approval::Auto { "--approve auto" } else { "person" };
        self.step(
            emit,
            ForgeStep::Approved,
            name,
            format!("by {by}: {reason}"),
            json!({"by": by, "grants": grants, "reason": reason}),
        )
    }

    /// Signs of a registry that grows faster than anybody looks.
    fn alarm(&self) -> Result<Option<String>, ForgeError> {
        let since = self
            .dispatch
            .now()
            .checked_sub(jiff::SignedDuration::from_mins(BURST_MINUTES))
            .map_err(|e| ForgeError::Fatal(ErrorBody::new(ErrorKind::Internal, e.to_string())))?;
        let registry = self.dispatch.registry();
        let recent = registry.recent_registrations(since).map_err(registry_error)?;
        if recent >= BURST {
            return Ok(Some(format!("{recent} capabilities were registered within {BURST_MINUTES} minutes")));
        }
        let size = registry.list().map_err(registry_error)?.capabilities.len();
        Ok((size >= CROWDED).then(|| format!("the registry already holds {size} capabilities")))
    }

    fn register(&self, draft: &mut Draft, verified: Verified, emit: Emit<'_>) -> Result<Accepted, ForgeError> {
        let capability = draft.capability.clone();
        let created_by = capability.created_by;
        let model = capability.model.clone();
        let registered = self
            .dispatch
            .registry()
            .register(NewVersion {
                capability,
                code: draft.code.clone(),
                change: draft.change.clone(),
                created_by,
                model,
                now: self.dispatch.now().to_string(),
            })
            .map_err(registry_error)?;
        let detail = match &registered.previous {
            Some(before) if *before == registered.version => format!("version {before} is this already"),
            Some(before) => format!("version {} (was {before})", registered.version),
            None => format!("version {}", registered.version),
        };
        self.step(
            emit,
            ForgeStep::Registered,
            &registered.name,
            detail,
            json!({"version": registered.version, "commit": registered.commit}),
        )?;
        Ok(Accepted { name: registered.name, version: registered.version, previous: registered.previous, verified })
    }

    /// One transition: on the audit, then to whoever watches.
    pub(crate) fn step(
        &self,
        emit: Emit<'_>,
        step: ForgeStep,
        name: &CapabilityName,
        detail: String,
        record: Value,
    ) -> Result<(), ForgeError> {
        let mut record = record;
        if let Some(object) = record.as_object_mut() {
            object.insert("step".to_owned(), serde_json::to_value(step).unwrap_or_default());
        }
        self.dispatch.record_forge(name.as_str(), record).map_err(|e| ForgeError::Fatal(fatal_body(e)))?;
        emit(Event::Forge { step, capability: Some(name.to_string()), detail });
        Ok(())
    }
}

pub(crate) fn registry_error(error: jarvis_registry::RegistryError) -> ForgeError {
    ForgeError::Fatal(error.body())
}

pub(crate) fn fatal_body(error: CallError) -> ErrorBody {
    match error {
        CallError::Fatal(body) => body,
        CallError::RespondToModel(message) => ErrorBody::new(ErrorKind::Forge, message),
    }
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Active => "active",
        Status::Disabled => "disabled",
        Status::Quarantined => "quarantined",
        Status::Retired => "retired",
    }
}

/// A new version must still pass what the old one was recorded to do. Where it claims another answer for the same
/// call, both stand and verification fails: a recorded answer is changed by a person only.
fn inherit_examples(capability: &mut Capability, before: &[Example]) {
    for example in before {
        if !capability.examples.iter().any(|e| e.args == example.args && e.returns == example.returns)
            && jarvis_dispatch::check_arguments(&capability.parameters, &example.args).is_ok()
        {
            capability.examples.push(example.clone());
        }
    }
}

/// Counts, for a person.
fn describe(verified: &Verified) -> String {
    let mut parts = Vec::new();
    if verified.answers_matched > 0 {
        parts.push(format!("{} known answers matched", verified.answers_matched));
    }
    if verified.ran > 0 {
        parts.push(format!("{} more ran", verified.ran));
    }
    if verified.held_out > 0 {
        parts.push(format!("{} of them held out", verified.held_out));
    }
    if parts.is_empty() {
        parts.push("it has no examples to run".to_owned());
    }
    parts.join(", ")
}

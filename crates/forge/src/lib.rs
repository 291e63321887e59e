//! Self-extension: a draft becomes a registered version only by passing checks, verification and approval.
//!
//! A model with tool calling and a person with `jarvis cap register` come in by [`Forge::submit`]; a weak model is led by
//! [`grow`]. Both pass the same checks, verification and approval, in `Forge::pass`.

mod calls;
mod check;
mod duplicate;
mod grants;
pub mod grow;
mod keys;
mod library;
mod literal;
mod probe;
mod recheck;
mod repair;
mod rollback;
mod unify;
mod verify;

use jarvis_dispatch::{ApprovalRequest, Approved, Approver, Ask, CallError, Deny, Dispatch, Reviewed, Verdict, review};
use jarvis_protocol::{
    Capability, CapabilityName, CreatedBy, ErrorBody, ErrorKind, Event, Example, ForgeStep, Grants, Status, Usage,
    Version,
};
use jarvis_registry::NewVersion;
use jarvis_registry::health::Build;
pub use keys::check_keys;
pub use library::{Agreement, Library, Runs};
pub use recheck::{Rechecked, Tested};
pub use repair::{Failure, Repair};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
pub use unify::{Unified, Unify, Writer};
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
    /// A registered capability that failed and that this is written for: it is no duplicate.
    pub instead_of: Option<CapabilityName>,
    /// An earlier version put back by a person: it answers for what was recorded of it then, and not for what its
    /// successors were recorded to do.
    pub restored: bool,
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
    /// A bound of the turn was reached before anything passed.
    #[error("stopped: a limit of this turn was reached")]
    OutOfBounds,
}

impl ForgeError {
    /// For a model or a script: what to mend.
    pub fn for_model(&self) -> String {
        match self {
            ForgeError::Duplicate { name, .. } => {
                format!(
                    "{self}. Use it with execute_capability, or register under the name `{name}` to replace its code. If yours \
                     does something else, give an example with the answer in which the two differ."
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
            ForgeError::Fatal(_) | ForgeError::OutOfBounds => self.to_string(),
        }
    }

    pub fn body(&self) -> ErrorBody {
        match self {
            ForgeError::Fatal(body) => body.clone(),
            ForgeError::NotApproved { reason, hint } => {
                ErrorBody { kind: ErrorKind::Denied, message: reason.clone(), hint: hint.clone() }
            }
            ForgeError::Duplicate { name, .. } => ErrorBody::new(ErrorKind::Forge, self.to_string())
                .hint(format!(
                "register it as `{name}` to make a new version of that one, or give an example with the answer in which \
                 the two differ"
            )),
            ForgeError::Problems { .. } => ErrorBody::new(ErrorKind::Forge, self.to_string()),
            ForgeError::OutOfBounds => ErrorBody::new(ErrorKind::Limit, self.to_string()),
        }
    }
}

#[derive(Clone)]
pub struct Forge {
    dispatch: Arc<Dispatch>,
}

type Emit<'a> = &'a mut (dyn FnMut(Event) + Send);

/// How a draft comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Submitted,
    /// A person has the registered one checked, as it now is.
    Checked,
}

impl Forge {
    pub fn new(dispatch: Arc<Dispatch>) -> Self {
        Self { dispatch }
    }

    pub fn dispatch(&self) -> &Arc<Dispatch> {
        &self.dispatch
    }

    /// Keeps what building the version of `name` that is registered now took, for the report of what reuse saved.
    pub fn record_build(&self, name: &str, usage: Usage, took: Duration) -> Result<(), ForgeError> {
        let registry = self.dispatch.registry();
        let Ok(name) = CapabilityName::new(name) else { return Ok(()) };
        let Some(now) = registry.get(&name).map_err(registry_error)? else { return Ok(()) };
        // A provider that counts nothing says nothing: that is no figure of 0.
        let counted = usage.input_tokens + usage.output_tokens > 0;
        let build = Build {
            version: now.version,
            at: self.dispatch.now().to_string(),
            wall_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            usage: counted.then_some((usage.input_tokens, usage.output_tokens, usage.cost_usd)),
        };
        registry.record_build(&name, &build).map_err(registry_error)
    }

    /// Nothing registered fits what was looked for.
    pub fn gap(&self, emit: Emit<'_>) -> Result<(), ForgeError> {
        self.record("", ForgeStep::Gap, json!({}))?;
        emit(Event::Forge { step: ForgeStep::Gap, capability: None, detail: "nothing registered fits".to_owned() });
        Ok(())
    }

    /// What was about to be built is registered already.
    pub fn reused(&self, emit: Emit<'_>, name: &CapabilityName) -> Result<(), ForgeError> {
        self.step(emit, ForgeStep::Reused, name, "it is registered already".to_owned(), json!({}))
    }

    /// Checks, verifies, asks where asking is due, and registers. Each transition is an event and an audit record.
    pub async fn submit(
        &self,
        draft: Draft,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Accepted, ForgeError> {
        self.submit_as(draft, Way::Submitted, emit, approver, cancel).await
    }

    pub(crate) async fn submit_as(
        &self,
        mut draft: Draft,
        way: Way,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Accepted, ForgeError> {
        let capability = &draft.capability;
        let spec = format!("{} — {}", capability.signature(), capability.capability);
        self.step(emit, ForgeStep::Spec, &capability.name, spec, json!({"parameters": capability.parameters}))?;
        let lines = draft.code.lines().count();
        self.step(emit, ForgeStep::Code, &capability.name, format!("{lines} lines"), json!({"lines": lines}))?;
        let result = self.pass(&mut draft, way, emit, approver, cancel).await;
        if let Err(error) = &result {
            self.reject(emit, &draft.capability.name, error)?;
        }
        result
    }

    /// The audit keeps at which step and how many problems; their texts can hold values of the request.
    pub(crate) fn reject(&self, emit: Emit<'_>, name: &CapabilityName, error: &ForgeError) -> Result<(), ForgeError> {
        let record = match error {
            ForgeError::Problems { step, problems } => json!({"at": step, "problems": problems.len()}),
            ForgeError::Duplicate { name, .. } => json!({"duplicate_of": name}),
            ForgeError::NotApproved { .. } => json!({"at": ForgeStep::Approved}),
            ForgeError::Fatal(body) => json!({"error": body.kind}),
            ForgeError::OutOfBounds => json!({"error": ErrorKind::Limit}),
        };
        self.step(emit, ForgeStep::Rejected, name, error.to_string(), record)
    }

    /// From a draft to a version, without the first and the last word: whoever leads a model has its own spec and
    /// code steps, repairs first, and rejects when it gives up.
    pub(crate) async fn pass(
        &self,
        draft: &mut Draft,
        way: Way,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Accepted, ForgeError> {
        let previous = self.as_verified(&draft.capability.name)?;
        let verified = self.prove(draft, way, previous.as_ref(), emit, approver, cancel).await?;
        let accepted = self.register(draft, &[], verified, emit)?;
        if previous.is_some_and(|p| p.status == Status::Quarantined) {
            let detail = format!("version {} passed, and takes the place of the quarantined one", accepted.version);
            emit(Event::Capability { name: accepted.name.to_string(), status: Status::Active, detail });
        }
        Ok(accepted)
    }

    /// Everything before a draft is registered: checks, verification, approval.
    pub(crate) async fn prove(
        &self,
        draft: &mut Draft,
        way: Way,
        previous: Option<&Capability>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Verified, ForgeError> {
        self.refuse_alias(&draft.capability.name)?;
        let mut dropped = 0;
        match previous {
            None => self.refuse_duplicate(draft, cancel).await?,
            Some(_) if draft.restored => {}
            Some(previous) => {
                dropped = inherit_examples(&mut draft.capability, &previous.examples);
                inherit_aliases(&mut draft.capability, previous);
            }
        }
        grants::anchor(&mut draft.capability.grants, self.dispatch.workspace());
        let quarantined = previous.filter(|p| p.status == Status::Quarantined && !draft.restored);
        let by_person = draft.capability.created_by == CreatedBy::Human;
        let revives = match quarantined {
            Some(previous) if way == Way::Checked || !by_person => {
                let code_alone = self.add_failures(previous, draft)?;
                way == Way::Checked || code_alone
            }
            _ => false,
        };
        let wrong = |step, problems| ForgeError::Problems { step, problems };
        let name = draft.capability.name.clone();
        // What reaches outside, or needs packages, is asked for before anything of it is done; pure code runs first, so
        // that nobody is asked in vain.
        let ask_first = !draft.capability.grants.is_empty() || !draft.capability.dependencies.is_empty();
        let mut approved = None;
        if !draft.capability.dependencies.is_empty() {
            let problems = check::definition_problems(&self.dispatch, &draft.capability);
            if !problems.is_empty() {
                return Err(wrong(ForgeStep::Checked, problems));
            }
            approved = Some(self.approve(draft, previous, revives, dropped, emit, approver).await?);
            let installed = self.dispatch.install(&name, &draft.capability.dependencies, cancel).await;
            installed.map_err(|e| match e {
                CallError::RespondToModel(body) => wrong(ForgeStep::Checked, vec![body.message]),
                CallError::Fatal(body) => ForgeError::Fatal(body),
            })?;
        }
        let checked = check::check(&self.dispatch, draft).await.map_err(call_error)?;
        let checked = checked.map_err(|problems| wrong(ForgeStep::Checked, problems))?;
        self.step(emit, ForgeStep::Checked, &name, "parses, schema valid, grants declared".into(), json!({}))?;
        if ask_first && approved.is_none() {
            approved = Some(self.approve(draft, previous, revives, dropped, emit, approver).await?);
        }
        let approved_now = approved.unwrap_or_else(Approved::nothing);
        let verified = match verify::verify(&self.dispatch, draft, &checked, &approved_now, cancel).await {
            Ok(verified) => verified,
            Err(verify::VerifyError::Problems(problems)) => {
                return Err(ForgeError::Problems { step: ForgeStep::Verified, problems });
            }
            Err(verify::VerifyError::Fatal(body)) => return Err(ForgeError::Fatal(body)),
        };
        self.step(emit, ForgeStep::Verified, &name, describe(&verified), verified.counts())?;
        if !ask_first {
            self.approve(draft, previous, revives, dropped, emit, approver).await?;
        }
        if cancel.is_cancelled() {
            return Err(ForgeError::Fatal(ErrorBody::new(ErrorKind::Cancelled, "cancelled")));
        }
        Ok(verified)
    }

    /// What is registered, as it was verified: a hand may have widened it since.
    pub(crate) fn as_verified(&self, name: &CapabilityName) -> Result<Option<Capability>, ForgeError> {
        let registry = self.dispatch.registry();
        let Some(now) = registry.get(name).map_err(registry_error)? else { return Ok(None) };
        if registry.code(&now).is_ok_and(|code| code.matches_digest) {
            return Ok(Some(now));
        }
        let verified = registry.as_registered(&now).map_err(registry_error)?;
        Ok(Some(verified.map_or(now.clone(), |(verified, _)| Capability { status: now.status, ..verified })))
    }

    /// A name that another capability answers to is not given away: whoever uses it would get something else.
    fn refuse_alias(&self, name: &CapabilityName) -> Result<(), ForgeError> {
        match self.dispatch.registry().resolve(name).map_err(registry_error)? {
            Some(bearer) if bearer.name != *name => Err(ForgeError::Duplicate {
                why: format!("`{name}` is another name of it ({})", bearer.signature()),
                name: bearer.name,
            }),
            _ => Ok(()),
        }
    }

    /// `revives`: a quarantined one comes back by passing, without a word for that alone.
    pub(crate) async fn approve(
        &self,
        draft: &Draft,
        previous: Option<&Capability>,
        revives: bool,
        dropped_examples: usize,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
    ) -> Result<Approved, ForgeError> {
        let name = &draft.capability.name;
        // A person who mends, rolls back or edits what is there makes nothing grow.
        let grows = previous.is_none() || draft.capability.created_by == CreatedBy::Model && !draft.restored;
        let alarm = if grows { self.alarm(previous.is_none())? } else { None };
        if let Some(alarm) = &alarm {
            self.dispatch.record_forge(name.as_str(), json!({"alarm": alarm})).map_err(call_error)?;
            emit(Event::Notice { message: format!("alarm: {alarm}") });
        }
        let previous_status = |p: &Capability| if revives { Status::Active } else { p.status };
        let version = Reviewed {
            name: name.as_str(),
            grants: &draft.capability.grants,
            previous: previous.map(|p| (&p.grants, previous_status(p))),
            dependencies: &draft.capability.dependencies,
            dropped_examples,
            alarm,
        };
        let approved = match review(self.dispatch.policy(), &version) {
            Verdict::Approved(approved) => approved,
            Verdict::Denied(Deny { reason, hint }) => return Err(ForgeError::NotApproved { reason, hint }),
            Verdict::Ask(ask) => {
                if let Some(previous) = previous.filter(|p| p.status == Status::Quarantined && !revives) {
                    emit(Event::Notice { message: repair::proposal(previous, draft) });
                }
                self.ask(name, ask, self.allowed_before(previous)?, emit, approver).await?
            }
        };
        let record = json!({"why": approved.why(), "grants": draft.capability.grants});
        self.step(emit, ForgeStep::Approved, name, approved.why().to_owned(), record)?;
        Ok(approved)
    }

    /// The grants of the version before, where somebody on this machine allowed them.
    fn allowed_before(&self, previous: Option<&Capability>) -> Result<Option<Grants>, ForgeError> {
        let Some(previous) = previous else { return Ok(None) };
        let approved = self.dispatch.is_approved(previous).map_err(call_error)?;
        Ok(approved.then(|| previous.grants.clone()))
    }

    async fn ask(
        &self,
        name: &CapabilityName,
        ask: Ask,
        before: Option<Grants>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
    ) -> Result<Approved, ForgeError> {
        let request = ApprovalRequest {
            id: format!("{name}-{}", self.dispatch.now().as_millisecond()),
            capability: name.to_string(),
            grants: ask.open.clone(),
            before,
            reason: ask.reason.clone(),
            lasting: true,
            call: None,
        };
        emit(Event::ApprovalRequested {
            id: request.id.clone(),
            capability: request.capability.clone(),
            grants: request.grants.clone(),
            before: request.before.clone(),
            reason: request.reason.clone(),
            lasting: request.lasting,
            call_id: request.call.clone(),
        });
        let allowed = approver.ask(&request).await;
        let decision = if allowed { "allowed by a person" } else { "nobody allowed it" };
        self.dispatch.record_decision(name.as_str(), decision, &ask.reason).map_err(call_error)?;
        if allowed {
            return Ok(ask.allow());
        }
        Err(ForgeError::NotApproved {
            reason: format!("nobody approved `{name}`: {}", ask.reason),
            hint: Some("run it where you can be asked, or with --approve auto".to_owned()),
        })
    }

    /// Signs of a registry that grows faster than anybody looks.
    fn alarm(&self, new: bool) -> Result<Option<String>, ForgeError> {
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
        Ok((new && size >= CROWDED).then(|| format!("the registry already holds {size} capabilities")))
    }

    /// Registers what was proved; capabilities called `retired` are retired in the same moment.
    fn register(
        &self,
        draft: &Draft,
        retired: &[CapabilityName],
        verified: Verified,
        emit: Emit<'_>,
    ) -> Result<Accepted, ForgeError> {
        let capability = draft.capability.clone();
        let created_by = capability.created_by;
        let model = capability.model.clone();
        let new = NewVersion {
            capability,
            code: draft.code.clone(),
            change: draft.change.clone(),
            created_by,
            model,
            now: self.dispatch.now().to_string(),
        };
        for other in retired {
            self.dispatch.record_replaced(other, &draft.capability.name).map_err(call_error)?;
        }
        let registered = self.dispatch.registry().register_in_place_of(new, retired).map_err(registry_error)?;
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
        self.record(name.as_str(), step, record)?;
        emit(Event::Forge { step, capability: Some(name.to_string()), detail });
        Ok(())
    }

    fn record(&self, name: &str, step: ForgeStep, mut record: Value) -> Result<(), ForgeError> {
        record["step"] = json!(step);
        self.dispatch.record_forge(name, record).map_err(call_error)
    }
}

pub(crate) fn not_found(name: &CapabilityName) -> ForgeError {
    let body = ErrorBody::new(ErrorKind::NotFound, format!("no capability is called `{name}`"));
    ForgeError::Fatal(body.hint("`jarvis cap list` shows what there is"))
}

pub(crate) fn registry_error(error: jarvis_registry::RegistryError) -> ForgeError {
    ForgeError::Fatal(error.body())
}

pub(crate) fn call_error(error: CallError) -> ForgeError {
    match error {
        CallError::Fatal(body) => ForgeError::Fatal(body),
        CallError::RespondToModel(body) => {
            ForgeError::Problems { step: ForgeStep::Verified, problems: vec![body.message] }
        }
    }
}

/// A new version must still pass what the old one was recorded to do. Where it claims another answer for the same
/// call, both stand and verification fails: a recorded answer is changed by a person only. Returns how many recorded
/// answers no longer fit the parameters.
fn inherit_examples(capability: &mut Capability, before: &[Example]) -> usize {
    let mut dropped = 0;
    for example in before {
        let same = |e: &Example| e.args == example.args && e.returns == example.returns && e.matches == example.matches;
        if capability.examples.iter().any(same) {
            continue;
        }
        if jarvis_dispatch::check_arguments(&capability.parameters, &example.args).is_ok() {
            capability.examples.push(example.clone());
        } else if example.returns.is_some() || example.matches.is_some() {
            dropped += 1;
        }
    }
    dropped
}

/// The names that it answered to stay its own, whoever writes its next version.
fn inherit_aliases(capability: &mut Capability, before: &Capability) {
    for alias in &before.aliases {
        if !capability.aliases.contains(alias) {
            capability.aliases.push(alias.clone());
        }
    }
}

/// Counts, for a person.
pub(crate) fn describe(verified: &Verified) -> String {
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
    if verified.other_arguments > 0 {
        parts.push(format!("{} of {} other arguments ran", verified.other_arguments_ran, verified.other_arguments));
    }
    if verified.varies == Some(true) {
        parts.push("its result depends on the time or on chance".to_owned());
    }
    parts.join(", ")
}

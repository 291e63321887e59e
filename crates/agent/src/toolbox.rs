//! All tools of a conversation: the three that lead to capabilities, and the built-in ones.

use crate::agents::{DELEGATE, Delegation, Recorder, Role};
use crate::bootstrap::{self, Bootstrap, Did};
use crate::checkpoint::TurnFiles;
use crate::create::{self, Maker, Workshop};
use crate::external::Externals;
use crate::remember::{self, Memory};
use crate::skills::{self, SKILL, Skill};
use crate::turn::Turn;
use futures::future::BoxFuture;
use jarvis_dispatch::{ApprovalRequest, Approver, CallError, Form, builtin_specs, changes_something};
use jarvis_model::Tool;
use jarvis_protocol::{Event, ToolCall};
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;

static BUILTINS: LazyLock<Vec<Tool>> = LazyLock::new(|| builtin_specs().iter().cloned().map(Tool::from).collect());

pub(crate) struct Toolbox {
    bootstrap: Bootstrap,
    specs: Vec<Tool>,
    builtins: bool,
    /// With the session that notes are learned in.
    memory: Option<(Memory, String)>,
    /// In a conversation that may start subagents.
    delegation: Option<Delegation>,
    workshop: Option<Workshop>,
    /// What the model knows of them before it reads one.
    skills: Option<String>,
    /// Of servers outside.
    external: Option<Arc<Externals>>,
    /// In a subagent.
    role: Option<Role>,
    /// What calls change is kept, so that it can be undone.
    files: Option<Arc<TurnFiles>>,
}

/// One call of a model, and whom it talks to.
pub(crate) struct Calling<'a> {
    pub call: &'a ToolCall,
    pub emit: &'a mut (dyn FnMut(Event) + Send),
    pub approver: &'a mut dyn Approver,
    pub cancel: &'a CancellationToken,
}

impl Calling<'_> {
    /// For a part of the way; it is gone on with afterwards.
    fn lent(&mut self) -> Calling<'_> {
        Calling { call: self.call, emit: &mut *self.emit, approver: &mut *self.approver, cancel: self.cancel }
    }
}

/// Lets the files be looked at again after the first question: until the answer the call has changed nothing, and what a
/// person saved while they thought is theirs.
struct Afresh<'a> {
    files: &'a TurnFiles,
    inner: &'a mut dyn Approver,
    asked: bool,
}

impl Approver for Afresh<'_> {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        Box::pin(async {
            let allowed = self.inner.ask(request).await;
            if !std::mem::replace(&mut self.asked, true) {
                self.files.again().await;
            }
            allowed
        })
    }

    fn fill<'a>(&'a mut self, form: &'a Form) -> BoxFuture<'a, Option<Value>> {
        self.inner.fill(form)
    }
}

impl Toolbox {
    pub fn new(bootstrap: Bootstrap, builtins: bool) -> Self {
        let mut specs = bootstrap::specs().to_vec();
        if builtins {
            specs.extend_from_slice(&BUILTINS);
            specs.extend_from_slice(create::specs(None));
        }
        Self {
            bootstrap,
            specs,
            builtins,
            memory: None,
            delegation: None,
            workshop: None,
            external: None,
            skills: None,
            role: None,
            files: None,
        }
    }

    /// With the tools that remember and recall.
    pub fn with_memory(mut self, memory: Option<Memory>, session: &str) -> Self {
        self.memory = memory.map(|memory| (memory, session.to_owned()));
        if self.memory.is_some() {
            self.specs.extend_from_slice(remember::specs());
        }
        self
    }

    pub fn with_files(self, files: Option<Arc<TurnFiles>>) -> Self {
        Self { files, ..self }
    }

    pub fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub fn with_delegation(mut self, delegation: Option<Delegation>) -> Self {
        self.specs.extend(delegation.as_ref().map(Delegation::spec).map(Tool::from));
        Self { delegation, ..self }
    }

    /// With what can be made for later turns, and the skills that were.
    pub fn with_workshop(mut self, workshop: Option<Workshop>, skills: &[Skill]) -> Self {
        let Some(workshop) = workshop.filter(|_| self.builtins) else { return self };
        self.specs.retain(|spec| !create::is_one(&spec.name));
        self.specs.extend_from_slice(create::specs(Some(&workshop)));
        // Also where there is none yet: one may be made in this very turn.
        self.specs.push(skills::spec());
        self.skills = skills::prompt(skills);
        Self { workshop: Some(workshop), ..self }
    }

    pub fn skills(&self) -> Option<&str> {
        self.skills.as_deref()
    }

    pub fn with_external(mut self, external: Option<Arc<Externals>>) -> Self {
        self.specs.extend(external.iter().flat_map(|external| external.specs()).map(Tool::from));
        Self { external, ..self }
    }

    pub fn has_external(&self) -> bool {
        self.external.is_some()
    }

    /// Of a subagent: what it is allowed, and nothing that starts another.
    pub fn of_agent(bootstrap: Bootstrap, role: Role, memory: Option<(Memory, String)>) -> Self {
        let mut tools = Self::new(bootstrap, true);
        if let Some((memory, session)) = memory {
            tools = tools.with_memory(Some(memory), &session);
        }
        tools.specs.retain(|spec| role.allows(&spec.name));
        Self { role: Some(role), ..tools }
    }

    pub fn role(&self) -> Option<&Role> {
        self.role.as_ref()
    }

    pub fn into_recorder(self) -> Recorder {
        self.role.map(Role::into_recorder).unwrap_or_default()
    }

    pub fn delegates(&self) -> bool {
        self.delegation.is_some()
    }

    /// Before the calls of a reply: what subagents among them may use.
    pub fn allot(&self, turn: &Turn, calls: &[ToolCall]) {
        if let Some(delegation) = &self.delegation {
            delegation.allot(turn, calls);
        }
    }

    /// After them: what they used is the turn's.
    pub fn settle(&self, turn: &mut Turn) {
        let spent = self.delegation.iter().flat_map(Delegation::settle);
        spent.for_each(|other| turn.absorb(&other));
        if let Some(external) = &self.external {
            turn.count(external.spent());
        }
    }

    pub fn specs(&self) -> &[Tool] {
        &self.specs
    }

    pub fn forge(&self) -> &jarvis_forge::Forge {
        self.bootstrap.forge()
    }

    pub fn has_builtins(&self) -> bool {
        self.builtins
    }

    /// Whether it may change what another call of the same reply sees.
    pub fn runs_alone(&self, tool: &str) -> bool {
        tool == bootstrap::REGISTER
            || changes_something(tool)
            || create::is_one(tool)
            || self.external.as_ref().is_some_and(|external| external.changes_something(tool))
    }

    pub async fn call<'a>(&'a self, calling: Calling<'a>) -> Result<(Value, Did), CallError> {
        let (call, cancel) = (calling.call, calling.cancel);
        if let Some(role) = &self.role {
            // Those of servers are only the ones that it may use.
            if !self.external.as_ref().is_some_and(|external| external.has(&call.name)) {
                role.check(&call.name)?;
            }
            let dispatch = self.bootstrap.dispatch();
            let before = role.before(dispatch, call, cancel).await?;
            let outcome = self.perform(calling).await;
            role.after(dispatch, call, before, outcome.as_ref().map(|(value, _)| value)).await;
            return outcome;
        }
        match &self.delegation {
            Some(delegation) if call.name == DELEGATE => {
                self.bootstrap.dispatch().gate(DELEGATE, &mut *calling.approver).await?;
                Ok((delegation.call(calling).await?, Did::Other))
            }
            _ => self.perform(calling).await,
        }
    }

    /// One call, with a look at the files before and after it.
    async fn perform(&self, mut calling: Calling<'_>) -> Result<(Value, Did), CallError> {
        let Some(files) = &self.files else { return self.act(calling).await };
        let followed = files.enter(calling.call, self.bootstrap.dispatch(), &mut *calling.emit).await;
        // What a server does before it asks is its work already.
        let external = self.external.as_ref().is_some_and(|external| external.has(&calling.call.name));
        let outcome = if followed && !external {
            let Calling { call, emit, approver, cancel } = calling.lent();
            let mut approver = Afresh { files, inner: approver, asked: false };
            self.act(Calling { call, emit, approver: &mut approver, cancel }).await
        } else {
            self.act(calling.lent()).await
        };
        if followed {
            files.leave(calling.emit).await;
        }
        outcome
    }

    async fn act(&self, calling: Calling<'_>) -> Result<(Value, Did), CallError> {
        let Calling { call, emit, approver, cancel } = calling;
        // The others are decided with what they touch.
        if !builtin_specs().iter().any(|spec| spec.name == call.name) && !create::is_one(&call.name) {
            self.bootstrap.dispatch().gate(&call.name, approver).await?;
        }
        // A rule on a tool holds whichever way it is called.
        if let Some(meant) = self.external.as_ref().and_then(|external| external.meant(call)) {
            self.bootstrap.dispatch().gate(meant, approver).await?;
        }
        if let Some((memory, session)) = &self.memory
            && [remember::REMEMBER, remember::RECALL].contains(&call.name.as_str())
        {
            return memory.call(&call.name, &call.args, session, self.bootstrap.dispatch(), emit).await;
        }
        if let Some(external) = self.external.as_ref().filter(|external| external.has(&call.name)) {
            return external.call(Calling { call, emit, approver, cancel }).await;
        }
        if let Some(workshop) = &self.workshop
            && call.name == SKILL
        {
            return skills::call(&workshop.skills, self.bootstrap.dispatch(), &call.args).await;
        }
        if self.builtins && create::is_one(&call.name) {
            let workshop = self.workshop.as_ref();
            let mut maker = Maker { bootstrap: &self.bootstrap, workshop, emit, approver, cancel };
            return maker.call(&call.name, &call.args).await;
        }
        if !self.builtins || !builtin_specs().iter().any(|spec| spec.name == call.name) {
            return self.bootstrap.call(&call.name, &call.args, emit, approver, cancel).await;
        }
        let id = call.id.clone();
        let mut on_output = |text: &str| emit(Event::ToolOutput { call_id: id.clone(), text: text.to_owned() });
        let value = self.bootstrap.dispatch().builtin(&call.name, &call.args, approver, cancel, &mut on_output).await?;
        Ok((value, Did::Other))
    }
}

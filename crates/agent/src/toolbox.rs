//! All tools of a conversation: the three that lead to capabilities, and the built-in ones.

use crate::agents::{DELEGATE, Delegation, Recorder, Role};
use crate::bootstrap::{self, Bootstrap, Did};
use crate::create;
use crate::external::Externals;
use crate::remember::{self, Memory};
use crate::turn::Turn;
use jarvis_dispatch::{Approver, CallError, builtin_specs, changes_something};
use jarvis_protocol::{Event, ToolCall, ToolSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) struct Toolbox {
    bootstrap: Bootstrap,
    specs: Vec<ToolSpec>,
    builtins: bool,
    /// With the session that notes are learned in.
    memory: Option<(Memory, String)>,
    /// In a conversation that may start subagents.
    delegation: Option<Delegation>,
    /// Of servers outside.
    external: Option<Externals>,
    /// In a subagent.
    role: Option<Role>,
}

impl Toolbox {
    pub fn new(bootstrap: Bootstrap, builtins: bool) -> Self {
        let mut specs = bootstrap::specs();
        if builtins {
            specs.extend(builtin_specs());
            specs.push(create::spec());
        }
        Self { bootstrap, specs, builtins, memory: None, delegation: None, external: None, role: None }
    }

    /// With the tools that remember and recall.
    pub fn with_memory(mut self, memory: Option<Memory>, session: &str) -> Self {
        self.memory = memory.map(|memory| (memory, session.to_owned()));
        if self.memory.is_some() {
            self.specs.extend(remember::specs());
        }
        self
    }

    pub fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub fn with_delegation(mut self, delegation: Option<Delegation>) -> Self {
        self.specs.extend(delegation.as_ref().map(Delegation::spec));
        Self { delegation, ..self }
    }

    pub fn with_external(mut self, external: Option<Externals>) -> Self {
        self.specs.extend(external.iter().flat_map(Externals::specs));
        Self { external, ..self }
    }

    pub fn has_external(&self) -> bool {
        self.external.is_some()
    }

    /// Of a subagent: what it is allowed, and nothing that starts another.
    pub fn of_agent(bootstrap: Bootstrap, role: Role) -> Self {
        let mut tools = Self::new(bootstrap, true);
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

    pub fn specs(&self) -> &[ToolSpec] {
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
            || tool == create::TOOL
            || self.external.as_ref().is_some_and(|external| external.changes_something(tool))
    }

    pub async fn call(
        &self,
        call: &ToolCall,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(Value, Did), CallError> {
        if let Some(role) = &self.role {
            role.check(&call.name)?;
            let dispatch = self.bootstrap.dispatch();
            let before = role.before(dispatch, call, cancel).await?;
            let outcome = self.perform(call, emit, approver, cancel).await;
            role.after(dispatch, call, before, outcome.as_ref().map(|(value, _)| value)).await;
            return outcome;
        }
        match &self.delegation {
            Some(delegation) if call.name == DELEGATE => {
                Ok((delegation.call(call, emit, approver, cancel).await?, Did::Other))
            }
            _ => self.perform(call, emit, approver, cancel).await,
        }
    }

    async fn perform(
        &self,
        call: &ToolCall,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(Value, Did), CallError> {
        if let Some((memory, session)) = &self.memory
            && [remember::REMEMBER, remember::RECALL].contains(&call.name.as_str())
        {
            return memory.call(&call.name, &call.args, session, self.bootstrap.dispatch(), emit).await;
        }
        if let Some(external) = self.external.as_ref().filter(|external| external.has(&call.name)) {
            return external.call(call, emit, approver, cancel).await;
        }
        if self.builtins && call.name == create::TOOL {
            return create::call(&self.bootstrap, &call.args, emit, approver, cancel).await;
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

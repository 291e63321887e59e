//! All tools of a conversation: the three that lead to capabilities, and the built-in ones.

use crate::bootstrap::{self, Bootstrap, Did};
use crate::remember::{self, Memory};
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
}

impl Toolbox {
    pub fn new(bootstrap: Bootstrap, builtins: bool) -> Self {
        let mut specs = bootstrap::specs();
        if builtins {
            specs.extend(builtin_specs());
        }
        Self { bootstrap, specs, builtins, memory: None }
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
        tool == bootstrap::REGISTER || changes_something(tool)
    }

    pub async fn call(
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
        if !self.builtins || !builtin_specs().iter().any(|spec| spec.name == call.name) {
            return self.bootstrap.call(&call.name, &call.args, emit, approver, cancel).await;
        }
        let id = call.id.clone();
        let mut on_output = |text: &str| emit(Event::ToolOutput { call_id: id.clone(), text: text.to_owned() });
        let value = self.bootstrap.dispatch().builtin(&call.name, &call.args, approver, cancel, &mut on_output).await?;
        Ok((value, Did::Other))
    }
}

//! Who calls whom: by the names that are written out in code, and by what runs have shown.

use crate::{CallError, Dispatch};
use jarvis_protocol::{Capability, CapabilityName};
use jarvis_registry::{CallEdge, RegistryError};
use jarvis_sandbox::UseKind;
use std::collections::BTreeSet;

/// What one capability has to do with others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Related {
    pub calls: BTreeSet<CapabilityName>,
    pub called_by: BTreeSet<CapabilityName>,
    /// Calls that were made so far, either way; the most travelled first.
    pub edges: Vec<CallEdge>,
}

impl Dispatch {
    /// What it calls and who calls it. Only code that mentions a name is read; code that cannot be read, or builds the
    /// name while it runs, is known by its runs alone.
    pub async fn related(&self, capability: &Capability) -> Result<Related, CallError> {
        let fatal = |error: RegistryError| CallError::Fatal(error.body());
        let mut related = Related::default();
        if let Some(text) = self.text(capability) {
            related.calls.extend(self.written_calls(capability, &text).await);
        }
        let names: Vec<&CapabilityName> = std::iter::once(&capability.name).chain(&capability.aliases).collect();
        for other in self.registry().list().map_err(fatal)?.capabilities {
            let Some(text) = self.text(&other) else { continue };
            if other.name == capability.name || !names.iter().any(|name| text.contains(name.as_str())) {
                continue;
            }
            if self.written_calls(&other, &text).await.iter().any(|called| names.contains(&called)) {
                related.called_by.insert(other.name);
            }
        }
        for edge in self.registry().calls().map_err(fatal)? {
            if edge.caller == capability.name {
                related.calls.insert(edge.callee.clone());
            } else if edge.callee == capability.name {
                related.called_by.insert(edge.caller.clone());
            } else {
                continue;
            }
            related.edges.push(edge);
        }
        Ok(related)
    }

    fn text(&self, capability: &Capability) -> Option<String> {
        self.registry().code(capability).ok().map(|code| code.text)
    }

    async fn written_calls(&self, capability: &Capability, text: &str) -> Vec<CapabilityName> {
        if !text.contains("call") && !text.contains("capability") {
            return Vec::new();
        }
        let Ok(Ok(checked)) = self.check_code(text, capability.runtime, &capability.dependencies).await else {
            return Vec::new();
        };
        let calls = checked.uses.into_iter().filter(|used| used.kind == UseKind::Call);
        calls.filter_map(|used| CapabilityName::new(used.target?).ok()).collect()
    }
}

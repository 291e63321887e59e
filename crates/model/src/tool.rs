//! A tool as models are told of it: what each request needs of it is worked out once.

use crate::estimate;
use jarvis_protocol::ToolSpec;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Cheap to clone; clones share what is known of it. Definitions are the larger part of most requests and stay the same
/// from one to the next.
#[derive(Debug, Clone)]
pub struct Tool(Arc<Known>);

#[derive(Debug)]
struct Known {
    spec: ToolSpec,
    tokens: OnceLock<u64>,
    openai: OnceLock<String>,
    anthropic: OnceLock<String>,
}

impl Tool {
    /// Tokens of its definition, with what formats put around it; an estimate.
    pub fn tokens(&self) -> u64 {
        *self.0.tokens.get_or_init(|| estimate::tool(self))
    }

    /// As OpenAI's chat completions define a function, in JSON.
    pub(crate) fn openai(&self) -> &str {
        self.0.openai.get_or_init(|| {
            let function = json!({"name": self.name, "description": self.description, "parameters": self.parameters});
            json!({"type": "function", "function": function}).to_string()
        })
    }

    /// As Anthropic's messages do.
    pub(crate) fn anthropic(&self) -> &str {
        self.0.anthropic.get_or_init(|| self.anthropic_value().to_string())
    }

    pub(crate) fn anthropic_value(&self) -> Value {
        json!({"name": self.name, "description": self.description, "input_schema": self.parameters})
    }
}

impl From<ToolSpec> for Tool {
    fn from(spec: ToolSpec) -> Self {
        let known = Known { spec, tokens: OnceLock::new(), openai: OnceLock::new(), anthropic: OnceLock::new() };
        Self(Arc::new(known))
    }
}

impl Deref for Tool {
    type Target = ToolSpec;

    fn deref(&self) -> &ToolSpec {
        &self.0.spec
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.spec.serialize(serializer)
    }
}

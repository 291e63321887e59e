//! What a model thought before it answered, kept so that nothing its provider wants back is lost.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Written as plain text where there is no more than that.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Reasoning {
    /// As a person may read it; empty where the provider keeps it to itself.
    pub text: String,
    /// The model whose blocks these are, as `provider/model`. They are signed or encrypted: no other model is sent them.
    pub model: String,
    /// The provider's own blocks, in order and unread: Anthropic's `thinking` and `redacted_thinking`, or the
    /// `reasoning_details` of OpenRouter.
    pub blocks: Vec<Value>,
    /// What belongs to single calls, by their ids: Gemini's `extra_content` with its thought signature.
    pub calls: BTreeMap<String, Value>,
}

impl Reasoning {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.is_plain()
    }

    /// There is only text.
    fn is_plain(&self) -> bool {
        self.blocks.is_empty() && self.calls.is_empty()
    }

    /// The blocks, if `model` made them.
    pub fn blocks_of(&self, model: &str) -> &[Value] {
        if self.model == model { &self.blocks } else { &[] }
    }

    /// What came with the call, if `model` made it.
    pub fn of_call(&self, model: &str, id: &str) -> Option<&Value> {
        self.calls.get(id).filter(|_| self.model == model)
    }
}

impl From<&str> for Reasoning {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

/// The JSON form. Plain text is also how sessions and cassettes of earlier versions hold it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Full {
        #[serde(default)]
        text: String,
        model: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blocks: Vec<Value>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        calls: BTreeMap<String, Value>,
    },
}

impl From<Written> for Reasoning {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => Self { text, ..Self::default() },
            Written::Full { text, model, blocks, calls } => Self { text, model, blocks, calls },
        }
    }
}

impl From<Reasoning> for Written {
    fn from(reasoning: Reasoning) -> Self {
        if reasoning.is_plain() {
            return Written::Text(reasoning.text);
        }
        let Reasoning { text, model, blocks, calls } = reasoning;
        Written::Full { text, model, blocks, calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_text_is_written_as_before_and_blocks_come_back_whole() {
        let plain = Reasoning::from("想一想");
        assert_eq!(serde_json::to_value(&plain).unwrap(), json!("想一想"));
        assert_eq!(serde_json::from_value::<Reasoning>(json!("想一想")).unwrap(), plain);
        let full = Reasoning {
            text: "hm".into(),
            model: "a/m".into(),
            blocks: vec![
                json!({"type": "thinking", "thinking": "hm", "signature": "Eq=="}),
                json!({"type": "redacted_thinking", "data": "x"}),
            ],
            calls: [("c1".to_owned(), json!({"google": {"thought_signature": "s"}}))].into(),
        };
        let text = serde_json::to_string(&full).unwrap();
        assert_eq!(serde_json::from_str::<Reasoning>(&text).unwrap(), full);
        assert_eq!((full.blocks_of("a/m").len(), full.blocks_of("b/m").len()), (2, 0));
        assert!(full.of_call("a/m", "c1").is_some() && full.of_call("b/m", "c1").is_none());
    }
}

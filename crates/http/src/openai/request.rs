//! A request in OpenAI's form, and what of it jarvis takes. What it cannot do is refused with the reason, never left out
//! in silence; what only tunes a model is left to the settings of jarvis.

use crate::api::image;
use crate::error::{ApiError, ApiResult};
use jarvis_agent::Input;
use jarvis_protocol::{Image, Message};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
pub struct Chat {
    /// `jarvis`, or `provider/model`.
    pub model: String,
    /// The last one is a person's.
    #[schema(min_items = 1)]
    pub messages: Vec<Said>,
    #[serde(default)]
    pub stream: Option<bool>,
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    /// One answer is given.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1)]
    pub n: Option<u32>,
    /// Refused where there are any: jarvis has and makes its own.
    #[serde(default)]
    #[schema(max_items = 0, value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Value>>,
    #[serde(default)]
    #[schema(max_items = 0, value_type = Option<Vec<Object>>)]
    pub functions: Option<Vec<Value>>,
    /// Only `text` is answered.
    #[serde(default)]
    pub response_format: Option<ResponseFormat>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct StreamOptions {
    #[serde(default)]
    pub include_usage: Option<bool>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct ResponseFormat {
    #[serde(rename = "type")]
    pub kind: FormatKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormatKind {
    Text,
    JsonObject,
    JsonSchema,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct Said {
    pub role: Role,
    #[serde(default)]
    pub content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct ImageUrl {
    /// A data: address; nothing is fetched.
    pub url: String,
}

/// What a session is opened and asked with.
#[derive(Debug)]
pub struct Asked {
    pub model: String,
    pub history: Vec<Message>,
    pub input: Input,
}

impl Chat {
    pub fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    pub fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }

    pub fn asked(self) -> ApiResult<Asked> {
        let has = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        if has(&self.tools) || has(&self.functions) {
            return Err(ApiError::usage("tools of a client are not called here")
                .hint("leave `tools` out: jarvis uses its own, and makes what it needs"));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(ApiError::usage("one answer is given").hint("leave `n` out, or ask again"));
        }
        if self.response_format.is_some_and(|format| format.kind != FormatKind::Text) {
            return Err(ApiError::usage("answers are plain text").hint("leave `response_format` out"));
        }
        let (mut instructions, mut history) = (Vec::new(), Vec::new());
        let mut last = None;
        for said in self.messages {
            if let Some(before) = last.take() {
                history.push(before);
            }
            let (text, images) = said.content.map_or_else(|| Ok(Default::default()), Content::read)?;
            match said.role {
                Role::System | Role::Developer => instructions.push(text),
                Role::User => last = Some(Message { images, ..Message::user(text) }),
                Role::Assistant => history.push(Message::assistant(text)),
            }
        }
        let mut last = last.ok_or_else(|| {
            ApiError::usage("the last message is not a person's").hint("end `messages` with one of the role user")
        })?;
        if last.text.trim().is_empty() && last.images.is_empty() {
            return Err(ApiError::usage("the question is empty"));
        }
        if !instructions.is_empty() {
            // jarvis has instructions of its own; a client's are a person's wish, and stand before what they are for.
            let first = history.iter_mut().find(|m| m.role == jarvis_protocol::Role::User).unwrap_or(&mut last);
            first.text = format!("{}\n\n{}", instructions.join("\n\n"), first.text);
        }
        Ok(Asked { model: self.model, history, input: Input { text: last.text, images: last.images } })
    }
}

impl Content {
    fn read(self) -> ApiResult<(String, Vec<Image>)> {
        let parts = match self {
            Content::Text(text) => return Ok((text, Vec::new())),
            Content::Parts(parts) => parts,
        };
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text { text } => texts.push(text),
                Part::ImageUrl { image_url } => images.push(image(&image_url.url)?),
            }
        }
        Ok((texts.join("\n"), images))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::Role;
    use serde_json::json;

    fn asked(messages: Value) -> ApiResult<Asked> {
        serde_json::from_value::<Chat>(json!({"model": "jarvis", "messages": messages})).unwrap().asked()
    }

    #[test]
    fn a_conversation_is_taken_over_in_order_and_its_instructions_stand_first() {
        let asked = asked(json!([
            {"role": "system", "content": "Answer in Chinese."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "你好"},
            {"role": "user", "content": [{"type": "text", "text": "再来"}, {"type": "text", "text": "一次"}]},
        ]))
        .unwrap();
        let told: Vec<(Role, &str)> = asked.history.iter().map(|m| (m.role, m.text.as_str())).collect();
        assert_eq!(told, [(Role::User, "Answer in Chinese.\n\nHello"), (Role::Assistant, "你好")]);
        assert_eq!(asked.input.text, "再来\n一次");
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let user = json!([{"role": "user", "content": "x"}]);
        let chat = |extra: Value| {
            let mut body = json!({"model": "jarvis", "messages": user});
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            serde_json::from_value::<Chat>(body).unwrap().asked()
        };
        assert!(chat(json!({"tools": [], "n": 1, "temperature": 0.3})).is_ok());
        assert!(chat(json!({"tools": [{"type": "function"}]})).unwrap_err().body.message.contains("tools"));
        assert!(chat(json!({"n": 2})).is_err());
        assert!(asked(json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])).is_err());
        assert!(asked(json!([])).is_err());
        let elsewhere = json!([{"type": "image_url", "image_url": {"url": "http://127.0.0.1/secret.png"}}]);
        assert!(asked(json!([{"role": "user", "content": elsewhere}])).unwrap_err().body.message.contains("fetched"));
    }
}

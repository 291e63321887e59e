//! What a server has beside tools: resources, which are read by two tools that stand with its own, and prompts, which a
//! person asks for.

use super::definition::Definition;
use super::live::Live;
use super::result::{cut, resource, told};
use jarvis_dispatch::CallError;
use jarvis_protocol::ErrorKind;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResult,
    ListResourcesRequest, ListResourcesResult, PaginatedRequestParams, Prompt, ReadResourceRequest,
    ReadResourceRequestParams, ReadResourceResult, Role,
};
use serde_json::{Map, Value, json};

/// Their names are those of the protocol's methods; no tool of a server may be called so.
pub(super) const LIST: &str = "resources/list";
pub(super) const READ: &str = "resources/read";
pub(super) const PROMPT: &str = "prompts/get";
const RESERVED: [&str; 5] = [LIST, READ, PROMPT, "sampling/createMessage", "elicitation/create"];

/// Prompts of one server that are looked at, and their names in an error.
const MOST_PROMPTS: usize = 500;
const NAMED: usize = 20;
const MOST_PAGES: usize = 50;

pub(super) fn is_reserved(tool: &str) -> bool {
    RESERVED.contains(&tool)
}

/// The tools for resources.
pub(super) fn tools() -> [Definition; 2] {
    let of = |name: &str, description: &str, parameters: Value| Definition {
        name: name.to_owned(),
        description: description.to_owned(),
        digest: blake3::hash(format!("{name}{description}{parameters}").as_bytes()).to_hex().to_string(),
        parameters,
        read_only: true,
    };
    [
        of(
            LIST,
            "Lists the resources of this server: addresses of what resources/read reads.",
            json!({"type": "object", "additionalProperties": false, "properties": {
                "cursor": {"type": "string", "description": "of the page before, for the next one"}}}),
        ),
        of(
            READ,
            "Reads a resource of this server by its address.",
            json!({"type": "object", "required": ["uri"], "additionalProperties": false,
                "properties": {"uri": {"type": "string", "minLength": 1}}}),
        ),
    ]
}

/// The request that a call is.
pub(super) fn request(tool: &str, args: &Value) -> ClientRequest {
    let text = |key: &str| args[key].as_str().unwrap_or_default().to_owned();
    match tool {
        LIST => {
            let cursor = args["cursor"].as_str().map(str::to_owned);
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            ClientRequest::ListResourcesRequest(ListResourcesRequest { params: Some(params), ..Default::default() })
        }
        READ => {
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(text("uri"))))
        }
        PROMPT => {
            let mut params = GetPromptRequestParams::new(text("name"));
            params.arguments = args["arguments"].as_object().cloned();
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        }
        tool => {
            let mut params = CallToolRequestParams::new(tool.to_owned());
            params.arguments = args.as_object().cloned();
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        }
    }
}

pub(super) fn resources(page: &ListResourcesResult) -> Value {
    let about = |text: &Option<String>| text.as_deref().map(super::handler::plain).filter(|text| !text.is_empty());
    let mut lines: Vec<String> = Vec::new();
    for resource in &page.resources {
        let kind = resource.mime_type.as_ref().map(|kind| format!(" [{kind}]")).unwrap_or_default();
        let more = about(&resource.description).map(|text| format!(": {text}")).unwrap_or_default();
        lines.push(format!("{} ({}){kind}{more}", resource.uri, resource.name));
    }
    if lines.is_empty() {
        lines.push("there are none on this page".to_owned());
    }
    lines.extend(page.next_cursor.iter().map(|cursor| format!("[more: cursor {cursor:?}]")));
    Value::String(cut(lines.join("\n")))
}

pub(super) fn contents(read: &ReadResourceResult) -> Value {
    Value::String(cut(read.contents.iter().map(resource).collect::<Vec<_>>().join("\n")))
}

/// What is said to the model in the person's name; what the server has an assistant say is marked.
pub(super) fn prompt(result: &GetPromptResult) -> Value {
    let say = |role: &Role, text: String| match role {
        Role::User => text,
        Role::Assistant => format!("[assistant] {text}"),
    };
    let parts = result.messages.iter().map(|message| say(&message.role, told(&message.content)));
    Value::String(cut(parts.collect::<Vec<_>>().join("\n\n")))
}

/// All prompts of a server, with the one of that name.
///
/// # Errors
/// There is none; the names of others are told.
pub(super) async fn find(live: &Live, name: &str) -> Result<Prompt, CallError> {
    let server = &live.shared.server;
    let mut all: Vec<Prompt> = Vec::new();
    let mut cursor = None;
    for _ in 0..if live.has_prompts() { MOST_PAGES } else { 0 } {
        let asked = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let page = match live.peer().list_prompts(asked).await {
            Ok(page) => page,
            Err(error) => return Err(live.failed("prompts/list", &error).await),
        };
        all.extend(page.prompts);
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if cursor.is_none() || all.len() >= MOST_PROMPTS {
            break;
        }
    }
    if let Some(at) = all.iter().position(|prompt| prompt.name == name) {
        return Ok(all.swap_remove(at));
    }
    let names: Vec<String> = all.iter().take(NAMED).map(|prompt| super::handler::plain(&prompt.name)).collect();
    let there = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
    let message = format!("the MCP server `{server}` has no prompt `{name}`: {there}");
    Err(CallError::respond(ErrorKind::NotFound, message))
}

/// A prompt's arguments as the schema that a person's words are read by.
pub(super) fn parameters(prompt: &Prompt) -> Value {
    let arguments = || prompt.arguments.iter().flatten();
    let properties: Map<String, Value> =
        arguments().map(|argument| (argument.name.clone(), json!({"type": "string"}))).collect();
    let required: Vec<&str> =
        arguments().filter(|argument| argument.required == Some(true)).map(|argument| argument.name.as_str()).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

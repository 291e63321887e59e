//! One tool call of a host: to the bootstrap tools, with a way to ask the person and a way to be told.

use crate::server::ask::{self, Ask, Way};
use crate::server::handler::Handler;
use crate::server::progress::{self, Reporter};
use crate::server::{Shared, tools};
use jarvis_agent::Bootstrap;
use jarvis_dispatch::{ApprovalRequest, CallError, quoted};
use jarvis_protocol::{ErrorBody, Event, value_text};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, ErrorData, MetaObject,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Where the error's kind stands for a host that acts on it.
const KIND: &str = "jarvis/error";

pub(crate) async fn call(
    handler: &Handler,
    params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let shared = &handler.shared;
    let bootstrap = (shared.setup.bootstrap)(&client(&context));
    let arguments = Value::Object(params.arguments.unwrap_or_default());
    let (tool, arguments) = route(shared, &bootstrap, &params.name, arguments)?;
    let version = context.protocol_version();
    let can_ask = context.client_capabilities().is_some_and(|capabilities| has_forms(&capabilities));
    let way = match (can_ask, ask::asks_by_retry(version.as_ref())) {
        (false, _) => Way::Never,
        (true, false) => Way::Elicitation,
        (true, true) => Way::Retry(params.input_responses.unwrap_or_default()),
    };
    // Also cancelled when the host is gone, whatever the library still waits for.
    let cancel = handler.gone.child_token();
    let mut ask =
        Ask { peer: context.peer.clone(), way, about: arguments.to_string(), cancel: cancel.clone(), open: None };
    let reporter = Reporter::new(context.peer.clone(), context.meta.get_progress_token(), handler.level(&context));
    let outcome = {
        let work = run(&bootstrap, tool, &arguments, reporter, &mut ask, &cancel);
        tokio::pin!(work);
        tokio::select! {
            outcome = &mut work => outcome,
            () = context.ct.cancelled() => {
                // Run on to its end, which comes soon: what was begun has an outcome on the audit.
                cancel.cancel();
                work.await
            }
        }
    };
    if let Some(question) = ask.unanswered() {
        return Ok(question.into());
    }
    let refused = ask.refused().map(|request| allowing(&shared.setup.started_as, request));
    Ok(match (outcome, refused) {
        (Ok(value), _) => success(value),
        // The dispatcher's own hint speaks of a terminal, where the person of this host is not.
        (Err(error), Some(told)) => failure(&ErrorBody::new(error.body().kind, told)),
        (Err(error), None) => failure(error.body()),
    }
    .into())
}

/// The bootstrap tool for a tool's name, and its arguments.
fn route(
    shared: &Shared,
    bootstrap: &Bootstrap,
    name: &str,
    arguments: Value,
) -> Result<(&'static str, Value), ErrorData> {
    if let Some(known) = [tools::LIST, tools::REGISTER, tools::EXECUTE].into_iter().find(|known| *known == name) {
        return Ok((known, arguments));
    }
    if shared.setup.capabilities_as_tools {
        let found = tools::named(bootstrap.dispatch(), name).map_err(|e| internal(&e))?;
        if found.is_some() {
            return Ok((tools::EXECUTE, json!({"name": name, "args": arguments})));
        }
    }
    let told = format!("there is no tool `{name}`; a capability is run with {}", tools::EXECUTE);
    Err(ErrorData::invalid_params(told, None))
}

async fn run(
    bootstrap: &Bootstrap,
    tool: &str,
    arguments: &Value,
    reporter: Reporter,
    ask: &mut Ask,
    cancel: &CancellationToken,
) -> Result<Value, CallError> {
    let (tell, told) = progress::channel();
    let work = async move {
        // A host that does not keep up misses events, and holds nothing up.
        let mut emit = |event: Event| drop(tell.try_send(event));
        bootstrap.call(tool, arguments, &mut emit, ask, cancel).await.map(|(value, _)| value)
    };
    let (outcome, ()) = tokio::join!(work, reporter.run(told, cancel));
    outcome
}

/// As the host calls itself; it is written into what is registered, so it is short and on one line.
fn client(context: &RequestContext<RoleServer>) -> String {
    let named = context.client_info().map(|client| format!("{} {}", client.name, client.version));
    let plain = |text: String| text.chars().filter(|c| !c.is_control()).take(80).collect::<String>();
    format!("mcp/{}", named.map(plain).unwrap_or_else(|| "unknown".to_owned()))
}

/// Without a word on the kinds of questions, a host has forms.
fn has_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

fn success(value: Value) -> CallToolResult {
    // The result alone is what a model is to read; everything is in the structured content.
    let text = match value.get("result") {
        Some(result) if value.as_object().is_some_and(|object| object.len() == 1) => value_text(result),
        _ => value.to_string(),
    };
    let mut result = CallToolResult::structured(value);
    result.content = vec![ContentBlock::text(text)];
    result
}

/// An error that the host's model can act on. No structured content: a host checks that against the output schema.
fn failure(body: &ErrorBody) -> CallToolResult {
    let text = match &body.hint {
        Some(hint) => format!("{}\nWhat to do: {hint}", body.message),
        None => body.message.clone(),
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let mut meta = MetaObject::new();
    meta.0.insert(KIND.to_owned(), json!(body.kind));
    result.meta = Some(meta);
    result
}

/// What a person can do where the host cannot ask them.
fn allowing(started_as: &str, request: &ApprovalRequest) -> String {
    let grants = &request.grants;
    let hosts_only =
        !grants.network.is_empty() && grants.read.is_empty() && grants.write.is_empty() && grants.secrets.is_empty();
    let flags = if hosts_only && request.reason.contains("network") {
        grants.network.iter().map(|host| format!(" --allow-net {}", quoted(host))).collect()
    } else {
        " --approve auto".to_owned()
    };
    format!(
        "not registered: `{}` needs a person's yes ({}), and this host cannot ask one.\nA person can start the server so \
         that it is allowed: {started_as}{flags}\nor register it where they are asked: jarvis cap register --definition \
         FILE --code FILE",
        request.capability, request.reason
    )
}

/// A registry that cannot be read, as an error of the protocol.
pub(crate) fn internal(error: &CallError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

//! Events of a turn as updates of its session.

use crate::desk::Desk;
use crate::plan::Growing;
use crate::tools;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentChunk, Cost, Notice, NoticeSeverity, SessionUpdate, Terminal, ToolCallContent,
    ToolCallUpdate, ToolCallUpdateFields, UsageUpdate,
};
use jarvis_host::{Snapshot, exit_code};
use jarvis_protocol::{Event, StopReason, ToolCall, Usage};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Characters of running output that are shown; what came last.
const OUTPUT: usize = 16_000;

/// What the client understands beyond the least.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Understands {
    notices: bool,
    /// Output of a terminal that jarvis has, told in `_meta`; a widespread extension.
    terminals: bool,
}

impl Understands {
    pub fn of(client: &ClientCapabilities) -> Self {
        let meta = |key: &str| client.meta.as_ref().and_then(|meta| meta.get(key)).and_then(Value::as_bool);
        Self {
            notices: client.session.as_ref().is_some_and(|session| session.notices.is_some()),
            terminals: meta("terminal_output").unwrap_or_default(),
        }
    }
}

struct Running {
    id: String,
    tool: String,
    args: Value,
    /// What it printed so far, and what forge says of it.
    output: String,
    /// How much of it was told.
    unsaid: bool,
}

/// Of one turn.
pub(crate) struct Teller {
    understands: Understands,
    desk: Arc<Desk>,
    running: Vec<Running>,
    growing: Growing,
    /// The text since the last call of a tool.
    text: String,
    used: u64,
}

impl Teller {
    pub fn new(understands: Understands, desk: Arc<Desk>) -> Self {
        Self { understands, desk, running: Vec::new(), growing: Growing::default(), text: String::new(), used: 0 }
    }

    pub fn event(&mut self, event: &Event, session: &dyn Fn() -> Snapshot) -> Vec<SessionUpdate> {
        match event {
            Event::TextDelta { text } => {
                self.text.push_str(text);
                vec![message(text)]
            }
            Event::ReasoningDelta { text } => vec![thought(text)],
            Event::ToolStarted { call } => {
                self.text.clear();
                vec![self.started(call, &call.id, "")]
            }
            Event::ToolOutput { call_id, text } => self.printed(call_id, text),
            Event::ToolCompleted { call_id, name, ok, content, .. } => self.completed(call_id, name, *ok, content),
            Event::Forge { step, capability, detail } => {
                let plan = self.growing.step(*step, capability.as_deref()).map(SessionUpdate::Plan);
                let said = jarvis_protocol::shown_line(&format!("{}: {detail}", value_name(step)), 300);
                let told = match self.running.last_mut() {
                    Some(running) => {
                        running.output.push_str(&said);
                        running.output.push('\n');
                        running.unsaid = true;
                        None
                    }
                    None => Some(thought(&format!("{said}\n"))),
                };
                plan.into_iter().chain(told).collect()
            }
            Event::Capability { name, status, detail } => {
                vec![self.notice(&format!("{name} is {}: {detail}", status.as_str()), NoticeSeverity::Warning)]
            }
            Event::Notice { message } => vec![self.notice(message, NoticeSeverity::Warning)],
            Event::Status { message } => vec![self.notice(message, NoticeSeverity::Info)],
            Event::Context { tokens_estimate, .. } => {
                self.used = *tokens_estimate;
                vec![self.usage(&session())]
            }
            Event::Agent { agent, call_id, event } => self.subagent(agent, call_id, event),
            Event::TurnCompleted { answer, stop_reason, .. } => self.completed_turn(answer, *stop_reason),
            // The reply to the prompt tells the failure, questions are asked, and the prompt is known.
            Event::TurnStarted { .. }
            | Event::TurnFailed { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. } => Vec::new(),
        }
    }

    /// What came in pieces and waits to be told as one.
    pub fn flush(&mut self) -> Vec<SessionUpdate> {
        let told = self.running.iter_mut().filter_map(|running| {
            let shown = std::mem::take(&mut running.unsaid).then(|| tools::fenced(last(&running.output)))?;
            Some(update(&running.id, ToolCallUpdateFields::new().content(vec![shown.into()])))
        });
        told.collect()
    }

    /// Whether the client knows a call of that id, which has not ended.
    pub fn runs(&self, id: &str) -> bool {
        self.running.iter().any(|running| running.id == id)
    }

    pub fn usage(&self, session: &Snapshot) -> SessionUpdate {
        let cost = session.usage.cost_usd;
        let cost = (cost > 0.0).then(|| Cost::new(cost, "USD"));
        SessionUpdate::UsageUpdate(UsageUpdate::new(self.used, session.context_tokens as u64).cost(cost))
    }

    fn started(&mut self, call: &ToolCall, id: &str, by: &str) -> SessionUpdate {
        let mut told = tools::begun(id, &call.name, &call.args, &self.desk);
        told.title.insert_str(0, by);
        if self.understands.terminals && call.name == "shell_exec" {
            let cwd = self.desk.place(call.args["workdir"].as_str().unwrap_or("."));
            told = told
                .content(vec![ToolCallContent::Terminal(Terminal::new(id.to_owned()))])
                .meta(meta("terminal_info", json!({"terminal_id": id, "cwd": cwd})));
        }
        self.running.push(Running {
            id: id.to_owned(),
            tool: call.name.clone(),
            args: call.args.clone(),
            output: String::new(),
            unsaid: false,
        });
        SessionUpdate::ToolCall(told)
    }

    fn printed(&mut self, id: &str, text: &str) -> Vec<SessionUpdate> {
        let Some(running) = self.running.iter_mut().find(|running| running.id == id) else { return Vec::new() };
        if self.understands.terminals && running.tool == "shell_exec" {
            let output = meta("terminal_output", json!({"terminal_id": id, "data": text}));
            let update = ToolCallUpdate::new(id.to_owned(), ToolCallUpdateFields::new()).meta(output);
            return vec![SessionUpdate::ToolCallUpdate(update)];
        }
        running.output.push_str(text);
        let kept = last(&running.output).len();
        running.output.drain(..running.output.len() - kept);
        running.unsaid = true;
        Vec::new()
    }

    fn completed(&mut self, id: &str, name: &str, ok: bool, content: &Value) -> Vec<SessionUpdate> {
        let Some(at) = self.running.iter().position(|running| running.id == id) else {
            // A call whose arguments could not be read has no beginning.
            let begun = SessionUpdate::ToolCall(tools::begun(id, name, &Value::Null, &self.desk));
            return vec![begun, update(id, tools::ended(name, &Value::Null, ok, content, &self.desk))];
        };
        let Running { tool, args, .. } = self.running.remove(at);
        let mut fields = tools::ended(&tool, &args, ok, content, &self.desk);
        if self.understands.terminals && tool == "shell_exec" {
            // What the terminal shows stays.
            fields.content = None;
            let text = content.as_str().or(content["error"].as_str()).unwrap_or_default();
            let exit = json!({"terminal_id": id, "exit_code": exit_code(text), "signal": null});
            let update = ToolCallUpdate::new(id.to_owned(), fields).meta(meta("terminal_exit", exit));
            return vec![SessionUpdate::ToolCallUpdate(update)];
        }
        vec![update(id, fields)]
    }

    /// What it says is for the model that asked it; what it does is told, as calls of their own.
    fn subagent(&mut self, agent: &str, call_id: &str, event: &Event) -> Vec<SessionUpdate> {
        let own = |id: &str| format!("{call_id}/{id}");
        match event {
            Event::ToolStarted { call } => vec![self.started(call, &own(&call.id), &format!("{agent}: "))],
            Event::ToolOutput { call_id, text } => self.printed(&own(call_id), text),
            Event::ToolCompleted { call_id, name, ok, content, .. } => {
                self.completed(&own(call_id), name, *ok, content)
            }
            Event::Notice { message } => vec![self.notice(&format!("{agent}: {message}"), NoticeSeverity::Warning)],
            _ => Vec::new(),
        }
    }

    fn completed_turn(&mut self, answer: &str, stop: StopReason) -> Vec<SessionUpdate> {
        let mut told = Vec::new();
        // An answer that did not come in pieces, or was put together from a result.
        if !answer.trim().is_empty() && self.text.trim() != answer.trim() {
            told.push(message(answer));
        }
        // The protocol has a stop reason of its own for these.
        let stopped = match stop {
            StopReason::Cancelled | StopReason::Refused => None,
            other => other.words(),
        };
        told.extend(stopped.map(|why| self.notice(why, NoticeSeverity::Warning)));
        told
    }

    pub fn notice(&self, text: &str, severity: NoticeSeverity) -> SessionUpdate {
        notice(self.understands, text, severity)
    }
}

/// Clients that know no notices show it as a thought, apart from the answer.
pub(crate) fn notice(understands: Understands, text: &str, severity: NoticeSeverity) -> SessionUpdate {
    let text = jarvis_protocol::shown_line(text, 1000);
    if understands.notices { SessionUpdate::Notice(Notice::new(severity, text)) } else { thought(&format!("{text}\n")) }
}

pub(crate) fn message(text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()))
}

pub(crate) fn thought(text: &str) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(ContentChunk::new(text.into()))
}

pub(crate) fn update(id: &str, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields))
}

/// Tokens and dollars, for a person.
pub(crate) fn spent(usage: &Usage) -> String {
    let Usage { input_tokens, cached_tokens, output_tokens, cost_usd, .. } = usage;
    format!("{input_tokens} tokens in ({cached_tokens} from a cache), {output_tokens} out, ${cost_usd:.4}")
}

fn meta(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

/// A plain enum by its name in JSON.
fn value_name(step: &impl serde::Serialize) -> String {
    serde_json::to_value(step).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn last(text: &str) -> &str {
    let from = text.char_indices().rev().nth(OUTPUT - 1).map_or(0, |(at, _)| at);
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_output_is_kept_whole_characters() {
        assert_eq!(last("短"), "短");
        let long = "长".repeat(OUTPUT) + "末";
        assert!(last(&long).ends_with("长末") && last(&long).chars().count() == OUTPUT);
    }
}

//! Counts for Prometheus: from the events of all sessions, and of the requests themselves.

use crate::app::App;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use jarvis_protocol::{Event, Usage};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Tools that are counted by name; a home may have thousands of capabilities, and each name is a series.
const NAMED_TOOLS: usize = 64;
/// Seconds.
const QUICK: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];
const LONG: [f64; 9] = [0.05, 0.25, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0];

type Times = Histogram;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    what: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tool {
    tool: String,
    ok: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
}

#[derive(Clone)]
pub(crate) struct Metrics(Arc<Counts>);

struct Counts {
    registry: Registry,
    sessions: Gauge,
    connections: Gauge,
    turns: Family<Of, Counter>,
    turn_times: Times,
    tokens: Family<Of, Counter>,
    cost: Counter<f64, AtomicU64>,
    tools: Family<Tool, Counter>,
    tool_times: Times,
    forge: Family<Of, Counter>,
    approvals: Family<Of, Counter>,
    requests: Family<Asked, Counter>,
    request_times: Family<Route, Times>,
    named: Mutex<HashSet<String>>,
}

/// One more connection, until it is dropped.
pub(crate) struct Connected(Metrics);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.connections.dec();
    }
}

/// As it is written in JSON.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn of(what: &str) -> Of {
    Of { what: what.to_owned() }
}

impl Metrics {
    pub fn new() -> Self {
        let mut counts = Counts {
            registry: Registry::with_prefix("jarvis"),
            sessions: Gauge::default(),
            connections: Gauge::default(),
            turns: Family::default(),
            turn_times: Histogram::new(LONG),
            tokens: Family::default(),
            cost: Counter::default(),
            tools: Family::default(),
            tool_times: Histogram::new(QUICK),
            forge: Family::default(),
            approvals: Family::default(),
            requests: Family::default(),
            request_times: Family::new_with_constructor(|| Histogram::new(QUICK)),
            named: Mutex::default(),
        };
        let registry = &mut counts.registry;
        registry.register("sessions", "Sessions that are open", counts.sessions.clone());
        registry.register("http_connections", "Connections that are open", counts.connections.clone());
        registry.register("turns", "Turns that ended, by why", counts.turns.clone());
        registry.register_with_unit("turn_duration", "How long turns took", Unit::Seconds, counts.turn_times.clone());
        registry.register("tokens", "Tokens of model calls: input, output, cached", counts.tokens.clone());
        registry.register("cost_usd", "US dollars that model calls cost", counts.cost.clone());
        registry.register("tool_calls", "Tool calls, by tool and whether they worked", counts.tools.clone());
        let help = "How long tool calls took";
        registry.register_with_unit("tool_call_duration", help, Unit::Seconds, counts.tool_times.clone());
        registry.register("forge_steps", "Steps of making capabilities", counts.forge.clone());
        registry.register("approvals", "Questions to a person, by answer", counts.approvals.clone());
        registry.register("http_requests", "Requests, by route and status", counts.requests.clone());
        let help = "Until a request had its answer's head";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, counts.request_times.clone());
        Self(Arc::new(counts))
    }

    pub fn connected(&self) -> Connected {
        self.0.connections.inc();
        Connected(self.clone())
    }

    /// What of an event is counted.
    pub fn event(&self, event: &Event) {
        let counts = &*self.0;
        match event {
            Event::TurnCompleted { usage, duration_ms, stop_reason, .. } => {
                self.turn(&word(*stop_reason), usage, *duration_ms);
            }
            Event::TurnFailed { error, usage, duration_ms } => {
                self.turn(&format!("failed_{}", word(error.kind)), usage, *duration_ms);
            }
            Event::ToolCompleted { name, ok, duration_ms, .. } => {
                let tool = Tool { tool: self.known(name), ok: ok.to_string() };
                counts.tools.get_or_create(&tool).inc();
                counts.tool_times.observe(duration_ms / 1e3);
            }
            Event::Forge { step, .. } => {
                counts.forge.get_or_create(&of(&word(*step))).inc();
            }
            Event::ApprovalResolved { allowed, .. } => {
                counts.approvals.get_or_create(&of(if *allowed { "yes" } else { "no" })).inc();
            }
            // Its tokens are part of the turn that started it.
            Event::Agent { event, .. } => match &**event {
                Event::TurnCompleted { .. } | Event::TurnFailed { .. } => {}
                inner => self.event(inner),
            },
            Event::TurnStarted { .. }
            | Event::Status { .. }
            | Event::TextDelta { .. }
            | Event::ReasoningDelta { .. }
            | Event::ToolStarted { .. }
            | Event::ToolOutput { .. }
            | Event::ApprovalRequested { .. }
            | Event::Capability { .. }
            | Event::Context { .. }
            | Event::Notice { .. } => {}
        }
    }

    fn turn(&self, why: &str, usage: &Usage, duration_ms: u64) {
        let counts = &*self.0;
        counts.turns.get_or_create(&of(why)).inc();
        counts.turn_times.observe(duration_ms as f64 / 1e3);
        let tokens = [("input", usage.input_tokens), ("output", usage.output_tokens), ("cached", usage.cached_tokens)];
        for (what, count) in tokens {
            counts.tokens.get_or_create(&of(what)).inc_by(count);
        }
        counts.cost.inc_by(usage.cost_usd.max(0.0));
    }

    fn known(&self, tool: &str) -> String {
        let mut named = self.0.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains(tool) || named.len() < NAMED_TOOLS && named.insert(tool.to_owned()) {
            return tool.to_owned();
        }
        "other".to_owned()
    }

    /// In the OpenMetrics text form.
    pub fn text(&self, sessions: usize) -> String {
        self.0.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.0.registry);
        text
    }
}

/// Around every request that was let in or not.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = match request.method().as_str() {
        known @ ("GET" | "POST" | "PATCH" | "DELETE" | "PUT" | "HEAD" | "OPTIONS") => known.to_owned(),
        _ => "other".to_owned(),
    };
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let counts = &*app.metrics.0;
    let asked = Asked { method, route: route.clone(), status: response.status().as_u16() };
    counts.requests.get_or_create(&asked).inc();
    counts.request_times.get_or_create(&Route { route }).observe(began.elapsed().as_secs_f64());
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_protocol::StopReason;

    #[test]
    fn events_are_counted_once_and_names_are_bounded() {
        let metrics = Metrics::new();
        let usage = Usage { input_tokens: 10, output_tokens: 4, cost_usd: 0.25, ..Usage::default() };
        let completed = Event::TurnCompleted {
            answer: String::new(),
            capabilities_built: Vec::new(),
            capabilities_used: Vec::new(),
            usage,
            duration_ms: 1500,
            stop_reason: StopReason::EndTurn,
        };
        let nested = |event| Event::Agent { agent: "a".to_owned(), call_id: "c".to_owned(), event: Box::new(event) };
        metrics.event(&completed);
        metrics.event(&nested(completed));
        for number in 0..200 {
            metrics.event(&Event::ToolCompleted {
                call_id: "c".to_owned(),
                name: format!("tool_{number}"),
                ok: true,
                content: serde_json::Value::Null,
                duration_ms: 2.0,
            });
        }
        let text = metrics.text(3);
        for line in [
            "jarvis_sessions 3",
            "jarvis_turns_total{what=\"end_turn\"} 1",
            "jarvis_tokens_total{what=\"input\"} 10",
            "jarvis_cost_usd_total 0.25",
            "jarvis_tool_calls_total{tool=\"tool_0\",ok=\"true\"} 1",
            "jarvis_tool_calls_total{tool=\"other\",ok=\"true\"} 136",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}

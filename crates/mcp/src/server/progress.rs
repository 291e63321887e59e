//! What happens in a call, told to the host while it runs: as progress where it asked for that, and as log messages.

#![allow(
    deprecated,
    reason = "log messages are deprecated by a later version of the protocol, and current in the others"
)]

use jarvis_protocol::{Event, ForgeStep, Status};
use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Events that wait for a slow host; the rest of them is dropped, since none changes what the call answers.
const WAITING: usize = 64;
/// Characters of one message.
const MESSAGE_CHARS: usize = 500;

/// Of a draft that is registered: read, its code, checked, verified, approved, registered.
const STEPS: f64 = 6.0;

pub(crate) struct Reporter {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    /// The least important level that is sent; none: no log messages at all.
    level: Option<LoggingLevel>,
}

struct Told {
    level: LoggingLevel,
    message: String,
    data: Value,
    /// Which of the steps this ends.
    step: Option<f64>,
}

pub(crate) fn channel() -> (mpsc::Sender<Event>, mpsc::Receiver<Event>) {
    mpsc::channel(WAITING)
}

impl Reporter {
    pub fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>, level: Option<LoggingLevel>) -> Self {
        Self { peer, token, level }
    }

    /// Sends what comes until the call has ended.
    pub async fn run(self, mut events: mpsc::Receiver<Event>, cancel: &CancellationToken) {
        let mut done = 0.0;
        while let Some(event) = events.recv().await {
            let Some(told) = told(&event) else { continue };
            if cancel.run_until_cancelled(self.send(told, &mut done)).await.is_none() {
                return;
            }
        }
    }

    async fn send(&self, told: Told, done: &mut f64) {
        if let Some(token) = &self.token {
            // The protocol wants each higher than the one before.
            *done = told.step.map_or(*done + 0.01, |step| step.max(*done + 0.01));
            let mut param = ProgressNotificationParam::new(token.clone(), *done).with_message(cut(&told.message));
            if told.step.is_some() && *done <= STEPS {
                param = param.with_total(STEPS);
            }
            if let Err(error) = self.peer.notify_progress(param).await {
                tracing::debug!(%error, "progress was not sent");
            }
        }
        if self.level.is_some_and(|least| rank(told.level) >= rank(least)) {
            let param = LoggingMessageNotificationParam::new(told.level, told.data).with_logger("jarvis");
            if let Err(error) = self.peer.notify_logging_message(param).await {
                tracing::debug!(%error, "a log message was not sent");
            }
        }
    }
}

/// Of a level of the protocol, how important it is.
fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

/// None for what the call's own result says.
fn told(event: &Event) -> Option<Told> {
    match event {
        Event::Forge { step, capability, detail } => {
            let (level, number) = match step {
                ForgeStep::Spec => (LoggingLevel::Debug, Some(1.0)),
                ForgeStep::Code => (LoggingLevel::Debug, Some(2.0)),
                ForgeStep::Checked => (LoggingLevel::Info, Some(3.0)),
                ForgeStep::Verified => (LoggingLevel::Info, Some(4.0)),
                ForgeStep::Approved => (LoggingLevel::Info, Some(5.0)),
                ForgeStep::Registered => (LoggingLevel::Notice, Some(STEPS)),
                ForgeStep::Rejected => (LoggingLevel::Warning, None),
                ForgeStep::Gap | ForgeStep::Repair | ForgeStep::Reused => (LoggingLevel::Debug, None),
            };
            let word = serde_json::to_value(step).map(|v| jarvis_protocol::value_text(&v)).unwrap_or_default();
            let message = format!("{word}: {detail}");
            let data = json!({"event": "forge", "step": step, "capability": capability, "detail": cut(detail)});
            Some(Told { level, message, data, step: number })
        }
        Event::Notice { message } => {
            let data = json!({"event": "notice", "message": cut(message)});
            Some(Told { level: LoggingLevel::Warning, message: message.clone(), data, step: None })
        }
        Event::Capability { name, status, detail } => {
            let level = if *status == Status::Active { LoggingLevel::Notice } else { LoggingLevel::Warning };
            let data = json!({"event": "capability", "name": name, "status": status, "detail": cut(detail)});
            Some(Told { level, message: format!("{name}: {detail}"), data, step: None })
        }
        Event::Status { message } => {
            let data = json!({"event": "status", "message": cut(message)});
            Some(Told { level: LoggingLevel::Info, message: message.clone(), data, step: None })
        }
        // The question itself goes to the person, not into a log.
        Event::ApprovalRequested { capability, reason, .. } => {
            let data = json!({"event": "approval", "capability": capability, "reason": cut(reason)});
            Some(Told { level: LoggingLevel::Notice, message: format!("approval: {reason}"), data, step: None })
        }
        Event::TurnStarted { .. }
        | Event::TextDelta { .. }
        | Event::ReasoningDelta { .. }
        | Event::ToolStarted { .. }
        | Event::ToolOutput { .. }
        | Event::ToolCompleted { .. }
        | Event::ApprovalResolved { .. }
        | Event::Context { .. }
        | Event::Agent { .. }
        | Event::TurnCompleted { .. }
        | Event::TurnFailed { .. } => None,
    }
}

fn cut(text: &str) -> String {
    let text = jarvis_dispatch::redact(text);
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

//! What comes out of a session. `--json` prints one event a line.

use crate::{ErrorBody, Grants, Status, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tokens and cost over every model call of a turn. `cost_usd` is 0 for a local model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Input tokens served from a cache; part of `input_tokens`.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Input tokens written to a cache, which some providers charge more for; part of `input_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens of reasoning, where the provider counts them apart; part of `output_tokens`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    #[serde(default)]
    pub cost_usd: f64,
    /// A provider of at least one call sent no counts; they are estimated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    pub fn add(&mut self, other: Usage) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.estimated |= other.estimated;
        self.cost_usd += other.cost_usd;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    MaxRounds,
    MaxTokens,
    /// One reply reached its own length limit and was cut.
    ReplyCut,
    MaxCost,
    MaxTime,
    Cancelled,
    /// The same call failed three times.
    RepeatedFailure,
    Refused,
}

impl StopReason {
    /// What a person is told, and what they can do; none: the answer is all there is.
    pub fn words(self) -> Option<&'static str> {
        match self {
            StopReason::EndTurn => None,
            StopReason::MaxRounds => Some("stopped: the limit of rounds is reached; --max-turns N allows more"),
            StopReason::ReplyCut => Some("the reply is cut: it reached the length limit of one reply"),
            StopReason::MaxTokens => {
                Some("stopped: the limit of tokens is reached; limits.max_tokens in config allows more")
            }
            StopReason::MaxCost => Some("stopped: the limit of cost is reached; --max-cost USD allows more"),
            StopReason::MaxTime => {
                Some("stopped: the limit of time is reached; limits.max_time_s in config allows more")
            }
            StopReason::Cancelled => Some("cancelled"),
            StopReason::RepeatedFailure => Some("stopped: the same call failed three times"),
            StopReason::Refused => Some("the model refused"),
        }
    }
}

/// The states of forge; `repair` leads back to `code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgeStep {
    Gap,
    Spec,
    Code,
    Checked,
    Verified,
    Approved,
    Registered,
    Repair,
    Reused,
    Rejected,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    #[serde(rename = "turn.started")]
    TurnStarted { session: String, model: String },
    /// Something long has begun (loading a model, reading the prompt); shown on stderr.
    #[serde(rename = "status")]
    Status { message: String },
    #[serde(rename = "text.delta")]
    TextDelta { text: String },
    #[serde(rename = "reasoning.delta")]
    ReasoningDelta { text: String },
    #[serde(rename = "tool.started")]
    ToolStarted { call: ToolCall },
    /// What a running program printed, as it comes.
    #[serde(rename = "tool.output")]
    ToolOutput { call_id: String, text: String },
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        call_id: String,
        name: String,
        ok: bool,
        /// The result, or the error as the model sees it.
        content: Value,
        duration_ms: f64,
    },
    #[serde(rename = "forge")]
    Forge {
        step: ForgeStep,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capability: Option<String>,
        /// One line for a person.
        detail: String,
    },
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        id: String,
        capability: String,
        /// All that the code could reach and that no flag allowed beforehand.
        grants: Grants,
        /// What the version before it was allowed on this machine, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Grants>,
        reason: String,
        /// A yes is kept: the same is not asked about again. Else it is for this once.
        #[serde(default)]
        lasting: bool,
        /// The call that led to it, as `tool.started` named it; of a subagent's, `CALL/CALL`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// A question of a hosted session has its answer, or was given up.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved { id: String, allowed: bool },
    /// What became of a registered capability by its use: quarantined, repaired, rolled back.
    #[serde(rename = "capability")]
    Capability {
        name: String,
        /// What it is now.
        status: Status,
        /// One line for a person: what happened, why, and what to do.
        detail: String,
    },
    /// What of the conversation was sent to the model. Tokens are estimates.
    #[serde(rename = "context")]
    Context {
        strategy: String,
        /// Messages of the conversation.
        history_in: usize,
        /// Of them, sent.
        history_out: usize,
        /// Of them, neither sent nor told by the summary.
        dropped: usize,
        /// Notes from other conversations.
        memory: usize,
        tokens_estimate: u64,
        budget_available: u64,
    },
    /// What happens in a subagent; `call_id` is the call that started it. Subagents start none, so it never nests.
    #[serde(rename = "agent")]
    Agent { agent: String, call_id: String, event: Box<Event> },
    #[serde(rename = "notice")]
    Notice { message: String },
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        answer: String,
        capabilities_built: Vec<String>,
        capabilities_used: Vec<String>,
        usage: Usage,
        duration_ms: u64,
        stop_reason: StopReason,
    },
    #[serde(rename = "turn.failed")]
    TurnFailed { error: ErrorBody, usage: Usage, duration_ms: u64 },
}

//! Events for a person: the answer on stdout, everything else on stderr.

use crate::error::{Failure, Outcome, clean};
use crate::term::{self, Style};
use jarvis_protocol::{Event, ForgeStep, Grants, StopReason, value_text};
use std::io::IsTerminal;

/// How many columns a value takes in a status line.
const VALUE_COLUMNS: usize = 100;
/// How many columns one grant takes.
const GRANT_COLUMNS: usize = 200;

pub struct Show {
    json: bool,
    /// Text appears as it comes only where a person watches; a pipe gets the answer alone, once.
    live: bool,
    style: Style,
    /// What has been shown of the text since the last tool call.
    shown: String,
    broken: Option<Failure>,
    /// The subagent that what is shown comes from, and its lines begin with.
    agent: String,
}

impl Show {
    pub fn new(json: bool) -> Self {
        Self {
            json,
            live: !json && std::io::stdout().is_terminal(),
            style: term::stderr_style(),
            shown: String::new(),
            broken: None,
            agent: String::new(),
        }
    }

    /// An output that broke is remembered and told by `finish`; a turn is not stopped by it in mid-write.
    pub fn event(&mut self, event: &Event) {
        let written = match event {
            Event::TurnFailed { error, usage, duration_ms } if self.json => {
                let (usage, duration_ms) = (*usage, *duration_ms);
                term::json(&Event::TurnFailed { error: clean(error), usage, duration_ms })
            }
            event if self.json => term::json(event),
            event => self.for_people(event),
        };
        if let Err(failure) = written {
            self.broken.get_or_insert(failure);
        }
    }

    pub fn finish(self) -> Outcome {
        self.broken.map_or(Ok(()), Err)
    }

    fn for_people(&mut self, event: &Event) -> Outcome {
        match event {
            Event::TextDelta { text } => {
                if self.live {
                    term::text(text)?;
                    self.shown.push_str(text);
                }
            }
            Event::TurnCompleted { answer, stop_reason, .. } => {
                let seen = !self.shown.trim().is_empty() && self.shown.trim() == answer.trim();
                self.break_line()?;
                if !seen && !answer.is_empty() {
                    term::line(answer)?;
                }
                if let Some(note) = stopped(*stop_reason) {
                    self.note(note);
                }
            }
            Event::Status { message } => self.note(message),
            Event::ToolStarted { call } => {
                self.break_line()?;
                let args = term::cut(&call.args.to_string(), VALUE_COLUMNS);
                self.note(&format!("→ {} {args}", term::cut(&call.name, VALUE_COLUMNS)));
            }
            Event::ToolCompleted { name, ok, content, duration_ms, .. } => {
                let mark = if *ok { self.style.green("✓") } else { self.style.red("✗") };
                let value = term::cut(&value_text(content), VALUE_COLUMNS);
                let name = term::cut(name, VALUE_COLUMNS);
                self.line(&format!("{mark} {name} {}", self.style.dim(&format!("({duration_ms:.1} ms) {value}"))));
            }
            Event::Forge { step, capability, detail } => {
                self.break_line()?;
                let name = term::cut(capability.as_deref().unwrap_or_default(), VALUE_COLUMNS);
                self.line(&format!(
                    "{} {}",
                    self.style.cyan(&format!("⚒ {:<10}", step_name(*step))),
                    self.style.dim(&format!("{name}: {}", term::cut(detail, 160)))
                ));
            }
            Event::Capability { name, status, detail } => {
                self.break_line()?;
                let said = format!("{} is {}: {detail}", term::cut(name, VALUE_COLUMNS), status.as_str());
                self.line(&format!("{} {said}", self.style.bold("note:")));
            }
            // What it says is for the model that asked it; what it does is told.
            Event::Agent { agent, event, .. } => {
                if !matches!(**event, Event::TextDelta { .. }) {
                    self.break_line()?;
                    self.agent = format!("  {} │ ", term::cut(agent, 30));
                    let told = self.for_people(event);
                    self.agent.clear();
                    told?;
                }
            }
            Event::Notice { message } => self.line(&format!("{} {message}", self.style.bold("note:"))),
            // Failures are told by whoever runs the turn; questions by the approver; reasoning is for --json.
            Event::TurnStarted { .. }
            | Event::ReasoningDelta { .. }
            | Event::Context { .. }
            | Event::ToolOutput { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::TurnFailed { .. } => self.break_line()?,
        }
        Ok(())
    }

    /// Ends a line of streamed text before something else is written.
    fn break_line(&mut self) -> Outcome {
        if !std::mem::take(&mut self.shown).is_empty() {
            term::text("\n")?;
        }
        Ok(())
    }

    fn note(&self, text: &str) {
        self.line(&self.style.dim(text));
    }

    fn line(&self, text: &str) {
        term::status(format_args!("{}{text}", self.agent));
    }
}

fn step_name(step: ForgeStep) -> &'static str {
    match step {
        ForgeStep::Gap => "gap",
        ForgeStep::Spec => "spec",
        ForgeStep::Code => "code",
        ForgeStep::Checked => "checked",
        ForgeStep::Verified => "verified",
        ForgeStep::Approved => "approved",
        ForgeStep::Registered => "registered",
        ForgeStep::Repair => "repair",
        ForgeStep::Reused => "reused",
        ForgeStep::Rejected => "rejected",
    }
}

fn stopped(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::EndTurn => None,
        StopReason::MaxRounds => Some("stopped: the limit of rounds is reached (--max-turns)"),
        StopReason::ReplyCut => Some("the reply is cut: it reached the length limit of one reply"),
        StopReason::MaxTokens => Some("stopped: the limit of tokens is reached (limits.max_tokens)"),
        StopReason::MaxCost => Some("stopped: the limit of cost is reached (--max-cost)"),
        StopReason::MaxTime => Some("stopped: the limit of time is reached (limits.max_time_s)"),
        StopReason::Cancelled => Some("cancelled"),
        StopReason::RepeatedFailure => Some("stopped: the same call failed three times"),
        StopReason::Refused => Some("the model refused"),
    }
}

/// One grant per line, so that none hides behind another: `network api.example.com`.
pub fn grants(grants: &Grants) -> Vec<String> {
    let lists = grants.lists().into_iter();
    lists
        .flat_map(|(kind, list)| list.iter().map(move |grant| term::cut(&format!("{kind} {grant}"), GRANT_COLUMNS)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_grant_has_its_own_line_and_none_can_hide_another() {
        let asked = Grants {
            network: vec!["a.example\u{1b}[2K\rallow".to_owned(), "b.example\nread nothing".to_owned()],
            write: vec!["计".repeat(500)],
            ..Grants::default()
        };
        let lines = grants(&asked);
        assert_eq!(lines[0], r"network a.example\u{1b}[2K\u{d}allow");
        assert_eq!(lines[1], "network b.example read nothing");
        assert!(lines[2].starts_with("write 计") && lines[2].ends_with('…') && lines[2].chars().count() <= 200);
        assert_eq!(lines.len(), 3);
    }
}

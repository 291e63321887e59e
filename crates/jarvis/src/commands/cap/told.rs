//! Events of a command on capabilities: shown on stderr, and those that say what became of one kept for `--json`.

use crate::error::{Failure, Outcome, clean, exit_code, tell};
use crate::show::Show;
use crate::term;
use jarvis_protocol::{ErrorBody, Event};
use serde_json::json;

pub struct Told {
    show: Show,
    pub events: Vec<Event>,
}

impl Told {
    pub fn new() -> Told {
        Told { show: Show::new(false), events: Vec::new() }
    }

    pub fn event(&mut self, event: Event) {
        self.show.event(&event);
        if matches!(event, Event::Capability { .. } | Event::Notice { .. }) {
            self.events.push(event);
        }
    }

    /// The error, with the events before it in the same object.
    pub fn failed(&self, error: &ErrorBody, json: bool) -> Outcome {
        if !json || self.events.is_empty() {
            return Err(Failure::from(error.clone()));
        }
        tell(error);
        term::json(&json!({"error": clean(error), "events": self.events}))?;
        Err(Failure::Told(exit_code(error.kind)))
    }
}

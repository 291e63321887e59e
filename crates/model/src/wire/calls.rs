//! Puts tool calls together from the fragments in which providers send them: each call whole, once, under one id.

use jarvis_protocol::ToolCall;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::{Finish, MalformedCall};

/// One entry of a `tool_calls` list as it came; an empty string means "not said", as DashScope sends it.
#[derive(Debug, Default)]
pub(super) struct Fragment<'a> {
    pub index: Option<u64>,
    pub id: &'a str,
    pub name: &'a str,
    pub arguments: Option<&'a Value>,
    /// `extra_content`, which Gemini wants back with the call.
    pub extra: Option<&'a Value>,
    /// The entry is a call of its own (an answer that was not streamed), never a continuation.
    pub whole: bool,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

/// The calls of an answer, sorted.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub good: Vec<ToolCall>,
    pub bad: Vec<MalformedCall>,
    /// By call id, what the provider wants back with it.
    pub extras: BTreeMap<String, Value>,
}

impl Slot {
    fn is_whole(&self) -> bool {
        serde_json::from_str::<Value>(&self.arguments).is_ok_and(|v| v.is_object())
    }
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<Slot>,
}

impl Calls {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of the call that it belongs to.
    pub fn add(&mut self, fragment: &Fragment<'_>) -> usize {
        let at = self.slot_for(fragment);
        let slot = &mut self.slots[at];
        if slot.id.is_empty() {
            slot.id = fragment.id.to_owned();
        }
        if slot.name.is_empty() {
            slot.name = fragment.name.to_owned();
        } else if slot.arguments.is_empty() && !fragment.name.is_empty() && fragment.name != slot.name {
            slot.name.push_str(fragment.name);
        }
        if let Some(extra) = fragment.extra.filter(|e| !e.is_null()) {
            slot.extra = Some(extra.clone());
        }
        match fragment.arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => {
                // A call that is sent once more in the last chunk is still one call.
                if !(text == &slot.arguments && slot.is_whole()) {
                    slot.arguments.push_str(text);
                }
            }
            Some(other) => slot.arguments = other.to_string(),
        }
        at
    }

    /// More text for the arguments of a call.
    pub fn append(&mut self, at: usize, arguments: &str) {
        if let Some(slot) = self.slots.get_mut(at) {
            slot.arguments.push_str(arguments);
        }
    }

    fn slot_for(&mut self, fragment: &Fragment<'_>) -> usize {
        let found = if fragment.whole {
            None
        } else if let Some(index) = fragment.index {
            self.slots.iter().rposition(|s| s.index == Some(index)).filter(|&at| {
                // Servers that number every call 0 tell parallel calls apart by id and name.
                let slot = &self.slots[at];
                let other_id = !fragment.id.is_empty() && !slot.id.is_empty() && fragment.id != slot.id;
                !other_id || fragment.name.is_empty()
            })
        } else if !fragment.id.is_empty() {
            self.slots.iter().rposition(|s| s.id == fragment.id).or_else(|| {
                let last = self.slots.last()?;
                (last.id.is_empty() && fragment.name.is_empty()).then_some(self.slots.len() - 1)
            })
        } else if let Some(last) = self.slots.last() {
            let goes_on = fragment.name.is_empty() || (fragment.name == last.name && !last.is_whole());
            goes_on.then_some(self.slots.len() - 1)
        } else {
            None
        };
        found.unwrap_or_else(|| {
            self.slots.push(Slot { index: fragment.index, ..Slot::default() });
            self.slots.len() - 1
        })
    }

    /// Sorts the calls into those that may run and those whose arguments did not arrive as one JSON object.
    pub fn finish(self, finish: Option<Finish>) -> Sorted {
        let mut sorted = Sorted::default();
        let Sorted { good, bad, extras } = &mut sorted;
        let count = self.slots.len();
        for (at, slot) in self.slots.into_iter().enumerate() {
            let taken = good.iter().any(|c| c.id == slot.id) || bad.iter().any(|c| c.id == slot.id);
            let id = if slot.id.is_empty() || taken { made_up_id() } else { slot.id };
            if let Some(extra) = slot.extra {
                extras.insert(id.clone(), extra);
            }
            let cut = finish == Some(Finish::Length) && at + 1 == count;
            match arguments(&slot.name, &slot.arguments, cut) {
                Ok(args) => good.push(ToolCall { id, name: slot.name, args }),
                Err(problem) => bad.push(MalformedCall { id, name: slot.name, arguments: slot.arguments, problem }),
            }
        }
        sorted
    }
}

fn arguments(name: &str, text: &str, cut: bool) -> Result<Value, String> {
    let cut_note = if cut { " (the answer was cut at the token limit)" } else { "" };
    if name.is_empty() {
        return Err(format!("the call names no tool{cut_note}"));
    }
    if text.trim().is_empty() {
        // Nothing sent means a tool without parameters, unless the limit fell before the arguments.
        return if cut {
            Err(format!("the arguments are missing{cut_note}"))
        } else {
            Ok(Value::Object(serde_json::Map::new()))
        };
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(other) => Err(format!("the arguments must be a JSON object, not {}", jarvis_protocol::kind_of(&other))),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}{cut_note}")),
    }
}

/// Letters and digits only, and random, so that it is new in the whole conversation and every provider takes it back.
fn made_up_id() -> String {
    let digits: String = std::iter::repeat_with(fastrand::alphanumeric).take(16).collect();
    format!("call_{digits}")
}

//! `index.json` as a document: entries and fields that nobody touches keep their very text.

use crate::types::Damaged;
use jarvis_protocol::Capability;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// The format that this version writes. A file without the field is an index of Tendril, or empty, and reads the same.
pub(crate) const FORMAT: u64 = 1;

#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// Every field but `capabilities`, in order.
    fields: Vec<(String, Box<RawValue>)>,
    pub entries: Vec<Box<RawValue>>,
}

pub(crate) enum ParseError {
    Damaged(String),
    Newer(u64),
}

impl Document {
    pub fn empty() -> Self {
        Self { fields: Vec::new(), entries: Vec::new() }
    }

    /// The same fields around other entries.
    pub fn with_entries(&self, entries: Vec<Box<RawValue>>) -> Self {
        Self { fields: self.fields.clone(), entries }
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let text = std::str::from_utf8(bytes).map_err(|e| ParseError::Damaged(format!("not UTF-8: {e}")))?;
        // Editors on Windows put a byte-order mark in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(ParseError::Damaged("the file is empty".to_owned()));
        }
        let document: Document = serde_json::from_str(text).map_err(|e| ParseError::Damaged(e.to_string()))?;
        match document.format() {
            Ok(found) if found > FORMAT => Err(ParseError::Newer(found)),
            Ok(_) => Ok(document),
            Err(problem) => Err(ParseError::Damaged(problem)),
        }
    }

    fn format(&self) -> Result<u64, String> {
        match self.fields.iter().find(|(key, _)| key == "format") {
            None => Ok(FORMAT),
            Some((_, raw)) => raw.get().parse().map_err(|_| format!("`format` is {}, not a whole number", raw.get())),
        }
    }

    /// The file's new text. Marks it with the format.
    pub fn render(&self) -> String {
        let mut out = String::with_capacity(64 + self.entries.iter().map(|e| e.get().len() + 6).sum::<usize>());
        out.push_str("{\n");
        let mut field = |key: &str, value: &str| {
            out.push_str("  ");
            out.push_str(&Value::String(key.to_owned()).to_string());
            out.push_str(": ");
            out.push_str(value);
            out.push_str(",\n");
        };
        let has = |key: &str| self.fields.iter().any(|(k, _)| k == key);
        if !has("version") {
            field("version", "\"1.0.0\"");
        }
        if !has("format") {
            field("format", &FORMAT.to_string());
        }
        for (key, raw) in &self.fields {
            field(key, raw.get());
        }
        out.push_str("  \"capabilities\": [");
        for (i, entry) in self.entries.iter().enumerate() {
            out.push_str(if i == 0 { "\n    " } else { ",\n    " });
            out.push_str(entry.get());
        }
        out.push_str(if self.entries.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" });
        out
    }
}

/// One entry as it will stand in the file.
pub(crate) fn entry(capability: &Capability) -> Result<Box<RawValue>, serde_json::Error> {
    // Line breaks inside of strings are escaped, so indenting lines never changes a value.
    RawValue::from_string(serde_json::to_string_pretty(capability)?.replace('\n', "\n    "))
}

/// Of one entry, bytes. Larger ones are no definitions, and would be carried into every listing and every prompt.
pub(crate) const LARGEST: usize = 1 << 20;

/// `position` counts from 0.
pub(crate) fn parse_entry(raw: &RawValue, position: usize) -> Result<Capability, Damaged> {
    if raw.get().len() > LARGEST {
        let name = serde_json::from_str::<Named>(raw.get()).ok().and_then(|named| named.name);
        return Err(Damaged {
            entry: name.unwrap_or_else(|| format!("#{}", position + 1)),
            problem: format!("it has {} bytes; the most is {LARGEST}", raw.get().len()),
        });
    }
    serde_json::from_str(raw.get()).map_err(|e| {
        let name = serde_json::from_str::<Value>(raw.get())
            .ok()
            .and_then(|v| v.get("name").and_then(Value::as_str).map(str::to_owned));
        Damaged { entry: name.unwrap_or_else(|| format!("#{}", position + 1)), problem: e.to_string() }
    })
}

/// Enough to say which entry it is.
#[derive(serde::Deserialize)]
struct Named {
    name: Option<String>,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a list `capabilities`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut fields: Vec<(String, Box<RawValue>)> = Vec::new();
                let mut entries: Option<Vec<Box<RawValue>>> = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key == "capabilities" && entries.is_none() {
                        entries = Some(map.next_value()?);
                    } else if key == "capabilities" || fields.iter().any(|(k, _)| *k == key) {
                        return Err(A::Error::custom(format!("the field `{key}` is there twice")));
                    } else {
                        fields.push((key, map.next_value()?));
                    }
                }
                let entries = entries.ok_or_else(|| A::Error::custom("the list `capabilities` is missing"))?;
                Ok(Document { fields, entries })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

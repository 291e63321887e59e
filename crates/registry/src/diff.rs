//! What differs between two versions of a capability: what it may reach first, then its definition, then its code.

use crate::RegistryError;
use crate::registry::Registry;
use jarvis_protocol::{Capability, CapabilityName, Version};
use serde_json::Value;
use similar::TextDiff;

#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    pub name: CapabilityName,
    pub from: Version,
    pub to: Version,
    pub grants: Vec<GrantChange>,
    pub fields: Vec<FieldChange>,
    /// A unified diff; empty where the code is the same.
    pub code: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantChange {
    /// `network`, `read`, `write` or `secrets`.
    pub kind: &'static str,
    pub grant: String,
    /// False for one that is given up.
    pub added: bool,
}

/// One field of the definition; null where it is not there.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    pub field: String,
    pub before: Value,
    pub after: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    #[error("`{name}` has no version {version}; it has {}", .known.join(", "))]
    NoVersion { name: String, version: Version, known: Vec<String> },
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// Fields that differ between any two versions, or are shown on their own.
const APART: [&str; 6] = ["name", "version", "changelog", "digest", "grants", "tool_path"];
/// Lines around a change.
const CONTEXT: usize = 3;

impl Registry {
    /// From one version to another, or to the current one as it stands on disk.
    pub fn diff(&self, name: &CapabilityName, from: &Version, to: Option<&Version>) -> Result<Diff, DiffError> {
        let current = self.get(name)?;
        let (to, to_code) = match (to, &current) {
            (Some(version), _) => self.version(name, version, current.as_ref())?,
            (None, Some(current)) => (current.clone(), self.code_if_any(current)?),
            (None, None) => return Err(RegistryError::NotFound(name.to_string()).into()),
        };
        let (from, from_code) = self.version(name, from, current.as_ref())?;
        let code = unified(&from, &from_code, &to, &to_code);
        Ok(Diff {
            name: name.clone(),
            grants: grants(&from, &to),
            fields: fields(&from, &to),
            code,
            from: from.version,
            to: to.version,
        })
    }

    fn version(
        &self,
        name: &CapabilityName,
        version: &Version,
        current: Option<&Capability>,
    ) -> Result<(Capability, String), DiffError> {
        if let Some(found) = self.at(name, version)? {
            return Ok(found);
        }
        // Not in git, as an index of another tool is before the first write, or without code.
        if let Some(current) = current.filter(|current| current.version == *version) {
            return Ok((current.clone(), self.code_if_any(current)?));
        }
        let known = self.history(name)?.into_iter().map(|entry| entry.version.to_string()).collect();
        Err(DiffError::NoVersion { name: name.to_string(), version: version.clone(), known })
    }

    fn code_if_any(&self, capability: &Capability) -> Result<String, RegistryError> {
        if capability.tool_path.is_empty() { Ok(String::new()) } else { Ok(self.code(capability)?.text) }
    }
}

fn grants(from: &Capability, to: &Capability) -> Vec<GrantChange> {
    let (more, less) = (to.grants.beyond(&from.grants), from.grants.beyond(&to.grants));
    let changes = |grants: &jarvis_protocol::Grants, added: bool| -> Vec<GrantChange> {
        let lists = grants.lists().into_iter();
        lists
            .flat_map(|(kind, list)| list.iter().map(move |grant| GrantChange { kind, grant: grant.clone(), added }))
            .collect()
    };
    [changes(&more, true), changes(&less, false)].concat()
}

fn fields(from: &Capability, to: &Capability) -> Vec<FieldChange> {
    let object = |cap: &Capability| match serde_json::to_value(cap) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let (before, after) = (object(from), object(to));
    let new = after.keys().filter(|key| !before.contains_key(*key));
    before
        .keys()
        .chain(new)
        .filter(|key| !APART.contains(&key.as_str()))
        .filter_map(|key| {
            let (before, after) = (before.get(key).cloned(), after.get(key).cloned());
            let change = FieldChange {
                field: key.clone(),
                before: before.unwrap_or_default(),
                after: after.unwrap_or_default(),
            };
            (change.before != change.after).then_some(change)
        })
        .collect()
}

fn unified(from: &Capability, before: &str, to: &Capability, after: &str) -> String {
    let header = |cap: &Capability| format!("{} {}", cap.name, cap.version);
    TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&header(from), &header(to))
        .to_string()
}

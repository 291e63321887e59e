//! The capability manifest: one entry of `index.json`. Unknown fields are kept, so a newer jarvis or another tool
//! can add its own and lose nothing.

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// `^[a-z][a-z0-9_]{1,63}$`. It becomes a file name, so it is checked wherever it comes in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CapabilityName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a capability name: 2 to 64 characters, lower-case letters, digits and underscores, a letter first"
)]
pub struct NameError(pub String);

impl CapabilityName {
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        let mut bytes = name.bytes();
        let head = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
        let tail = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if head && tail && (2..=64).contains(&name.len()) { Ok(Self(name)) } else { Err(NameError(name)) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CapabilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for CapabilityName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<CapabilityName> for String {
    fn from(name: CapabilityName) -> Self {
        name.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// TypeScript or JavaScript in the embedded engine.
    #[default]
    Typescript,
    Python,
    /// TypeScript or JavaScript in the person's own `deno`, in the jail.
    Deno,
}

impl Runtime {
    pub fn as_str(self) -> &'static str {
        match self {
            Runtime::Typescript => "typescript",
            Runtime::Python => "python",
            Runtime::Deno => "deno",
        }
    }

    pub fn extension(self) -> &'static str {
        match self {
            Runtime::Typescript | Runtime::Deno => "ts",
            Runtime::Python => "py",
        }
    }
}

/// What a capability may reach. Everything is denied unless it is listed; part of the version that was approved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Grants {
    /// Host patterns: `api.example.com`, `*.example.com`, `host:port`.
    pub network: Vec<String>,
    /// Paths, relative to the workspace or absolute.
    pub read: Vec<String>,
    pub write: Vec<String>,
    /// Names of secrets; never their values.
    pub secrets: Vec<String>,
}

impl Grants {
    /// Each kind of grant with its name in the definition.
    pub fn lists(&self) -> [(&'static str, &[String]); 4] {
        [("network", &self.network), ("read", &self.read), ("write", &self.write), ("secrets", &self.secrets)]
    }

    pub fn is_empty(&self) -> bool {
        self.lists().iter().all(|(_, list)| list.is_empty())
    }

    /// What `self` asks for beyond `before`.
    pub fn beyond(&self, before: &Grants) -> Grants {
        fn extra(now: &[String], before: &[String]) -> Vec<String> {
            now.iter().filter(|g| !before.contains(g)).cloned().collect()
        }
        Grants {
            network: extra(&self.network, &before.network),
            read: extra(&self.read, &before.read),
            write: extra(&self.write, &before.write),
            secrets: extra(&self.secrets, &before.secrets),
        }
    }
}

impl fmt::Display for Grants {
    /// `network api.example.com; read data/`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self
            .lists()
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(kind, list)| format!("{kind} {}", list.join(", ")))
            .collect();
        f.write_str(&kinds.join("; "))
    }
}

/// Bounds of one execution. There is no `Default`, so nothing unbounded is built by accident; see [`Limits::STANDARD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock milliseconds.
    pub timeout_ms: u64,
    /// Heap of the engine, MiB.
    pub memory_mb: u64,
    /// Result and printed output together, bytes.
    pub output_bytes: u64,
}

impl Limits {
    pub const STANDARD: Limits = Limits { timeout_ms: 45_000, memory_mb: 128, output_bytes: 1 << 20 };

    pub(crate) fn standard() -> Limits {
        Self::STANDARD
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Request,
    Model,
    Person,
}

/// One recorded call. With neither `returns` nor `matches` it only has to run and fit the `returns` schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Example {
    pub args: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<Value>,
    /// Regular expression that the result, as text, must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    #[serde(default = "person")]
    pub origin: Origin,
    /// Kept from whoever wrote the code.
    #[serde(default)]
    pub held_out: bool,
}

fn person() -> Origin {
    Origin::Person
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Active,
    Disabled,
    Quarantined,
    Retired,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Disabled => "disabled",
            Status::Quarantined => "quarantined",
            Status::Retired => "retired",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CreatedBy {
    #[default]
    Model,
    Human,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub version: Version,
    /// RFC 3339.
    pub date: String,
    pub change: String,
}

/// One capability as it stands in `index.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    pub name: CapabilityName,
    /// One sentence: what it does.
    pub capability: String,
    /// Situations in which it fits.
    #[serde(default)]
    pub triggers: Vec<String>,
    /// Look-alike situations in which it must not be used.
    #[serde(default)]
    pub suppression: Vec<String>,
    /// Other names that it answers to: those of capabilities that were merged into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<CapabilityName>,
    /// Relative to the registry's root: `tools/NAME.ts`.
    #[serde(default)]
    pub tool_path: String,
    #[serde(default)]
    pub runtime: Runtime,
    /// JSON Schema of the arguments; an object.
    #[serde(default = "any_object")]
    pub parameters: Value,
    /// JSON Schema of the result.
    #[serde(default = "anything")]
    pub returns: Value,
    #[serde(default)]
    pub grants: Grants,
    #[serde(default = "Limits::standard")]
    pub limits: Limits,
    /// Packages that the code imports, `name==version` each (Python).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    #[serde(default)]
    pub examples: Vec<Example>,
    #[serde(default = "first_version", deserialize_with = "lenient_version")]
    pub version: Version,
    #[serde(default)]
    pub changelog: Vec<Change>,
    /// RFC 3339 or a plain date.
    #[serde(default)]
    pub created: String,
    #[serde(default)]
    pub created_by: CreatedBy,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// BLAKE3 over code, schemas and grants.
    #[serde(default)]
    pub digest: String,
    #[serde(default)]
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Capability {
    /// A definition with everything that has a default left at it.
    pub fn new(name: CapabilityName, capability: impl Into<String>) -> Self {
        Self {
            name,
            capability: capability.into(),
            triggers: Vec::new(),
            suppression: Vec::new(),
            aliases: Vec::new(),
            tool_path: String::new(),
            runtime: Runtime::Typescript,
            parameters: any_object(),
            returns: anything(),
            grants: Grants::default(),
            limits: Limits::STANDARD,
            dependencies: Vec::new(),
            examples: Vec::new(),
            version: first_version(),
            changelog: Vec::new(),
            created: String::new(),
            created_by: CreatedBy::Model,
            model: None,
            digest: String::new(),
            status: Status::Active,
            supersedes: None,
            extra: Map::new(),
        }
    }

    /// The arguments that it takes, in the order of the definition.
    pub fn takes(&self) -> Vec<Parameter<'_>> {
        let required = self.parameters.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|list| list.iter().any(|r| r.as_str() == Some(name)));
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        let listed = properties.into_iter().flatten();
        listed.map(|(name, schema)| Parameter { name, required: is_required(name), schema }).collect()
    }

    /// `name(a: integer, b?: string)`: the one line a model or a person reads.
    pub fn signature(&self) -> String {
        let params: Vec<String> = self
            .takes()
            .iter()
            .map(|p| {
                let kind = p.schema.get("type").and_then(Value::as_str).unwrap_or("any");
                format!("{}{}: {kind}", p.name, if p.required { "" } else { "?" })
            })
            .collect();
        format!("{}({})", self.name, params.join(", "))
    }
}

/// One argument of a capability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter<'a> {
    pub name: &'a str,
    pub required: bool,
    /// JSON Schema of its value.
    pub schema: &'a Value,
}

fn any_object() -> Value {
    serde_json::json!({"type": "object"})
}

fn anything() -> Value {
    Value::Object(Map::new())
}

fn first_version() -> Version {
    Version::new(1, 0, 0)
}

/// Tendril's indexes carry versions such as `1.0` or numbers; those are read as the nearest semantic version.
fn lenient_version<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Version, D::Error> {
    let raw = match Value::deserialize(d)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut padded = raw.trim().trim_start_matches('v').to_owned();
    while padded.split('.').count() < 3 {
        padded.push_str(".0");
    }
    Version::parse(&padded).map_err(|e| serde::de::Error::custom(format!("version `{raw}`: {e}")))
}

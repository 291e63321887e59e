//! The three tools a model sees whatever the size of the registry: list, register, execute.

use crate::find::{Finding, find};
use jarvis_dispatch::{Approver, CallError};
use jarvis_forge::{Draft, Forge, ForgeError, Repair};
use jarvis_model::{Embedder, Tool};
use jarvis_protocol::{Capability, CreatedBy, ErrorBody, ErrorKind, Event, ToolSpec};
use jarvis_registry::{FITS, Hit, Statuses};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;

pub const LIST: &str = "list_capabilities";
pub const REGISTER: &str = "register_capability";
pub const EXECUTE: &str = "execute_capability";

/// Hits in one listing; tokens must not grow with the registry.
const HITS: usize = 8;

/// What a bootstrap call did, beside its result.
#[derive(Debug, Clone, PartialEq)]
pub enum Did {
    Listed,
    Registered(String),
    Executed(String),
    /// Something that needs no mention at the end of the turn.
    Other,
}

pub struct Bootstrap {
    forge: Forge,
    /// The user's words that led here; forge checks drafts against them.
    request: Option<String>,
    model: String,
    /// What the conversation is there to mend, if that is all it is for.
    repair: Option<Repair>,
    embedder: Option<Arc<dyn Embedder>>,
}

static SPECS: LazyLock<Vec<Tool>> = LazyLock::new(|| all().into_iter().map(Tool::from).collect());

/// Always the same ones.
pub fn specs() -> &'static [Tool] {
    &SPECS
}

fn all() -> Vec<ToolSpec> {
    let spec = |name: &str, description: &str, parameters: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    };
    vec![
        spec(
            LIST,
            "Search the registered capabilities. Always the first step for anything that needs computing, data or effects. \
             Answers with at most 8 that fit, or with none: then write one with register_capability.",
            json!({"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
                "query": {"type": "string", "description": "what has to be done, in a few words"}}}),
        ),
        spec(
            REGISTER,
            "Register a new capability, or a new version under an existing name. It is checked and run on the examples in \
             a sandbox first; errors say what to mend. Write it general: values of the request are parameters, never \
             constants. The code is one TypeScript module: `export default async function run(args, ctx) { … }`, returning \
             JSON data. ECMAScript, URL, TextEncoder, crypto and (if granted) fetch are there; imports, files and \
             processes are not. Registered capabilities can be called: `await capability(\"name\", { … })` (python: \
             `capability(\"name\", {…})`); they reach only what the caller has grants for. Whole numbers that may pass \
             2^53 are computed with BigInt and returned as BigInt.",
            json!({"type": "object", "required": ["definition", "code"], "additionalProperties": false, "properties": {
                "definition": {"type": "object", "required": ["name", "capability", "parameters", "examples"], "properties": {
                    "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]{1,63}$"},
                    "capability": {"type": "string", "description": "one sentence: what it does"},
                    "triggers": {"type": "array", "items": {"type": "string"}, "description": "2 to 5 situations in which it fits"},
                    "suppression": {"type": "array", "items": {"type": "string"}, "description": "look-alike situations in which it must not be used"},
                    "parameters": {"type": "object", "description": "JSON Schema of args, type object"},
                    "returns": {"type": "object", "description": "JSON Schema of the result"},
                    "grants": {"type": "object", "description": "only what is needed: {network: [hosts], read: [paths], write: [paths], secrets: [names]}; ctx.secret(NAME) gives a placeholder for a header or query value, replaced on the way out"},
                    "runtime": {"enum": ["typescript", "python", "deno"],
                        "description": "typescript where nothing speaks against it; python: `def run(args, ctx)`; deno: TypeScript with its own JIT, for heavy computing"},
                    "dependencies": {"type": "array", "items": {"type": "string"}, "description": "python packages, name==version each; a person is asked"},
                    "examples": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["args"]},
                        "description": "[{args, returns}]: the request's own, and one more whose answer you are sure of"}}},
                "code": {"type": "string"}}}),
        ),
        spec(
            EXECUTE,
            "Run a registered capability and get its result.",
            json!({"type": "object", "required": ["name", "args"], "additionalProperties": false, "properties": {
                "name": {"type": "string"}, "args": {"type": "object"}}}),
        ),
    ]
}

impl Bootstrap {
    pub fn new(forge: Forge, request: Option<String>, model: &str) -> Self {
        Self { forge, request, model: model.to_owned(), repair: None, embedder: None }
    }

    /// For a conversation in which one capability is mended and no other registered.
    pub fn repairing(forge: Forge, repair: Repair, model: &str) -> Self {
        Self { repair: Some(repair), ..Self::new(forge, None, model) }
    }

    pub(crate) fn repair(&self) -> Option<&Repair> {
        self.repair.as_ref()
    }

    pub fn dispatch(&self) -> &jarvis_dispatch::Dispatch {
        self.forge.dispatch()
    }

    pub(crate) fn forge(&self) -> &Forge {
        &self.forge
    }

    /// Listings are also by meaning, where there is an embedder.
    pub fn with_embedder(self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self { embedder, ..self }
    }

    /// Runs one of the three. An unknown name is the model's to mend.
    pub async fn call(
        &self,
        name: &str,
        args: &Value,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(Value, Did), CallError> {
        let Some(spec) = specs().iter().find(|spec| spec.name == name) else {
            let message = format!(
                "there is no tool `{name}`; there are {LIST}, {REGISTER} and {EXECUTE}. A capability is run with {EXECUTE}."
            );
            return Err(CallError::respond(ErrorKind::NotFound, message));
        };
        jarvis_dispatch::check_arguments(&spec.parameters, args).map_err(usage)?;
        match name {
            LIST => Ok((self.list(text_of(args, "query"), emit).await?, Did::Listed)),
            REGISTER => self.register(args, emit, approver, cancel).await,
            _ => {
                let name = text_of(args, "name");
                let ran = self.forge.dispatch().run(name, args["args"].clone(), emit, cancel).await?;
                Ok((json!({"result": ran.value}), Did::Executed(name.to_owned())))
            }
        }
    }

    async fn list(&self, query: &str, emit: &mut (dyn FnMut(Event) + Send)) -> Result<Value, CallError> {
        let registry = self.forge.dispatch().registry();
        let found = find(registry, self.embedder.as_ref(), query, HITS, Statuses::Active).await;
        let Finding { hits, notice } = found.map_err(|e| CallError::Fatal(e.body()))?;
        if let Some(message) = notice {
            emit(Event::Notice { message });
        }
        // What only shares a word is no answer; what a suppression speaks against is shown with its caution.
        let fitting: Vec<Value> =
            hits.iter().filter(|h| h.score >= FITS || h.suppressed_by.is_some()).map(|h| self.listed(h)).collect();
        if fitting.is_empty() {
            self.forge.gap(emit).map_err(|e| CallError::Fatal(e.body()))?;
            return Ok(
                json!({"capabilities": [], "note": "nothing fits; write one with register_capability if the request needs it"}),
            );
        }
        Ok(json!({"capabilities": fitting}))
    }

    /// One hit as a model reads it.
    fn listed(&self, hit: &Hit) -> Value {
        let capability = &hit.capability;
        let mut shown = json!({
            "name": capability.name,
            "capability": capability.capability,
            "signature": capability.signature(),
        });
        if !capability.triggers.is_empty() {
            shown["triggers"] = json!(capability.triggers);
        }
        if !capability.suppression.is_empty() {
            shown["not_for"] = json!(capability.suppression);
        }
        // Statistics are advice; a capability is listed without them where they cannot be read.
        match self.forge.dispatch().registry().stats(&capability.name) {
            Ok(stats) if stats.runs > 0 => shown["runs"] = json!({"total": stats.runs, "failed": stats.failures}),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "statistics cannot be read"),
        }
        if let Some(reason) = &hit.suppressed_by {
            shown["caution"] = json!(format!("this request looks like one it is not for: {reason}"));
        }
        shown
    }

    async fn register(
        &self,
        args: &Value,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(Value, Did), CallError> {
        let mut capability = self.definition(&args["definition"]).map_err(usage)?;
        let mut change = "written by a model";
        if let Some(repair) = &self.repair {
            let name = &repair.capability.name;
            if capability.name != *name {
                return Err(usage(format!("`{name}` is to be mended, and no other registered: use its name")));
            }
            // A person's answer stands beside the model's; where they differ, verification says so.
            capability.examples.extend(repair.given.iter().cloned());
            change = "repaired by a model";
        }
        let draft = Draft {
            capability,
            code: text_of(args, "code").to_owned(),
            request: self.request.clone(),
            change: change.to_owned(),
            instead_of: None,
            restored: false,
        };
        match self.forge.submit(draft, emit, approver, cancel).await {
            Ok(accepted) => {
                let note = json!({
                    "registered": accepted.name, "version": accepted.version, "verified": accepted.verified,
                    "next": format!("run it with {EXECUTE}"),
                });
                Ok((note, Did::Registered(accepted.name.to_string())))
            }
            Err(ForgeError::Fatal(body)) => Err(CallError::Fatal(body)),
            Err(error) => {
                Err(CallError::RespondToModel(ErrorBody { message: error.for_model(), hint: None, ..error.body() }))
            }
        }
    }

    /// Only what a model may say of a capability; version, digest, status and dates are jarvis's own.
    fn definition(&self, given: &Value) -> Result<Capability, String> {
        // A misspelt key would be dropped, and what it meant go unchecked.
        jarvis_forge::check_keys(given)?;
        const MAY: [&str; 11] = [
            "name",
            "capability",
            "triggers",
            "suppression",
            "parameters",
            "returns",
            "grants",
            "examples",
            "limits",
            "runtime",
            "dependencies",
        ];
        let mut kept = given.clone();
        if let Some(object) = kept.as_object_mut() {
            object.retain(|key, _| MAY.contains(&key.as_str()));
            if let Some(repair) = &self.repair {
                // What the model does not speak of stays as it is.
                let now = json!(repair.capability);
                for key in MAY.iter().filter(|key| **key != "examples") {
                    if let Some(value) = now.get(*key) {
                        object.entry(*key).or_insert_with(|| value.clone());
                    }
                }
            }
            if let Some(examples) = object.get_mut("examples").and_then(Value::as_array_mut) {
                for example in examples.iter_mut().filter_map(Value::as_object_mut) {
                    example.insert("origin".to_owned(), json!("model"));
                }
            }
        }
        let mut capability: Capability =
            serde_json::from_value(kept).map_err(|e| format!("the definition cannot be read: {e}"))?;
        capability.created_by = CreatedBy::Model;
        capability.model = Some(self.model.clone());
        Ok(capability)
    }
}

fn usage(message: String) -> CallError {
    CallError::respond(ErrorKind::Usage, message)
}

fn text_of<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

//! What a led model decided to build: a name, a sentence, and the request's values as named inputs. The schema comes
//! from the values, so a definition without parameters for a request that holds values cannot arise unseen.

use crate::{Draft, Repair, probe::variations};
use jarvis_protocol::{Capability, CapabilityName, CreatedBy, Example, Origin};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub name: CapabilityName,
    pub about: String,
    pub inputs: Map<String, Value>,
    /// A registered capability that failed at this request.
    pub instead_of: Option<CapabilityName>,
    /// A registered capability whose code is written anew; all else of it stays. `inputs` are a call that it failed at.
    pub repairs: Option<Box<Repair>>,
}

impl Plan {
    /// None where no call says what to mend.
    pub fn repair(repair: Repair) -> Option<Plan> {
        let inputs = repair.first_call()?.as_object()?.clone();
        Some(Plan {
            name: repair.capability.name.clone(),
            about: repair.capability.capability.clone(),
            inputs,
            instead_of: None,
            repairs: Some(Box::new(repair)),
        })
    }

    pub fn args(&self) -> Value {
        Value::Object(self.inputs.clone())
    }

    pub fn parameters(&self) -> Value {
        if let Some(repair) = &self.repairs {
            return repair.capability.parameters.clone();
        }
        let properties: Map<String, Value> =
            self.inputs.iter().map(|(name, value)| (name.clone(), schema_of(value))).collect();
        let required: Vec<&String> = self.inputs.keys().collect();
        json!({"type": "object", "properties": properties, "required": required})
    }

    /// `name(a: number, b: string)`.
    pub fn signature(&self) -> String {
        format!("{}({})", self.name, self.typed_inputs())
    }

    pub fn typed_inputs(&self) -> String {
        let typed: Vec<String> = match &self.repairs {
            Some(repair) => {
                let optional = |required: bool| if required { "" } else { "?" };
                let takes = repair.capability.takes().into_iter();
                takes.map(|p| format!("{}{}: {}", p.name, optional(p.required), typescript_type(p.schema))).collect()
            }
            None => {
                let inputs = self.inputs.iter();
                inputs.map(|(name, value)| format!("{name}: {}", typescript_type(&schema_of(value)))).collect()
            }
        };
        typed.join(", ")
    }

    pub(crate) fn input_names(&self) -> Vec<&str> {
        match &self.repairs {
            Some(repair) => repair.capability.takes().iter().map(|p| p.name).collect(),
            None => self.inputs.keys().map(String::as_str).collect(),
        }
    }

    /// The definition to register. The request's own call is the first example; a variation is held out.
    pub fn capability(&self, request: &str, model: &str) -> Capability {
        if let Some(repair) = &self.repairs {
            let mut capability = repair.capability.clone();
            capability.created_by = CreatedBy::Model;
            capability.model = Some(model.to_owned());
            capability.examples.extend(repair.given.iter().cloned());
            return capability;
        }
        let mut capability = Capability::new(self.name.clone(), self.about.clone());
        capability.parameters = self.parameters();
        capability.triggers = vec![trigger(request)];
        capability.created_by = CreatedBy::Model;
        capability.model = Some(model.to_owned());
        capability.examples = vec![example(self.args(), Origin::Request, false)];
        capability
    }

    pub(crate) fn draft(&self, request: &str, model: &str, code: String) -> Draft {
        Draft {
            capability: self.capability(request, model),
            code,
            // Its parameters are what they were; the words of a repair are no request.
            request: self.repairs.is_none().then(|| request.to_owned()),
            change: if self.repairs.is_some() { "repaired by a model" } else { "written for a request" }.to_owned(),
            instead_of: self.instead_of.clone(),
            restored: false,
        }
    }

    /// Calls that nobody wrote the code for.
    pub(crate) fn held_out(&self) -> Vec<Value> {
        variations(&self.args())
    }
}

pub(crate) fn example(args: Value, origin: Origin, held_out: bool) -> Example {
    Example { args, returns: None, matches: None, origin, held_out }
}

/// The request as a situation, cut to one line: it is what the next, similar request will be compared with.
fn trigger(request: &str) -> String {
    let line: String = request.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 120 {
        return line;
    }
    let head: String = line.chars().take(120).collect();
    format!("{head}…")
}

/// `number` for whole numbers too: the next request may bring a fraction.
pub(crate) fn schema_of(value: &Value) -> Value {
    match value {
        Value::Number(_) => json!({"type": "number"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Array(items) => match items.first().map(schema_of) {
            Some(first) if items.iter().all(|i| schema_of(i) == first) => json!({"type": "array", "items": first}),
            _ => json!({"type": "array"}),
        },
        Value::Object(_) => json!({"type": "object"}),
        Value::Null => json!({}),
    }
}

/// A JSON Schema type as TypeScript writes it.
pub fn typescript_type(schema: &Value) -> String {
    match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => "number".to_owned(),
        Some("string") => "string".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("array") => match schema.get("items") {
            Some(items) => format!("{}[]", typescript_type(items)),
            None => "any[]".to_owned(),
        },
        Some("object") => "Record<string, any>".to_owned(),
        _ => "any".to_owned(),
    }
}

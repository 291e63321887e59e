//! The files of a project, and whether what its server lists is what was asked for.

use super::schema::{literal, parameter, types};
use super::{Body, Tool};
use jarvis_dispatch::NewFile;
use jarvis_protocol::ToolSpec;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const ENTRY: &str = "server.py";

/// One tool as it was asked for.
pub(super) struct Wanted {
    name: String,
    description: String,
    parameters: Vec<Parameter>,
}

struct Parameter {
    name: String,
    schema: Value,
    required: bool,
    /// Its annotation and default in Python.
    python: String,
}

/// The names of the parameters that a schema requires.
fn required(schema: &Value) -> BTreeSet<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

impl Wanted {
    pub fn of(tool: &Tool) -> Result<Wanted, String> {
        let name = &tool.name;
        let description = tool.description.trim();
        if description.is_empty() || description.chars().count() > 1000 {
            return Err(format!("the description of {name} has 1 to 1000 characters"));
        }
        if !matches!(&tool.parameters, Value::Null | Value::Object(_)) {
            return Err(format!("the parameters of {name} are no JSON Schema"));
        }
        if tool.parameters.get("type").is_some_and(|kind| kind != "object") {
            return Err(format!("the parameters of {name} are of type object"));
        }
        let required = required(&tool.parameters);
        let mut parameters = Vec::new();
        for (parameter_name, schema) in
            tool.parameters.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let required = required.contains(&parameter_name.as_str());
            let python = parameter(schema, required).map_err(|e| format!("{name}, parameter {parameter_name}: {e}"))?;
            parameters.push(Parameter { name: parameter_name.clone(), schema: schema.clone(), required, python });
        }
        if let Some(missing) = required.iter().find(|name| !parameters.iter().any(|p| p.name == **name)) {
            return Err(format!("{name}: `{missing}` is required and not among the properties"));
        }
        // Python wants those without a default first.
        parameters.sort_by_key(|parameter| !parameter.required);
        Ok(Wanted { name: name.clone(), description: description.to_owned(), parameters })
    }

    pub fn parameter_names(&self) -> Vec<&str> {
        self.parameters.iter().map(|parameter| parameter.name.as_str()).collect()
    }

    /// Of the function; apart from every name that Python or the file itself knows.
    fn function(&self) -> String {
        format!("tool_{}", self.name.replace('-', "_"))
    }
}

pub(super) fn check_names(wanted: &[Wanted]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match wanted.iter().find(|tool| !seen.insert(tool.function().to_lowercase())) {
        Some(twice) => Err(format!("two tools are called {}", twice.name)),
        None => Ok(()),
    }
}

pub(super) fn files(
    name: &str,
    description: &str,
    dependencies: &[String],
    wanted: &[Wanted],
    bodies: &[Body],
) -> Vec<NewFile> {
    let text = |text: &str| literal(&Value::from(text));
    let needs = dependencies.iter().map(|one| format!("    {},\n", text(one))).collect::<String>();
    // Texts of TOML are those of JSON, as far as one line without control characters goes.
    let about = format!(
        "[project]\nname = {}\nversion = \"0.1.0\"\ndescription = {}\nrequires-python = \">=3.10\"\ndependencies = [\n{needs}]\n",
        text(name),
        text(description),
    );
    let mut server = format!(
        "# Made by jarvis. On its standard streams: python3 {ENTRY}\n\nfrom typing import Annotated, Any, Literal\n\n\
         from mcp.server.mcpserver import MCPServer\nfrom pydantic import Field\n\nserver = MCPServer({}, instructions={})\n",
        text(name),
        text(description),
    );
    for (tool, body) in wanted.iter().zip(bodies) {
        let parameters = tool.parameters.iter().map(|p| format!("    {}: {},\n", p.name, p.python)).collect::<String>();
        let parameters = if parameters.is_empty() { parameters } else { format!("\n{parameters}") };
        server.push_str(&format!(
            "\n\n@server.tool(name={}, description={}, structured_output=False)\n{}def {}({parameters}) -> Any:\n{}\n",
            text(&tool.name),
            text(&tool.description),
            if body.awaits { "async " } else { "" },
            tool.function(),
            body.text.trim_end(),
        ));
    }
    server.push_str("\n\nif __name__ == \"__main__\":\n    server.run(\"stdio\")\n");
    let file = |path: &str, text: String| NewFile { path: path.into(), bytes: text.into_bytes(), executable: false };
    vec![file("pyproject.toml", about), file(ENTRY, server)]
}

/// What the server says it has, against what was asked for.
pub(super) fn compare(wanted: &[Wanted], listed: &[ToolSpec]) -> Result<(), String> {
    let by_name: BTreeMap<&str, &ToolSpec> = listed.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let names: BTreeSet<&str> = wanted.iter().map(|tool| tool.name.as_str()).collect();
    if names != by_name.keys().copied().collect() || listed.len() != wanted.len() {
        let listed: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        return Err(format!("its tools are [{}] and not [{}]", listed.join(", "), names.join(", ")));
    }
    for tool in wanted {
        let Some(found) = by_name.get(tool.name.as_str()) else { continue };
        let differs = |what: String| Err(format!("its tool {} {what}", tool.name));
        if found.description != tool.description {
            return differs(format!("says of itself {:?}", found.description));
        }
        let empty = serde_json::Map::new();
        let properties = found.parameters.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let theirs: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        let ours: BTreeSet<&str> = tool.parameters.iter().map(|p| p.name.as_str()).collect();
        if theirs != ours {
            return differs(format!("takes {theirs:?} and not {ours:?}"));
        }
        let required = required(&found.parameters);
        for parameter in &tool.parameters {
            let name = parameter.name.as_str();
            if required.contains(name) != parameter.required {
                return differs(format!("has {name} {}", if parameter.required { "not required" } else { "required" }));
            }
            let mut asked = types(&parameter.schema);
            if !asked.is_empty() && !parameter.required && parameter.schema.get("default").is_none() {
                asked.insert("null");
            }
            let says = properties.get(name).map(types).unwrap_or_default();
            if says != asked {
                return differs(format!("takes {name} as {says:?} and not as {asked:?}"));
            }
        }
    }
    Ok(())
}

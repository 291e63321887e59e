//! Commands: a prompt with places for arguments, as a file, for what is asked again and again: `/NAME ARGUMENTS`.

use jarvis_dispatch::{Broken, Collection, Each, Folders, Found, Origin, check_arguments, check_schema};
use jarvis_protocol::value_text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

static COLLECTION: Collection = Collection { many: "commands", each: Each::File(&["json"]), built_in: &[] };
const MOST_PROMPT: usize = 32 << 10;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, an object.
    #[serde(default = "nothing")]
    pub parameters: Value,
    /// With `{{name}}` where the value of an argument goes.
    pub prompt: String,
    /// Arguments that it is tried with.
    #[serde(default)]
    pub examples: Vec<Value>,
}

fn nothing() -> Value {
    json!({"type": "object", "properties": {}})
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PromptCommand {
    #[serde(flatten)]
    pub definition: Definition,
    pub origin: Origin,
    pub path: PathBuf,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct CommandCatalogue {
    /// By name; of each name the nearest.
    pub commands: Vec<PromptCommand>,
    pub broken: Vec<Broken>,
}

/// Where the files lie.
#[derive(Debug, Clone)]
pub struct CommandFolders(Folders);

impl Definition {
    pub fn parse(text: &str) -> Result<Definition, String> {
        let definition: Definition =
            serde_json::from_str(text).map_err(|e| format!("it is no JSON of a command: {e}"))?;
        definition.check()?;
        Ok(definition)
    }

    fn check(&self) -> Result<(), String> {
        if self.description.trim().is_empty() || self.prompt.trim().is_empty() || self.prompt.len() > MOST_PROMPT {
            return Err(format!("it needs a description, and a prompt of 1 to {MOST_PROMPT} bytes"));
        }
        check_schema(&self.parameters, true)?;
        pieces(&self.prompt)?.into_iter().try_for_each(|piece| match piece {
            Piece::Place(name) if !self.properties().contains_key(name) => {
                Err(format!("the prompt has a place {{{{{name}}}}}, and there is no such parameter"))
            }
            Piece::Place(_) | Piece::Text(_) => Ok(()),
        })?;
        for example in &self.examples {
            self.expand(example).map_err(|problem| format!("its example {example}: {problem}"))?;
        }
        Ok(())
    }

    /// The names of its arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parameters
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
    }

    fn properties(&self) -> Map<String, Value> {
        properties_of(&self.parameters)
    }

    /// The prompt with these arguments. A value is text in it, and its own braces are no places.
    pub fn expand(&self, args: &Value) -> Result<String, String> {
        let mut args = args.clone();
        for (name, schema) in self.properties() {
            if let (Some(given), Some(default)) = (args.as_object_mut(), schema.get("default")) {
                given.entry(name).or_insert_with(|| default.clone());
            }
        }
        check_arguments(&self.parameters, &args)?;
        let part = |piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Place(name) => args.get(name).map(value_text).unwrap_or_default(),
        };
        Ok(pieces(&self.prompt)?.into_iter().map(part).collect())
    }

    /// Arguments as a person types them: `name=value …`; what stands before the first name is the first argument that has
    /// none. A value goes on to the next name.
    pub fn read_arguments(&self, line: &str) -> Result<Value, String> {
        read_arguments(&self.parameters, line)
    }
}

/// The same by any schema of an object.
pub fn read_arguments(parameters: &Value, line: &str) -> Result<Value, String> {
    let properties = properties_of(parameters);
    let mut given: Vec<(Option<String>, String)> = Vec::new();
    for word in line.split_whitespace() {
        let named = word.split_once('=').filter(|(name, _)| properties.contains_key(*name));
        match (named, given.last_mut()) {
            (Some((name, value)), _) => given.push((Some(name.to_owned()), value.to_owned())),
            (None, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            (None, None) => given.push((None, word.to_owned())),
        }
    }
    let mut args = Map::new();
    for (name, text) in given.iter().filter_map(|(name, text)| Some((name.clone()?, text))) {
        args.insert(name.clone(), typed(&properties[&name], text));
    }
    if let Some((None, text)) = given.first() {
        let free = properties.keys().find(|name| !args.contains_key(*name));
        let name = free.ok_or_else(|| format!("it takes no argument for `{text}`"))?;
        args.insert(name.clone(), typed(&properties[name], text));
    }
    Ok(Value::Object(args))
}

fn properties_of(parameters: &Value) -> Map<String, Value> {
    parameters.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// A text as the schema wants it; what does not fit stays text, and the check says so.
fn typed(schema: &Value, text: &str) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") | None => Value::from(text),
        Some(_) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}

enum Piece<'a> {
    Text(&'a str),
    Place(&'a str),
}

fn pieces(prompt: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut rest, mut pieces) = (prompt, Vec::new());
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, behind) = after.split_once("}}").ok_or("the prompt has `{{` without `}}`")?;
        pieces.extend([Piece::Text(before), Piece::Place(name.trim())]);
        rest = behind;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

impl CommandFolders {
    /// `home` is the folder of commands in jarvis's home; in a workspace they lie in `.jarvis/commands`.
    pub fn new(workspace: &Path, home: &Path) -> Self {
        Self(Folders::new(&COLLECTION, workspace, home))
    }

    pub fn load(&self) -> CommandCatalogue {
        let (commands, broken) = self.0.load(read);
        CommandCatalogue { commands, broken }
    }
}

fn read(found: &Found, text: String) -> Result<PromptCommand, String> {
    let definition = Definition::parse(&text)?;
    found.says(&definition.name)?;
    Ok(PromptCommand { definition, origin: found.origin, path: found.path.clone().unwrap_or_default() })
}

impl CommandCatalogue {
    pub fn get(&self, name: &str) -> Option<&PromptCommand> {
        self.commands.iter().find(|command| command.definition.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Definition {
        Definition {
            name: "review".to_owned(),
            description: "d".to_owned(),
            parameters: json!({"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
                "path": {"type": "string"}, "depth": {"type": "integer", "default": 1}, "focus": {"type": "string"}}}),
            prompt: "Review {{path}} ({{ depth }}){{focus}}.".to_owned(),
            examples: vec![json!({"path": "a"})],
        }
    }

    #[test]
    fn arguments_are_read_as_typed_and_a_value_is_only_text() {
        let command = command();
        for (line, expanded) in [
            ("src/a b.rs", "Review src/a b.rs (1)."),
            ("src/a.rs depth=2 focus=速度 and size", "Review src/a.rs (2)速度 and size."),
            ("path={{focus}} focus={{path}}", "Review {{focus}} (1){{path}}."),
            ("path=a=b", "Review a=b (1)."),
        ] {
            let args = command.read_arguments(line).unwrap();
            assert_eq!(command.expand(&args).unwrap(), expanded, "{line}");
        }
        for line in ["", "depth=2", "a depth=x", "depth=1.5 path=a"] {
            let refused = command.read_arguments(line).and_then(|args| command.expand(&args));
            assert!(refused.is_err(), "{line}: {refused:?}");
        }
    }

    #[test]
    fn a_definition_that_cannot_be_expanded_is_none() {
        for (change, part) in [
            (json!({"prompt": "{{other}}"}), "no such parameter"),
            (json!({"prompt": "{{path"}), "without"),
            (json!({"prompt": " "}), "prompt"),
            (json!({"examples": [{}]}), "path"),
            (json!({"parameters": {"type": "text"}}), ""),
            (json!({"more": 1}), "more"),
        ] {
            let mut value = serde_json::to_value(command()).unwrap();
            value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let error = Definition::parse(&value.to_string()).unwrap_err();
            assert!(error.contains(part), "{change}: {error}");
        }
        assert_eq!(Definition::parse(&serde_json::to_string(&command()).unwrap()), Ok(command()));
    }
}

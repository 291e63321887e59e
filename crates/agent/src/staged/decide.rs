//! The decision of a led model: answer in words, use what is registered, or build. A few short lines instead of JSON,
//! because every token costs a small model on the CPU 30 ms:
//!
//! ```text
//! build to_binary: Convert a whole number to binary
//! n = 255
//! ```

use super::values;
use jarvis_forge::grow::Plan;
use jarvis_protocol::{Capability, CapabilityName, Parameter, request_value};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Choice {
    Chat,
    Use { name: String, args: Value },
    Build(Plan),
}

/// A llama.cpp grammar for exactly the lines above, with the parameters of each known capability spelled out.
pub(crate) fn grammar(request: &str, known: &[Capability]) -> String {
    let mut uses = Vec::new();
    let mut rules = String::new();
    for (index, known) in known.iter().enumerate() {
        let mut rule = format!("\"use {}\"", known.name);
        for Parameter { name, required, schema } in known.takes() {
            let line = format!("\"\\n{name} = \" {}", value_rule(schema));
            if required { rule.push_str(&format!(" {line}")) } else { rule.push_str(&format!(" ({line})?")) }
        }
        rules.push_str(&format!("use{index} ::= {rule}\n"));
        uses.push(format!("use{index}"));
    }
    let least = if request_value(request).is_some() { "input+" } else { "input*" };
    let mut kinds = vec!["\"chat\"".to_owned(), "build".to_owned()];
    kinds.extend(uses);
    format!(
        r#"root ::= {kinds}
build ::= "build " name ": " about {least}
name ::= [a-z] [a-z0-9_]{{2,39}}
about ::= [^\n]{{4,120}}
input ::= "\n" key " = " value
key ::= [a-z] [a-zA-Z0-9]{{0,24}}
value ::= string | number | boolean | array
array ::= "[" value (", " value)* "]"
boolean ::= "true" | "false"
number ::= "-"? [0-9]{{1,40}} ("." [0-9]{{1,20}})?
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F] | "\\" ["\\nrt/]
{rules}"#,
        kinds = kinds.join(" | "),
    )
}

fn value_rule(schema: &Value) -> String {
    match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => "number".to_owned(),
        Some("string") => "string".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("array") => {
            let item = schema.get("items").map_or_else(|| "value".to_owned(), value_rule);
            format!("\"[\" ({item} (\", \" {item})*)? \"]\"")
        }
        _ => "value".to_owned(),
    }
}

/// Reads the lines. What does not fit the form, or leaves out the request's values, is an error for another try.
pub(crate) fn read(text: &str, request: &str, known: &[Capability]) -> Result<Choice, String> {
    let text = text.trim();
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let head = head.trim();
    if head == "chat" || head.starts_with("chat:") {
        return Ok(Choice::Chat);
    }
    let inputs = read_inputs(rest, request)?;
    if let Some(name) = head.strip_prefix("use ") {
        let known = known
            .iter()
            .find(|k| k.name.as_str() == name.trim())
            .ok_or_else(|| format!("`{name}` was not on offer"))?;
        let args = Value::Object(values::fit(inputs, &known.parameters));
        jarvis_dispatch::check_arguments(&known.parameters, &args)?;
        return Ok(Choice::Use { name: name.trim().to_owned(), args });
    }
    let build = head.strip_prefix("build ").ok_or_else(|| format!("`{head}` is neither chat, use nor build"))?;
    let (name, about) = build.split_once(':').unwrap_or((build, ""));
    let name = CapabilityName::new(name.trim()).map_err(|e| e.to_string())?;
    let about = about.trim();
    if about.is_empty() {
        return Err("it does not say what the capability does".to_owned());
    }
    if inputs.is_empty() && request_value(request).is_some() {
        return Err("the request holds values, but none became an input".to_owned());
    }
    let inputs = values::without_invented(inputs, request);
    Ok(Choice::Build(Plan { name, about: about.to_owned(), inputs, instead_of: None, repairs: None }))
}

/// The first number of the request that no input of a build holds.
pub(crate) fn left_out(choice: &Choice, request: &str) -> Option<String> {
    match choice {
        Choice::Build(plan) => values::left_out(&plan.inputs, request),
        Choice::Chat | Choice::Use { .. } => None,
    }
}

/// A second decision that holds every number of the request and none of its own.
pub(crate) fn completes(choice: &Choice, request: &str) -> bool {
    match choice {
        Choice::Build(plan) => {
            values::left_out(&plan.inputs, request).is_none() && values::grounded(&plan.inputs, request)
        }
        Choice::Chat | Choice::Use { .. } => false,
    }
}

fn read_inputs(lines: &str, request: &str) -> Result<Map<String, Value>, String> {
    let mut inputs = Map::new();
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (name, value) = line.split_once('=').ok_or_else(|| format!("`{line}` is no input"))?;
        let name = name.trim();
        let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{name}` is no name of an input"));
        }
        let value = values::parse(value.trim())?;
        inputs.insert(values::safe_name(name), values::ground(value, request));
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn known() -> Vec<Capability> {
        let mut capability = Capability::new(CapabilityName::new("to_binary").unwrap(), "Convert to binary");
        capability.parameters = json!({"type": "object", "properties": {"n": {"type": "number"}, "pad": {"type": "number"}}, "required": ["n"]});
        vec![capability]
    }

    #[test]
    fn the_three_forms_are_read() {
        assert_eq!(read("chat", "hi", &[]), Ok(Choice::Chat));
        let used = read("use to_binary\nn = 7", "7 in binary", &known()).unwrap();
        assert_eq!(used, Choice::Use { name: "to_binary".to_owned(), args: json!({"n": 7}) });
        let Choice::Build(plan) = read("build add_all: Add numbers\nnumbers = [1, 2.5]", "add 1 and 2.5", &[]).unwrap()
        else {
            panic!("not a build")
        };
        assert_eq!(plan.signature(), "add_all(numbers: number[])");
    }

    #[test]
    fn a_build_that_ignores_the_values_of_the_request_is_refused() {
        assert!(read("build fib: Compute it", "the 90th Fibonacci number", &[]).is_err());
        assert!(read("build die: Roll a die", "roll a die", &[]).is_ok());
        assert!(read("use fib\nn = 3", "fib 3", &known()).is_err());
    }

    #[test]
    fn the_grammar_spells_out_what_is_on_offer() {
        let grammar = grammar("7 in binary", &known());
        assert!(grammar.contains(r#"use0 ::= "use to_binary" "\nn = " number ("\npad = " number)?"#), "{grammar}");
        assert!(grammar.contains("about input+"));
    }
}

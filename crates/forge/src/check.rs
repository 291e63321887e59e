//! Checked: what can be said of a draft without running it. Every problem is told, so one repair can mend them all.

use crate::Draft;
use jarvis_dispatch::{CallError, Checked, Dispatch, check_host, check_schema};
use jarvis_protocol::{Capability, is_deceptive, request_value};

/// Bytes of source; a capability is one function, not a program.
const CODE_BYTES: usize = 64 * 1024;
const SENTENCE_CHARS: usize = 300;
const EXAMPLES: usize = 40;
/// Triggers, suppressions and grants: how many of each, and how long one is.
const LINES: usize = 20;
const LINE_CHARS: usize = 300;

/// The problems of the definition, then those of the code. An error is none of either: nothing could be read.
pub(crate) async fn check(dispatch: &Dispatch, draft: &Draft) -> Result<Result<Checked, Vec<String>>, CallError> {
    let capability = &draft.capability;
    let mut problems = definition_problems(dispatch, capability);
    if draft.code.len() > CODE_BYTES {
        problems.push(format!("the code has {} bytes; at most {CODE_BYTES} are taken", draft.code.len()));
        return Ok(Err(problems));
    }
    let checked = match dispatch.check_code(&draft.code, capability.runtime, &capability.dependencies).await? {
        Ok(checked) => checked,
        Err(error) => {
            problems.push(format!("the code does not pass: {error}"));
            return Ok(Err(problems));
        }
    };
    problems.extend(parameter_problems(&draft.capability, &checked));
    problems.extend(grant_problems(&draft.capability, &checked));
    problems.extend(crate::calls::problems(dispatch, draft, &checked)?);
    if let Some(request) = &draft.request
        && draft.capability.takes().is_empty()
        && let Some(value) = request_value(request)
    {
        problems.push(format!(
            "the definition has no parameters, but the request holds values such as `{value}`: make them parameters"
        ));
    }
    Ok(if problems.is_empty() { Ok(checked) } else { Err(problems) })
}

/// What must be right before a person is asked anything about it.
pub(crate) fn definition_problems(dispatch: &Dispatch, capability: &Capability) -> Vec<String> {
    let mut problems = Vec::new();
    let sentence = capability.capability.trim();
    if sentence.is_empty() {
        problems.push("`capability` is empty: say in one sentence what it does".to_owned());
    } else if sentence.chars().count() > SENTENCE_CHARS {
        problems.push(format!("`capability` is longer than {SENTENCE_CHARS} characters: one sentence, please"));
    }
    if let Err(problem) = check_schema(&capability.parameters, true) {
        problems.push(format!("`parameters`: {problem}"));
    }
    if let Err(problem) = check_schema(&capability.returns, false) {
        problems.push(format!("`returns`: {problem}"));
    }
    if capability.examples.is_empty() {
        problems.push(
            "`examples` is empty: give at least one call, {\"args\": …} with \"returns\" where the answer is known"
                .to_owned(),
        );
    }
    if capability.examples.len() > EXAMPLES {
        problems.push(format!("there are {} examples; at most {EXAMPLES} are taken", capability.examples.len()));
        return problems;
    }
    problems.extend(text_problems(capability));
    problems.extend(capability.grants.secrets.iter().filter_map(|name| dispatch.secret_problem(name)));
    for (index, example) in capability.examples.iter().enumerate() {
        if let Err(problem) = jarvis_dispatch::check_arguments(&capability.parameters, &example.args) {
            problems.push(format!("example {}: {problem}", index + 1));
        }
        if let Some(pattern) = &example.matches
            && let Err(problem) = regex::Regex::new(pattern)
        {
            problems.push(format!("example {}: `matches` is not a regular expression: {problem}", index + 1));
        }
    }
    problems
}

/// Everything that a person is shown when asked must read as what it is.
fn text_problems(capability: &Capability) -> Vec<String> {
    let grants = &capability.grants;
    let sentence = std::slice::from_ref(&capability.capability);
    let own = [
        ("capability", sentence),
        ("triggers", &*capability.triggers),
        ("suppression", &*capability.suppression),
        ("dependencies", &*capability.dependencies),
    ];
    let own = own.into_iter().map(|(field, list)| (field.to_owned(), list));
    let lists = own.chain(grants.lists().into_iter().map(|(kind, list)| (format!("grants.{kind}"), list)));
    let mut problems = Vec::new();
    for (field, list) in lists {
        if list.len() > LINES {
            problems.push(format!("`{field}` has {} entries; at most {LINES} are taken", list.len()));
        }
        if list.iter().any(|text| text.chars().any(|c| c == '\n' || is_deceptive(c))) {
            problems.push(format!("`{field}` holds control or direction characters, which can hide what it says"));
        }
        if list.iter().any(|text| text.chars().count() > LINE_CHARS) {
            problems.push(format!("an entry of `{field}` is longer than {LINE_CHARS} characters"));
        }
    }
    for host in &grants.network {
        if host.trim() == "*" {
            problems.push("`grants.network`: `*` would be the whole internet; name hosts".to_owned());
        } else if let Err(problem) = check_host(host) {
            problems.push(format!("`grants.network`: {problem}"));
        }
    }
    if !grants.secrets.is_empty() && grants.network.is_empty() {
        problems.push("`grants.secrets` without `grants.network`: a secret is only ever sent to a host".to_owned());
    }
    problems
}

/// Names that the code takes but the schema does not offer would always be undefined.
fn parameter_problems(capability: &Capability, checked: &Checked) -> Vec<String> {
    let offered: Vec<&str> = capability.takes().iter().map(|p| p.name).collect();
    checked
        .params
        .iter()
        .filter(|name| !offered.contains(&name.as_str()))
        .map(|name| {
            format!("the code takes `{name}`, which `parameters` does not offer (it has: {})", offered.join(", "))
        })
        .collect()
}

fn grant_problems(capability: &Capability, checked: &Checked) -> Vec<String> {
    let grants = &capability.grants;
    checked
        .uses
        .iter()
        .filter_map(|used| {
            let (call, field, granted) = crate::grants::needed(used.kind, grants)?;
            (!granted).then(|| format!("the code uses {call} (line {}), but `grants.{field}` is empty: list what it may reach, or do without", used.line))
        })
        .collect()
}

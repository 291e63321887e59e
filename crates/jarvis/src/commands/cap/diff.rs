//! `jarvis cap diff`: what changed from one version to another; what it may reach comes first.

use super::{existing, version};
use crate::error::{Failure, Outcome};
use crate::term;
use clap::Args;
use jarvis_protocol::{CapabilityName, ErrorBody, ErrorKind, Version};
use jarvis_registry::{DiffError, FieldChange, GrantChange, Registry};
use serde_json::{Value, json};

pub const HELP: &str = "\
Examples:
  jarvis cap diff fibonacci 1.0.0
  jarvis cap diff fibonacci 1.0.0 1.1.0";

#[derive(Debug, Args)]
pub struct Diff {
    name: String,
    /// As `jarvis cap history NAME` shows it.
    #[arg(value_parser = version)]
    from: Version,
    /// The current one, as it stands on disk, by default.
    #[arg(value_parser = version)]
    to: Option<Version>,
}

pub fn diff(registry: &Registry, args: &Diff, json: bool) -> Outcome {
    // A capability that was removed still has versions.
    let name = match (&args.to, CapabilityName::new(args.name.as_str())) {
        (Some(_), Ok(name)) if registry.history(&name).is_ok() => name,
        _ => existing(registry, &args.name)?.name,
    };
    let diff = registry.diff(&name, &args.from, args.to.as_ref())?;
    if json {
        let grants = |added: bool| -> Vec<Value> {
            let changed = diff.grants.iter().filter(|change| change.added == added);
            changed.map(|c| json!({"kind": c.kind, "grant": c.grant, "words": words(c)})).collect()
        };
        let fields: Vec<Value> =
            diff.fields.iter().map(|f| json!({"field": f.field, "before": f.before, "after": f.after})).collect();
        return term::json(&json!({
            "name": diff.name, "from": diff.from, "to": diff.to,
            "grants": {"added": grants(true), "removed": grants(false)}, "fields": fields, "code": diff.code,
        }));
    }
    let style = term::stdout_style();
    let mut lines = vec![style.bold(&format!("{} {} → {}", diff.name, diff.from, diff.to))];
    for change in &diff.grants {
        let words = term::flat(&words(change));
        // What is given is what to look at.
        lines.push(if change.added { style.red(&format!("+ {words}")) } else { style.green(&format!("- {words}")) });
    }
    if diff.grants.is_empty() {
        lines.push("it may reach the same as before".to_owned());
    }
    for change in &diff.fields {
        lines.push(style.bold(&format!("{}:", term::flat(&change.field))));
        let (gone, new) = sides(change);
        lines.extend(gone.iter().map(|text| style.red(&format!("  - {}", term::flat(text)))));
        lines.extend(new.iter().map(|text| style.green(&format!("  + {}", term::flat(text)))));
    }
    if diff.code.is_empty() {
        lines.push("the code is the same".to_owned());
    }
    lines.extend(diff.code.lines().map(|line| match line.as_bytes().first() {
        Some(b'+') => style.green(line),
        Some(b'-') => style.red(line),
        Some(b'@') => style.cyan(line),
        _ => line.to_owned(),
    }));
    term::line(lines.join("\n"))
}

fn words(change: &GrantChange) -> String {
    let may = if change.added { "may now" } else { "may no longer" };
    let grant = &change.grant;
    match change.kind {
        "network" => format!("{may} reach {grant} over the network"),
        "read" => format!("{may} read {grant}"),
        "write" => format!("{may} write {grant}"),
        "secrets" => format!("{may} use the secret {grant}"),
        kind => format!("{may} use {kind} {grant}"),
    }
}

/// What is only before and what is only after; of a list its items.
fn sides(change: &FieldChange) -> (Vec<String>, Vec<String>) {
    let items = |value: &Value| match value {
        Value::Null => Vec::new(),
        Value::Array(list) => list.clone(),
        other => vec![other.clone()],
    };
    let (before, after) = (items(&change.before), items(&change.after));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let only = |these: &[Value], those: &[Value]| -> Vec<String> {
        these.iter().filter(|item| !those.contains(item)).map(text).collect()
    };
    match (only(&before, &after), only(&after, &before)) {
        // The order alone.
        (gone, new) if gone.is_empty() && new.is_empty() => {
            (vec![change.before.to_string()], vec![change.after.to_string()])
        }
        sides => sides,
    }
}

impl From<DiffError> for Failure {
    fn from(error: DiffError) -> Self {
        match error {
            DiffError::Registry(error) => error.into(),
            DiffError::NoVersion { ref name, .. } => {
                let hint = format!("see `jarvis cap history {name}`");
                ErrorBody::new(ErrorKind::NotFound, error.to_string()).hint(hint).into()
            }
        }
    }
}

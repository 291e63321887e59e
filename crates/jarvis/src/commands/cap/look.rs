//! `jarvis cap list | show | history`: looking, changing nothing.

use super::{answering, calls, counted, existing};
use crate::cli::Reach;
use crate::error::Outcome;
use crate::home::Home;
use crate::show::grants;
use crate::{config, run, term};
use jarvis_model::fetch;
use jarvis_protocol::{Capability, CreatedBy, Egress, Example, Runtime, Status};
use jarvis_registry::{Code, FailingCall, Registry};
use serde_json::{Value, json};

pub fn list(registry: &Registry, json: bool) -> Outcome {
    let listing = registry.list()?;
    let damaged: Vec<Value> = listing.damaged.iter().map(|d| json!({"entry": d.entry, "problem": d.problem})).collect();
    if json {
        return term::json(&json!({"capabilities": listing.capabilities, "damaged": damaged}));
    }
    for entry in &listing.damaged {
        term::note(format!("damaged: {}: {}", term::flat(&entry.entry), entry.problem));
    }
    if listing.capabilities.is_empty() {
        term::status("nothing is registered yet; ask something that needs computing");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = listing
        .capabilities
        .iter()
        .map(|c| vec![c.signature(), c.version.to_string(), c.status.as_str().to_owned(), c.capability.clone()])
        .collect();
    term::table(&["capability", "version", "status", "what it does"], &rows)
}

pub fn show(home: &Home, name: &str, with_code: bool, json: bool) -> Outcome {
    let dispatch = run::dispatch(&config::load(home)?, &Reach::default(), home)?;
    let registry = dispatch.registry();
    // What is retired can be looked at although another one answers to its name.
    let capability = existing(registry, name).or_else(|_| answering(registry, name))?;
    let stats = counted(registry, &capability.name)?;
    // A definition that was imported without code has none yet.
    let code = match capability.tool_path.is_empty() {
        true => Code { text: String::new(), matches_digest: true },
        false => registry.code(&capability)?,
    };
    let related = calls::related(&dispatch, &capability)?;
    let failing = registry.failing_calls(&capability.name)?;
    if json {
        let mut shown = json!({
            "capability": capability, "code_matches_digest": code.matches_digest, "related": calls::shown(&related),
            "stats": {"runs": stats.runs, "failures": stats.failures, "mean_ms": stats.mean_ms,
                      "last_used": stats.last_used, "recent": stats.recent, "errors": stats.errors,
                      "egress": stats.egress},
            "failing_calls": failing.iter().map(failing_json).collect::<Vec<Value>>(),
        });
        if with_code {
            shown["code"] = json!(code.text);
        }
        return term::json(&shown);
    }
    let style = term::stdout_style();
    let mut out = vec![
        format!(
            "{}  {}  {}",
            style.bold(&term::flat(&capability.signature())),
            capability.version,
            capability.status.as_str()
        ),
        term::flat(&capability.capability),
    ];
    // Flat, so that no field can pass for another one.
    let mut add = |label: &str, text: String| {
        if !text.is_empty() {
            out.push(format!("{label:<12}{}", term::flat(&text)));
        }
    };
    add("also called", capability.aliases.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    add("fits", capability.triggers.join("; "));
    add("not for", capability.suppression.join("; "));
    if capability.grants.is_empty() {
        add("grants", "none: pure computation".to_owned());
    }
    for grant in grants(&capability.grants) {
        add("grants", grant);
    }
    add("made", [made_by(&capability), capability.created.clone()].join(", "));
    add("runs", format!("{} ({} failed), {:.1} ms on average", stats.runs, stats.failures, stats.mean_ms));
    for egress in &stats.egress {
        add("network", traffic(egress));
    }
    if capability.runtime != Runtime::Typescript {
        add("runtime", capability.runtime.as_str().to_owned());
    }
    add("packages", capability.dependencies.join(", "));
    add("calls", calls::names(&related.calls));
    add("called by", calls::names(&related.called_by));
    for example in &capability.examples {
        let held_out = if example.held_out { "  (held out)" } else { "" };
        add("example", format!("{} → {}{held_out}", example.args, wanted(example)));
    }
    for call in &failing {
        add("failed", format!("{}  {} → {}", call.version, call.args, call.error));
    }
    if capability.status == Status::Quarantined {
        add("quarantined", dispatch.way_back(&capability)?);
    }
    if !code.matches_digest {
        let name = &capability.name;
        add(
            "changed",
            format!(
                "the code was changed by hand since it was checked, so it does not run; to check it: jarvis cap check {name}"
            ),
        );
    }
    match capability.tool_path.is_empty() {
        true => add("code", "none yet; jarvis cap register gives it some".to_owned()),
        false => add("file", registry.root().join(&capability.tool_path).display().to_string()),
    }
    term::line(out.join("\n"))?;
    if with_code {
        term::line(format!("\n{}", code.text.trim_end()))?;
    }
    Ok(())
}

/// A kept call; its arguments as data where they are whole, else as the text that is left.
fn failing_json(call: &FailingCall) -> Value {
    let args = serde_json::from_str(&call.args).ok().filter(|_| call.exact);
    json!({
        "version": call.version, "args": args.unwrap_or_else(|| json!(call.args)), "exact": call.exact,
        "class": call.class, "error": call.error, "at": call.at,
    })
}

/// What it did with one host, in all its runs.
fn traffic(egress: &Egress) -> String {
    let host = if egress.host.is_empty() { "other hosts" } else { &egress.host };
    let denied = if egress.denied > 0 { format!(", {} refused", egress.denied) } else { String::new() };
    let (sent, received) = (fetch::size(egress.sent_bytes), fetch::size(egress.received_bytes));
    format!("{host}: {} requests{denied}, {sent} sent, {received} received", egress.requests)
}

/// What an example says about its result.
pub fn wanted(example: &Example) -> String {
    match (&example.returns, &example.matches) {
        (Some(value), None) => value.to_string(),
        (None, Some(pattern)) => format!("matches {pattern}"),
        (Some(value), Some(pattern)) => format!("{value}, matches {pattern}"),
        (None, None) => "(must run)".to_owned(),
    }
}

fn made_by(capability: &Capability) -> String {
    match (capability.created_by, &capability.model) {
        (CreatedBy::Human, _) => "by a person".to_owned(),
        (CreatedBy::Model, Some(model)) => format!("by {model}"),
        (CreatedBy::Model, None) => "by a model".to_owned(),
    }
}

pub fn history(registry: &Registry, name: &str, json: bool) -> Outcome {
    let capability = existing(registry, name)?;
    let entries = registry.history(&capability.name)?;
    if json {
        let versions: Vec<Value> = entries
            .iter()
            .map(|e| json!({"version": e.version, "date": e.date, "change": e.change, "commit": e.commit}))
            .collect();
        return term::json(&json!({"name": name, "versions": versions}));
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|e| {
            let commit = e.commit.as_deref().map_or("–", |c| c.get(..10).unwrap_or(c));
            vec![e.version.to_string(), e.date.clone(), commit.to_owned(), e.change.clone()]
        })
        .collect();
    term::table(&["version", "date", "commit", "change"], &rows)
}

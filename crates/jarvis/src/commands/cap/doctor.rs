//! `jarvis cap doctor`: what is wrong with the registry as a whole, and what settles it. Changes nothing.

use crate::cli::Reach;
use crate::error::Outcome;
use crate::home::Home;
use crate::{config, run, term};
use clap::Args;
use jarvis_forge::{Agreement, Forge, Library, Runs};
use jarvis_protocol::{Capability, CapabilityName};
use jarvis_registry::health::{
    self, CodeState, Duplicate, Failing, Fit, Group, Renamed, Saved, Siblings, Specific, Subject,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Executions of one look.
pub const MOST_RUNS: u32 = 2000;
/// What a search for a capability's own words is asked for.
const NEAR: usize = 12;

#[derive(Debug, Args)]
pub struct Doctor {
    /// Run duplicates on each other's recorded calls, too, where they reach nothing outside.
    #[arg(long)]
    run: bool,
    /// How many days old what never ran must be to be told.
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    days: i64,
}

/// One finding: what it is, and what settles it.
#[derive(Serialize)]
struct Finding {
    #[serde(flatten)]
    what: Value,
    /// For a person.
    says: String,
    /// None where there is nothing to do but to look.
    command: Option<String>,
}

#[derive(Serialize)]
struct Report {
    capabilities: usize,
    duplicates: Vec<Finding>,
    unused: Vec<Finding>,
    failing: Vec<Finding>,
    over_specific: Vec<Finding>,
    siblings: Vec<Finding>,
    not_running: Vec<Finding>,
    calls: Vec<Finding>,
    saved: Value,
}

pub fn doctor(home: &Home, args: &Doctor, json: bool) -> Outcome {
    let forge = run::forge(&config::load(home)?, &Reach::default(), home)?;
    let report = run::block(async |signals| look(&forge, args, &signals.work()).await)?;
    if json { term::json(&report) } else { print(&report) }
}

async fn look(forge: &Forge, args: &Doctor, cancel: &CancellationToken) -> Outcome<Report> {
    let library = forge.library().await?;
    let subjects = &library.subjects;
    let pairs = duplicates(forge, subjects);
    let groups = health::groups(&pairs);
    let mut runs = Runs(MOST_RUNS);
    let mut duplicates = Vec::new();
    for group in &groups {
        let mut agreements = Vec::new();
        for pair in &group.others {
            let seen = match args.run {
                true => Some(forge.agreement(&library, pair, &mut runs, cancel).await?),
                false => None,
            };
            agreements.push(seen);
        }
        duplicates.push(duplicate(&library, group, &agreements));
    }
    let now = forge.dispatch().now();
    Ok(Report {
        capabilities: subjects.len(),
        duplicates,
        unused: health::unused(subjects, now, args.days).iter().map(unused).collect(),
        failing: health::failing(subjects).iter().map(failing).collect(),
        over_specific: health::specific(subjects).iter().map(over_specific).collect(),
        siblings: health::siblings(subjects).iter().map(siblings).collect(),
        not_running: not_running(&library),
        calls: health::calls(subjects).iter().map(call).collect(),
        saved: saved_json(&health::saved(subjects.iter().map(Subject::spent))),
    })
}

/// Every pair that could be one; in a large registry only what a search finds near.
pub fn duplicates(forge: &Forge, subjects: &[Subject]) -> Vec<Duplicate> {
    let near = |capability: &Capability| {
        let hits = forge.dispatch().registry().search(&capability.capability, NEAR).unwrap_or_default();
        hits.into_iter().map(|hit| hit.capability.name).collect()
    };
    health::duplicates(subjects, &near)
}

fn duplicate(library: &Library, group: &Group, agreements: &[Option<Agreement>]) -> Finding {
    // What was changed by hand becomes a version, or goes, before it is made one with another.
    let runs = |name: &CapabilityName| library.get(name).is_some_and(|subject| subject.sound().is_some());
    let (mut others, mut says, mut unify, mut maps) = (Vec::new(), Vec::new(), Vec::new(), Renamed::new());
    for (pair, seen) in group.others.iter().zip(agreements) {
        let way = match &pair.fit {
            Fit::Plain(renamed) => Some(renamed.clone()),
            Fit::Open(_) => seen.as_ref().and_then(|seen| seen.renamed.clone()),
        };
        // How alike their words are says nothing about the same code.
        let mut said = match pair.same_code {
            true => format!("{}: the same code", pair.other),
            false => format!("{}: the same meaning ({:.2})", pair.other, pair.similarity),
        };
        if let Some(seen) = seen {
            said.push_str(&match &seen.not_run {
                Some(why) if seen.calls == 0 => format!(", not run: {why}"),
                _ => format!(", agree on {} of {} recorded calls", seen.agreed, seen.calls),
            });
            if let Some(first) = seen.differ.first() {
                said.push_str(&format!(", not on {}", term::cut(first, 80)));
            }
        }
        says.push(said);
        let agree = seen.as_ref().is_none_or(|seen| seen.differ.is_empty());
        if agree && runs(&group.keep) && runs(&pair.other) {
            unify.push(pair.other.to_string());
            maps.extend(way.clone().filter(|_| matches!(pair.fit, Fit::Open(_))).unwrap_or_default());
        }
        others.push(json!({
            "name": pair.other, "similarity": pair.similarity, "same_code": pair.same_code, "arguments": way,
            "agree": seen.as_ref().filter(|seen| seen.calls > 0)
                .map(|seen| json!({"calls": seen.calls, "agreed": seen.agreed, "differ": seen.differ})),
            "not_run": seen.as_ref().and_then(|seen| seen.not_run.clone()),
        }));
    }
    let flags: String = maps.iter().map(|(from, to)| format!(" --map {from}={to}")).collect();
    Finding {
        what: json!({"keep": group.keep, "others": others}),
        says: format!("{} ← {}", group.keep, says.join("; ")),
        command: (!unify.is_empty()).then(|| format!("jarvis cap unify {} {}{flags}", group.keep, unify.join(" "))),
    }
}

fn unused(found: &health::Unused) -> Finding {
    let age = found.days.map_or("of an unknown date".to_owned(), |days| format!("{days} days old"));
    Finding {
        what: json!({"name": found.name, "created": found.created, "days": found.days}),
        says: format!("{}: {age}, never ran", found.name),
        command: Some(format!("jarvis cap disable {}", found.name)),
    }
}

fn failing(found: &Failing) -> Finding {
    let errors: Vec<String> = found.errors.iter().map(|(class, count)| format!("{class} {count}×")).collect();
    let command = match &found.better {
        Some(version) => format!("jarvis cap rollback {} {version}", found.name),
        // An import that nobody has looked at.
        None if found.runs == 0 => format!("jarvis cap check {}", found.name),
        None => format!("jarvis cap repair {}", found.name),
    };
    Finding {
        what: json!({
            "name": found.name, "status": found.status, "version": found.version, "runs": found.runs,
            "failures": found.failures, "errors": found.errors, "better": found.better,
        }),
        says: format!(
            "{} {} ({}): {} of {} runs failed{}{}",
            found.name,
            found.version,
            found.status.as_str(),
            found.failures,
            found.runs,
            if errors.is_empty() { "" } else { "; " },
            errors.join(", ")
        ),
        command: Some(command),
    }
}

fn over_specific(found: &Specific) -> Finding {
    let places: Vec<&str> = found.found_in.iter().map(|place| place.as_str()).collect();
    let request = format!("Register a new version of {} in which {} is a parameter.", found.name, found.value);
    Finding {
        what: json!({"name": found.name, "value": found.value, "found_in": places}),
        says: format!("{}: `{}` is written into the code ({})", found.name, found.value, places.join(", ")),
        command: Some(format!("jarvis {}", quoted(&request))),
    }
}

fn siblings(found: &Siblings) -> Finding {
    let names: Vec<&str> = found.names.iter().map(|name| name.as_str()).collect();
    let differ: Vec<String> = found.differ.iter().map(|values| values.join(" / ")).collect();
    let request = format!(
        "Register one capability in place of {}: their code differs only in {}, which should be a parameter.",
        names.join(" and "),
        differ.join(", ")
    );
    Finding {
        what: json!({"names": names, "differ": found.differ}),
        says: format!("{}: the same code but for {}", names.join(", "), differ.join("; ")),
        command: Some(format!("jarvis {}", quoted(&request))),
    }
}

fn not_running(library: &Library) -> Vec<Finding> {
    let versions: BTreeMap<&str, usize> =
        library.subjects.iter().map(|s| (s.capability.name.as_str(), s.capability.changelog.len())).collect();
    let mut found: Vec<Finding> = health::broken(&library.subjects)
        .iter()
        .map(|broken| {
            let name = broken.name.as_str();
            let edited = library.get(&broken.name).is_some_and(|s| matches!(s.code, CodeState::Edited(_)));
            let command = match edited {
                true => format!("jarvis cap check {name}"),
                false if versions.get(name).is_some_and(|count| *count > 1) => format!("jarvis cap rollback {name}"),
                false => format!("jarvis cap rm {name}"),
            };
            Finding {
                what: json!({"name": name, "edited": broken.edited, "problem": broken.problem}),
                says: format!("{name}: {}", broken.problem),
                command: Some(command),
            }
        })
        .collect();
    found.extend(library.damaged.iter().map(|damaged| Finding {
        what: json!({"entry": damaged.entry, "edited": false, "problem": damaged.problem}),
        says: format!("{}: {}", damaged.entry, damaged.problem),
        command: None,
    }));
    found
}

fn call(found: &health::Call) -> Finding {
    let problem = found.problem.as_ref().map(|problem| format!("; it would fail: {problem}")).unwrap_or_default();
    let command = found.problem.as_ref().map(|_| format!("jarvis cap show {} --code", found.caller));
    Finding {
        what: json!({"caller": found.caller, "callee": found.callee, "problem": found.problem}),
        says: format!("{} calls {}{problem}", found.caller, found.callee),
        command,
    }
}

/// How the figures come about, in every output that shows them.
pub const HOW: &str = "an estimate: what building took, measured, times the successful runs after the first, as if each \
    would have been built anew at the same expense; what reading the registry costs is not taken off";

pub fn saved_json(saved: &Saved) -> Value {
    json!({
        "reuses": saved.reuses, "seconds": saved.seconds, "reuses_timed": saved.reuses_timed, "tokens": saved.tokens,
        "reuses_counted": saved.reuses_counted, "cost_usd": saved.cost_usd, "not_recorded": saved.not_recorded, "how": HOW,
    })
}

/// What reuse saved, in lines for a person.
pub fn saved_lines(saved: &Value) -> Vec<String> {
    let figure = |key: &str, unit: &str, of: &str| match saved[key].as_f64() {
        Some(value) => format!("{value:.0} {unit} (of {} reuses)", saved[of]),
        None => format!("{unit}: not recorded"),
    };
    let mut lines = vec![format!(
        "{} reuses; {}; {}",
        saved["reuses"],
        figure("tokens", "tokens", "reuses_counted"),
        figure("seconds", "seconds", "reuses_timed")
    )];
    if let Some(cost) = saved["cost_usd"].as_f64() {
        lines.push(format!("{cost:.4} US dollars"));
    }
    let unknown: Vec<&str> = saved["not_recorded"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !unknown.is_empty() {
        lines.push(format!("what building took is not recorded for {}", unknown.join(", ")));
    }
    lines
}

fn print(report: &Report) -> Outcome {
    let style = term::stdout_style();
    let sections: [(&str, &[Finding]); 7] = [
        ("there twice", &report.duplicates),
        ("never used", &report.unused),
        ("failing", &report.failing),
        ("too specific", &report.over_specific),
        ("differ in values alone", &report.siblings),
        ("not running", &report.not_running),
        ("calls", &report.calls),
    ];
    let mut nothing = true;
    for (title, findings) in sections.into_iter().filter(|(_, findings)| !findings.is_empty()) {
        nothing = false;
        term::line(style.bold(title))?;
        for finding in findings {
            term::line(format!("  {}", term::flat(&finding.says)))?;
            if let Some(command) = &finding.command {
                term::line(format!("    {}", style.dim(&term::flat(command))))?;
            }
        }
    }
    if nothing {
        term::line(format!("{} capabilities, nothing to settle", report.capabilities))?;
    }
    term::line(style.bold("what reuse saved"))?;
    for line in saved_lines(&report.saved) {
        term::line(format!("  {}", term::flat(&line)))?;
    }
    term::status(HOW);
    Ok(())
}

/// For a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

//! `jarvis cap stats`: what ran, how it went, and how healthy the library is.

use super::answering;
use super::doctor::{HOW, MOST_RUNS, duplicates, saved_json, saved_lines};
use crate::cli::Reach;
use crate::error::Outcome;
use crate::home::Home;
use crate::{config, run, term};
use clap::Args;
use jarvis_audit::{AuditLog, Filter, Kind};
use jarvis_forge::Runs;
use jarvis_protocol::{Capability, CapabilityName};
use jarvis_registry::Registry;
use jarvis_registry::health::{self, Build, Health, Spent};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Runs of the audit that are looked at for who asked for them.
const LOOKED_AT: usize = 1000;

#[derive(Debug, Args)]
pub struct Stats {
    /// One capability; without it all.
    name: Option<String>,
    /// The measures of the library as a whole; docs/health.md says what each means.
    #[arg(long, conflicts_with = "name")]
    health: bool,
    /// With --health: run the recorded examples of what reaches nothing outside, for the regression stability.
    #[arg(long, requires = "health")]
    run: bool,
}

pub fn stats(home: &Home, args: &Stats, json: bool) -> Outcome {
    if args.health {
        return library(home, args.run, json);
    }
    let registry = run::registry(home)?;
    match &args.name {
        Some(name) => one(home, &registry, &answering(&registry, name)?, json),
        None => all(&registry, json),
    }
}

fn all(registry: &Registry, json: bool) -> Outcome {
    let mut kept = Vec::new();
    for capability in registry.list()?.capabilities {
        let (stats, builds) = (registry.stats(&capability.name)?, registry.builds(&capability.name)?);
        kept.push((registry.timing(&capability.name)?, capability, stats, builds));
    }
    let spent = |kept: &'_ (_, Capability, jarvis_registry::Stats, Vec<Build>)| -> u64 {
        Spent { name: &kept.1.name, stats: &kept.2, builds: &kept.3 }.reuses()
    };
    let saved = health::saved(kept.iter().map(|(_, cap, stats, builds)| Spent { name: &cap.name, stats, builds }));
    let saved = saved_json(&saved);
    if json {
        let rows: Vec<Value> = kept
            .iter()
            .map(|row| {
                let (timing, capability, stats, _) = row;
                json!({
                    "name": capability.name, "version": capability.version, "status": capability.status,
                    "runs": stats.runs, "failures": stats.failures, "mean_ms": stats.mean_ms,
                    "p95_ms": timing.map(|t| t.p95_ms), "last_used": stats.last_used, "reuses": spent(row),
                })
            })
            .collect();
        return term::json(&json!({"capabilities": rows, "saved": saved}));
    }
    let rows: Vec<Vec<String>> = kept
        .iter()
        .map(|row| {
            let (timing, capability, stats, _) = row;
            vec![
                capability.name.to_string(),
                stats.runs.to_string(),
                stats.failures.to_string(),
                format!("{:.1}", stats.mean_ms),
                timing.map_or_else(|| "–".to_owned(), |t| format!("{:.1}", t.p95_ms)),
                spent(row).to_string(),
                stats.last_used.clone().unwrap_or_else(|| "never".to_owned()),
            ]
        })
        .collect();
    term::table(&["capability", "runs", "failed", "mean ms", "p95 ms", "reuses", "last used"], &rows)?;
    for line in saved_lines(&saved) {
        term::line(format!("reuse saved: {}", term::flat(&line)))?;
    }
    term::status(HOW);
    Ok(())
}

fn one(home: &Home, registry: &Registry, capability: &Capability, json: bool) -> Outcome {
    let name = &capability.name;
    let (stats, versions) = (registry.stats(name)?, registry.version_stats(name)?);
    let (builds, timing) = (registry.builds(name)?, registry.timing(name)?);
    let spent = Spent { name, stats: &stats, builds: &builds };
    let saved = saved_json(&health::saved([spent]));
    let by = who(home, name)?;
    if json {
        let versions: Vec<Value> = versions
            .iter()
            .map(|v| {
                json!({"version": v.version, "runs": v.runs, "failures": v.failures, "mean_ms": v.mean_ms,
                       "last_used": v.last_used})
            })
            .collect();
        let builds: Vec<Value> = builds.iter().map(build_json).collect();
        return term::json(&json!({
            "name": name, "version": capability.version, "status": capability.status, "aliases": capability.aliases,
            "runs": stats.runs, "failures": stats.failures, "mean_ms": stats.mean_ms,
            "p95_ms": timing.map(|t| t.p95_ms), "p95_of": timing.map(|t| t.runs), "last_used": stats.last_used,
            "recent": stats.recent, "errors": stats.errors, "egress": stats.egress, "versions": versions, "by": by,
            "builds": builds, "reuses": spent.reuses(), "saved": saved,
        }));
    }
    let add = |label: &str, text: String| match text.is_empty() {
        true => Ok(()),
        false => term::line(format!("{label:<12}{}", term::flat(&text))),
    };
    add("capability", format!("{} {} ({})", name, capability.version, capability.status.as_str()))?;
    add("also called", capability.aliases.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))?;
    let p95 = timing.map(|t| format!(", p95 {:.1} ms of the last {}", t.p95_ms, t.runs)).unwrap_or_default();
    add("runs", format!("{} ({} failed), {:.1} ms on average{p95}", stats.runs, stats.failures, stats.mean_ms))?;
    add("last used", stats.last_used.clone().unwrap_or_else(|| "never".to_owned()))?;
    for v in &versions {
        add(
            "version",
            format!("{}: {} runs, {} failed, {:.1} ms on average", v.version, v.runs, v.failures, v.mean_ms),
        )?;
    }
    for (class, count) in &stats.errors {
        add("errors", format!("{class} {count}×"))?;
    }
    for egress in &stats.egress {
        let host = if egress.host.is_empty() { "other hosts" } else { &egress.host };
        add("network", format!("{host}: {} requests, {} refused", egress.requests, egress.denied))?;
    }
    for (actor, count) in &by {
        add("by", format!("{actor} {count}×, by the audit"))?;
    }
    for build in &builds {
        let tokens = build.tokens().map_or("tokens not recorded".to_owned(), |tokens| format!("{tokens} tokens"));
        add("built", format!("{} in {:.1} s, {tokens}", build.version, build.wall_ms as f64 / 1000.0))?;
    }
    for line in saved_lines(&saved) {
        add("saved", line)?;
    }
    Ok(())
}

fn build_json(build: &Build) -> Value {
    let usage = build.usage.map(|(input, output, cost)| {
        json!({"input_tokens": input, "output_tokens": output, "cost_usd": (cost > 0.0).then_some(cost)})
    });
    json!({"version": build.version, "at": build.at, "wall_ms": build.wall_ms, "usage": usage})
}

/// Who asked for its latest runs, as far as the audit goes back.
fn who(home: &Home, name: &CapabilityName) -> Outcome<BTreeMap<String, u64>> {
    let filter = Filter { kind: Some(Kind::Intent), subject: Some(name.to_string()), ..Filter::default() };
    let mut by = BTreeMap::new();
    for entry in AuditLog::open(home.audit()).tail(LOOKED_AT, &filter)?.entries {
        // A version that is registered, and no draft that was tried.
        if entry.record.detail["subject"].to_string().contains("\"version\"") {
            *by.entry(entry.record.actor).or_default() += 1;
        }
    }
    Ok(by)
}

fn library(home: &Home, with_examples: bool, json: bool) -> Outcome {
    let forge = run::forge(&config::load(home)?, &Reach::default(), home)?;
    let health = run::block(async |signals| {
        let library = forge.library().await?;
        let examples = match with_examples {
            true => Some(forge.run_examples(&library, &mut Runs(MOST_RUNS), &signals.work()).await?),
            false => None,
        };
        Ok(health::health(&library.subjects, &duplicates(&forge, &library.subjects), examples))
    })?;
    if json {
        return term::json(&health_json(&health));
    }
    let rows: Vec<Vec<String>> = rows(&health)
        .into_iter()
        .map(|(measure, value, of)| vec![measure.to_owned(), value.unwrap_or_else(|| "–".to_owned()), of])
        .collect();
    term::table(&["measure", "value", "of"], &rows)?;
    term::status("what each means, its formula and its source: docs/health.md");
    Ok(())
}

fn health_json(health: &Health) -> Value {
    let (reuse, composition, safety) = (&health.reuse, &health.composition, &health.safety);
    json!({
        "active": health.active,
        "reuse": {"rate": reuse.rate, "precision": reuse.precision, "used": reuse.used, "runs": reuse.runs},
        "redundancy": {"rate": health.redundancy, "share": health.redundant_share},
        "regression": {
            "stability": health.regression_stability,
            "examples": health.examples.as_ref().map(|e| json!({
                "ran": e.ran, "passed": e.passed, "not_run": e.not_run, "failing": e.failing})),
        },
        "composition": {"composed": composition.composed, "share": composition.share, "success": composition.success,
                        "depth": composition.depth, "cycles": composition.cycles},
        "safety": {"score": safety.score, "unchecked": safety.unchecked, "undeclared": safety.undeclared,
                   "refused": safety.refused, "pure": safety.pure},
    })
}

fn rows(health: &Health) -> Vec<(&'static str, Option<String>, String)> {
    let share = |value: Option<f64>| value.map(|value| format!("{value:.3}"));
    let (reuse, composition, safety) = (&health.reuse, &health.composition, &health.safety);
    let examples = match &health.examples {
        Some(e) => format!("{} of {} recorded examples pass, {} not run", e.passed, e.ran, e.not_run),
        None => "not measured: --run runs the recorded examples".to_owned(),
    };
    let named = |label: &str, names: &[CapabilityName]| match names.is_empty() {
        true => String::new(),
        false => format!("; {label}: {}", names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ")),
    };
    let marks = [
        named("changed by hand", &safety.unchecked),
        named("undeclared", &safety.undeclared),
        named("refused a host", &safety.refused),
    ];
    vec![
        ("reuse rate", share(reuse.rate), format!("{} runs: those after the first of each capability", reuse.runs)),
        ("reuse precision", share(reuse.precision), "runs: those that went well".to_owned()),
        ("used", share(reuse.used), format!("{} active capabilities: those that ran", health.active)),
        ("redundancy", share(health.redundancy), "pairs: those that could be one".to_owned()),
        ("redundant share", share(health.redundant_share), "capabilities: those that could go".to_owned()),
        ("regression stability", share(health.regression_stability), examples),
        ("composition", share(composition.share), format!("capabilities: {} call another", composition.composed)),
        ("composition success", share(composition.success), "runs of those: that went well".to_owned()),
        (
            "composition depth",
            Some(composition.depth.to_string()),
            format!("calls, the longest chain{}", named("in a circle", &composition.cycles)),
        ),
        ("safety", share(safety.score), format!("capabilities: checked, declared, never refused{}", marks.concat())),
        ("pure", share(safety.pure), "capabilities: reach nothing outside".to_owned()),
    ]
}

//! `jarvis cap search`: what fits a request, also among what is quarantined.

use super::counted;
use crate::error::Outcome;
use crate::home::Home;
use crate::{config, model, run, term};
use jarvis_agent::find;
use jarvis_protocol::Status;
use jarvis_registry::{FITS, Hit, Registry, Statuses};
use serde_json::{Value, json};

/// Most hits of one search.
const HITS: usize = 20;

pub fn search(home: &Home, query: &str, json: bool) -> Outcome {
    let registry = run::registry(home)?;
    let embedder = model::embedder(&config::load(home)?, home)?;
    let found = match &embedder {
        // No runtime is started for a search in this process.
        None => registry.search_with(query, HITS, Statuses::WithQuarantined)?,
        Some(embedder) => run::block(async |_| {
            let found = find(&registry, Some(embedder), query, HITS, Statuses::WithQuarantined).await?;
            if let Some(notice) = found.notice {
                term::note(notice);
            }
            Ok(found.hits)
        })?,
    };
    if json {
        let nothing_fits = !found.iter().any(fits);
        let hits = found.iter().map(|hit| hit_json(&registry, hit)).collect::<Outcome<Vec<Value>>>()?;
        return term::json(&json!({"query": query, "nothing_fits": nothing_fits, "hits": hits}));
    }
    if found.is_empty() {
        term::status("nothing fits");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|hit| {
            let fits = match &hit.suppressed_by {
                Some(reason) => format!("no: {reason}"),
                None if hit.score >= FITS => "yes".to_owned(),
                None => "hardly".to_owned(),
            };
            vec![
                hit.capability.name.to_string(),
                format!("{:.2}", hit.score),
                fits,
                hit.capability.status.as_str().to_owned(),
                hit.capability.capability.clone(),
            ]
        })
        .collect();
    term::table(&["capability", "score", "fits", "status", "what it does"], &rows)
}

/// Good enough to be used for the request; what is not is shown all the same, as what comes nearest.
fn fits(hit: &Hit) -> bool {
    hit.score >= FITS && hit.suppressed_by.is_none()
}

fn hit_json(registry: &Registry, hit: &Hit) -> Outcome<Value> {
    let stats = counted(registry, &hit.capability.name)?;
    Ok(json!({
        "name": hit.capability.name, "score": hit.score, "fits": fits(hit),
        "status": hit.capability.status, "runnable": hit.capability.status == Status::Active,
        "suppressed_by": hit.suppressed_by, "signature": hit.capability.signature(),
        "capability": hit.capability.capability, "runs": stats.runs, "failures": stats.failures,
    }))
}

//! How good the search is on two labelled sets of the kinds of tools that agents have, in English and Chinese. The
//! ranking was tuned on `tuned.json` alone; the other one, with other capabilities, says what that is worth.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::Home;
use common::corpus::{fill, filler};
use jarvis_protocol::Capability;
use jarvis_registry::{Labelled, Quality, quality};

/// `JARVIS_SHOW_FAULTS` prints what went wrong; not to be used with the set that is held out.
fn measure(file: &str, fillers: usize) -> Quality {
    let path = format!("{}/tests/retrieval/{file}", env!("CARGO_MANIFEST_DIR"));
    let labelled: Labelled = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut all: Vec<Capability> = labelled.capabilities.into_iter().map(Capability::from).collect();
    assert!(all.len() >= 60 && labelled.queries.len() >= 160, "{file} lost something");
    all.extend(filler(fillers));
    let home = Home::new();
    let found = quality(&fill(&home, &all), &labelled.queries, |_| true).unwrap();
    println!(
        "{file}, {} capabilities: recall@1 {:.3}, recall@5 {:.3}, MRR {:.3}, fitting@5 {:.3} of {}; nothing fits {:.3} of {}",
        all.len(),
        found.recall_at_1,
        found.recall_at_5,
        found.mrr,
        found.fitting_at_5,
        found.matching,
        found.no_match_accuracy,
        found.without_match,
    );
    if std::env::var_os("JARVIS_SHOW_FAULTS").is_some() && file == "tuned.json" {
        println!("{}", found.faults.join("\n"));
    }
    found
}

#[test]
fn figures() {
    for file in ["tuned.json", "held_out.json"] {
        for fillers in [0, 2000] {
            measure(file, fillers);
        }
    }
}

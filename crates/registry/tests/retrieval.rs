//! How good the search is on two labelled sets of the kinds of tools that agents have, in English and Chinese. The
//! ranking was tuned on `tuned.json` alone; the other one, with other capabilities, says what that is worth.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its figures"
)]

mod common;

use common::Home;
use common::corpus::{fill, filler};
use jarvis_protocol::Capability;
use jarvis_registry::{Labelled, Quality, quality};

/// `JARVIS_SHOW_FAULTS` prints what went wrong; not to be used with the set that is held out.
fn measure(file: &str, fillers: usize) -> Quality {
    let path = format!("tests/retrieval/{file}");
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

/// A little below what was measured.
struct Floor {
    recall_at_5: f64,
    mrr: f64,
    fitting_at_5: f64,
    no_match_accuracy: f64,
}

fn holds(file: &str, fillers: usize, floor: &Floor) {
    let found = measure(file, fillers);
    assert!(found.recall_at_5 >= floor.recall_at_5, "recall@5 {}", found.recall_at_5);
    assert!(found.mrr >= floor.mrr, "MRR {}", found.mrr);
    assert!(found.fitting_at_5 >= floor.fitting_at_5, "fitting@5 {}", found.fitting_at_5);
    assert!(found.no_match_accuracy >= floor.no_match_accuracy, "nothing fits {}", found.no_match_accuracy);
}

#[test]
fn requests_of_the_set_that_was_tuned_on_find_what_they_are_for() {
    holds("tuned.json", 0, &Floor { recall_at_5: 0.98, mrr: 0.96, fitting_at_5: 0.9, no_match_accuracy: 0.93 });
    holds("tuned.json", 2000, &Floor { recall_at_5: 0.98, mrr: 0.96, fitting_at_5: 0.85, no_match_accuracy: 0.93 });
}

#[test]
fn requests_of_the_set_that_was_held_out_find_what_they_are_for() {
    holds("held_out.json", 0, &Floor { recall_at_5: 0.96, mrr: 0.95, fitting_at_5: 0.89, no_match_accuracy: 0.93 });
    holds("held_out.json", 2000, &Floor { recall_at_5: 0.96, mrr: 0.94, fitting_at_5: 0.87, no_match_accuracy: 0.9 });
}

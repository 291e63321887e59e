//! The crates depend on each other only as ARCHITECTURE.md says.
#![allow(clippy::disallowed_methods, reason = "asks cargo for the workspace's own metadata")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The table of ARCHITECTURE.md. `jarvis` may depend on all; `testkit` only serves tests.
const MAY_DEPEND: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("policy", &["protocol"]),
    ("audit", &["protocol"]),
    ("sandbox", &["protocol", "policy"]),
    ("shell", &[]),
    ("registry", &["protocol"]),
    ("memory", &["protocol"]),
    ("model", &["protocol"]),
    ("dispatch", &["protocol", "policy", "audit", "sandbox", "registry", "shell"]),
    ("forge", &["protocol", "model", "registry", "dispatch"]),
    ("agent", &["protocol", "memory", "model", "registry", "dispatch", "forge"]),
    ("host", &["protocol", "policy", "memory", "model", "dispatch", "agent"]),
    ("acp", &["protocol", "policy", "memory", "agent", "host"]),
    ("http", &["protocol", "policy", "audit", "memory", "registry", "agent", "host"]),
    ("mcp", &["protocol", "audit", "memory", "dispatch", "agent"]),
    (
        "jarvis",
        &[
            "protocol", "policy", "audit", "sandbox", "shell", "registry", "memory", "model", "dispatch", "forge",
            "agent", "host", "acp", "http", "mcp",
        ],
    ),
];

fn metadata() -> Value {
    let manifest = crate::common::source("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline", "--manifest-path"])
        .arg(manifest)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn short(name: &str) -> &str {
    name.strip_prefix("jarvis-").unwrap_or(name)
}

/// Of each crate, the crates of this workspace that it ships with; its tests may use others.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    metadata()["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let of = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|d| d["kind"] != "dev" && d["path"].is_string())
                .map(|d| short(d["name"].as_str().unwrap()).to_owned())
                .collect();
            (short(package["name"].as_str().unwrap()).to_owned(), of)
        })
        .collect()
}

#[test]
fn every_crate_depends_only_on_the_layers_below_it() {
    let table: BTreeMap<&str, BTreeSet<&str>> =
        MAY_DEPEND.iter().map(|(name, may)| (*name, may.iter().copied().collect())).collect();
    let mut checked = 0;
    for (name, uses) in dependencies() {
        if name == "testkit" {
            continue;
        }
        let may = table
            .get(name.as_str())
            .unwrap_or_else(|| panic!("`{name}` is not in the table: add it here and in ARCHITECTURE.md"));
        for used in &uses {
            assert!(may.contains(used.as_str()), "`{name}` must not depend on `{used}`");
        }
        checked += 1;
    }
    // A folder that moved must not make this test pass with nothing checked.
    assert_eq!(checked, MAY_DEPEND.len(), "crates in the table and in the workspace");
}

#[test]
fn testkit_is_used_by_tests_alone() {
    for (name, uses) in dependencies() {
        assert!(!uses.contains("testkit"), "`{name}` ships testkit");
    }
}

#[test]
fn architecture_md_shows_the_same_table() {
    let text = std::fs::read_to_string(crate::common::source("../../ARCHITECTURE.md")).unwrap();
    for (name, may) in MAY_DEPEND.iter().filter(|(name, _)| *name != "jarvis") {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| {name} |")))
            .unwrap_or_else(|| panic!("no row for {name}"));
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap().trim();
        let shown: BTreeSet<&str> = cell.split(", ").filter(|word| !word.is_empty() && *word != "–").collect();
        assert_eq!(shown, may.iter().copied().collect(), "the row of {name}");
    }
}

//! The embedded model, for real: a few tasks of each kind through the shipped binary. `./test` fetches the model and
//! names its folder; the whole set is run with `jarvis bench selfext --tasks bench/selfext.json`.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

use serde_json::{Value, json};
use std::process::Command;

const TASKS: [&str; 6] = ["lcm", "hex", "snake", "charcount", "zh_avg", "fact"];
const REUSE: [&str; 2] = ["lcm", "hex"];
const TALK: [&str; 2] = ["thanks a lot", "再见"];

/// The tasks named above, out of the set that the figures in BENCHMARKS.md come from.
fn selection() -> Value {
    let all: Value = serde_json::from_str(include_str!("../../../bench/selfext.json")).unwrap();
    let pick = |part: &str, ids: &[&str]| -> Vec<Value> {
        let list = all[part].as_array().unwrap();
        ids.iter().map(|id| list.iter().find(|t| t["id"] == *id).unwrap().clone()).collect()
    };
    json!({"tasks": pick("tasks", &TASKS), "reuse": pick("reuse", &REUSE), "small_talk": TALK})
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test starts the shipped binary")]
fn the_embedded_model_builds_reuses_and_leaves_small_talk_alone() {
    let Some(models) = std::env::var_os("JARVIS_TEST_MODEL_DIR") else {
        println!("skipped: JARVIS_TEST_MODEL_DIR is not set; ./test fetches the model and sets it");
        return;
    };
    if cfg!(not(feature = "local")) {
        println!("skipped: built without the embedded engine");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("tasks.json");
    std::fs::write(&file, selection().to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_jarvis"))
        .args(["bench", "selfext", "--json", "--model", "local", "--tasks"])
        .arg(&file)
        .env("JARVIS_HOME", home.path())
        .env("JARVIS_MODELS", models)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&printed).unwrap();
    let totals = &report["totals"];
    let right = totals["right"].as_u64().unwrap();
    assert!(right >= 5, "{right} of {} right: {report:#}", TASKS.len());
    assert_eq!(totals["false_builds"], 0, "{report:#}");
    for row in report["rows"].as_array().unwrap().iter().filter(|r| r["part"] == "reuse") {
        // A task that was not built cannot be reused; then its own row has failed already.
        let made = report["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|r| r["part"] == "task" && r["id"] == row["id"] && r["built"] != json!([]));
        assert!(!made || row["reused"] == true, "{row:#}");
    }
}

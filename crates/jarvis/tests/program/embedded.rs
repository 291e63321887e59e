//! The embedded model, for real: a few tasks of each kind through the shipped binary. `./test` fetches the model and
//! names its folder; the whole set is run with `jarvis bench selfext --tasks bench/selfext.json`.

use crate::common::Home;
use serde_json::{Value, json};

const TASKS: [&str; 6] = ["lcm", "hex", "snake", "charcount", "zh_avg", "fact"];
const REUSE: [&str; 2] = ["lcm", "hex"];
const TALK: [&str; 2] = ["thanks a lot", "再见"];

/// The tasks named above, out of the set that the figures in BENCHMARKS.md come from.
fn selection() -> Value {
    let all: Value = serde_json::from_str(include_str!("../../../../bench/selfext.json")).unwrap();
    let pick = |part: &str, ids: &[&str]| -> Vec<Value> {
        let list = all[part].as_array().unwrap();
        ids.iter().map(|id| list.iter().find(|t| t["id"] == *id).unwrap().clone()).collect()
    };
    json!({"tasks": pick("tasks", &TASKS), "reuse": pick("reuse", &REUSE), "small_talk": TALK})
}

#[test]
fn the_embedded_model_builds_reuses_and_leaves_small_talk_alone() {
    let Some(models) = std::env::var_os("JARVIS_TEST_MODEL_DIR") else {
        return jarvis_testkit::skipped("tasks for the embedded model: JARVIS_TEST_MODEL_DIR is not set");
    };
    if cfg!(not(feature = "local")) {
        return jarvis_testkit::skipped("tasks for the embedded model: built without the embedded engine");
    }
    let home = Home::new().var("JARVIS_MODELS", models.to_str().unwrap());
    home.write("tasks.json", &selection().to_string());
    let report = home.run(&["bench", "selfext", "--json", "--model", "local", "--tasks", "tasks.json"]).ok().json();
    let totals = &report["totals"];
    let right = totals["right"].as_u64().unwrap();
    assert!(right >= 5, "{right} of {} right: {report:#}", TASKS.len());
    let built = totals["built"].as_u64().unwrap();
    assert!(built >= 5, "{built} of {} built: {report:#}", TASKS.len());
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

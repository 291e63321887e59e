//! `jarvis bench selfext` and `serve`.

use crate::common::provider::{Provider, Reply, grows};
use crate::common::{Home, Ran, ends_within, signal};
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;

fn bench(home: &Home, flags: &[&str]) -> Ran {
    home.run(&[&["bench", "selfext", "--tasks", "tasks.json"], flags].concat())
}

#[test]
fn each_task_runs_in_a_fresh_home_and_is_counted() {
    let mut script = grows();
    script.push(Reply::Call("execute_capability", json!({"name": "multiply_numbers", "args": {"a": 12, "b": 12}})));
    script.push(Reply::Text("It is 144."));
    script.push(Reply::Text("Hello!"));
    let home = Home::new().config(&Provider::start(script).config());
    home.write(
        "tasks.json",
        r#"{"tasks": [{"id": "mul", "request": "What is 6 times 7?", "answer": "(?i)\\b42\\b"}],
            "reuse": [{"id": "mul", "request": "And 12 times 12?", "answer": "\\b144\\b"}], "small_talk": ["hi there"]}"#,
    );
    let report = bench(&home, &["--json", "--keep", "homes"]).ok().json();
    let totals = &report["totals"];
    for (key, value) in [
        ("tasks", 1),
        ("right", 1),
        ("built", 1),
        ("reuse_cases", 1),
        ("reused", 1),
        ("false_builds", 0),
        ("small_talk", 1),
    ] {
        assert_eq!(totals[key], value, "{key}: {totals}");
    }
    assert_eq!(report["cancelled"], false);
    assert!(home.file("homes/mul/capabilities/tools/multiply_numbers.ts").exists());
    assert!(!home.file("capabilities").exists(), "the person's own home is not touched");
}

#[test]
fn the_mode_reaches_the_tasks() {
    let provider = Provider::start(vec![Reply::Text("chat"), Reply::Text("hi")]);
    let home = Home::new().config(&provider.config());
    home.write("tasks.json", r#"{"tasks": [], "small_talk": ["hi"]}"#);
    let _ = bench(&home, &["--mode", "staged"]).ok();
    assert!(provider.requests.lock().unwrap()[0]["tools"].is_null());
}

#[test]
fn a_folder_that_it_did_not_make_is_never_touched() {
    let home = Home::new().config("model = \"ollama/small\"\n");
    home.write("tasks.json", r#"{"tasks": [{"id": "mine", "request": "x", "answer": "x"}], "small_talk": ["hi"]}"#);
    for kept in ["homes/mine/precious.txt", "homes/talk.1/precious.txt"] {
        let file = home.write(kept, "years of work");
        let _ = bench(&home, &["--keep", "homes"]).failed(2, &["is there already", "hint:"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "years of work");
        std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }
    assert_eq!(std::fs::read_dir(home.file("homes")).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn a_task_file_that_is_wrong_is_told_before_anything_runs() {
    let home = Home::new().config("model = \"ollama/small\"\n");
    let _ = home.run(&["bench", "selfext", "--tasks", "none.json"]).failed(2, &["none.json"]);
    let task = |id: &str| json!({"id": id, "request": "y", "answer": "y"});
    for (file, says) in [
        (json!({"tasks": [{"id": "x", "request": "y", "answer": "("}]}), "regular expression"),
        (json!({"tasks": [task("x"), task("x")]}), "`x` is empty or stands for two"),
        // Both would live in one folder.
        (json!({"tasks": [task("a b"), task("a.b")]}), "`a.b` is empty or stands for two"),
        (json!({"tasks": [task("")]}), "is empty"),
        (json!({"tasks": [task("x")], "reuse": [task("z")]}), "`z` has no task"),
        (json!({"tasks": 3}), "no task file"),
    ] {
        home.write("tasks.json", &file.to_string());
        let _ = bench(&home, &["--keep", "homes"]).failed(2, &[says, "hint:"]);
    }
    assert!(!home.file("homes").exists());
}

#[test]
fn ending_it_kills_the_task_that_runs_and_tells_what_there_is() {
    for name in ["INT", "TERM"] {
        let provider = Provider::start(vec![Reply::Text("it is x"), Reply::Hangs]);
        let home = Home::new().config(&provider.patient_config(50));
        let task = |id: &str| json!({"id": id, "request": "say x", "answer": "x"});
        home.write("tasks.json", &json!({"tasks": [task("one"), task("two"), task("three")]}).to_string());
        let child = home
            .command(&["bench", "selfext", "--tasks", "tasks.json", "--json", "--keep", "homes"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        provider.was_asked(2);
        signal(name, child.id());
        let report = ends_within(child, Duration::from_secs(5)).failed(130, &[]).json();
        let ids: Vec<_> = report["rows"].as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
        assert_eq!((ids, &report["cancelled"]), (vec![json!("one")], &json!(true)));
        assert!(!home.file("homes/three").exists());
        let left = running_in(&home.file("homes/two"));
        assert!(left.is_empty(), "still running: {left:?}");
    }
}

/// Processes with this home.
fn running_in(home: &std::path::Path) -> Vec<String> {
    let variable = format!("JARVIS_HOME={}", home.display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
        })
        .map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn the_bench_of_the_server_measures_turns_that_came_out_right_and_what_is_left() {
    let home = Home::new();
    let flags = ["--sessions", "6", "--turns", "2", "--model-ms", "20", "--connects", "40", "--json"];
    let report = home.run(&[&["bench", "serve"][..], &flags].concat()).ok().json();
    let turns: Vec<_> = report["rows"].as_array().unwrap().iter().map(|row| (&row["turns"], &row["lost"])).collect();
    assert_eq!(serde_json::json!(turns), serde_json::json!([[50, 0], [6, 0], [12, 0]]), "{report}");
    for row in report["rows"].as_array().unwrap() {
        let ms = |of: &str| row[of]["median"].as_f64().unwrap();
        assert!(ms("tool_ms") > 0.0 && ms("own_ms") <= ms("wall_ms"), "{row}");
        assert!(row["floor_ms"].as_f64().unwrap() > 0.0, "{row}");
    }
    // Two replies of the model.
    assert!(report["rows"][2]["wall_ms"]["median"].as_f64().unwrap() >= 40.0, "{report}");
    assert!(report["idle"]["resident_mib"].as_f64().unwrap() > report["idle"]["own_mib"].as_f64().unwrap());
    let left = &report["come_and_gone"];
    assert_eq!((&left["before"]["sessions"], &left["after"]["sessions"]), (&1.into(), &1.into()), "{report}");
    let _ = home.run(&["bench", "serve", "--sessions", "0"]).failed(2, &["--sessions"]);
}

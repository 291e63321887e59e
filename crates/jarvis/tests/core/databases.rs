//! Doctor looks at the databases: what is damaged is told, and left as it is.

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;

fn finding(home: &Home, what: &str) -> Value {
    let ran = home.run(&["doctor", "--json"]);
    let told = ran.json();
    assert_eq!(told["ok"] == json!(true), ran.code == 0);
    told["findings"].as_array().unwrap().iter().find(|f| f["what"] == what).unwrap().clone()
}

#[test]
fn damaged_and_newer_databases_are_told_and_left_alone() {
    let provider = Provider::start(vec![Reply::Text("hi")]);
    let home = Home::new().config(&provider.config());
    assert_eq!(
        (finding(&home, "sessions")["ok"].as_bool(), finding(&home, "memory")["ok"].as_bool()),
        (Some(true), Some(true))
    );
    let _ = home.run(&["hello"]).ok();
    let _ = home.run(&["memory", "add", "the port is 5433"]).ok();
    assert_eq!(finding(&home, "sessions")["detail"], "1 sessions, in order");
    assert_eq!(finding(&home, "memory")["detail"], "1 notes, in order");
    for (file, what) in [("sessions.db", "sessions"), ("memory.db", "memory")] {
        let path = home.file(file);
        let whole = std::fs::read(&path).unwrap();
        // Everything behind the first page.
        let damaged = std::fs::File::options().write(true).open(&path).unwrap();
        damaged.write_all_at(&vec![0x5a; whole.len().saturating_sub(4096)], 4096).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let told = finding(&home, what);
        assert_eq!((&told["ok"], &told["essential"]), (&json!(false), &json!(what == "sessions")), "{told}");
        assert!(told["fix"].as_str().unwrap().contains(file), "{told}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "left as it is");
        home.write(file, &"no database at all ".repeat(300));
        assert_eq!(finding(&home, what)["ok"], false);
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("no database"));
        std::fs::write(&path, whole).unwrap();
    }
}

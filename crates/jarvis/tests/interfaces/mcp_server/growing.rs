//! A host without any model of jarvis's grows, runs and reuses capabilities.

use super::host::{Host, endless, reverse, run};
use crate::common::Home;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn a_host_grows_runs_and_reuses_a_capability_in_two_processes() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let found = host.value("list_capabilities", json!({"query": "reverse the characters of a text"}));
    assert_eq!(found["capabilities"], json!([]), "{found}");
    let made = host.value("register_capability", reverse());
    assert_eq!((&made["registered"], &made["version"]), (&json!("reverse_text"), &json!("1.0.0")), "{made}");
    let result = host.tool("execute_capability", run("reverse_text", json!({"text": "你好 ab"})));
    assert_eq!(result["structuredContent"], json!({"result": "ba 好你"}));
    assert_eq!(result["content"], json!([{"type": "text", "text": "ba 好你"}]));
    let ran = host.close();
    assert_eq!(ran.err, "", "stderr is for what is wrong");

    let mut other = Host::ready(&home, &[]);
    let found = other.value("list_capabilities", json!({"query": "反转文字"}));
    assert_eq!(found["capabilities"][0]["name"], "reverse_text", "{found}");
    assert_eq!(found["capabilities"][0]["runs"]["total"], 1);
    assert_eq!(other.value("execute_capability", run("reverse_text", json!({"text": "xyz"})))["result"], "zyx");
    let _ = other.close();
    // It is as anything else that was registered, with the host as its writer, and all of it on the audit.
    let shown = home.run(&["cap", "show", "reverse_text", "--json"]).ok().json();
    assert_eq!(shown["capability"]["model"], "mcp/scripted 1");
    assert_eq!(shown["capability"]["created_by"], "model");
    let audit = home.run(&["audit", "tail", "--json", "-n", "100"]).ok().events();
    assert!(audit.iter().any(|e| e["actor"] == "mcp" && e["kind"] == "intent"), "{audit:?}");
    let _ = home.run(&["audit", "verify"]).ok();
}

#[test]
fn errors_say_what_to_mend_and_nothing_is_kept() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let mut wrong = reverse();
    wrong["code"] = json!("export default function run({ text }: { text: string }) { return text; }\n");
    let told = host.refusal("register_capability", wrong.clone());
    assert!(told.contains("verification failed") && told.contains("cba") && told.contains("Mend"), "{told}");
    wrong["code"] = json!("export default function run( {");
    let told = host.refusal("register_capability", wrong.clone());
    assert!(told.contains("SyntaxError"), "{told}");
    wrong["code"] = reverse()["code"].clone();
    wrong["definition"]["trigers"] = json!(["x"]);
    let told = host.refusal("register_capability", wrong);
    assert!(told.contains("trigers"), "{told}");
    let told = host.refusal("register_capability", json!({"code": "x"}));
    assert!(told.contains("definition"), "{told}");
    let told = host.refusal("execute_capability", run("nobody", json!({})));
    assert!(told.contains("no capability is called `nobody`"), "{told}");
    let result = host.tool("execute_capability", run("nobody", json!({})));
    assert_eq!(result["_meta"]["jarvis/error"], "not_found", "{result}");
    // A capability that throws: its own words come back.
    let _ = host.value("register_capability", reverse());
    let told = host.refusal("execute_capability", run("reverse_text", json!({"text": 3})));
    assert!(told.contains("text: string"), "{told}");
    let _ = host.close();
    let listed = home.run(&["cap", "list", "--json"]).ok().json();
    assert_eq!(listed["capabilities"].as_array().unwrap().len(), 1);
}

#[test]
fn steps_are_progress_for_a_host_that_wants_it_and_log_messages_of_the_level_it_set() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let _ = host.call("logging/setLevel", json!({"level": "info"}));
    let answer = host.call(
        "tools/call",
        json!({"name": "register_capability", "arguments": reverse(), "_meta": {"progressToken": "p-1"}}),
    );
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    let progress = host.heard("notifications/progress");
    assert!(progress.iter().all(|p| p["params"]["progressToken"] == "p-1"));
    let steps: Vec<f64> = progress.iter().map(|p| p["params"]["progress"].as_f64().unwrap()).collect();
    assert!(steps.len() >= 6 && steps.is_sorted_by(|a, b| a < b), "{steps:?}");
    assert_eq!((steps[5], &progress[5]["params"]["total"]), (6.0, &json!(6.0)));
    let words: Vec<&str> = progress.iter().map(|p| p["params"]["message"].as_str().unwrap()).collect();
    for (word, step) in ["spec", "code", "checked", "verified", "approved", "registered"].iter().zip(&words) {
        assert!(step.starts_with(word), "{words:?}");
    }
    let logged = host.heard("notifications/message").len();
    assert!(logged >= 4, "{:?}", host.seen);
    // Without the token, and with only errors wanted, nothing is said.
    let _ = host.call("logging/setLevel", json!({"level": "error"}));
    let seen = host.seen.len();
    let _ = host.value("execute_capability", run("reverse_text", json!({"text": "a"})));
    assert_eq!(host.seen.len(), seen);
    let _ = host.close();
}

#[test]
fn a_cancelled_call_stops_in_the_sandbox_and_the_session_goes_on() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let _ = host.value("register_capability", endless());
    let id = host
        .ask("tools/call", json!({"name": "execute_capability", "arguments": run("spin", json!({"word": "forever"}))}));
    std::thread::sleep(Duration::from_millis(700));
    let began = Instant::now();
    host.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    // The outcome is on the audit when the run is over.
    loop {
        let last = home.run(&["audit", "tail", "--json", "--kind", "outcome", "-n", "1"]).ok().events();
        if last.first().is_some_and(|e| e["detail"]["exit"] == "cancelled") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{last:?}");
    }
    assert_eq!(host.call("ping", json!({}))["result"], json!({}));
    assert!(!host.seen.iter().any(|m| m["id"] == id), "a cancelled request has no answer");
    let _ = host.close();
}

#[test]
fn two_hosts_at_once_on_one_home_see_each_others_work() {
    let home = Home::new();
    let mut one = Host::ready(&home, &["--capabilities-as-tools"]);
    let mut two = Host::ready(&home, &["--capabilities-as-tools"]);
    let first = one.ask("tools/call", json!({"name": "register_capability", "arguments": reverse()}));
    let second = two.ask("tools/call", json!({"name": "register_capability", "arguments": endless()}));
    assert_ne!(one.answer_to(first)["result"]["isError"], true);
    assert_ne!(two.answer_to(second)["result"]["isError"], true);
    let _ = two.hears("notifications/tools/list_changed");
    let _ = one.hears("notifications/tools/list_changed");
    assert_eq!(two.value("reverse_text", json!({"text": "abc"}))["result"], "cba");
    assert_eq!(one.value("spin", json!({"word": "abcd"}))["result"], 4);
    let (_, _) = (one.close(), two.close());
    let _ = home.run(&["audit", "verify"]).ok();
}

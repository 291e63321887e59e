//! What a capability may reach: asked for in the host, refused where it cannot ask.

use super::host::Host;
use crate::common::Home;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

fn reads(file: &str) -> Value {
    json!({"definition": {"name": "read_note", "capability": "Reads a note.",
        "parameters": {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}},
        "examples": [{"args": {"file": file}}], "grants": {"read": ["notes"]}},
        "code": "export default async function run({ file }: { file: string }, ctx) {\n  return await ctx.read(file);\n}\n"})
}

/// A folder outside of the home, where no grant reaches, with a note in it.
fn workspace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    std::fs::write(folder.path().join("notes/a.txt"), "from the note").unwrap();
    folder
}

fn path(folder: &TempDir) -> String {
    folder.path().to_str().unwrap().to_owned()
}

fn registered(home: &Home) -> usize {
    home.run(&["cap", "list", "--json"]).ok().json()["capabilities"].as_array().unwrap().len()
}

#[test]
fn a_host_that_cannot_ask_is_refused_with_the_command_that_would_allow_it() {
    let (home, folder) = (Home::new(), workspace());
    let place = path(&folder);
    let mut host = Host::ready(&home, &["--workspace", &place]);
    let told = host.refusal("register_capability", reads("notes/a.txt"));
    assert!(told.contains("this host cannot ask one") && told.contains("notes"), "{told}");
    let command = told.lines().find_map(|line| line.split_once("jarvis mcp serve")).unwrap().1;
    let flags: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(flags, ["--workspace", &place, "--approve", "auto"], "{told}");
    let _ = host.close();
    assert_eq!(registered(&home), 0);
    // The command does what it says.
    let mut host = Host::ready(&home, &flags);
    let _ = host.value("register_capability", reads("notes/a.txt"));
    let result = host.value("execute_capability", json!({"name": "read_note", "args": {"file": "notes/a.txt"}}));
    assert_eq!(result["result"], "from the note");
    let _ = host.close();
}

#[test]
fn a_host_is_refused_a_network_grant_with_the_flag_for_that_host_alone() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let wants = json!({"definition": {"name": "fetch_page", "capability": "Fetches a page.",
        "parameters": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}},
        "examples": [{"args": {"url": "http://api.example.com/"}}], "grants": {"network": ["api.example.com"]}},
        "code": "export default async function run({ url }: { url: string }) { return await (await fetch(url)).text(); }\n"});
    let told = host.refusal("register_capability", wants);
    assert!(told.contains("jarvis mcp serve --allow-net api.example.com\n"), "{told}");
    assert!(!told.contains("--approve auto"), "{told}");
    let _ = host.close();
}

#[test]
fn the_hosts_person_sees_the_exact_grants_and_a_yes_is_kept_with_the_version() {
    let (home, folder) = (Home::new(), workspace());
    let place = path(&folder);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    let mut host = Host::with_person(&home, &["--workspace", &place], move |question| {
        kept.lock().unwrap().push(question.clone());
        json!({"action": "accept", "content": {"allow": true}})
    });
    let _ = host.value("register_capability", reads("notes/a.txt"));
    let result = host.value("execute_capability", json!({"name": "read_note", "args": {"file": "notes/a.txt"}}));
    assert_eq!(result["result"], "from the note");
    let _ = host.close();
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1, "once for the version, not for each run");
    let message = asked[0]["message"].as_str().unwrap();
    assert!(message.contains("`read_note`") && message.contains(&format!("- read {place}/notes")), "{message}");
    assert_eq!(asked[0]["requestedSchema"]["required"], json!(["allow"]));
    let audit = home.run(&["audit", "tail", "--json", "--kind", "decision"]).ok().events();
    assert!(audit.iter().any(|e| e["detail"]["decision"] == "allowed by a person"), "{audit:?}");
}

#[test]
fn no_cancel_an_unticked_box_and_nonsense_are_all_a_no() {
    let (home, folder) = (Home::new(), workspace());
    let place = path(&folder);
    for no in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {"allow": false}}),
        json!({"action": "accept", "content": {"allow": "true"}}),
        json!({"yes": true}),
    ] {
        let said = no.clone();
        let mut host = Host::with_person(&home, &["--workspace", &place], move |_| said.clone());
        let told = host.refusal("register_capability", reads("notes/a.txt"));
        assert!(told.contains("nobody approved"), "{no}: {told}");
        let _ = host.close();
        assert_eq!(registered(&home), 0, "{no}");
    }
}

#[test]
fn deny_asks_nobody() {
    let (home, folder) = (Home::new(), workspace());
    let place = path(&folder);
    let mut host =
        Host::with_person(&home, &["--workspace", &place, "--approve", "deny"], |_| panic!("somebody was asked"));
    let told = host.refusal("register_capability", reads("notes/a.txt"));
    assert!(told.contains("would need a yes"), "{told}");
    let _ = host.close();
}

/// What later versions of the protocol say with every request.
fn modern(capabilities: Value) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities})
}

#[test]
fn without_requests_of_the_server_the_question_ends_the_call_and_its_answer_counts_for_that_call_alone() {
    let (home, folder) = (Home::new(), workspace());
    let place = path(&folder);
    let mut host = Host::start(&home, &["--workspace", &place]);
    let meta = modern(json!({"elicitation": {"form": {}}}));
    let call = |arguments: Value, answers: Value| {
        let mut params = json!({"name": "register_capability", "arguments": arguments, "_meta": meta});
        if answers.is_object() {
            params["inputResponses"] = answers;
        }
        params
    };
    let answer = host.call("tools/call", call(reads("notes/a.txt"), json!(null)));
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let asked = answer["result"]["inputRequests"].as_object().unwrap();
    let (key, question) = asked.iter().next().unwrap();
    assert!(question["params"]["message"].as_str().unwrap().contains("/notes"), "{question}");
    assert_eq!(registered(&home), 0);
    let yes = json!({ key.as_str(): {"action": "accept", "content": {"allow": true}} });
    // Another code under the same name and grants is another question.
    let mut other = reads("notes/a.txt");
    other["code"] = json!(other["code"].as_str().unwrap().replace("return await", "return  await"));
    let answer = host.call("tools/call", call(other, yes.clone()));
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert_eq!(registered(&home), 0);
    let no = json!({ key.as_str(): {"action": "decline"} });
    let answer = host.call("tools/call", call(reads("notes/a.txt"), no));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let answer = host.call("tools/call", call(reads("notes/a.txt"), yes));
    assert_eq!(answer["result"]["structuredContent"]["registered"], "read_note", "{answer}");
    let _ = host.close();
}

//! What servers have beside tools, and who may use them beside the conversation itself: resources, prompts, subagents.

use super::{Desk, published};
use crate::common::provider::{Provider, Reply};
use serde_json::{Value, json};

fn read(uri: &str) -> (&'static str, Value) {
    ("hand__resources_read", json!({"uri": uri}))
}

/// What the model was told last.
fn said(request: &Value) -> String {
    request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn resources_are_listed_and_read_as_data_and_a_rule_holds_for_them() {
    let Some(mut desk) = Desk::with("offers", "") else { return };
    let calls = [
        ("hand__resources_list", json!({})),
        ("hand__resources_list", json!({"cursor": "二"})),
        read("note://1"),
        read("note://2"),
        ("hand__resources_read", json!({})),
    ];
    let run = desk.calls(&calls, &["--approve", "deny"]);
    assert!(run.offered().contains(&"hand__resources_read".to_owned()), "{:?}", run.offered());
    let told = run.told();
    assert!(told[..4].iter().all(|(ok, _)| *ok), "reading is not asked about: {told:?}");
    assert_eq!(told[0].1, "note://1 (第一) [text/plain]: The first[2J note.\n[more: cursor \"二\"]");
    assert_eq!(told[1].1, "note://2 (two)");
    assert_eq!(told[2].1, "[note://1]\n笔记: note://1");
    assert_eq!(told[3].1, "[note://2, 3 bytes]");
    assert!(!told[4].0 && told[4].1.contains("uri"), "{:?}", told[4]);
    let audit = desk.audit();
    let of = |kind: &str| audit.iter().filter(|e| e["kind"] == kind && e["subject"] == "hand/resources/read").count();
    assert_eq!((of("intent"), of("outcome")), (2, 2), "{audit:#?}");
    // A tool that is called like a method of the protocol is none.
    assert!(desk.heard().iter().all(|m| m["params"]["name"] != "resources/read"));
    desk.config.push_str("tools.\"resources/read\" = \"deny\"\n");
    let run = desk.calls(&[("hand__fine", json!({}))], &[]);
    assert!(!run.offered().contains(&"hand__resources_read".to_owned()), "{:?}", run.offered());
}

#[test]
fn a_prompt_of_a_server_is_asked_for_by_its_name_and_others_are_what_a_person_said() {
    let Some(desk) = Desk::with("offers", "") else { return };
    let ask = |question: &str| desk.ask(question, Provider::start(vec![Reply::Text("done")]), &[]);
    let run = ask("/hand:greet 世界 tone=warm");
    assert!(said(&run.requests[0]).contains("Greet 世界 in warm tone.\n\n[assistant] Gladly."), "{}", run.requests[0]);
    assert_eq!(run.events.last().unwrap()["type"], "turn.completed");
    assert!(desk.audit().iter().any(|e| e["kind"] == "intent" && e["subject"] == "hand/prompts/get"));
    for (question, says) in [
        ("/hand:greet", "it takes: who, tone"),
        ("/hand:nothing", "it has greet, plain"),
        ("/hand:plain words", "takes no argument"),
    ] {
        let run = ask(question);
        let last = run.events.last().unwrap();
        assert_eq!(last["type"], "turn.failed", "{question}");
        assert!(last["error"].to_string().contains(says), "{question}: {last}");
        assert!(run.requests.is_empty(), "the model is not asked");
    }
    for question in ["/other:greet x", "/usr/bin: what?", "hand:greet x"] {
        assert!(said(&ask(question).requests[0]).contains(question), "{question}");
    }
    // In a conversation, where a word that is no command is refused.
    let provider = Provider::start(vec![Reply::Text("in chat")]);
    desk.set(&provider);
    let workspace = desk.workspace.display().to_string();
    let ran = desk.home.run_with_input(&["chat", "--workspace", &workspace], "/hand:greet Ann\n/other:x\n").ok();
    assert_eq!(ran.out, "in chat\n");
    assert!(ran.err.contains("there is no /other:x"), "{}", ran.err);
    assert!(said(&provider.requests.lock().unwrap()[0]).contains("Greet Ann in any tone."));
}

#[test]
fn the_server_with_everything_reads_its_resources_and_says_its_prompts() {
    let Some((package, modules)) = published("server-everything") else { return };
    let mut desk = Desk::bare();
    desk.config = format!(
        "[mcp.servers.real]\ncommand = \"node\"\nargs = [\"{}\"]\nsandbox.read = [\"{}\"]\n",
        package.display(),
        modules.display()
    );
    let call = |tool: &str, args: Value| Reply::Call("call_tool", json!({"tool": tool, "args": args}));
    let script = vec![
        call("real__resources_list", json!({})),
        call("real__resources_read", json!({"uri": "demo://resource/dynamic/text/1"})),
        call("real__resources_read", json!({"uri": "demo://resource/dynamic/blob/2"})),
        Reply::Text("done"),
    ];
    let run = desk.ask("/real:args-prompt city=北京", Provider::start(script), &[]);
    assert!(said(&run.requests[0]).contains("北京"), "{}", said(&run.requests[0]));
    let told = run.told();
    assert!(told.iter().all(|(ok, _)| *ok), "{told:?}");
    assert!(told[0].1.contains("demo://resource"), "{}", told[0].1);
    assert!(told[1].1.contains("demo://resource/dynamic/text/1") && told[2].1.contains(" bytes]"), "{told:?}");
}

#[test]
fn a_subagent_has_the_tools_of_servers_that_its_file_names_and_no_others() {
    let Some(desk) = Desk::with("good", "") else { return };
    let head = "---\ndescription: helps\ntools: [file_list, mcp/hand/act, mcp/hand/write, mcp/away]\n---\nHelp.\n";
    desk.home.write("agents/helper.md", head);
    desk.home.write("agents/plain.md", "---\ndescription: plain\ntools: [file_list]\n---\nList.\n");
    let delegate = |agent: &str| Reply::Call("delegate", json!({"agent": agent, "task": "TASK: act"}));
    let work = || {
        vec![
            Reply::Call("hand__act", json!({"text": "你好"})),
            Reply::Call("hand__write", json!({})),
            Reply::Call("hand__fine", json!({})),
            Reply::Text("did it"),
        ]
    };
    let of = |agent: &str| {
        let parent = vec![delegate(agent), Reply::Text("the parent is done")];
        desk.ask("PARENT", Provider::by_mark(vec![("PARENT", parent), ("TASK", work())]), &["--approve", "deny"])
    };
    let inside = |run: &super::Run| -> Vec<(bool, String)> {
        let events = run.events.iter().filter(|e| e["type"] == "agent").map(|e| &e["event"]);
        let done = events.filter(|e| e["type"] == "tool.completed");
        done.map(|e| (e["ok"].as_bool().unwrap(), e["content"].to_string())).collect()
    };
    let run = of("helper");
    let offered: Vec<String> = run.requests[1]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(offered, ["file_list", "hand__act", "hand__write"]);
    let done = inside(&run);
    assert!(done[0].0 && done[0].1.contains("done by act"), "{done:?}");
    assert!(!done[1].0 && done[1].1.contains("would need a yes"), "a yes is due inside, too: {done:?}");
    assert!(!done[2].0 && done[2].1.contains("may not use"), "{done:?}");
    let told = run.events.iter().any(|e| e.to_string().contains("works without mcp/away"));
    assert!(told, "{:#?}", run.events);
    let done = inside(&of("plain"));
    assert!(done.iter().all(|(ok, said)| !ok && said.contains("may not use")), "{done:?}");
}

#[test]
fn a_model_that_is_led_is_told_once_to_have_no_tools_of_servers() {
    let Some(desk) = Desk::with("good", "") else { return };
    let provider = Provider::start(vec![Reply::Text("no"), Reply::Text("no"), Reply::Text("no"), Reply::Text("no")]);
    let config = format!("mode = \"staged\"\n{}\n{}", provider.patient_config(30), desk.config);
    desk.home.write("config.toml", &config);
    let workspace = desk.workspace.display().to_string();
    let ran = desk.home.run_with_input(&["chat", "--workspace", &workspace], "one\ntwo\n");
    assert_eq!(ran.err.matches("not offered the tools of MCP servers").count(), 1, "{}", ran.err);
    assert!(desk.heard().is_empty(), "no server is started for nothing");
}

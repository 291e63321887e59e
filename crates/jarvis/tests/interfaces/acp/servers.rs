//! MCP servers that the editor names when it opens a session: connected for that session alone, and ended with it.

use super::{Editor, Seen, say, scripted};
use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use crate::mcp_client::published;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// ACP names programs by whole paths.
fn node() -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&paths).map(|folder| folder.join("node")).find(|file| file.is_file()).unwrap()
}

fn program(name: &str, package: &Path, args: &[&Path]) -> Value {
    let args: Vec<&Path> = std::iter::once(package).chain(args.iter().copied()).collect();
    json!({"name": name, "command": node(), "args": args, "env": [{"name": "GREETING", "value": "of the editor"}]})
}

fn open(editor: &Editor, name: &str, servers: Value) -> Value {
    json!({"request": "session/new", "params": {"cwd": editor.workspace, "mcpServers": servers}, "as": name})
}

fn call(tool: &'static str, args: Value) -> Reply {
    Reply::Call("call_tool", json!({"tool": tool, "args": args}))
}

/// What the model was told of calls, in order.
fn told(provider: &Provider) -> Vec<String> {
    let requests = provider.requests.lock().unwrap();
    let last = |request: &Value| request["messages"].as_array().unwrap().last().unwrap().clone();
    let answers = requests.iter().map(last).filter(|message| message["role"] == "tool");
    answers.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_session_has_the_servers_it_brought_and_they_end_with_it() {
    let (Some((everything, modules)), Some((files, _))) =
        (published("server-everything"), published("server-filesystem"))
    else {
        return;
    };
    let one = vec![
        call("everything__get-env", json!({})),
        call("everything__get-sum", json!({"a": 40, "b": 2})),
        call("My_files__list_allowed_directories", json!({})),
        Reply::Text("done one"),
    ];
    let two = vec![
        Reply::Call("search_tools", json!({"query": "write a file"})),
        call("My_files__write_file", json!({"path": "PATH", "content": "written 内容"})),
        call("everything__get-sum", json!({"a": 1, "b": 1})),
        Reply::Text("done two"),
        call("My_files__list_allowed_directories", json!({})),
        Reply::Text("done after"),
    ];
    let Some((_, editor)) = scripted(Vec::new()) else { return };
    std::fs::create_dir(editor.workspace.join("out")).unwrap();
    let target = editor.workspace.join("out/新.txt");
    let two = two.into_iter().map(|reply| match reply {
        Reply::Call(name, args) if args["args"]["path"] == "PATH" => {
            let mut args = args;
            args["args"]["path"] = json!(target);
            Reply::Call(name, args)
        }
        other => other,
    });
    let provider = Provider::by_mark(vec![("first", one), ("second", two.collect())]);
    let rules = format!(
        "[mcp.editor.\"*\"]\nsandbox.read = [\"{0}\"]\n[mcp.editor.\"My files\"]\nsandbox.read = [\"{0}\"]\n\
         sandbox.write = [\"out\"]\n",
        modules.display()
    );
    editor.home.write("config.toml", &format!("{}\n{rules}", provider.patient_config(30)));
    let editor = editor.with("permissions", json!(["allow", "allow", "allow", "allow", "allow"]));
    let steps = vec![
        editor.initialize(json!({})),
        open(&editor, "a", json!([program("everything", &everything, &[])])),
        open(&editor, "b", json!([program("My files", &files, &[&editor.workspace.join("out")])])),
        say("$a.sessionId", "first", "one"),
        say("$b.sessionId", "second", "two"),
        json!({"request": "session/close", "params": {"sessionId": "$a.sessionId"}, "as": "close"}),
        json!({"sleep": 1500}),
        say("$b.sessionId", "second again", "after"),
    ];
    let seen = editor.run(steps);
    ["one", "two", "after"].iter().for_each(|name| seen.ended(name, "end_turn"));
    assert_eq!(seen.result("initialize")["agentCapabilities"]["mcpCapabilities"]["http"], true);
    let told = told(&provider);
    assert!(told[0].contains("of the editor") && !told[0].contains("JARVIS_HOME"), "{}", told[0]);
    assert!(told[1].contains("42"), "{}", told[1]);
    assert!(told[2].contains("there is no tool `My_files__"), "the other session's: {}", told[2]);
    assert!(told[3].contains("My_files__write_file") && !told[3].contains("everything"), "{}", told[3]);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "written 内容");
    assert!(told[5].contains("there is no tool `everything__"), "the other session's: {}", told[5]);
    assert!(seen.list("permissions").len() == 1, "a person is asked: {:?}", seen.list("permissions"));
    // One has ended with its session, before the turn of the other one that came later.
    let audit = editor.home.run(&["audit", "tail", "-n", "200", "--json"]).ok().events();
    let at = |kind: &str, subject: &str, about: &str| {
        let is = |e: &Value| e["kind"] == kind && e["subject"] == subject && e["detail"]["subject"]["kind"] == about;
        audit.iter().position(is).unwrap_or_else(|| panic!("no {kind} of {subject}: {audit:#?}"))
    };
    let ended = at("outcome", "everything", "server");
    assert!(audit[ended]["detail"]["exit"].is_object(), "seen to end while jarvis ran on: {}", audit[ended]);
    assert!(ended < at("intent", "My_files/list_allowed_directories", "external"), "{audit:#?}");
    let left = editor.home.other("pgrep").args(["-f", &everything.display().to_string()]).output().unwrap();
    assert!(left.stdout.is_empty(), "nothing of it runs on: {left:?}");
}

#[test]
fn a_server_that_is_not_there_is_told_and_the_session_goes_on() {
    let Some((_provider, editor)) = scripted(vec![Reply::Text("fine"), Reply::Text("still fine")]) else { return };
    let leaks = json!({"name": "leaks", "command": "/bin/cat", "args": [], "env": [{"name": "K", "value": "${secret:OPENAI}"}]});
    let missing = json!({"name": "不在", "command": "/no/such/program", "args": [], "env": []});
    let closed = json!({"type": "http", "name": "closed", "url": "http://127.0.0.1:9/mcp", "headers": []});
    let steps = vec![
        editor.initialize(json!({})),
        open(&editor, "a", json!([leaks, missing, closed])),
        say("$a.sessionId", "hello", "one"),
        say("$a.sessionId", "again", "two"),
    ];
    let seen = editor.run(steps);
    seen.ended("one", "end_turn");
    seen.ended("two", "end_turn");
    let thoughts = seen.text("agent_thought_chunk");
    assert!(thoughts.contains("in the editor's settings") && !thoughts.contains("jarvis mcp test"), "{thoughts}");
    for says in [
        "`leaks` is not connected: secrets of jarvis",
        "no program `/no/such/program`",
        "the tools of `closed` are missing",
    ] {
        assert_eq!(thoughts.matches(says).count(), 1, "{says}, once: {thoughts}");
    }
    assert_eq!(seen.text("agent_message_chunk"), "finestill fine");
}

#[test]
fn a_session_that_is_loaded_has_the_servers_of_the_load() {
    let Some((everything, modules)) = published("server-everything") else { return };
    let Some((provider, editor)) =
        scripted(vec![Reply::Text("kept"), call("everything__get-sum", json!({"a": 40, "b": 2})), Reply::Text("done")])
    else {
        return;
    };
    let rules =
        format!("[mcp.editor.everything]\nsandbox.read = [\"{}\"]\ntools.get-sum = \"allow\"\n", modules.display());
    editor.home.write("config.toml", &format!("{}\n{rules}", provider.patient_config(30)));
    let load = json!({"sessionId": "$a.sessionId", "cwd": editor.workspace, "mcpServers": [program("everything", &everything, &[])]});
    let steps = vec![
        editor.initialize(json!({})),
        open(&editor, "a", json!([])),
        say("$a.sessionId", "hello", "one"),
        json!({"request": "session/load", "params": load, "as": "load"}),
        say("$a.sessionId", "40 and 2?", "two"),
    ];
    let seen: Seen = editor.run(steps);
    seen.ended("two", "end_turn");
    assert!(told(&provider)[0].contains("42"), "{:?}", told(&provider));
    assert!(seen.list("permissions").is_empty(), "it was allowed beforehand");
}

#[test]
fn a_rule_for_servers_of_editors_that_is_none_is_refused() {
    let home = Home::new().config("[mcp.editor.files]\nsandbox.networks = [\"x\"]\n");
    let ran = home.run(&["acp"]);
    assert!(ran.code != 0 && ran.err.contains("networks"), "{}", ran.err);
}

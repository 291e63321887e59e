//! What the person is asked about belongs to its call and says how long a yes holds; what was done is taken back.

use super::{begin, say, scripted};
use crate::common::provider::Reply;
use serde_json::json;

#[test]
fn each_of_two_calls_at_once_has_its_own_question() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().canonicalize().unwrap();
    for name in ["a", "b"] {
        std::fs::write(folder.join(name), format!("text of {name}")).unwrap();
    }
    let read = |name: &str| json!({"path": folder.join(name)});
    let calls = vec![("first", "file_read", read("a")), ("second", "file_read", read("b"))];
    let Some((_provider, editor)) = scripted(vec![Reply::Calls(calls), Reply::Text("read")]) else { return };
    let editor = editor.with("permissions", json!(["allow", "reject"]));
    let seen = editor.session(vec![say("$new.sessionId", "read both", "one")]);
    seen.ended("one", "end_turn");
    let asked = seen.list("permissions");
    assert_eq!(asked.len(), 2);
    for question in asked {
        let id = question["toolCall"]["toolCallId"].as_str().unwrap();
        let text = question["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
        let path = folder.join(if id == "first" { "a" } else { "b" }).display().to_string();
        assert!(["first", "second"].contains(&id) && text.contains(&path), "{id}: {text}");
    }
    assert_ne!(asked[0]["toolCall"]["toolCallId"], asked[1]["toolCall"]["toolCallId"]);
}

#[test]
fn a_yes_that_is_kept_says_so_and_is_not_asked_for_again() {
    let definition = json!({"name": "read_note", "capability": "Reads a note.", "triggers": ["a note is to be read"],
        "parameters": {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}},
        "returns": {"type": "string"}, "grants": {"read": ["notes"]},
        "examples": [{"args": {"file": "notes/a.txt"}}]});
    let code =
        "export default async function run({ file }: { file: string }, ctx) {\n  return await ctx.read(file);\n}\n";
    let run = || Reply::Call("execute_capability", json!({"name": "read_note", "args": {"file": "notes/a.txt"}}));
    let replies = vec![
        Reply::Call("register_capability", json!({"definition": definition, "code": code})),
        run(),
        run(),
        Reply::Text("read"),
    ];
    let Some((provider, editor)) = scripted(replies) else { return };
    std::fs::create_dir(editor.workspace.join("notes")).unwrap();
    std::fs::write(editor.workspace.join("notes/a.txt"), "早").unwrap();
    let editor = editor.with("permissions", json!(["allow"]));
    let seen = editor.session(vec![say("$new.sessionId", "read it", "one")]);
    let asked = seen.list("permissions");
    assert_eq!(asked.len(), 1, "{:?}", provider.requests.lock().unwrap().last());
    let allow = &asked[0]["options"][0];
    assert_eq!(allow["kind"], "allow_always");
    assert!(allow["name"].as_str().unwrap().starts_with("Allow from now on: read "), "{allow}");
}

#[test]
fn a_turn_is_taken_back_with_what_it_wrote() {
    let write = Reply::Call("file_write", json!({"path": "new.txt", "content": "内容"}));
    let replies = vec![write, Reply::Text("written"), Reply::Text("what?")];
    let Some((provider, editor)) = scripted(replies) else { return };
    let editor = editor.with("permissions", json!(["allow"]));
    let seen = editor.session(vec![
        say("$new.sessionId", "write it", "one"),
        say("$new.sessionId", "/undo", "undo"),
        say("$new.sessionId", "/undo", "again"),
        say("$new.sessionId", "did you?", "two"),
    ]);
    seen.ended("undo", "end_turn");
    assert!(!editor.workspace.join("new.txt").exists());
    let said = seen.text("agent_message_chunk");
    assert!(said.contains("Taken back: write it") && said.contains("removed") && said.contains("new.txt"), "{said}");
    seen.refused("again", -32002, "nothing to undo");
    let requests = provider.requests.lock().unwrap();
    let last = requests.last().unwrap()["messages"].to_string();
    assert!(last.contains("did you?") && !last.contains("write it"), "{last}");
}

#[test]
fn a_session_is_named_by_its_whole_id() {
    let Some((_provider, editor)) = scripted(vec![Reply::Text("hello")]) else { return };
    let first = editor.session(vec![say("$new.sessionId", "hi", "one")]);
    let id = first.result("new")["sessionId"].as_str().unwrap().to_owned();
    let load = |id: &str, name: &str| {
        let params = json!({"sessionId": id, "cwd": editor.workspace, "mcpServers": []});
        json!({"request": "session/load", "params": params, "as": name})
    };
    let seen = editor.run(vec![editor.initialize(json!({})), load(&id[..id.len() - 1], "part"), load(&id, "whole")]);
    seen.refused("part", -32002, "");
    let _ = seen.result("whole");
}

#[test]
fn a_command_that_is_cancelled_ends_as_cancelled() {
    let replies = vec![Reply::Text("one"), Reply::Text("two"), Reply::Hangs];
    let Some((_provider, editor)) = scripted(replies) else { return };
    let seen = editor.session(vec![
        say("$new.sessionId", "first", "one"),
        say("$new.sessionId", "second", "two"),
        begin("$new.sessionId", "/compact", "compact"),
        json!({"sleep": 1000}),
        json!({"notify": "session/cancel", "params": {"sessionId": "$new.sessionId"}}),
        json!({"finish": "compact"}),
    ]);
    seen.ended("compact", "cancelled");
}

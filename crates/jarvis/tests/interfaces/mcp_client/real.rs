//! The servers that the makers of the protocol publish. `JARVIS_TEST_MCP_SERVERS` names the folder of their packages.

use super::{Desk, Run, published};
use crate::common::provider::Reply;
use serde_json::{Value, json};

fn desk(server: &str, args: &str, more: &str) -> Option<Desk> {
    let (package, modules) = published(server)?;
    let mut desk = Desk::bare();
    desk.config = format!(
        "[mcp.servers.real]\ncommand = \"node\"\nargs = [\"{}\"{args}]\nsandbox.read = [\"{}\"]\n{more}\n",
        package.display(),
        modules.display()
    );
    Some(desk)
}

fn call(tool: &'static str, args: Value) -> (&'static str, Value) {
    ("call_tool", json!({"tool": tool, "args": args}))
}

#[track_caller]
fn texts(run: &Run) -> Vec<String> {
    let told = run.told();
    assert!(told.iter().all(|(ok, _)| *ok), "{told:?}\n{}", run.err);
    told.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn the_server_with_everything_answers_echo_sum_structure_image_and_progress() {
    let Some(desk) = desk("server-everything", "", "") else { return };
    let run = desk.calls(
        &[
            call("real__echo", json!({"message": "你好, MCP"})),
            call("real__get-sum", json!({"a": 40, "b": 2})),
            call("real__get-structured-content", json!({"location": "Chicago"})),
            call("real__get-tiny-image", json!({})),
            call("real__trigger-long-running-operation", json!({"duration": 2, "steps": 4})),
            ("search_tools", json!({"query": "add two numbers"})),
        ],
        &["--approve", "auto"],
    );
    let told = texts(&run);
    assert!(told[0].contains("你好, MCP"), "{}", told[0]);
    assert!(told[1].contains("42"), "{}", told[1]);
    assert!(told[2].contains("temperature"), "{}", told[2]);
    assert!(told[3].contains("[an image, image/png"), "{}", told[3]);
    assert!(!run.of_kind("tool.output").is_empty(), "progress is told");
    assert!(told[5].contains("real__get-sum"), "{}", told[5]);
}

#[test]
fn the_server_with_everything_asks_the_model_and_sees_the_workspace_alone() {
    let Some(desk) = desk("server-everything", "", "env.GREETING = \"hello\"") else { return };
    let script = vec![
        Reply::Call(
            "call_tool",
            json!({"tool": "real__trigger-sampling-request", "args": {"prompt": "Say hi", "maxTokens": 20}}),
        ),
        Reply::Text("Hi from the model."),
        Reply::Call("call_tool", json!({"tool": "real__get-env", "args": {}})),
        Reply::Text("done"),
    ];
    let told = texts(&desk.turn(script, &["--approve", "auto"]));
    assert!(told[0].contains("Hi from the model."), "{}", told[0]);
    assert!(told[1].contains("GREETING") && !told[1].contains("JARVIS_HOME"), "{}", told[1]);
}

#[test]
fn the_server_of_files_changes_what_it_was_given_and_nothing_else() {
    let Some(desk) = desk("server-filesystem", ", \"log\"", "sandbox.write = [\"log\"]") else { return };
    let inside = desk.workspace.join("log/新.txt");
    let outside = desk.workspace.join("other.txt");
    let run = desk.calls(
        &[
            call("real__write_file", json!({"path": inside, "content": "written 内容"})),
            call("real__read_text_file", json!({"path": inside})),
            call("real__list_directory", json!({"path": desk.workspace.join("log")})),
            call("real__write_file", json!({"path": outside, "content": "x"})),
        ],
        &["--approve", "auto"],
    );
    let told = run.told();
    assert!(told[..3].iter().all(|(ok, _)| *ok), "{told:?}");
    assert_eq!(std::fs::read_to_string(&inside).unwrap(), "written 内容");
    assert!(told[1].1.contains("written 内容") && told[2].1.contains("新.txt"), "{told:?}");
    assert!(!told[3].0 && !outside.exists(), "{told:?}");
}

//! `jarvis acp` with the official client as its editor: node runs `acp_peer/peer.mjs`, which does a script of steps and
//! tells all that it saw.

mod questions;
mod servers;

use crate::common::Home;
use crate::common::provider::{Provider, Reply, grows};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A home with a folder to work in, and the client.
struct Editor {
    home: Home,
    workspace: PathBuf,
    sdk: String,
    script: Value,
    flags: Vec<String>,
    _folder: tempfile::TempDir,
}

/// What the editor saw.
struct Seen(Value);

impl Editor {
    /// `None` where the client is not installed, which is told.
    fn new(home: Home) -> Option<Editor> {
        let Ok(sdk) = std::env::var("JARVIS_TEST_ACP_SDK") else {
            jarvis_testkit::skipped("ACP with the official client: JARVIS_TEST_ACP_SDK names none");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let (script, flags) = (json!({}), Vec::new());
        Some(Editor { home, workspace, sdk, script, flags, _folder: folder })
    }

    fn with(mut self, key: &str, value: Value) -> Editor {
        self.script[key] = value;
        self
    }

    fn flags(mut self, flags: &[&str]) -> Editor {
        self.flags = flags.iter().map(ToString::to_string).collect();
        self
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.workspace.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Introduces itself, opens the session `new`, then does these steps.
    fn session(&self, steps: Vec<Value>) -> Seen {
        let mut all = vec![self.initialize(json!({})), self.open("new")];
        all.extend(steps);
        self.run(all)
    }

    fn initialize(&self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": {"name": "e", "version": "1"}});
        json!({"request": "initialize", "params": params, "as": "initialize"})
    }

    fn open(&self, name: &str) -> Value {
        json!({"request": "session/new", "params": {"cwd": self.workspace, "mcpServers": []}, "as": name})
    }

    fn run(&self, steps: Vec<Value>) -> Seen {
        let mut script = self.script.clone();
        script["steps"] = json!(steps);
        let file = self.home.write("script.json", &script.to_string());
        let mut command = self.home.other("node");
        command.arg(crate::common::source("tests/interfaces/acp_peer/peer.mjs")).arg(file);
        command.arg(env!("CARGO_BIN_EXE_jarvis")).arg("acp").args(&self.flags).env("JARVIS_TEST_ACP_SDK", &self.sdk);
        let ran = crate::common::Ran::of(command.output().unwrap()).ok();
        let seen = Seen(ran.json());
        assert_eq!(seen.0["exit"]["code"], 0, "{}", ran.err);
        assert!(seen.0["exit"]["ms"].as_u64().unwrap() < 2000, "{}", seen.0["exit"]);
        seen
    }
}

fn say(session: &str, text: &str, name: &str) -> Value {
    let prompt = json!([{"type": "text", "text": text}]);
    json!({"request": "session/prompt", "params": {"sessionId": session, "prompt": prompt}, "as": name})
}

/// The same, not waited for.
fn begin(session: &str, text: &str, name: &str) -> Value {
    let mut step = say(session, text, name);
    let step = step.as_object_mut().unwrap();
    let method = step.remove("request").unwrap();
    step.insert("start".to_owned(), method);
    json!(step)
}

impl Seen {
    #[track_caller]
    fn result(&self, name: &str) -> &Value {
        let outcome = &self.0["results"][name];
        assert!(outcome["result"].is_object(), "{name}: {outcome}");
        &outcome["result"]
    }

    #[track_caller]
    fn refused(&self, name: &str, code: i64, says: &str) {
        let error = &self.0["results"][name]["error"];
        let message = error["message"].as_str().unwrap_or_default();
        assert!(error["code"] == code && message.contains(says), "{name}: {}", self.0["results"][name]);
    }

    #[track_caller]
    fn ended(&self, name: &str, reason: &str) {
        assert_eq!(self.result(name)["stopReason"], reason);
    }

    /// Updates of one kind.
    fn of(&self, kind: &str) -> Vec<&Value> {
        let all = self.0["updates"].as_array().unwrap().iter();
        all.map(|told| &told["update"]).filter(|update| update["sessionUpdate"] == kind).collect()
    }

    fn text(&self, kind: &str) -> String {
        self.of(kind).iter().map(|update| update["content"]["text"].as_str().unwrap_or_default()).collect()
    }

    /// What was told of the call last.
    #[track_caller]
    fn call(&self, id: &str, status: &str) -> &Value {
        let updates = self.of("tool_call_update");
        let found = updates.into_iter().rev().find(|update| update["toolCallId"] == id && update["status"] == status);
        found.unwrap_or_else(|| panic!("no call {id} is {status}: {:#?}", self.0["updates"]))
    }

    fn list(&self, name: &str) -> &Vec<Value> {
        self.0[name].as_array().unwrap()
    }
}

fn scripted(replies: Vec<Reply>) -> Option<(Provider, Editor)> {
    let provider = Provider::start(replies);
    let home = Home::new().config(&provider.patient_config(20));
    Some((provider, Editor::new(home)?))
}

#[test]
fn a_capability_grows_in_an_editor_and_every_step_of_it_is_told() {
    let Some((_provider, editor)) = scripted(grows()) else { return };
    let list = json!({"request": "session/list", "params": {"cwd": editor.workspace}, "as": "list"});
    let seen = editor.session(vec![say("$new.sessionId", "6 times 7?", "prompt"), list]);
    let able = seen.result("initialize");
    assert_eq!(able["protocolVersion"], 1);
    let can = &able["agentCapabilities"];
    assert!(can["loadSession"] == true && can["promptCapabilities"]["image"] == true, "{can}");
    assert!(can["promptCapabilities"]["audio"] != true && can["sessionCapabilities"]["list"].is_object(), "{can}");
    assert_eq!(able["authMethods"], json!([]));
    let new = seen.result("new");
    assert_eq!(new["modes"]["currentModeId"], "ask");
    assert_eq!(new["configOptions"][1]["currentValue"], "fake/m");
    seen.ended("prompt", "end_turn");
    assert_eq!(seen.text("agent_message_chunk"), "6 times 7 is 42.");
    let commands = seen.of("available_commands_update")[0]["availableCommands"].to_string();
    assert!(commands.contains("compact") && commands.contains("cost") && commands.contains("model"), "{commands}");
    let calls: Vec<_> = seen.of("tool_call").iter().map(|call| (call["kind"].clone(), call["title"].clone())).collect();
    assert_eq!(calls[0], (json!("search"), json!("Look for a capability: multiply two numbers")));
    assert_eq!(calls[1].1, "Make the capability multiply_numbers");
    assert_eq!(calls[2], (json!("execute"), json!("multiply_numbers({\"a\":6,\"b\":7})")));
    let made = seen.of("tool_call_update");
    assert!(made.iter().all(|update| update["status"] != "failed"), "{made:#?}");
    assert!(made.iter().any(|update| update["rawOutput"].to_string().contains("42")), "{made:#?}");
    let plans = seen.of("plan");
    let last = plans.last().unwrap()["entries"].as_array().unwrap();
    assert!(plans.len() > 3 && last.iter().all(|entry| entry["status"] == "completed"), "{plans:#?}");
    let usage = seen.of("usage_update");
    assert!(usage.iter().any(|u| u["used"].as_u64() > Some(0) && u["size"] == 32_768), "{usage:?}");
    assert_eq!(seen.of("session_info_update").last().unwrap()["title"], "6 times 7?");
    let listed = &seen.result("list")["sessions"][0];
    assert_eq!((&listed["title"], &listed["cwd"]), (&json!("6 times 7?"), &json!(editor.workspace)));
    let audit = editor.home.run(&["audit", "tail", "--json"]).ok().out;
    assert!(audit.contains("\"actor\":\"acp\""), "{audit}");
}

#[test]
fn a_person_is_asked_with_every_grant_in_sight_and_a_no_is_one() {
    let outside = tempfile::tempdir().unwrap();
    let path = |name: &str| outside.path().canonicalize().unwrap().join(name).display().to_string();
    let write = |name: &str| Reply::Call("file_write", json!({"path": path(name), "content": "x"}));
    let replies = vec![write("yes"), Reply::Text("written"), write("no"), Reply::Text("not written")];
    let Some((_provider, editor)) = scripted(replies) else { return };
    let editor = editor.with("permissions", json!(["allow", "allow", "reject"]));
    let seen = editor.session(vec![say("$new.sessionId", "one", "one"), say("$new.sessionId", "two", "two")]);
    seen.ended("two", "end_turn");
    assert!(outside.path().join("yes").exists() && !outside.path().join("no").exists());
    // What is there is read before it is replaced, and asked for by itself.
    let asked = seen.list("permissions");
    assert_eq!(asked.len(), 3);
    let options = asked[0]["options"].as_array().unwrap();
    let named = options[0]["name"].as_str().unwrap();
    assert!(named.starts_with("Allow once: ") && options[0]["kind"] == "allow_once", "{options:?}");
    assert!(options[1]["kind"] == "reject_once" && options.len() == 2, "{options:?}");
    let text = asked[1]["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains(&format!("\n- write {}", path("yes"))), "{text}");
    assert_eq!(asked[0]["toolCall"]["toolCallId"], seen.of("tool_call")[0]["toolCallId"]);
    // Both calls have the same id, as the script of the model has.
    let failed = seen.call("call_1", "failed");
    assert!(failed["content"][0]["content"]["text"].as_str().unwrap().contains("nobody allowed it"), "{failed}");
}

#[test]
fn modes_and_models_are_set_and_hold() {
    let outside = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = outside.path().canonicalize().unwrap().join(name).display().to_string();
        Reply::Call("file_write", json!({"path": path, "content": "x"}))
    };
    let replies = vec![write("denied"), Reply::Text("1"), write("auto"), Reply::Text("2"), Reply::Text("3")];
    let Some((provider, editor)) = scripted(replies) else { return };
    let mode = |id: &str, name: &str| json!({"request": "session/set_mode", "params": {"sessionId": "$new.sessionId", "modeId": id}, "as": name});
    let option = |id: &str, value: &str, name: &str| {
        let params = json!({"sessionId": "$new.sessionId", "configId": id, "value": value});
        json!({"request": "session/set_config_option", "params": params, "as": name})
    };
    let seen = editor.session(vec![
        mode("nonsense", "nonsense"),
        mode("deny", "deny"),
        say("$new.sessionId", "one", "one"),
        option("mode", "auto", "auto"),
        say("$new.sessionId", "two", "two"),
        option("model", "fake/other", "model"),
        option("model", "nobody/x", "nobody"),
        option("colour", "red", "colour"),
        say("$new.sessionId", "three", "three"),
    ]);
    assert!(!outside.path().join("denied").exists() && outside.path().join("auto").exists());
    assert!(seen.list("permissions").is_empty());
    seen.refused("nonsense", -32602, "no mode nonsense");
    seen.refused("nobody", -32602, "no provider `nobody`");
    seen.refused("colour", -32602, "no option colour");
    assert_eq!(seen.result("auto")["configOptions"][0]["currentValue"], "auto");
    assert_eq!(seen.result("model")["configOptions"][1]["currentValue"], "fake/other");
    let modes: Vec<_> = seen.of("current_mode_update").iter().map(|u| u["currentModeId"].clone()).collect();
    assert_eq!(modes, ["deny", "auto"]);
    assert_eq!(provider.requests.lock().unwrap().last().unwrap()["model"], "other");
}

#[test]
fn unsaved_text_is_read_and_changes_go_through_the_editor() {
    let replies = vec![
        Reply::Call("file_read", json!({"path": "a.txt"})),
        Reply::Call("file_edit", json!({"path": "a.txt", "old": "未保存", "new": "改了"})),
        Reply::Call("file_write", json!({"path": "new.txt", "content": "fresh\n"})),
        Reply::Call("file_write", json!({"path": "link.txt", "content": "x", "mode": "overwrite"})),
        Reply::Call("file_read", json!({"path": "link.txt"})),
        Reply::Text("done"),
    ];
    let Some((provider, editor)) = scripted(replies) else { return };
    let a = editor.file("a.txt", "saved\n").display().to_string();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "the secret").unwrap();
    std::os::unix::fs::symlink(secret.path(), editor.workspace.join("link.txt")).unwrap();
    let editor = editor.with("files", json!({&a: "一\n未保存\n"}));
    let seen = editor.run(vec![
        editor.initialize(json!({"fs": {"readTextFile": true, "writeTextFile": true}})),
        editor.open("new"),
        say("$new.sessionId", "go", "go"),
    ]);
    seen.ended("go", "end_turn");
    let asked = provider.requests.lock().unwrap();
    assert!(asked[1]["messages"].to_string().contains("未保存"), "the model read the file, not the buffer");
    let writes = seen.list("writes");
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert_eq!((&writes[0]["path"], &writes[0]["content"]), (&json!(a), &json!("一\n改了\n")));
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "saved\n", "the editor saves it, nobody else");
    let diffs: Vec<_> =
        seen.of("tool_call_update").into_iter().map(|u| &u["content"][0]).filter(|c| c["type"] == "diff").collect();
    assert_eq!((&diffs[0]["oldText"], &diffs[0]["newText"]), (&json!("一\n未保存\n"), &json!("一\n改了\n")));
    assert!(diffs[1]["oldText"].is_null() && diffs[1]["newText"] == "fresh\n", "{}", diffs[1]);
    let edit = &seen.of("tool_call")[1];
    assert_eq!((&edit["kind"], &edit["locations"][0]["path"]), (&json!("edit"), &json!(a)));
    // No link leads the editor out of the workspace.
    assert!(!seen.0["reads"].to_string().contains("link.txt"), "{}", seen.0["reads"]);
    assert!(!asked.last().unwrap()["messages"].to_string().contains("the secret"));
    assert_eq!(std::fs::read_to_string(secret.path()).unwrap(), "the secret");
    let audit = editor.home.run(&["audit", "tail", "--json"]).ok().out;
    assert_eq!(audit.matches("\"by\":\"editor\"").count(), 4, "{audit}");
}

#[test]
fn what_the_editor_does_not_write_is_not_written() {
    let replies = vec![Reply::Call("file_write", json!({"path": "n.txt", "content": "x"})), Reply::Text("no")];
    let Some((provider, editor)) = scripted(replies) else { return };
    let editor = editor.with("readOnly", json!(true));
    let seen = editor.run(vec![
        editor.initialize(json!({"fs": {"writeTextFile": true}})),
        editor.open("new"),
        say("$new.sessionId", "go", "go"),
    ]);
    seen.ended("go", "end_turn");
    assert!(!editor.workspace.join("n.txt").exists());
    let told = provider.requests.lock().unwrap()[1]["messages"].to_string();
    assert!(told.contains("the editor did not write") && told.contains("the person said no"), "{told}");
}

#[test]
fn a_turn_is_cancelled_in_the_middle_of_a_tool_and_the_next_one_runs() {
    let replies = vec![
        Reply::Call("shell_exec", json!({"command": "echo begun; sleep 55.25", "timeout_s": 60})),
        Reply::Text("after"),
    ];
    let Some((_provider, editor)) = scripted(replies) else { return };
    let seen = editor.session(vec![
        begin("$new.sessionId", "go", "go"),
        json!({"until": {"update": {"sessionUpdate": "tool_call_update", "content": [{"content": {"text": "begun"}}]}}}),
        say("$new.sessionId", "too early", "early"),
        json!({"notify": "session/cancel", "params": {"sessionId": "$new.sessionId"}}),
        json!({"finish": "go"}),
        say("$new.sessionId", "again", "again"),
    ]);
    seen.refused("early", -32600, "busy");
    seen.ended("go", "cancelled");
    assert!(seen.0["results"]["go"]["ms"].as_u64().unwrap() < 20_000);
    seen.ended("again", "end_turn");
    assert!(seen.text("agent_message_chunk").ends_with("after"));
    assert!(!running("sleep 55.25"), "the command still runs");
}

/// Whether a program with this command line runs.
fn running(line: &str) -> bool {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default())
        .any(|words| String::from_utf8_lossy(&words).replace('\0', " ").trim() == line)
}

#[test]
fn a_question_is_withdrawn_when_its_turn_is_cancelled() {
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().canonicalize().unwrap().join("never").display().to_string();
    let replies = vec![Reply::Call("file_write", json!({"path": path, "content": "x"})), Reply::Text("no")];
    let Some((_provider, editor)) = scripted(replies) else { return };
    let editor = editor.with("permissions", json!(["wait"]));
    let seen = editor.session(vec![
        begin("$new.sessionId", "go", "go"),
        json!({"asked": 1}),
        json!({"notify": "session/cancel", "params": {"sessionId": "$new.sessionId"}}),
        json!({"finish": "go"}),
        json!({"withdrawn": 1}),
    ]);
    seen.ended("go", "cancelled");
    assert!(!outside.path().join("never").exists());
}

#[test]
fn two_sessions_at_once_do_not_mix() {
    let script =
        |answer| vec![Reply::Call("shell_exec", json!({"command": "sleep 0.3; echo 好"})), Reply::Text(answer)];
    let provider = Provider::by_mark(vec![("first", script("one")), ("second", script("two"))]);
    let home = Home::new().config(&provider.patient_config(20));
    let Some(editor) = Editor::new(home) else { return };
    let seen = editor.run(vec![
        editor.initialize(json!({})),
        editor.open("a"),
        editor.open("b"),
        begin("$a.sessionId", "first", "one"),
        begin("$b.sessionId", "second", "two"),
        json!({"finish": "one"}),
        json!({"finish": "two"}),
    ]);
    let (a, b) = (&seen.result("a")["sessionId"], &seen.result("b")["sessionId"]);
    assert_ne!(a, b);
    for (id, says) in [(a, "one"), (b, "two")] {
        let own = seen.list("updates").iter().filter(|told| &told["sessionId"] == id);
        let texts: String = own
            .filter(|told| told["update"]["sessionUpdate"] == "agent_message_chunk")
            .map(|told| told["update"]["content"]["text"].as_str().unwrap())
            .collect();
        assert_eq!(texts, says);
    }
}

#[test]
fn a_session_is_loaded_with_its_history_resumed_without_closed_and_deleted() {
    let replies = vec![
        Reply::Call("shell_exec", json!({"command": "echo 甲"})),
        Reply::Text("It printed 甲."),
        Reply::Text("again"),
    ];
    let Some((provider, editor)) = scripted(replies) else { return };
    let first = editor.session(vec![say("$new.sessionId", "run it", "one")]);
    let id = first.result("new")["sessionId"].as_str().unwrap().to_owned();
    let by = |method: &str, name: &str| {
        let params = json!({"sessionId": id, "cwd": editor.workspace, "mcpServers": []});
        json!({"request": method, "params": params, "as": name})
    };
    let seen = editor.run(vec![
        editor.initialize(json!({})),
        by("session/load", "load"),
        say(&id, "and now?", "two"),
        by("session/close", "close"),
        say(&id, "closed", "closed"),
        by("session/resume", "resume"),
        by("session/delete", "delete"),
        by("session/load", "gone"),
    ]);
    assert_eq!(seen.result("load")["modes"]["currentModeId"], "ask");
    assert_eq!(seen.text("user_message_chunk"), "run it");
    assert_eq!(seen.text("agent_message_chunk"), "It printed 甲.again");
    assert_eq!(seen.of("tool_call").len(), 1);
    let ended = seen.of("tool_call_update")[0];
    assert!(ended["status"] == "completed" && ended["content"].to_string().contains('甲'), "{ended}");
    assert!(!ended.to_string().contains("<data"), "{ended}");
    let told = provider.requests.lock().unwrap().last().unwrap()["messages"].to_string();
    assert!(told.contains("run it") && told.contains("and now?"), "{told}");
    seen.refused("closed", -32002, "");
    seen.refused("gone", -32002, "");
    let _ = seen.result("resume");
    let left = editor.home.run(&["session", "list", "--all", "--json"]).ok().out;
    assert!(!left.contains(&id), "{left}");
}

#[test]
fn a_missing_key_is_asked_for_and_what_is_asked_says_how() {
    let own =
        "model = \"mine/m1\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_env = \"MINE_KEY\"\n";
    let Some(editor) = Editor::new(Home::new().config(own)) else { return };
    let method = |id: &str, name: &str| json!({"request": "authenticate", "params": {"methodId": id}, "as": name});
    let seen = editor.session(vec![method("api-key", "again"), method("magic", "magic")]);
    let methods = &seen.result("initialize")["authMethods"];
    assert!(methods[0]["id"] == "api-key" && methods.to_string().contains("MINE_KEY"), "{methods}");
    seen.refused("new", -32000, "MINE_KEY is not set");
    seen.refused("again", -32000, "export MINE_KEY");
    seen.refused("magic", -32602, "magic");
    let with_key = Editor { home: editor.home.var("MINE_KEY", "k"), ..editor };
    let seen = with_key.session(vec![method("api-key", "now")]);
    assert_eq!(seen.result("initialize")["authMethods"], json!([]));
    let _ = (seen.result("new"), seen.result("now"));
}

#[test]
fn a_key_that_is_refused_is_told_as_one_and_the_session_goes_on() {
    let replies = vec![Reply::Status("401 Unauthorized", "{}"), Reply::Text("fine")];
    let Some((_provider, editor)) = scripted(replies) else { return };
    let seen = editor.session(vec![say("$new.sessionId", "one", "one"), say("$new.sessionId", "two", "two")]);
    seen.refused("one", -32000, "refused the key");
    seen.ended("two", "end_turn");
}

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";

#[test]
fn images_links_and_files_reach_the_model_and_what_cannot_is_refused() {
    let Some((provider, editor)) = scripted(vec![Reply::Text("seen")]) else { return };
    let prompt = |blocks: Value, name: &str| json!({"request": "session/prompt", "params": {"sessionId": "$new.sessionId", "prompt": blocks}, "as": name});
    let seen = editor.session(vec![
        prompt(json!([{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]), "audio"),
        prompt(json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]), "no image"),
        prompt(json!([]), "empty"),
        prompt(
            json!([
                {"type": "text", "text": "看"},
                {"type": "image", "data": PNG, "mimeType": "image/png"},
                {"type": "resource_link", "name": "文.rs", "uri": "file:///w/%E6%96%87.rs"},
                {"type": "resource", "resource": {"uri": "file:///w/b.rs", "text": "fn b() {}"}},
            ]),
            "all",
        ),
    ]);
    seen.refused("audio", -32602, "audio");
    seen.refused("no image", -32602, "PNG");
    seen.refused("empty", -32602, "empty");
    seen.ended("all", "end_turn");
    let asked = provider.requests.lock().unwrap();
    let told = asked[0]["messages"].to_string();
    assert!(asked.len() == 1 && told.contains(PNG), "{told}");
    assert!(told.contains("/w/文.rs") && told.contains("fn b() {}") && told.contains('看'), "{told}");
}

#[test]
fn commands_are_done_and_not_sent_to_the_model() {
    let Some((provider, editor)) = scripted(vec![Reply::Text("hello")]) else { return };
    let seen = editor.session(vec![
        say("$new.sessionId", "hi", "hi"),
        say("$new.sessionId", "/cost", "cost"),
        say("$new.sessionId", "/model fake/other", "model"),
        say("$new.sessionId", "/model nobody/x", "nobody"),
        say("$new.sessionId", "/compact", "compact"),
    ]);
    let said = seen.text("agent_message_chunk");
    assert!(said.contains("11 tokens in (0 from a cache), 3 out"), "{said}");
    assert!(said.contains("fake/other answers from now on.") && said.contains("nothing to summarise"), "{said}");
    seen.refused("nobody", -32602, "no provider `nobody`");
    seen.ended("compact", "end_turn");
    let options = seen.of("config_option_update");
    assert_eq!(options.last().unwrap()["configOptions"][1]["currentValue"], "fake/other");
    assert_eq!(provider.requests.lock().unwrap().len(), 1);
}

#[test]
fn output_of_a_command_is_told_as_it_comes_and_as_a_terminal_where_that_is_known() {
    let command = json!({"command": "echo 一; sleep 0.2; echo two; exit 3"});
    let replies = || vec![Reply::Call("shell_exec", command.clone()), Reply::Text("done")];
    let Some((_provider, editor)) = scripted(replies()) else { return };
    let seen = editor.session(vec![say("$new.sessionId", "go", "go")]);
    let failed = seen.call("call_1", "failed");
    let text = failed["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("```\nexit code 3") && text.contains("一\ntwo"), "{text}");
    let Some((_provider, editor)) = scripted(replies()) else { return };
    let seen = editor.run(vec![
        editor.initialize(json!({"terminal": true, "_meta": {"terminal_output": true}})),
        editor.open("new"),
        say("$new.sessionId", "go", "go"),
    ]);
    let call = seen.of("tool_call")[0];
    assert_eq!(
        (&call["content"][0]["type"], &call["content"][0]["terminalId"]),
        (&json!("terminal"), &json!("call_1"))
    );
    assert_eq!(call["_meta"]["terminal_info"]["cwd"], json!(editor.workspace));
    let updates = seen.of("tool_call_update");
    let output: String =
        updates.iter().filter_map(|update| update["_meta"]["terminal_output"]["data"].as_str()).collect();
    assert_eq!(output, "一\ntwo\n");
    assert_eq!(updates.last().unwrap()["_meta"]["terminal_exit"]["exit_code"], 3);
}

#[test]
fn servers_of_the_editor_that_are_not_connected_are_named() {
    let Some((_provider, editor)) = scripted(vec![Reply::Text("hello")]) else { return };
    let server = json!({"name": "my-server", "command": "/bin/true", "args": [], "env": []});
    let params = json!({"cwd": editor.workspace, "mcpServers": [server]});
    let seen = editor.run(vec![
        editor.initialize(json!({"session": {"notices": {}}})),
        json!({"request": "session/new", "params": params, "as": "new"}),
        say("$new.sessionId", "hi", "hi"),
    ]);
    let notices = seen.of("notice");
    assert!(notices.iter().any(|n| n["title"].to_string().contains("my-server")), "{notices:?}");
}

#[test]
fn limits_of_the_command_line_hold_in_an_editor() {
    let replies = (0..3).map(|_| Reply::Call("shell_exec", json!({"command": "true"}))).collect();
    let Some((_provider, editor)) = scripted(replies) else { return };
    let editor = editor.flags(&["--max-turns", "1"]);
    let seen = editor.session(vec![say("$new.sessionId", "go", "go")]);
    seen.ended("go", "max_turn_requests");
    assert_eq!(seen.result("go")["_meta"]["jarvis"]["stopReason"], "max_rounds");
}

#[test]
fn an_editor_that_leaves_in_the_middle_of_a_tool_leaves_nothing_running() {
    let replies = vec![Reply::Call("shell_exec", json!({"command": "echo on; sleep 56.75", "timeout_s": 60}))];
    let Some((_provider, editor)) = scripted(replies) else { return };
    let seen = editor.session(vec![
        begin("$new.sessionId", "go", "go"),
        json!({"until": {"update": {"sessionUpdate": "tool_call_update", "content": [{"content": {"text": "on"}}]}}}),
    ]);
    // How long it took is looked at for every editor.
    assert_eq!(seen.0["exit"]["code"], 0);
    std::thread::sleep(Duration::from_millis(100));
    assert!(!running("sleep 56.75"), "the command still runs");
}

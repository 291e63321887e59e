//! Faults of the first jarvis that must not come back, each through the shipped binary; those of commands, files and
//! names are in `faults_tools.rs`. The numbers are those of the list they were found under.

use crate::common::Home;
use crate::common::provider::{Provider, Reply};
use serde_json::{Value, json};

/// What people search for, that is an operator or a mark to SQLite's full-text search.
const ODD: [&str; 14] =
    ["foo-bar", "C++", "a:b", "\"x", "AND", "(", "*", "x* OR", "NEAR(a b)", "col:", "^a", "'", "—", "\u{0}x"];

fn found(home: &Home, words: &str, flags: &[&str]) -> Vec<String> {
    let args = [&["memory", "search", "--json"], flags, &["--", words]].concat();
    let searched = home.run(&args).ok().json();
    let found = searched["found"].as_array().unwrap_or_else(|| panic!("{searched}"));
    found.iter().map(|found| found["note"]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn fault_4_chinese_is_found_inside_of_sentences_and_by_its_tags() {
    let home = Home::new();
    let add = |text: &str, tags: &str| home.run(&["memory", "add", text, "--tags", tags, "--json"]).ok();
    let _ = add("昨天完成翻译文档", "翻译,博客");
    let _ = add("身份证在抽屉里", "家");
    assert_eq!(found(&home, "文档", &[]), ["昨天完成翻译文档"]);
    assert_eq!(found(&home, "翻译的文档放在哪里？", &[]), ["昨天完成翻译文档"]);
    assert_eq!(found(&home, "身份证", &[]), ["身份证在抽屉里"]);
    assert_eq!(found(&home, "文档", &["--tag", "博客"]), ["昨天完成翻译文档"]);
    assert_eq!(found(&home, "文档", &["--tag", "家"]), Vec::<String>::new());
    let tagged = home.run(&["memory", "list", "--tag", "翻译", "--json"]).ok().json();
    assert_eq!(tagged["notes"].as_array().unwrap().len(), 1, "{tagged}");
}

#[test]
fn fault_5_whatever_is_searched_for_is_plain_text_everywhere() {
    let provider = Provider::start(vec![Reply::Text("Use foo-bar, C++ and a:b.")]);
    let home = Home::new().config(&provider.config());
    let _ = home.run(&["memory", "add", "the foo-bar wiki speaks of C++ and a:b"]).ok();
    let _ = home.run(&["what of foo-bar and C++?"]).ok();
    for words in ODD.iter().filter(|words| !words.contains('\0')) {
        let _ = found(&home, words, &[]);
        let _ = home.run(&["session", "list", "--all", "--json", "--search", words]).ok();
        let _ = home.run(&["cap", "search", "--json", "--", words]).ok();
    }
    for words in ["foo-bar", "C++", "a:b"] {
        assert_eq!(found(&home, words, &[]).len(), 1, "{words}");
        let sessions = home.run(&["session", "list", "--all", "--json", "--search", words]).ok().json();
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{words}: {sessions}");
    }
    // Asked by a model it is the same, and no error that ends the turn.
    let mut script: Vec<Reply> = ODD.iter().map(|words| Reply::Call("recall", json!({"query": words}))).collect();
    script.push(Reply::Text("done"));
    let provider = Provider::start(script);
    home.write("config.toml", &provider.config());
    let events = home.run(&["--json", "look"]).ok().events();
    let recalls: Vec<&Value> = events.iter().filter(|e| e["type"] == "tool.completed").collect();
    assert_eq!(recalls.len(), ODD.len());
    assert!(recalls.iter().all(|e| e["ok"] == true), "{recalls:#?}");
}

#[test]
fn fault_6_a_replaced_note_leaves_nothing_of_the_old_one_in_the_index() {
    let home = Home::new();
    let mut id = String::new();
    for n in 0..12 {
        let provider = Provider::start(vec![
            Reply::Call("remember", json!({"text": format!("第{n}版 the port is {}", 5400 + n)})),
            Reply::Text("ok"),
        ]);
        home.write("config.toml", &provider.config());
        let _ = home.run(&["remember the port"]).ok();
        let proposals = home.run(&["memory", "proposals", "--json"]).ok().json();
        let proposal = proposals["proposals"][0]["note"]["id"].as_str().or(proposals["proposals"][0]["id"].as_str());
        let proposal = proposal.unwrap_or_else(|| panic!("{proposals}")).to_owned();
        let args =
            [&["memory", "accept", proposal.as_str()][..], if id.is_empty() { &[] } else { &["--replacing", &id] }];
        let _ = home.run(&args.concat()).ok();
        // It may have taken the place of the one before, with its name.
        let notes = home.run(&["memory", "list", "--json"]).ok().json()["notes"].as_array().unwrap().clone();
        assert_eq!(notes.len(), 1, "{notes:#?}");
        notes[0]["id"].as_str().unwrap().clone_into(&mut id);
    }
    for look in 0..2 {
        assert_eq!(found(&home, "5411", &[]), ["第11版 the port is 5411"], "look {look}");
        for old in ["5400", "5405", "5410"] {
            assert!(!found(&home, old, &[]).iter().any(|text| text.contains(old)), "{old} is still found");
        }
        assert_eq!(home.run(&["memory", "list", "--json"]).ok().json()["notes"].as_array().unwrap().len(), 1);
        // The index as it grew and one made anew from the files say the same.
        let _ = home.run(&["memory", "reindex"]).ok();
    }
}

/// The messages of a request, each as `role: text`.
fn said(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(|m| format!("{}: {}", m["role"].as_str().unwrap(), m["content"])).collect()
}

#[test]
fn fault_7_a_second_compaction_keeps_the_first_and_one_that_fails_loses_nothing() {
    let first = "FACTS:\n- 预算是 4200 欧元\nSTORY: planning";
    let second = "FACTS:\n- the room is 17\nSTORY: more planning";
    let provider = Provider::start(vec![
        Reply::Text("noted"),
        Reply::Call("list_capabilities", json!({"query": "查找"})),
        Reply::Text("nothing there"),
        Reply::Text(first),
        Reply::Text("yes"),
        Reply::Text(second),
        Reply::Text("still here"),
        Reply::Status("500 Internal Server Error", "no summary today"),
        Reply::Text("17, and 4200"),
    ]);
    let home = Home::new().config(&provider.config());
    let lines =
        "our budget is 4200 euro\nlook\n/compact\nwhich room?\n/compact\nand now?\n/compact\nroom and budget?\n";
    let ran = home.run_with_input(&["chat"], lines).ok();
    assert!(ran.err.contains("500") || ran.err.contains("no summary today"), "the failure is told: {}", ran.err);
    let asked = provider.requests.lock().unwrap();
    assert_eq!(asked.len(), 9);
    // The second summary is made with the first before its eyes, and both are told from then on.
    assert!(said(&asked[5]).concat().contains("4200"), "{:?}", said(&asked[5]));
    let last = said(&asked[8]).concat();
    assert!(last.contains("预算是 4200 欧元") && last.contains("the room is 17"), "{last}");
    // What the failed one should have summarised is sent as it was said.
    assert!(last.contains("and now?") && last.contains("still here") && last.contains("room and budget?"), "{last}");
    for request in asked.iter() {
        let messages = request["messages"].as_array().unwrap();
        let calls = messages.iter().filter_map(|m| m["tool_calls"].as_array()).map(Vec::len).sum::<usize>();
        let results = messages.iter().filter(|m| m["role"] == "tool").count();
        assert_eq!(calls, results, "a result is parted from its call: {messages:#?}");
    }
}

#[test]
fn fault_7_one_giant_message_is_cut_in_its_middle_and_answered() {
    let provider = Provider::start(vec![Reply::Text("read")]);
    let home = Home::new().config(&provider.config());
    let giant = format!("BEGIN {} 结束", "很长的文字 and more ".repeat(9_000));
    assert!(giant.len() < 32_768 * 8, "less than is refused at once");
    let _ = home.run_with_input(&["-"], &giant).ok();
    let asked = provider.requests.lock().unwrap();
    let sent = asked[0]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(sent.contains("BEGIN") && sent.contains("left out") && sent.contains("结束"), "{} bytes", sent.len());
    assert!(sent.chars().count() < 130_000, "{}", sent.chars().count());
}

/// One event of a stream.
fn data(value: Value) -> String {
    format!("data: {value}\n\n")
}

fn calling(name: &str, arguments: &str, finish: &str) -> String {
    let call =
        json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]});
    data(json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})) + &data(end) + "data: [DONE]\n\n"
}

#[test]
fn fault_8_an_odd_stream_is_read_whole_and_an_error_in_it_is_told() {
    let part = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]}).to_string();
    let odd = format!(
        ": a comment\r\n\r\ndata:{}\r\n\r\ndata:{}\n\ndata: {}\n\nid: 7\nevent: message\ndata:{}\n\ndata: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [], "prompt_filter_results": []}),
        part("汉字"),
        part(" and words"),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}),
    );
    let home = Home::new();
    let ask = |stream: String| {
        let provider = Provider::start(vec![Reply::Raw(stream)]);
        home.write("config.toml", &provider.config());
        home.run(&["--json", "hello"])
    };
    let events = ask(odd).ok().events();
    let end = events.last().unwrap();
    assert_eq!((&end["answer"], &end["stop_reason"]), (&json!("汉字 and words"), &json!("end_turn")));
    assert_eq!(end["usage"]["input_tokens"], 5);
    // An error in the middle is no answer.
    let broken =
        format!("data: {}\n\ndata: {}\n\n", part("The answer"), json!({"error": {"message": "上游 overloaded"}}));
    let events = ask(broken).failed(1, &["overloaded"]).events();
    assert_eq!(events.last().unwrap()["type"], "turn.failed");
    // Why it ended is told.
    let length = data(json!({"choices": [{"index": 0, "delta": {"content": "The ans"}, "finish_reason": "length"}]}));
    let end = ask(length + "data: [DONE]\n\n").ok().events().pop().unwrap();
    assert_eq!(end["stop_reason"], "reply_cut", "{end}");
}

#[test]
fn fault_8_arguments_that_are_cut_or_no_object_run_nothing() {
    for (arguments, finish) in [
        ("{\"path\": \"kept.txt\", \"content\": \"half of", "length"),
        ("{\"path\": \"kept.txt\", \"content\": \"x\"", "tool_calls"),
        ("", "length"),
        ("[\"kept.txt\"]", "tool_calls"),
        ("\"kept.txt\"", "tool_calls"),
        ("null", "tool_calls"),
        ("7", "tool_calls"),
    ] {
        let provider = Provider::start(vec![Reply::Raw(calling("file_write", arguments, finish)), Reply::Text("ok")]);
        let home = Home::new().config(&provider.config());
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().display().to_string();
        let ran = home.run(&["--json", "--workspace", &workspace, "write"]);
        assert!(ran.code == 0 || ran.code == 1, "{arguments}: {}", ran.err);
        assert!(!ran.err.contains("panicked"), "{arguments}: {}", ran.err);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments}: something was written");
        let intents = home.run(&["audit", "tail", "--json", "--kind", "intent"]).ok().out;
        assert_eq!(intents, "", "{arguments}: something was begun");
        // The model is told, unless its provider said that the reply itself was cut.
        let asked = provider.requests.lock().unwrap();
        if let Some(request) = asked.get(1) {
            let told = said(request).pop().unwrap();
            assert!(
                told.starts_with("tool: ") && (told.contains("nothing was run") || told.contains("path")),
                "{told}"
            );
        } else {
            assert_eq!(finish, "length", "{arguments}: {}", ran.out);
        }
    }
}

#[test]
fn fault_8_arguments_may_be_called_like_anything() {
    const NAMES: [&str; 11] =
        ["name", "tool_name", "args", "self", "cls", "kwargs", "tool", "emit", "cancel", "request", "ctx"];
    let each = |value: Value| -> Value {
        NAMES.iter().map(|name| ((*name).to_owned(), value.clone())).collect::<serde_json::Map<_, _>>().into()
    };
    let definition = json!({
        "name": "join_words", "capability": "Joins all words that it is given into one text.",
        "triggers": ["one text out of many words"], "returns": {"type": "string"},
        "parameters": {"type": "object", "required": NAMES, "properties": each(json!({"type": "string"}))},
        "examples": [{"args": each(json!("x")), "returns": vec!["x"; NAMES.len()].join("+")}],
    });
    let list = NAMES.join(", ");
    let code = format!(
        "export default function run({{ {list} }}: Record<string, string>): string {{\n  return [{list}].join('+');\n}}\n"
    );
    let provider = Provider::start(vec![
        Reply::Call("register_capability", json!({"definition": definition, "code": code})),
        Reply::Call("execute_capability", json!({"name": "join_words", "args": each(json!("y"))})),
        Reply::Text("done"),
    ]);
    let home = Home::new().config(&provider.config());
    let events = home.run(&["--json", "join"]).ok().events();
    let ran: Vec<&Value> = events.iter().filter(|e| e["type"] == "tool.completed").collect();
    assert!(ran.iter().all(|e| e["ok"] == true), "{ran:#?}");
    assert_eq!(ran[1]["content"]["result"], vec!["y"; NAMES.len()].join("+"));
}

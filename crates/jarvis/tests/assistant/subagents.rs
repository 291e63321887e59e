//! Subagents of the shipped binary, driven by a scripted provider: what they may do, what is reported of them, what they
//! share with the conversation that started them.

use crate::common::provider::{Provider, Reply};
use crate::common::{Home, ends_within, signal};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

struct Bench {
    home: Home,
    workspace: PathBuf,
    _folder: tempfile::TempDir,
}

/// One turn, with what the model was told of each `delegate`.
struct Turned {
    events: Vec<Value>,
    told: Vec<Told>,
}

#[derive(Debug)]
struct Told {
    ok: bool,
    content: Value,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        Bench { home: Home::new(), workspace, _folder: folder }
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.workspace.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }

    fn digest(&self, name: &str) -> Value {
        json!(blake3::hash(&std::fs::read(self.workspace.join(name)).unwrap()).to_hex().as_str())
    }

    fn turn(&self, provider: &Provider, flags: &[&str]) -> Turned {
        self.home.write("config.toml", &provider.patient_config(20));
        let workspace = self.workspace.display().to_string();
        let args = [&["--json", "--workspace", &workspace], flags, &["PARENT: go"]].concat();
        let events = self.home.run(&args).ok().events();
        let told = events.iter().filter(|e| e["type"] == "tool.completed" && e["name"] == "delegate");
        let told = told.map(|e| Told { ok: e["ok"].as_bool().unwrap(), content: e["content"].clone() }).collect();
        Turned { events, told }
    }

    /// One subagent with a script of its own; what came of it.
    fn one(&self, args: Value, script: Vec<Reply>) -> (Told, Turned) {
        let provider = one_agent(args, script);
        let mut turned = self.turn(&provider, &[]);
        assert_eq!(turned.told.len(), 1, "{:?}", turned.events);
        (turned.told.remove(0), turned)
    }
}

/// The task must hold `TASK`.
fn one_agent(args: Value, script: Vec<Reply>) -> Provider {
    Provider::by_mark(vec![
        ("PARENT", vec![Reply::Calls(vec![("d1", "delegate", args)]), Reply::Text("The parent has read it.")]),
        ("TASK", script),
    ])
}

impl Told {
    #[track_caller]
    fn fine(self) -> Value {
        assert!(self.ok, "{}", self.content);
        self.content
    }

    #[track_caller]
    fn failed(self, says: &[&str]) -> String {
        assert!(!self.ok, "{}", self.content);
        let error = self.content["error"].as_str().unwrap().to_owned();
        for part in says {
            assert!(error.contains(part), "`{part}` is missing in: {error}");
        }
        error
    }
}

impl Turned {
    fn last(&self) -> &Value {
        self.events.last().unwrap()
    }

    /// Of what subagents did, the calls that ended: tool and whether it was fine.
    fn inside(&self) -> Vec<(String, bool, String)> {
        let inner = self.events.iter().filter(|e| e["type"] == "agent").map(|e| &e["event"]);
        let ended = inner.filter(|e| e["type"] == "tool.completed");
        ended
            .map(|e| (e["name"].as_str().unwrap().to_owned(), e["ok"].as_bool().unwrap(), e["content"].to_string()))
            .collect()
    }
}

fn offered(request: &Value) -> Vec<&str> {
    request["tools"].as_array().unwrap().iter().map(|t| t["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn a_researcher_reads_and_answers_in_a_context_of_its_own() {
    let bench = Bench::new();
    bench.file("notes.txt", "the staging port is 5433\n");
    let args = json!({"agent": "researcher", "task": "TASK: which port is it?"});
    let provider = one_agent(
        args,
        vec![Reply::Call("file_read", json!({"path": "notes.txt"})), Reply::Text("端口是 5433 (notes.txt, line 1).")],
    );
    let turned = bench.turn(&provider, &[]);
    let told = &turned.told[0].content;
    assert_eq!(told["answer"], "端口是 5433 (notes.txt, line 1).", "{told}");
    assert_eq!((&told["evidence"]["read"], &told["rounds"]), (&json!(["notes.txt"]), &json!(2)));
    // Each step is told with who did it.
    let started = turned.events.iter().find(|e| e["event"]["type"] == "tool.started").unwrap();
    assert_eq!((&started["agent"], &started["call_id"]), (&json!("researcher"), &json!("d1")));
    // Every model call counts for the turn.
    assert_eq!(turned.last()["usage"]["input_tokens"], 44);
    let asked = provider.requests.lock().unwrap();
    assert_eq!(asked.len(), 4);
    assert!(offered(&asked[0]).contains(&"delegate"));
    assert_eq!(offered(&asked[1]), ["file_read", "file_list", "file_search", "http_request"]);
    assert!(!asked[1]["messages"].to_string().contains("PARENT"), "{}", asked[1]["messages"]);
    let parent = asked[3]["messages"].to_string();
    assert!(parent.contains("5433 (notes.txt") && !parent.contains("the staging port"), "{parent}");
    drop(asked);
    for kind in ["intent", "outcome"] {
        assert!(bench.home.run(&["audit", "tail", "--kind", kind]).ok().out.contains("researcher"), "{kind}");
    }
    assert!(bench.home.run(&["audit", "verify"]).ok().out.contains("0 problems"));
    // A person sees the steps, and not the subagent's words.
    let provider = one_agent(
        json!({"agent": "researcher", "task": "TASK"}),
        vec![Reply::Call("file_list", json!({})), Reply::Text("Only for the parent.")],
    );
    bench.home.write("config.toml", &provider.config());
    let ran = bench.home.run(&["PARENT: go"]).ok();
    assert!(ran.err.contains("researcher │ → file_list"), "{}", ran.err);
    assert_eq!(ran.out, "The parent has read it.\n");
}

#[test]
fn three_work_at_the_same_time_and_each_answers_its_own_call() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    let slow = || {
        let read = Reply::Call("file_read", json!({"path": "a.txt"}));
        Reply::Later(Duration::from_millis(1500), Box::new(read))
    };
    let task = |mark: &str| json!({"agent": "researcher", "task": mark});
    let provider = Provider::by_mark(vec![
        (
            "PARENT",
            vec![
                Reply::Calls(vec![
                    ("d1", "delegate", task("ALPHA")),
                    ("d2", "delegate", task("BRAVO")),
                    ("d3", "delegate", task("CHARLIE")),
                ]),
                Reply::Text("done"),
            ],
        ),
        ("ALPHA", vec![slow(), Reply::Text("alpha found")]),
        ("BRAVO", vec![slow(), Reply::Text("bravo found")]),
        ("CHARLIE", vec![slow(), Reply::Text("charlie found")]),
    ]);
    let turned = bench.turn(&provider, &[]);
    assert_eq!(turned.told.len(), 3);
    let asked = provider.requests.lock().unwrap();
    let first = |request: &Value| {
        let messages = request["messages"].as_array().unwrap();
        (messages.iter().find(|m| m["role"] == "user").unwrap()["content"].to_string(), messages.len())
    };
    // While the first reply of each is awaited, all have asked: none waited for another.
    let begun: Vec<String> = asked[1..4].iter().map(|request| first(request).0).collect();
    for mark in ["ALPHA", "BRAVO", "CHARLIE"] {
        assert!(begun.iter().any(|task| task.contains(mark)), "{begun:?}");
    }
    let results: Vec<&Value> =
        asked.last().unwrap()["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool").collect();
    for (result, (id, answer)) in results.iter().zip([("d1", "alpha"), ("d2", "bravo"), ("d3", "charlie")]) {
        assert_eq!(result["tool_call_id"], id);
        assert!(result["content"].to_string().contains(&format!("{answer} found")), "{result}");
    }
    assert_eq!((results.len(), &turned.last()["usage"]["input_tokens"]), (3, &json!(8 * 11)));
}

#[test]
fn what_is_not_on_its_list_cannot_be_used_and_nobody_starts_another() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    bench.home.write("agents/lone.md", "---\ndescription: lists\ntools: [file_list]\n---\nList.\n");
    for agent in ["reviewer", "lone"] {
        let script = vec![
            Reply::Call("file_write", json!({"path": "a.txt", "content": "two", "mode": "overwrite"})),
            Reply::Call("shell_exec", json!({"command": "echo two > a.txt"})),
            Reply::Call("execute_capability", json!({"name": "x", "args": {}})),
            Reply::Call("delegate", json!({"agent": "coder", "task": "TASK: write"})),
            Reply::Call("file_list", json!({})),
            Reply::Text("I could only list."),
        ];
        let provider = one_agent(json!({"agent": agent, "task": "TASK: try all"}), script);
        let turned = bench.turn(&provider, &[]);
        let calls = turned.inside();
        assert_eq!(calls.len(), 5, "{calls:?}");
        for (tool, ok, said) in &calls[..4] {
            assert!(!ok && said.contains("may not use"), "{agent}: {tool}: {said}");
        }
        assert!(calls[4].1);
        assert!(!offered(&provider.requests.lock().unwrap()[1]).contains(&"delegate"));
        assert_eq!(std::fs::read_to_string(bench.workspace.join("a.txt")).unwrap(), "one\n");
    }
    let (told, _) = bench.one(json!({"agent": "nobody", "task": "TASK"}), vec![]);
    told.failed(&["nobody"]);
    let (told, _) = bench.one(json!({"agent": "reviewer", "task": "TASK", "expect_files": ["a.txt"]}), vec![]);
    told.failed(&["changes no files"]);
}

#[test]
fn a_coder_that_claims_a_file_it_did_not_write_has_failed() {
    let write = |path: &str| Reply::Call("file_write", json!({"path": path, "content": "x = 1\n"}));
    let coder = |expected: &[&str]| json!({"agent": "coder", "task": "TASK: write it", "expect_files": expected});
    let cases: Vec<(&[&str], Vec<Reply>, &[&str])> = vec![
        (&[], vec![Reply::Text("I created `out/report.py` and it works.")], &["report.py", "did not"]),
        (&[], vec![Reply::Text("完成，结果在 报告.md 里。")], &["报告.md", "no such file"]),
        (&[], vec![Reply::Text("I updated config.toml as asked.")], &["config.toml", "did not"]),
        (&["b.txt"], vec![Reply::Text("Done.")], &["b.txt", "not there"]),
        (&["config.toml"], vec![Reply::Text("Done.")], &["config.toml", "did not write it"]),
        (&["../b.txt"], vec![Reply::Text("Done.")], &["b.txt"]),
        // Written, and gone again before the end.
        (
            &[],
            vec![
                write("gone.py"),
                Reply::Call("shell_exec", json!({"command": "rm gone.py"})),
                Reply::Text("I wrote gone.py."),
            ],
            &["gone.py", "did not"],
        ),
        // The same name elsewhere is another file.
        (&["b.py"], vec![write("src/b.py"), Reply::Text("Done.")], &["b.py", "not there"]),
        // The one it wrote does not stand for the one it did not.
        (&["a.py", "b.py"], vec![write("a.py"), Reply::Text("Wrote a.py and b.py.")], &["b.py"]),
    ];
    for (expected, script, says) in cases {
        let bench = Bench::new();
        bench.file("config.toml", "a = 1\n");
        let (told, turned) = bench.one(coder(expected), script);
        let mut parts = vec!["the subagent `coder` failed"];
        parts.extend(says);
        let error = told.failed(&parts);
        assert!(error.contains("\"files\":"), "the evidence is there too: {error}");
        assert_eq!(turned.last()["stop_reason"], "end_turn");
    }
    // What was written, by whatever it calls, is no claim too many.
    let bench = Bench::new();
    bench.file("config.toml", "a = 1\n");
    let script = vec![
        write("src/a.py"),
        write("报告.md"),
        Reply::Call("shell_exec", json!({"command": "echo made > made.txt"})),
        Reply::Text(
            "I wrote src/a.py, a.py's tests are due. 已写入报告.md。Created made.txt; config.toml is unchanged. See config.toml.",
        ),
    ];
    let (told, _) = bench.one(coder(&["src/a.py", "./made.txt"]), script);
    told.fine();
}

#[test]
fn the_evidence_holds_digests_and_exit_codes() {
    let bench = Bench::new();
    bench.file("old.txt", "one\n");
    bench.file("gone.txt", "x\n");
    bench.file("touched.txt", "x\n");
    let (old, gone) = (bench.digest("old.txt"), bench.digest("gone.txt"));
    let script = vec![
        Reply::Call("file_write", json!({"path": "new.txt", "content": "新\n"})),
        Reply::Call("file_edit", json!({"path": "old.txt", "old": "one", "new": "two"})),
        Reply::Call("file_edit", json!({"path": "old.txt", "old": "two", "new": "three"})),
        Reply::Call("file_edit", json!({"path": "gone.txt", "old": "x", "new": "y"})),
        Reply::Call("shell_exec", json!({"command": "rm gone.txt; echo by hand > made.txt; echo y > touched.txt"})),
        Reply::Call("shell_exec", json!({"command": "echo 'exit code 0'; exit 3"})),
        Reply::Call("shell_exec", json!({"command": "rm -rf /"})),
        Reply::Text("new.txt is written."),
    ];
    let (told, _) = bench.one(json!({"agent": "coder", "task": "TASK"}), script);
    let evidence = told.fine()["evidence"].clone();
    let files = evidence["files"].as_array().unwrap();
    let file = |name: &str| files.iter().find(|f| f["path"] == name).unwrap_or_else(|| panic!("{name}: {evidence}"));
    assert_eq!(files.len(), 5, "{evidence}");
    let shown = |name: &str| {
        let f = file(name);
        (
            f["change"].as_str().unwrap().to_owned(),
            f["by"].as_str().unwrap().to_owned(),
            f["before"].clone(),
            f["after"].clone(),
        )
    };
    let expect = |name: &str, change: &str, by: &str, before: Value, after: Value| {
        assert_eq!(shown(name), (change.to_owned(), by.to_owned(), before, after), "{name}");
    };
    expect("new.txt", "made", "file_write", Value::Null, bench.digest("new.txt"));
    expect("old.txt", "changed", "file_edit", old, bench.digest("old.txt"));
    expect("gone.txt", "removed", "file_edit", gone, Value::Null);
    expect("made.txt", "made", "shell_exec", Value::Null, bench.digest("made.txt"));
    expect("touched.txt", "changed", "shell_exec", Value::Null, bench.digest("touched.txt"));
    assert!(file("touched.txt")["note"].as_str().unwrap().contains("not known"));
    let codes: Vec<&Value> = evidence["commands"].as_array().unwrap().iter().map(|c| &c["exit_code"]).collect();
    assert_eq!(codes, [&json!(0), &json!(3), &Value::Null], "{evidence}");
    assert!(evidence["commands"][2]["problem"].as_str().unwrap().contains("危险命令被拦截"), "{evidence}");
}

#[test]
fn capabilities_it_builds_are_the_turns_and_told_in_the_evidence() {
    let bench = Bench::new();
    let (told, turned) =
        bench.one(json!({"agent": "coder", "task": "TASK: 6 times 7"}), crate::common::provider::grows());
    let evidence = told.fine()["evidence"].clone();
    assert_eq!(evidence["capabilities_built"], json!(["multiply_numbers"]), "{evidence}");
    assert_eq!(evidence["capabilities_used"], json!(["multiply_numbers"]));
    assert_eq!(turned.last()["capabilities_built"], json!(["multiply_numbers"]));
    assert_eq!(bench.home.run(&["cap", "run", "multiply_numbers", "--args", "{\"a\": 5, \"b\": 5}"]).ok().out, "25\n");
}

#[test]
fn every_purpose_goes_to_the_same_model_with_the_same_settings() {
    let bench = Bench::new();
    let provider = Provider::by_mark(vec![
        (
            "PARENT",
            vec![
                Reply::Calls(vec![("d1", "delegate", json!({"agent": "researcher", "task": "TASK"}))]),
                Reply::Text("The first answer."),
                Reply::Text("The second answer."),
            ],
        ),
        ("TASK", vec![Reply::Call("file_list", json!({})), Reply::Text("There is nothing.")]),
        // What is left is the summary.
        ("", vec![Reply::Text("Facts:\n- PARENT asked")]),
    ]);
    let own = "body = { enable_thinking = false, top_k = 20 }\nretries";
    bench.home.write("config.toml", &provider.config().replace("retries", own));
    let _ = bench.home.run_with_input(&["chat"], "PARENT one\nPARENT two\n/compact\n").ok();
    let asked = provider.requests.lock().unwrap();
    assert!(asked.len() >= 6, "{}", asked.len());
    let settings = |request: &Value| {
        let mut rest = request.clone();
        for own in ["messages", "tools", "max_tokens"] {
            rest.as_object_mut().unwrap().remove(own);
        }
        rest
    };
    for request in asked.iter() {
        assert_eq!(request["model"], "m");
        assert_eq!((&request["enable_thinking"], &request["top_k"]), (&json!(false), &json!(20)));
        assert_eq!(request["stream"], asked[0]["stream"]);
        // Chat, tools and subagent differ in nothing but what is said and offered.
        if request["tools"].is_array() {
            assert_eq!(settings(request), settings(&asked[0]));
        }
    }
}

#[test]
fn subagents_share_what_the_turn_has_left() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    let read = || Reply::Call("file_read", json!({"path": "a.txt"}));
    let two = || {
        Provider::by_mark(vec![
            (
                "PARENT",
                vec![
                    Reply::Calls(vec![
                        ("d1", "delegate", json!({"agent": "researcher", "task": "ALPHA"})),
                        ("d2", "delegate", json!({"agent": "researcher", "task": "BRAVO"})),
                    ]),
                    Reply::Text("What there is."),
                ],
            ),
            ("ALPHA", vec![read(), read(), read()]),
            ("BRAVO", vec![read(), read(), read()]),
        ])
    };
    // Of five rounds one is used and one is for the answer: one and a half for each.
    let provider = two();
    let mut turned = bench.turn(&provider, &["--max-turns", "5"]);
    assert_eq!(turned.last()["answer"], "What there is.");
    turned.told.remove(0).failed(&["within its rounds"]);
    assert_eq!(provider.requests.lock().unwrap().len(), 4);
    // Nothing left: none begins.
    let provider = two();
    let mut turned = bench.turn(&provider, &["--max-turns", "3"]);
    turned.told.remove(0).failed(&["nothing left"]);
    assert_eq!(provider.requests.lock().unwrap().len(), 2);
    // Its own bound is lower.
    bench.home.write("agents/short.md", "---\ndescription: reads\ntools: [file_read]\nmax_iterations: 2\n---\nRead.\n");
    let provider = one_agent(json!({"agent": "short", "task": "TASK"}), vec![read(), read(), read()]);
    bench.turn(&provider, &[]).told.remove(0).failed(&["within its rounds"]);
    assert_eq!(provider.requests.lock().unwrap().len(), 4);
    // 14 dollars a call: 14 for the first, so 26 are left, which two calls pass.
    let provider = one_agent(json!({"agent": "researcher", "task": "TASK"}), vec![read(), read(), read()]);
    let prices = "[prices.\"fake/m\"]\ninput = 1e6\noutput = 1e6\n";
    bench.home.write("config.toml", &(provider.config() + prices));
    let workspace = bench.workspace.display().to_string();
    let ran = bench.home.run(&["--json", "--workspace", &workspace, "--max-cost", "40", "PARENT: go"]).failed(1, &[]);
    let events = ran.events();
    let told = events.iter().find(|e| e["type"] == "tool.completed").unwrap();
    assert!(told["content"]["error"].as_str().unwrap().contains("cost"), "{told}");
    let end = events.last().unwrap();
    assert_eq!((&end["stop_reason"], &end["usage"]["cost_usd"]), (&json!("max_cost"), &json!(42.0)));
}

#[test]
fn a_failing_model_ends_the_subagent_and_not_the_turn() {
    let bench = Bench::new();
    let bad = Reply::Status("400 Bad Request", "{\"error\": {\"message\": \"too strange\"}}");
    let (told, turned) = bench.one(json!({"agent": "researcher", "task": "TASK"}), vec![bad]);
    told.failed(&["the subagent `researcher` failed", "too strange"]);
    assert_eq!(turned.last()["answer"], "The parent has read it.");
}

#[test]
fn ctrl_c_ends_all_of_them() {
    let bench = Bench::new();
    let provider = Provider::by_mark(vec![
        (
            "PARENT",
            vec![Reply::Calls(vec![
                ("d1", "delegate", json!({"agent": "researcher", "task": "ALPHA"})),
                ("d2", "delegate", json!({"agent": "coder", "task": "BRAVO"})),
                ("d3", "delegate", json!({"agent": "coder", "task": "CHARLIE"})),
            ])],
        ),
        ("ALPHA", vec![Reply::Hangs]),
        ("BRAVO", vec![Reply::Hangs]),
        ("CHARLIE", vec![Reply::Call("shell_exec", json!({"command": "touch begun; sleep 50; touch late"}))]),
    ]);
    bench.home.write("config.toml", &provider.patient_config(50));
    let workspace = bench.workspace.display().to_string();
    let mut command = bench.home.command(&["--json", "--workspace", &workspace, "PARENT: go"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    provider.was_asked(4);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !bench.workspace.join("begun").exists() {
        assert!(std::time::Instant::now() < deadline, "the command did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal("INT", child.id());
    let ran = ends_within(child, Duration::from_secs(5)).failed(130, &[]);
    let events = ran.events();
    assert_eq!(events.last().unwrap()["stop_reason"], "cancelled", "{events:?}");
    let ended = events.iter().filter(|e| e["type"] == "tool.completed").count();
    assert_eq!((ended, bench.workspace.join("late").exists()), (3, false));
    assert!(bench.home.run(&["audit", "verify"]).ok().out.contains("0 problems"));
}

#[test]
fn agents_are_files_and_a_broken_one_hides_no_other() {
    let bench = Bench::new();
    let workspace = bench.workspace.display().to_string();
    let agent = |about: &str| format!("---\ndescription: {about}\ntools: [file_read]\n---\nYou are {about}.\n");
    bench.home.write("agents/coder.md", &agent("the home's coder"));
    bench.home.write("agents/翻译.md", &agent("翻译文件"));
    bench.file(".jarvis/agents/coder.md", &agent("the workspace's coder"));
    bench.file(".jarvis/agents/bad.md", "---\ndescription: x\ntools: [file_read, fly]\n---\nx\n");
    bench.file(".jarvis/agents/unread.md", "---\ndescription: x\n");
    bench.file(".jarvis/agents/a.b.md", &agent("dotted"));
    bench.file("secret.txt", &agent("secret words"));
    std::os::unix::fs::symlink(bench.workspace.join("secret.txt"), bench.workspace.join(".jarvis/agents/link.md"))
        .unwrap();
    let listed = bench.home.run(&["agents", "list", "--json", "--workspace", &workspace]).ok().json();
    let names: Vec<&str> = listed["agents"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["coder", "researcher", "reviewer", "翻译"]);
    assert_eq!(listed["agents"][0]["description"], "the workspace's coder");
    assert_eq!(listed["agents"][0]["origin"], "workspace");
    assert_eq!(listed["broken"].as_array().unwrap().len(), 4, "{listed}");
    assert!(!listed.to_string().contains("secret words"));
    let ran = bench.home.run(&["agents", "list", "--workspace", &workspace]).ok();
    assert!(
        ran.out.contains("翻译文件") && ran.err.contains("bad.md") && ran.err.contains("`fly`"),
        "{}{}",
        ran.out,
        ran.err
    );
    // Elsewhere the home's is the nearest.
    assert!(bench.home.run(&["agents", "show", "coder"]).ok().out.contains("You are the home's coder."));
    let shown = bench.home.run(&["agents", "show", "reviewer", "--json"]).ok().json();
    assert_eq!(shown["tools"], json!(["file_read", "file_list", "file_search"]));
    let _ = bench.home.run(&["agents", "show", "nobody"]).failed(1, &["nobody", "agents list"]);
    let _ = bench.home.run(&["agents", "show", "../config"]).failed(1, &["../config"]);
    let _ = bench.home.run(&["agents", "show", "bad", "--workspace", &workspace]).failed(1, &["fly", "mend"]);
    // In a turn the broken ones are told, and the others work.
    let (told, turned) = bench.one(json!({"agent": "coder", "task": "TASK"}), vec![Reply::Text("Read.")]);
    told.fine();
    let notes =
        turned.events.iter().filter(|e| e["type"] == "notice" && e["message"].to_string().contains("is no agent: "));
    assert_eq!(notes.count(), 4);
    // No model makes or changes one.
    let path = ".jarvis/agents/coder.md";
    let script = vec![
        Reply::Call("file_write", json!({"path": path, "content": "mine", "mode": "overwrite"})),
        Reply::Call("shell_exec", json!({"command": format!("echo mine > {path}; echo mine > .jarvis/agents/new.md")})),
        Reply::Text("Tried."),
    ];
    let before = bench.digest(path);
    std::fs::remove_file(bench.workspace.join(".jarvis/agents/bad.md")).unwrap();
    bench.file(".jarvis/agents/other.md", "---\ndescription: x\ntools: [file_write, shell_exec]\n---\nx\n");
    let (told, _) = bench.one(json!({"agent": "other", "task": "TASK"}), script);
    assert_eq!(told.fine()["evidence"]["files"], json!([]));
    assert_eq!((bench.digest(path), bench.workspace.join(".jarvis/agents/new.md").exists()), (before, false));
}

//! Rules through the shipped binary: made by a model with a person's yes, in force at once, and never wider than what is
//! closed.

use crate::common::provider::{Provider, Reply};
use crate::common::terminal::Terminal;
use crate::common::workspace::Bench;
use serde_json::{Value, json};

fn rule(name: &str, effect: &str, condition: Value, fits: Value, not: Value) -> Value {
    json!({"name": name, "description": "because: \"so\" — 因为", "effect": effect, "condition": condition,
        "examples": [{"given": fits, "expect": true}, {"given": not, "expect": false}]})
}

fn no_push() -> Value {
    rule(
        "no-push",
        "deny",
        json!({"commands": ["git push*"]}),
        json!({"tool": "shell_exec", "command": "cd a && git push origin"}),
        json!({"tool": "shell_exec", "command": "git pull"}),
    )
}

/// One file of rules, as a person might write it.
fn yaml(id: &str, action: &str, condition: &str) -> String {
    format!(
        "domain: permissions\nrules:\n- id: {id}\n  description: by hand\n  when: tool.before\n  condition: {condition}\n  \
         action: {action}\n  priority: 50\n  examples: []\n"
    )
}

#[test]
fn a_rule_is_in_force_from_the_next_call_on_and_named_where_it_refuses() {
    let bench = Bench::new();
    bench.file("secret/key.txt", "TOP SECRET");
    bench.call("create_rule", no_push()).refused("nobody allowed it");
    assert_eq!(bench.all_files(), ["secret/key.txt"]);
    let secret = rule(
        "no-secrets",
        "deny",
        json!({"paths": ["secret/**"]}),
        json!({"tool": "file_read", "path": "a/../secret/key.txt"}),
        json!({"tool": "file_read", "path": "secretly.txt"}),
    );
    let shell = |line: &str| ("shell_exec", json!({"command": line}));
    let told = bench.calls(
        &[
            ("create_rule", no_push()),
            shell("git push"),
            shell("true; /usr/bin/git   push origin --force"),
            shell("bash -c 'git push'"),
            shell("echo git push"),
            ("create_rule", secret),
            ("file_read", json!({"path": "./secret/../secret/key.txt"})),
            ("file_write", json!({"path": "secret/new.txt", "content": "x"})),
            shell("cat secret/key.txt"),
            ("file_write", json!({"path": "open.txt", "content": "x"})),
        ],
        &["--approve", "auto"],
    );
    let ok: Vec<bool> = told.iter().map(|told| told.ok).collect();
    let texts: Vec<&str> = told.iter().map(|told| told.text.as_str()).collect();
    assert_eq!(ok, [true, false, false, false, true, true, false, false, false, true], "{texts:#?}");
    for at in [1, 2, 3] {
        assert!(texts[at].contains("rule `no-push`: because: \"so\" — 因为"), "{}", texts[at]);
    }
    for at in [6, 7, 8] {
        assert!(texts[at].contains("rule `no-secrets`"), "{}", texts[at]);
    }
    assert!(bench.home.run(&["audit", "tail", "--json"]).ok().out.contains("rule `no-push`"));
    let workspace = bench.workspace.display().to_string();
    let listed = bench.home.run(&["rule", "list", "--json", "--workspace", &workspace]).ok().json();
    assert_eq!(listed["rules"][0]["id"], "no-push");
    assert_eq!((listed["rules"].as_array().unwrap().len(), &listed["broken"]), (2, &json!([])));
    let checked = bench.home.run(&["rule", "check", "--workspace", &workspace]).ok();
    assert!(checked.err.contains("2 rules are as they should be"), "{}", checked.err);
    let shown = bench.home.run(&["rule", "show", "no-push", "--workspace", &workspace]).ok().out;
    assert!(shown.contains("git push*") && shown.contains("expect: true"), "{shown}");
}

#[test]
fn a_rule_is_not_passed_by_another_way_to_the_same() {
    let bench = Bench::new();
    bench.file("secret/key.txt", "TOP SECRET\n");
    bench.file("open.txt", "no SECRET here\n");
    let mine = [
        ("no-push", "{commands: ['git push*']}"),
        ("no-secrets", "{paths: ['secret/**']}"),
        ("no-evil", "{hosts: [evil.example]}"),
        ("no-making", "{tools: [register_capability]}"),
    ];
    for (id, condition) in mine {
        bench.home.write(&format!("rules/{id}.yaml"), &yaml(id, "deny", condition));
    }
    // A workspace does not put a rule of the person's out of force by using its name.
    bench.file(".jarvis/rules/mine.yaml", &yaml("no-push", "allow", "{tools: ['*']}"));
    let shell = |line: &str| ("shell_exec", json!({"command": line}));
    let reach = |host: &str| ("shell_exec", json!({"command": "true", "network": [host]}));
    let tool = json!({"name": "one", "description": "One.", "parameters_schema": {"type": "object"},
        "code": "export default () => 1", "examples": [{"args": {}, "returns": 1}]});
    let refused = [
        (shell("git -C . push"), "no-push"),
        (shell("git --no-pager push"), "no-push"),
        (shell("cd secret && cat key.txt"), "no-secrets"),
        (("shell_exec", json!({"command": "cat key.txt", "workdir": "secret"})), "no-secrets"),
        (reach("evil.example"), "no-evil"),
        (reach("https://evil.example"), "no-evil"),
        (reach("GET evil.example/x"), "no-evil"),
        (("create_tool", tool), "no-making"),
    ];
    let calls: Vec<(&'static str, Value)> = refused.iter().map(|(call, _)| call.clone()).collect();
    for (told, (call, rule)) in bench.calls(&calls, &["--approve", "auto"]).into_iter().zip(&refused) {
        assert!(!told.ok && told.text.contains(rule), "{call:?}: {}", told.text);
    }
    std::fs::remove_file(bench.workspace.join(".jarvis/rules/mine.yaml")).unwrap();
    // What may be meant is asked for, and here nobody is.
    for call in [shell("grep -r SECRET ."), shell("cat $(head -1 open.txt)")] {
        bench.calls(&[call], &["--approve", "deny"]).remove(0).refused("cannot be told beforehand");
    }
    let found = bench.calls(&[("file_search", json!({"pattern": "SECRET"}))], &["--approve", "auto"]).remove(0).fine();
    assert!(found.contains("open.txt") && !found.contains("TOP") && found.contains("left out"), "{found}");
}

#[test]
fn a_rule_that_does_not_decide_its_own_examples_is_not_made() {
    let bench = Bench::new();
    let mut wrong = no_push();
    wrong["examples"][0]["given"]["command"] = json!("git pull");
    let mut one_sided = no_push();
    one_sided["examples"][1] = one_sided["examples"][0].clone();
    let mut empty = no_push();
    empty["condition"] = json!({});
    let mut pattern = no_push();
    pattern["condition"] = json!({"commands": ["git [push"]});
    let mut calls: Vec<(&'static str, Value)> =
        [wrong, one_sided, empty, pattern].map(|args| ("create_rule", args)).to_vec();
    for name in ["../../pwn", "/tmp/pwn", "con", "a.b", ".allowed", "раура"] {
        let mut named = no_push();
        named["name"] = json!(name);
        calls.push(("create_rule", named));
    }
    let told = bench.calls(&calls, &["--approve", "auto", "--max-turns", "50"]);
    let says = ["expects otherwise", "no example with expect: false", "condition", "pattern"];
    for (at, told) in told.into_iter().enumerate() {
        told.refused(says.get(at).unwrap_or(&"cannot be used"));
    }
    assert_eq!(bench.all_files(), [] as [String; 0]);
}

#[test]
fn ask_and_deny_tighten_and_deny_wins_whatever_else_is_said() {
    let bench = Bench::new();
    bench.file(".jarvis/rules/ask.yaml", &yaml("ask-writes", "ask", "{tools: [file_write]}"));
    bench.file(
        ".jarvis/rules/tools.yaml",
        &yaml("no-notes", "{deny: not here}", "{tools: [remember, skill, reverse_text]}"),
    );
    bench.home.write("rules/allow.yaml", &yaml("allow-all", "allow", "{tools: ['*']}"));
    let write = || ("file_write", json!({"path": "a.txt", "content": "x"}));
    bench.call("file_write", write().1).refused("rule `ask-writes`");
    bench.calls(&[write()], &["--approve", "auto"]).remove(0).fine();
    bench.allowed("skill", json!({"name": "x"})).refused("rule `no-notes`: not here");
    bench.allowed("remember", json!({"text": "x"})).refused("rule `no-notes`");
    let bench = Bench::with(crate::common::prepared(&crate::common::reverse_text(), crate::common::REVERSE));
    let _ = crate::common::register(&bench.home, &[]).ok();
    bench.file(".jarvis/rules/tools.yaml", &yaml("no-reverse", "{deny: not here}", "{tools: [reverse_*]}"));
    let run = ("execute_capability", json!({"name": "reverse_text", "args": {"text": "abc"}}));
    bench.allowed(run.0, run.1.clone()).refused("rule `no-reverse`: not here");
    std::fs::remove_file(bench.workspace.join(".jarvis/rules/tools.yaml")).unwrap();
    assert!(bench.allowed(run.0, run.1).fine().contains("cba"), "a rule that is gone decides nothing");
}

#[test]
fn an_allow_opens_what_would_be_asked_and_nothing_that_is_closed() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().canonicalize().unwrap().join("a.txt");
    std::fs::write(&file, "outside").unwrap();
    let key = bench.home.write(".ssh/id_rsa", "PRIVATE");
    let read = |path: &std::path::Path| ("file_read", json!({"path": path.display().to_string()}));
    bench.call("file_read", read(&file).1).refused("outside the workspace");
    // In the person's own home it counts; in somebody's repository it does not.
    let everything = yaml("allow-all", "allow", "{tools: ['*']}");
    bench.file(".jarvis/rules/theirs.yaml", &everything);
    bench.call("file_read", read(&file).1).refused("outside the workspace");
    let workspace = bench.workspace.display().to_string();
    let listed = bench.home.run(&["rule", "list", "--json", "--workspace", &workspace]).ok().json();
    assert_eq!(listed["rules"][0]["counts"], false);
    std::fs::remove_file(bench.workspace.join(".jarvis/rules/theirs.yaml")).unwrap();
    bench.home.write("rules/mine.yaml", &everything);
    assert_eq!(bench.call("file_read", read(&file).1).fine(), "outside");
    let told = bench.calls(
        &[
            read(&key),
            ("shell_exec", json!({"command": "rm -rf /"})),
            ("file_write", json!({"path": ".git/hooks/pre-commit", "content": "x"})),
            ("file_write", json!({"path": "/etc/pwn", "content": "x"})),
            ("create_rule", no_push()),
            ("create_skill", json!({"name": "x", "description": "d", "instructions": "i"})),
        ],
        &[],
    );
    for told in told {
        assert!(!told.ok, "{}", told.text);
    }
    assert_eq!(bench.all_files(), [] as [String; 0]);
}

/// `--approve auto` is no person; one who is asked is.
#[test]
fn only_the_yes_of_a_person_lets_an_allow_of_a_model_count() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().canonicalize().unwrap().join("a.txt");
    std::fs::write(&file, "outside").unwrap();
    let path = file.display().to_string();
    let allow = || {
        rule(
            "read-there",
            "allow",
            json!({"tools": ["file_read"], "paths": [path]}),
            json!({"tool": "file_read", "path": path}),
            json!({"tool": "file_write", "path": path}),
        )
    };
    let read = || json!({"path": path});
    assert!(bench.allowed("create_rule", allow()).fine().contains("allows nothing yet"));
    bench.call("file_read", read()).refused("outside the workspace");
    let mut again = allow();
    again["update"] = json!(true);
    let provider = Provider::start(vec![Reply::Call("create_rule", again), Reply::Text("made")]);
    bench.home.write("config.toml", &provider.patient_config(60));
    let workspace = bench.workspace.display().to_string();
    let Some(mut terminal) = Terminal::start(&bench.home, &["--workspace", &workspace, "make the rule"]) else {
        return;
    };
    terminal.until("allow `create_rule`");
    terminal.keys("y\r");
    terminal.until("made");
    assert_eq!(terminal.ended(), 0);
    assert_eq!(bench.call("file_read", read()).fine(), "outside");
    // The yes was for just that file.
    let text = bench.read(".jarvis/rules/read-there.yaml");
    bench.file(".jarvis/rules/read-there.yaml", &text.replace("a.txt", "*"));
    bench.call("file_read", read()).refused("outside the workspace");
}

#[test]
fn a_file_that_cannot_be_read_opens_nothing_and_a_link_is_none() {
    let bench = Bench::new();
    bench.file("a.txt", "x");
    bench.file(".jarvis/rules/bad.yaml", "domain: permissions\nrules: [\n");
    bench.call("file_read", json!({"path": "a.txt"})).refused("bad.yaml cannot be read");
    let workspace = bench.workspace.display().to_string();
    let checked =
        bench.home.run(&["rule", "check", "--workspace", &workspace]).failed(1, &["cannot be used: 1", "mend"]);
    assert!(checked.out.contains("bad.yaml is no file of rules"), "{}", checked.out);
    bench.file(".jarvis/rules/bad.yaml", &yaml("one", "ask", "{tools: [x]}"));
    bench.file(".jarvis/rules/more.yaml", &yaml("one", "ask", "{tools: [y]}"));
    bench.call("file_read", json!({"path": "a.txt"})).refused("[RULE_CONFLICT] rule-id one duplicated");
    std::fs::remove_file(bench.workspace.join(".jarvis/rules/more.yaml")).unwrap();
    bench.call("file_read", json!({"path": "a.txt"})).fine();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::remove_dir_all(bench.workspace.join(".jarvis/rules")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), bench.workspace.join(".jarvis/rules")).unwrap();
    bench.call("file_read", json!({"path": "a.txt"})).refused("it is a link");
    bench.allowed("create_rule", no_push()).refused("link");
    assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0);
}

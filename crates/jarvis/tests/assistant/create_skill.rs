//! Skills that a model makes, through the shipped binary: made, found by the next conversation, used; and what is refused.
#![allow(clippy::disallowed_methods, reason = "git makes the history that the skill collects")]

use crate::common::provider::Reply;
use crate::common::workspace::Bench;
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};

const COLLECT: &str = "#!/usr/bin/env bash\nset -eu\ngit log --since=yesterday --format='- %s'\n";

fn standup() -> Value {
    json!({
        "name": "daily-standup",
        "description": "Writes the \"daily standup\": what was done since yesterday — 每日站会: 收集提交",
        "instructions": "# Daily standup\n\n1. Run `bash .jarvis/skills/daily-standup/scripts/collect.sh`.\n2. Say it under: 昨天 / 今天 / 阻碍",
        "scripts": [{"filename": "collect.sh", "content": COLLECT}],
    })
}

fn skill(name: &str) -> Value {
    json!({"name": name, "description": "d", "instructions": "i"})
}

/// The scene of the article, over two conversations.
#[test]
fn a_daily_standup_is_made_in_one_conversation_and_done_in_the_next() {
    let bench = Bench::new();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]).arg(&bench.workspace).args(args);
        assert!(git.status().unwrap().success());
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "修复登录: fix the login"]);
    let made: Value = serde_json::from_str(&bench.allowed("create_skill", standup()).fine()).unwrap();
    assert_eq!(made["made"], ".jarvis/skills/daily-standup/SKILL.md");
    assert_eq!(made["scripts"], json!([{"file": "scripts/collect.sh", "checked": "bash -n"}]));
    let script = bench.workspace.join(".jarvis/skills/daily-standup/scripts/collect.sh");
    assert_eq!(script.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_to_string(&script).unwrap(), COLLECT);
    assert!(bench.read(".jarvis/skills/daily-standup/SKILL.md").starts_with("---\nname: daily-standup\ndescription: "));

    let workspace = bench.workspace.display().to_string();
    let listed = bench.home.run(&["skill", "list", "--json", "--workspace", &workspace]).ok().json();
    assert_eq!(listed["skills"][0]["description"], standup()["description"]);
    assert_eq!((&listed["skills"][0]["files"], &listed["broken"]), (&json!(["scripts/collect.sh"]), &json!([])));

    let script = vec![
        Reply::Call("skill", json!({"name": "daily-standup"})),
        Reply::Call("shell_exec", json!({"command": "bash .jarvis/skills/daily-standup/scripts/collect.sh"})),
        Reply::Text("昨天: 修复登录"),
    ];
    let (events, requests) = bench.ask(script, &[], "开站会");
    let system = requests[0]["messages"][0]["content"].to_string();
    assert!(system.contains("daily-standup: Writes the") && system.contains("收集提交"), "{system}");
    assert!(!system.contains("昨天 / 今天"), "instructions are not read before they are asked for: {system}");
    let told = |n: usize| requests[n]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(told(1).contains("昨天 / 今天 / 阻碍"), "{}", told(1));
    assert!(told(2).contains("- 修复登录: fix the login"), "{}", told(2));
    assert_eq!(events.last().unwrap()["answer"], "昨天: 修复登录");
}

#[test]
fn without_a_yes_nothing_is_made() {
    let bench = Bench::new();
    bench.call("create_skill", standup()).refused("nobody allowed it");
    bench.calls(&[("create_skill", standup())], &["--approve", "deny"]).remove(0).refused("it would need a yes");
    assert_eq!(bench.all_files(), [] as [String; 0]);
    // No other tool gets there.
    let write = json!({"path": ".jarvis/skills/x/SKILL.md", "content": "---\nname: x\n---\ny"});
    bench.allowed("file_write", write).refused("no capability may reach");
    let _ = bench
        .allowed("shell_exec", json!({"command": "mkdir -p .jarvis/skills/x && echo hi > .jarvis/skills/x/SKILL.md"}));
    assert_eq!(bench.all_files(), [] as [String; 0]);
}

#[test]
fn a_name_leads_nowhere_else() {
    let bench = Bench::new();
    let long = "a".repeat(65);
    let names = [
        "../../pwn",
        "/tmp/pwn",
        "a/b",
        "..",
        ".hidden",
        "con",
        "раураl",
        "a\u{202e}b",
        "ａ",
        "A",
        "a b",
        "a\0b",
        &long,
        "",
    ];
    let mut calls: Vec<(&'static str, Value)> = names.iter().map(|name| ("create_skill", skill(name))).collect();
    for file in ["../../../pwn.sh", "/tmp/pwn.sh", "a/b.sh", ".bashrc", "SCRIPT.sh", "nul.sh"] {
        let scripts = json!([{"filename": file, "content": "true"}, {"filename": "script.sh", "content": "true"}]);
        calls.push(("create_skill", json!({"name": "x", "description": "d", "instructions": "i", "scripts": scripts})));
    }
    for told in bench.calls(&calls, &["--approve", "auto", "--max-turns", "100"]) {
        assert!(!told.ok, "{}", told.text);
    }
    assert_eq!(bench.all_files(), [] as [String; 0]);
    assert!(!bench.workspace.join("../pwn").exists() && !bench.workspace.join("../../pwn").exists());
}

#[test]
fn a_link_in_somebodys_repository_is_not_followed() {
    for link in [".jarvis", ".jarvis/skills"] {
        let bench = Bench::new();
        let elsewhere = tempfile::tempdir().unwrap();
        if link != ".jarvis" {
            std::fs::create_dir(bench.workspace.join(".jarvis")).unwrap();
        }
        symlink(elsewhere.path(), bench.workspace.join(link)).unwrap();
        bench.allowed("create_skill", standup()).refused("link");
        assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0, "{link}");
    }
    // Nor one that stands in the place of the skill: it is replaced, and what it leads to stays.
    let bench = Bench::new();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("SKILL.md"), "theirs").unwrap();
    std::fs::create_dir_all(bench.workspace.join(".jarvis/skills")).unwrap();
    symlink(elsewhere.path(), bench.workspace.join(".jarvis/skills/daily-standup")).unwrap();
    let mut update = standup();
    update["update"] = json!(true);
    bench.allowed("create_skill", update).fine();
    assert_eq!(std::fs::read_to_string(elsewhere.path().join("SKILL.md")).unwrap(), "theirs");
    assert!(!bench.workspace.join(".jarvis/skills/daily-standup").is_symlink());
}

#[test]
fn a_script_is_read_in_the_jail_before_anything_is_kept_and_none_of_it_runs() {
    let bench = Bench::new();
    let mark = bench.workspace.join("ran");
    let run = format!("touch {0}; $(touch {0}); `touch {0}`", mark.display());
    let python =
        format!("open({:?}, 'w').write('x')\n__import__('os').system('touch ran')\n", mark.display().to_string());
    let with = |name: &str, file: &str, text: &str| {
        let scripts = json!([{"filename": file, "content": text}]);
        ("create_skill", json!({"name": name, "description": "d", "instructions": "i", "scripts": scripts}))
    };
    let told = bench.calls(
        &[
            with("fine-sh", "a.sh", &run),
            with("fine-py", "a.py", &python),
            with("by-first-line", "collect", "#!/bin/sh\nif true; then\n"),
            with("broken-sh", "a.sh", "if true; then\necho\n"),
            with("broken-py", "a.py", "x = 1\ndef f(:\n"),
            with("other", "a.rb", "puts 1"),
            with("endless", "a.py", &format!("x = {}1{}", "(".repeat(50_000), ")".repeat(50_000))),
        ],
        &["--approve", "auto"],
    );
    let ok: Vec<bool> = told.iter().map(|told| told.ok).collect();
    assert_eq!(
        ok,
        [true, true, false, false, false, true, false],
        "{:?}",
        told.iter().map(|t| &t.text).collect::<Vec<_>>()
    );
    assert!(told[3].text.contains("line 3") || told[3].text.contains("syntax error"), "{}", told[3].text);
    assert!(told[4].text.contains("line 2"), "{}", told[4].text);
    assert!(told[5].text.contains("not checked"), "{}", told[5].text);
    assert!(!mark.exists(), "a script ran");
    let files = bench.all_files();
    assert!(
        files.iter().all(|f| ["/fine-sh/", "/fine-py/", "/other/"].iter().any(|part| f.contains(part))),
        "{files:?}"
    );
}

#[test]
fn one_that_exists_is_replaced_only_where_that_was_said() {
    let bench = Bench::new();
    bench.allowed("create_skill", standup()).fine();
    bench.allowed("create_skill", skill("daily-standup")).refused("update: true");
    assert!(bench.read(".jarvis/skills/daily-standup/SKILL.md").contains("Daily standup"));
    let mut update = skill("daily-standup");
    update["update"] = json!(true);
    bench.call("create_skill", update.clone()).refused("it would replace the skill");
    bench.allowed("create_skill", update).fine();
    assert_eq!(
        bench.all_files(),
        [".jarvis/skills/daily-standup/SKILL.md"],
        "the old scripts are gone with the old skill"
    );
    let workspace = bench.workspace.display().to_string();
    let place = ["--workspace", &workspace];
    let _ = bench
        .home
        .run(&[&["skill", "rm", "nothing"], &place[..]].concat())
        .failed(1, &["no skill is called", "skill list"]);
    let _ = bench.home.run(&[&["skill", "rm", "daily-standup"], &place[..]].concat()).ok();
    let _ =
        bench.home.run(&[&["skill", "show", "daily-standup"], &place[..]].concat()).failed(1, &["no skill is called"]);
    let files = bench.all_files();
    assert!(files.len() == 1 && files[0].starts_with(".jarvis/trash/daily-standup-"), "{files:?}");
}

#[test]
fn skills_of_the_home_and_of_other_agents_are_read_and_a_broken_one_is_told_once() {
    let bench = Bench::new();
    let foreign = "---\nname: pdf\ndescription: >-\n  Reads PDF\n  files\nlicense: MIT\nallowed-tools: [Bash]\n---\n\n# PDF\nuse pdftotext";
    bench.home.write("skills/pdf/SKILL.md", foreign);
    bench.home.write("skills/pdf/reference/a.md", "more");
    bench.home.write("skills/both/SKILL.md", "---\nname: both\ndescription: far\n---\nfar");
    bench.file(".jarvis/skills/both/SKILL.md", "---\nname: both\ndescription: near\n---\nnear");
    bench.file(".jarvis/skills/bad/SKILL.md", "---\nname: bad\ndescription: [\n---\nx");
    let secret = bench.home.write("secret.md", "TOP SECRET");
    std::fs::create_dir_all(bench.workspace.join(".jarvis/skills/leak")).unwrap();
    symlink(&secret, bench.workspace.join(".jarvis/skills/leak/SKILL.md")).unwrap();
    let script = vec![
        Reply::Call("skill", json!({"name": "pdf"})),
        Reply::Call("skill", json!({"name": "pdf", "file": "reference/a.md"})),
        Reply::Call("skill", json!({"name": "pdf", "file": "../../secret.md"})),
        Reply::Call("skill", json!({"name": "both"})),
        Reply::Call("skill", json!({"name": "../pdf"})),
        Reply::Text("done"),
    ];
    let (events, requests) = bench.ask(script, &[], "go");
    let system = requests[0]["messages"][0]["content"].to_string();
    assert!(
        system.contains("pdf: Reads PDF files") && system.contains("both: near") && !system.contains("far"),
        "{system}"
    );
    let told: Vec<String> =
        events.iter().filter(|e| e["type"] == "tool.completed").map(|e| e["content"].to_string()).collect();
    assert!(told[0].contains("use pdftotext") && told[0].contains("reference/a.md"), "{}", told[0]);
    assert!(told[1].contains("more") && told[2].contains("has no file") && told[3].contains("near"), "{told:?}");
    assert!(told[4].contains("no skill is called") && !told.concat().contains("TOP SECRET"), "{told:?}");
    let notices: Vec<&Value> = events.iter().filter(|e| e["type"] == "notice").collect();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(
        notices[0]["message"].to_string().contains("bad is no skill: ")
            && notices[1]["message"].to_string().contains("leak")
    );

    // Two messages in one conversation: told with the first alone.
    let provider = crate::common::provider::Provider::start(vec![Reply::Text("one"), Reply::Text("two")]);
    bench.home.write("config.toml", &provider.config());
    let workspace = bench.workspace.display().to_string();
    let ran = bench.home.run_with_input(&["chat", "--json", "--workspace", &workspace], "a\nb\n").ok();
    assert_eq!(ran.events().iter().filter(|e| e["type"] == "notice").count(), 2, "{}", ran.out);
    let shown =
        bench.home.run(&["skill", "show", "bad", "--workspace", &workspace]).failed(1, &["is no skill", "mend"]);
    assert_eq!(shown.out, "");
}

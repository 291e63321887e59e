//! The built-in tools of the shipped binary, driven by a scripted provider: what they do, what they say, and what they
//! refuse.

use crate::common::provider::{Provider, Reply};
use crate::common::workspace::Bench;
use serde_json::json;
use std::path::Path;

#[test]
fn files_are_read_whole_or_by_lines_in_any_encoding() {
    let bench = Bench::new();
    bench.file("config.toml", "[server]\nport = 8080\n主机 = \"本地\"\n");
    std::fs::write(bench.workspace.join("old.txt"), b"caf\xe9\n").unwrap();
    std::fs::write(bench.workspace.join("data.bin"), [0u8, 1, 2]).unwrap();
    bench.file("long.txt", &"汉".repeat(150_000));
    assert!(bench.call("file_read", json!({"path": "config.toml"})).fine().contains("主机 = \"本地\""));
    let part = bench.call("file_read", json!({"path": "config.toml", "start_line": 2, "end_line": 2})).fine();
    assert_eq!(part, "port = 8080\n[lines 2 to 2 of 3]");
    assert_eq!(bench.call("file_read", json!({"path": "old.txt"})).fine(), "café\n");
    let long = bench.call("file_read", json!({"path": "long.txt"})).fine();
    assert!(long.contains("cut after 100000 of 150000 characters") && long.chars().count() < 100_100);
    bench.call("file_read", json!({"path": "none.txt"})).refused("文件不存在");
    bench.call("file_read", json!({"path": "data.bin"})).refused("is no text");
    bench.call("file_read", json!({"path": "config.toml", "start_line": 9})).refused("has 3 lines");
    bench.call("file_read", json!({"path": 7})).refused("path");
}

#[test]
fn files_are_written_appended_and_edited_to_the_character() {
    let bench = Bench::new();
    let told = bench.calls(
        &[
            ("file_write", json!({"path": "notes/今天.md", "content": "# 今天\n"})),
            ("file_write", json!({"path": "notes/今天.md", "content": "again"})),
            ("file_write", json!({"path": "notes/今天.md", "content": "- 第二行\n", "mode": "append"})),
            ("file_edit", json!({"path": "notes/今天.md", "old": "第二行", "new": "完成"})),
            ("file_edit", json!({"path": "notes/今天.md", "old": "not there", "new": "x"})),
            ("file_read", json!({"path": "notes/今天.md"})),
        ],
        &[],
    );
    assert!(told[0].ok && !told[1].ok && told[1].text.contains("文件已存在"), "{}", told[1].text);
    assert!(told[2].ok && told[3].ok && !told[4].ok && told[4].text.contains("does not occur"), "{}", told[4].text);
    assert_eq!(told[5].text, "# 今天\n- 完成\n");
    bench.file("two.txt", "a b a\n");
    bench.call("file_edit", json!({"path": "two.txt", "old": "a", "new": "c"})).refused("occurs 2 times");
    let _ = bench.call("file_edit", json!({"path": "two.txt", "old": "a", "new": "c", "all": true})).fine();
    assert_eq!(bench.read("two.txt"), "c b c\n");
    let _ = bench.call("file_write", json!({"path": "two.txt", "content": "", "mode": "overwrite"})).fine();
    assert_eq!(bench.read("two.txt"), "");
}

#[test]
fn folders_are_listed_and_searched_without_what_git_ignores() {
    let bench = Bench::new();
    bench.file("src/main.rs", "fn main() {\n    // TODO: 中文注释\n}\n");
    bench.file("target/out.rs", "TODO generated\n");
    bench.file(".gitignore", "target/\n");
    let list = bench.call("file_list", json!({"depth": 3})).fine();
    assert!(list.contains("src/main.rs  (") && list.contains("target/"), "{list}");
    let found = bench.call("file_search", json!({"pattern": "todo", "ignore_case": true})).fine();
    assert_eq!(found, "src/main.rs:2:     // TODO: 中文注释");
    let found = bench.call("file_search", json!({"pattern": "中文", "path": "src", "glob": "*.rs"})).fine();
    assert!(found.starts_with("src/main.rs:2:"), "{found}");
    assert!(bench.call("file_search", json!({"pattern": "中文", "glob": "*.md"})).fine().contains("no line matches"));
    bench.call("file_search", json!({"pattern": "("})).refused("no regular expression");
    bench.call("file_list", json!({"path": "nowhere"})).refused("文件不存在");
}

#[test]
fn nothing_leads_out_of_the_workspace_without_a_yes() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().canonicalize().unwrap().join("secret.txt");
    std::fs::write(&secret, "the secret").unwrap();
    std::os::unix::fs::symlink(&secret, bench.workspace.join("link.txt")).unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.workspace.join("door")).unwrap();
    let up = format!("{}{}", "../".repeat(20), secret.display().to_string().trim_start_matches('/'));
    let outside_path = secret.display().to_string();
    for path in [outside_path.as_str(), &up, "link.txt", "door/secret.txt", "../../../../../../etc/passwd"] {
        let told = bench.call("file_read", json!({"path": path}));
        assert!(!told.ok && !told.text.contains("the secret") && !told.text.contains("root:"), "{path}: {}", told.text);
        let told = bench.call("file_write", json!({"path": path, "content": "changed", "mode": "overwrite"}));
        assert!(!told.ok, "{path}: {}", told.text);
        let told = bench.call("file_search", json!({"pattern": "secret", "path": path}));
        assert!(!told.text.contains("the secret"), "{path}: {}", told.text);
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "the secret");
    // With a yes it works, except for what nobody may reach.
    let auto = ["--approve", "auto"];
    let told = bench.calls(&[("file_read", json!({"path": secret}))], &auto).remove(0);
    assert_eq!(told.fine(), "the secret");
    for path in ["/etc/jarvis-test", "/usr/bin/jarvis-test", ".git/hooks/pre-commit", ".bashrc", ".vscode/tasks.json"] {
        let told = bench.calls(&[("file_write", json!({"path": path, "content": "x"}))], &auto).remove(0);
        assert!(!told.ok, "{path}: {}", told.text);
        assert!(!Path::new(path).is_absolute() || told.text.contains("安全限制"), "{path}: {}", told.text);
    }
    let home = bench.home.path().display().to_string();
    for path in [format!("{home}/audit"), format!("{home}/jarvis.db"), format!("{home}/sessions.db")] {
        let told = bench.calls(&[("file_read", json!({"path": path}))], &auto).remove(0);
        assert!(!told.ok, "{path}: {}", told.text);
    }
}

#[test]
fn commands_run_in_the_jail_and_dangerous_ones_do_not() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    let told = bench.call("shell_exec", json!({"command": "cat a.txt; echo 错误 >&2; echo new > b.txt"})).fine();
    assert!(told.contains("exit code 0") && told.contains("one") && told.contains("错误"), "{told}");
    assert_eq!(bench.read("b.txt"), "new\n");
    let told = bench.call("shell_exec", json!({"command": "echo half; exit 3"}));
    assert!(!told.ok && told.text.contains("exit code 3") && told.text.contains("half"), "{}", told.text);
    for command in ["rm -rf /", "rm  -fr  /", "sudo rm -rf /home/test", "bash -c 'rm -r -f /'", "mkfs.ext4 /dev/sda"] {
        bench.call("shell_exec", json!({"command": command})).refused("危险命令被拦截");
    }
    bench.call("shell_exec", json!({"command": "ls", "workdir": "/etc"})).refused("outside the workspace");
    // Not refused, and harmless in the jail: nothing of the person's is there.
    let told = bench.call("shell_exec", json!({"command": "cat /etc/shadow; ls ~ /root; env"}));
    assert!(!told.text.contains("root:") && !told.text.contains("FAKE_KEY"), "{}", told.text);
}

#[test]
fn a_command_that_does_not_end_is_ended_with_all_it_started() {
    let bench = Bench::new();
    let started = std::time::Instant::now();
    let command = "echo first; (sleep 60; echo late > late.txt) & sleep 60";
    let told = bench.call("shell_exec", json!({"command": command, "timeout_s": 1}));
    assert!(!told.ok && told.text.contains("超时") && told.text.contains("first"), "{}", told.text);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    assert!(!bench.workspace.join("late.txt").exists());
}

#[test]
fn requests_reach_no_host_without_a_yes_and_no_private_one_at_all() {
    let bench = Bench::new();
    bench.call("http_request", json!({"url": "https://example.com/"})).refused("nobody allowed it");
    bench.call("http_request", json!({"url": "file:///etc/passwd"})).refused("not http or https");
    bench.call("http_request", json!({"url": "no url"})).refused("http_request");
    let auto = ["--approve", "auto"];
    for url in ["http://169.254.169.254/latest/meta-data/", "http://localhost/", "http://[::1]/", "http://10.0.0.1/"] {
        let told = bench.calls(&[("http_request", json!({"url": url}))], &auto).remove(0);
        assert!(!told.ok, "{url}: {}", told.text);
    }
}

#[test]
fn every_call_is_on_the_audit_and_tools_can_be_turned_off() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n");
    let _ = bench.call("file_read", json!({"path": "a.txt"})).fine();
    for kind in ["intent", "outcome"] {
        assert!(bench.home.run(&["audit", "tail", "--kind", kind]).ok().out.contains("file_read"), "{kind}");
    }
    let provider = Provider::start(vec![Reply::Text("hi"), Reply::Text("hi")]);
    bench.home.write("config.toml", &provider.config());
    let _ = bench.home.run(&["hello"]).ok();
    let home = &bench.home;
    let _ = home.run(&["config", "set", "tools", "capabilities"]).ok();
    let _ = home.run(&["hello"]).ok();
    let asked = provider.requests.lock().unwrap();
    let offered = |i: usize| asked[i]["tools"].as_array().unwrap().len();
    assert_eq!((offered(0), offered(1)), (19, 3));
}

#[test]
fn a_tool_that_is_created_is_a_capability_and_can_be_used_at_once() {
    let bench = Bench::new();
    let schema = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}, "loud": {"type": "boolean", "default": false}}});
    let make = |code: &str| {
        json!({"name": "shout_text", "description": "Writes a text in capital letters.", "parameters_schema": schema, "code": code,
               "examples": [{"args": {"text": "abc"}, "returns": "ABC"}, {"args": {"text": "ö", "loud": true}, "returns": "Ö"}]})
    };
    let wrong =
        bench.call("create_tool", make("export default function run({ text }: { text: string }) { return text; }"));
    assert!(!wrong.ok, "{}", wrong.text);
    let code = "export default function run({ text }: { text: string }) {\n  return text.toUpperCase();\n}\n";
    let calls =
        [("create_tool", make(code)), ("execute_capability", json!({"name": "shout_text", "args": {"text": "hi"}}))];
    let told = bench.calls(&calls, &[]);
    assert!(told.iter().all(|t| t.ok), "{}", told[0].text);
    assert!(told[1].text.contains("HI"), "{}", told[1].text);
}

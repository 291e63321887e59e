//! What a turn changed is put back: by /undo, by `session undo`, after --continue, after kill -9.

use crate::common::provider::{Provider, Reply};
use crate::common::terminal::Terminal;
use crate::common::{Home, Ran};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

struct Bench {
    home: Home,
    provider: Provider,
    workspace: PathBuf,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(script: Vec<Reply>) -> Bench {
        Self::with(Provider::start(script))
    }

    fn with(provider: Provider) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let home = Home::new().config(&provider.patient_config(20));
        Bench { home, provider, workspace, _folder: folder }
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.workspace.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace.join(name)).ok()
    }

    fn place(&self) -> String {
        self.workspace.display().to_string()
    }

    fn ask(&self, flags: &[&str], question: &str) -> Ran {
        self.home.run(&[&["--workspace", &self.place(), "--approve", "auto"], flags, &[question]].concat())
    }

    fn chat(&self, flags: &[&str], input: &str) -> Ran {
        let place = self.place();
        let args = [&["chat", "--workspace", &place, "--approve", "auto"], flags].concat();
        self.home.run_with_input(&args, input)
    }

    fn session(&self) -> Value {
        self.home.run(&["session", "list", "--all", "--json"]).ok().json()["sessions"][0].clone()
    }

    fn undo(&self, flags: &[&str]) -> Ran {
        let id = self.session()["id"].as_str().unwrap().to_owned();
        self.home.run(&[&["session", "undo", &id], flags].concat())
    }
}

fn write(path: &str, content: &str) -> Reply {
    Reply::Call("file_write", json!({"path": path, "content": content, "mode": "overwrite"}))
}

fn shell(command: &str) -> Reply {
    Reply::Call("shell_exec", json!({"command": command}))
}

/// Every path with what it is: mode and content, or where it leads.
fn state(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let (path, about) = (entry.path(), entry.metadata().unwrap());
            let mode = about.mode() & 0o7777;
            let what = if about.is_symlink() {
                format!("→ {}", std::fs::read_link(&path).unwrap().display())
            } else if about.is_dir() {
                open.push(path.clone());
                format!("{mode:o}")
            } else {
                format!("{mode:o} {}", std::fs::read_to_string(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), what);
        }
    }
    found
}

#[test]
fn all_that_a_turn_did_is_undone_and_the_person_own_repository_is_not_touched() {
    let command = "echo new > keep.txt; chmod 600 run.sh; rm gone.txt; rm -r dir; ln -sfn /etc/passwd link; \
                   mkdir -p made/deep; echo x > made/deep/f; echo SECRET=2 > .env; mkdir -p target; echo x > target/out";
    let bench = Bench::new(vec![
        shell(command),
        write("笔记/今天.md", "# 新"),
        Reply::Text("All done."),
        Reply::Text("Hello."),
    ]);
    for (name, text) in [("keep.txt", "old\n"), ("run.sh", "#!/bin/sh\n"), ("gone.txt", "很重要\n"), ("dir/inner", "x")]
    {
        bench.file(name, text);
    }
    bench.file(".env", "SECRET=1\n");
    bench.file(".gitignore", ".env\n");
    bench.file(".git/HEAD", "ref: refs/heads/main\n");
    std::fs::set_permissions(bench.workspace.join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("keep.txt", bench.workspace.join("link")).unwrap();
    let before = state(&bench.workspace);
    let ran = bench.chat(&[], "do it all, 谢谢\n/undo\n/undo\nhello\n").ok();
    assert!(ran.err.contains("taken back: do it all, 谢谢") && ran.err.contains("nothing to undo"), "{}", ran.err);
    for line in ["restored    keep.txt", "made again  gone.txt", "removed     made/deep/f", "removed     笔记/今天.md"]
    {
        assert!(ran.out.contains(line), "`{line}` is missing in:\n{}\n{}", ran.out, ran.err);
    }
    let mut after = state(&bench.workspace);
    // What programs make for themselves is not followed.
    assert!(after.remove("target").is_some() && after.remove("target/out").is_some());
    assert_eq!(after, before);
    // The conversation does not know of it any more.
    let asked = bench.provider.requests.lock().unwrap();
    let last = asked.last().unwrap()["messages"].to_string();
    assert!(last.contains("hello") && !last.contains("do it all") && !last.contains("keep.txt"), "{last}");
    assert!(bench.home.run(&["audit", "tail", "--kind", "outcome"]).ok().out.contains("undo"));
}

#[test]
fn turns_are_undone_one_by_one_in_later_processes_too() {
    let edit = Reply::Call("file_edit", json!({"path": "a.txt", "old": "one", "new": "two"}));
    let bench =
        Bench::new(vec![write("a.txt", "one"), Reply::Text("made"), edit, Reply::Text("edited"), Reply::Text("again")]);
    let _ = bench.ask(&[], "first").ok();
    let _ = bench.ask(&["--continue"], "second").ok();
    assert_eq!(bench.text("a.txt").unwrap(), "two");
    let would = bench.undo(&["--dry-run", "--json"]).ok().json();
    assert_eq!(would["would_undo"]["files"], json!([["a.txt", "restored"]]));
    assert_eq!((bench.text("a.txt").unwrap().as_str(), &bench.session()["messages"]), ("two", &json!(8)));
    let _ = bench.undo(&[]).ok();
    assert_eq!((bench.text("a.txt").unwrap().as_str(), &bench.session()["messages"]), ("one", &json!(4)));
    // The next one by the conversation itself.
    let ran = bench.chat(&["--continue", "--json"], "/undo\nanew\n").ok();
    assert_eq!(ran.events()[0]["undone"]["files"], json!([["a.txt", "removed"]]));
    assert_eq!(bench.text("a.txt"), None);
    let last = bench.provider.requests.lock().unwrap().last().unwrap()["messages"].to_string();
    assert!(!last.contains("first") && !last.contains("second"), "{last}");
    let _ = bench.undo(&[]).ok();
    let _ = bench.undo(&[]).failed(1, &["nothing to undo"]);
}

#[test]
fn what_the_person_changed_since_is_not_overwritten() {
    let bench = Bench::new(vec![write("a.txt", "by the model"), write("b.txt", "b"), Reply::Text("done")]);
    bench.file("a.txt", "mine");
    let _ = bench.ask(&[], "write").ok();
    bench.file("a.txt", "mine, corrected");
    let _ = bench.undo(&[]).failed(1, &["not overwritten: a.txt", "--force"]);
    assert_eq!((bench.text("a.txt").unwrap().as_str(), bench.text("b.txt").is_some()), ("mine, corrected", true));
    assert_eq!(bench.session()["messages"], 6, "nothing was done");
    let ran = bench.chat(&["--continue"], "/undo\n/undo --nonsense\n/undo --force\n").ok();
    assert!(ran.err.contains("not overwritten") && ran.err.contains("--nonsense"), "{}", ran.err);
    assert_eq!((bench.text("a.txt").unwrap().as_str(), bench.text("b.txt")), ("mine", None));
    assert_eq!(bench.session()["messages"], 0);
}

#[test]
fn what_a_person_saves_while_they_are_asked_is_theirs() {
    let asking = || Reply::Call("shell_exec", json!({"command": "echo x > made", "network": ["api.example.com"]}));
    for (answer, made) in [("y\r", true), ("n\r", false)] {
        let bench = Bench::new(vec![asking(), Reply::Text("done")]);
        bench.file("a.txt", "before\n");
        let place = bench.place();
        let Some(mut terminal) = Terminal::start(&bench.home, &["--workspace", &place, "go"]) else { return };
        terminal.until("[y/N]");
        bench.file("a.txt", "saved meanwhile\n");
        terminal.keys(answer);
        terminal.until("done");
        assert_eq!(terminal.ended(), 0);
        assert_eq!(bench.text("made").is_some(), made);
        let _ = bench.undo(&[]).ok();
        assert_eq!((bench.text("a.txt").as_deref(), bench.text("made")), (Some("saved meanwhile\n"), None));
    }
}

#[test]
fn links_lead_out_of_the_workspace_neither_for_reading_nor_for_writing() {
    let bench = Bench::new(vec![shell("echo new > sub/data; echo new > f; echo x > made"), Reply::Text("done")]);
    let outside = tempfile::tempdir().unwrap();
    let there = |name: &str| outside.path().join(name);
    std::fs::write(there("secret"), "PRIVATE-KEY-OF-SOMEBODY").unwrap();
    for name in ["sub/data", "f"] {
        bench.file(name, "old\n");
    }
    symlink(there("secret"), bench.workspace.join("leads_out")).unwrap();
    symlink(outside.path(), bench.workspace.join("leads_far")).unwrap();
    let _ = bench.ask(&[], "change").ok();
    for path in walk(&bench.home.file("checkpoints")) {
        assert!(!std::fs::read(&path).unwrap().windows(11).any(|part| part == b"PRIVATE-KEY"), "{}", path.display());
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o077, 0, "for its owner alone");
    }
    // Both are swapped for links after the turn: a folder, and a file that holds what the turn wrote.
    std::fs::write(there("data"), "new\n").unwrap();
    std::fs::remove_dir_all(bench.workspace.join("sub")).unwrap();
    symlink(outside.path(), bench.workspace.join("sub")).unwrap();
    std::fs::remove_file(bench.workspace.join("f")).unwrap();
    symlink(there("data"), bench.workspace.join("f")).unwrap();
    let _ = bench.undo(&[]).failed(1, &["not overwritten: f"]);
    let _ = bench.undo(&["--force"]).failed(1, &["not put back: sub/data"]);
    assert_eq!(std::fs::read_to_string(there("data")).unwrap(), "new\n");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 2, "nothing new is there");
    assert!(!bench.workspace.join("f").is_symlink() && bench.text("f").unwrap() == "old\n");
    assert_eq!(bench.text("made"), None);
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() { open.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn what_a_command_did_until_the_process_was_killed_is_undone() {
    let command = "echo half > a.txt; echo new > b.txt; echo begun; sleep 60";
    let bench = Bench::new(vec![Reply::Call("shell_exec", json!({"command": command, "timeout_s": 100}))]);
    bench.file("a.txt", "whole\n");
    let mut asked = bench.home.command(&["--json", "--approve", "auto", "--workspace", &bench.place(), "run it"]);
    let mut child = asked.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.contains("tool.output") && line.contains("begun")));
    child.kill().unwrap();
    let _ = child.wait();
    assert_eq!(bench.text("a.txt").unwrap(), "half\n");
    // What the person does now cannot be told from what the call did: nothing of it goes without a word.
    bench.file("mine.txt", "mine\n");
    let _ = bench.undo(&[]).failed(1, &["not overwritten", "--force"]);
    assert_eq!((bench.text("a.txt").unwrap().as_str(), bench.text("mine.txt").unwrap().as_str()), ("half\n", "mine\n"));
    let would = bench.undo(&["--dry-run", "--force", "--json"]).ok().json();
    let named =
        |name: &str| would["would_undo"]["files"].as_array().unwrap().iter().find(|file| file[0] == name).cloned();
    assert_eq!(named("a.txt"), Some(json!(["a.txt", "restored"])), "{would}");
    assert_eq!(named("b.txt"), Some(json!(["b.txt", "removed"])), "{would}");
    assert_eq!(named("mine.txt"), Some(json!(["mine.txt", "removed"])), "{would}");
    let _ = bench.undo(&["--force"]).ok();
    // The empty places that a jail keeps closed go with what the turn did, but for git's, which is never touched.
    let left: Vec<String> = state(&bench.workspace).into_keys().filter(|path| path != ".git").collect();
    assert_eq!(left, ["a.txt"]);
    assert_eq!((bench.text("a.txt").unwrap().as_str(), bench.text("b.txt")), ("whole\n", None));
}

#[test]
fn what_a_subagent_and_a_capability_wrote_is_undone() {
    let definition = json!({
        "name": "note_down", "capability": "Writes a note into the folder notes.",
        "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "returns": {"type": "integer"}, "grants": {"write": ["notes"]},
        "examples": [{"args": {"text": "a"}, "returns": 1}],
    });
    let code = "export default async ({ text }: { text: string }, ctx) => { await ctx.write('notes/n.txt', text); return text.length }";
    let provider = Provider::by_mark(vec![
        (
            "PARENT",
            vec![
                Reply::Call("delegate", json!({"agent": "coder", "task": "TASK: write b.txt"})),
                Reply::Call("register_capability", json!({"definition": definition, "code": code})),
                Reply::Call("execute_capability", json!({"name": "note_down", "args": {"text": "noted 记"}})),
                Reply::Text("all three"),
            ],
        ),
        ("TASK", vec![write("b.txt", "by the coder"), Reply::Text("I wrote b.txt")]),
    ]);
    let bench = Bench::with(provider);
    bench.file("notes/keep", "x");
    let before = state(&bench.workspace);
    let ran = bench.ask(&[], "PARENT: go").ok();
    assert_eq!(
        (bench.text("notes/n.txt").as_deref(), bench.text("b.txt").is_some()),
        (Some("noted 记"), true),
        "{}",
        ran.err
    );
    let ran = bench.undo(&[]).ok();
    assert!(ran.out.contains("notes/n.txt") && ran.out.contains("b.txt"), "{}", ran.out);
    assert_eq!(state(&bench.workspace), before);
}

#[test]
fn a_folder_that_became_a_link_comes_back_with_all_that_was_in_it() {
    let bench =
        Bench::new(vec![shell("rm -rf e/f && ln -s /tmp e/f && rm -rf g && ln -s nowhere g"), Reply::Text("done")]);
    bench.file("e/f/x", "KEEP\n");
    bench.file("e/f/deep/y", "留\n");
    bench.file("g/z", "too\n");
    let before = state(&bench.workspace);
    let _ = bench.chat(&[], "go\n").ok();
    assert!(bench.workspace.join("e/f").is_symlink() && bench.workspace.join("g").is_symlink());
    let _ = bench.undo(&[]).ok();
    assert_eq!(state(&bench.workspace), before);
}

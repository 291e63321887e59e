//! Folders of people's files: what is broken, foreign or hidden there is the same for skills, commands, subagents and rules.

use crate::common::workspace::Bench;
use serde_json::Value;
use std::os::unix::fs::symlink;

/// The command that lists them, the folder, and a file of the name `NAME` with `WORD` in its description.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("skill", "skills", "NAME/SKILL.md", "---\nname: NAME\ndescription: WORD\n---\ndo it"),
    ("command", "commands", "NAME.json", r#"{"name": "NAME", "description": "WORD", "prompt": "do it"}"#),
    ("agents", "agents", "NAME.md", "---\nname: NAME\ndescription: WORD\ntools: [file_read]\n---\ndo it"),
    (
        "rule",
        "rules",
        "NAME.yaml",
        "domain: permissions\nrules:\n- id: NAME\n  description: WORD\n  when: tool.before\n  condition: {tools: [x]}\n  \
         action: deny\n  priority: 50\n  examples: []\n",
    ),
];

fn text(form: &str, name: &str, word: &str) -> String {
    form.replace("NAME", name).replace("WORD", word)
}

fn listed(bench: &Bench, command: &str) -> Value {
    let workspace = bench.workspace.display().to_string();
    bench.home.run(&[command, "list", "--json", "--workspace", &workspace]).ok().json()
}

/// The path's last part, with the problem.
fn broken(listed: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |b: &Value| (word(&b["path"]).rsplit('/').next().unwrap().to_owned(), word(&b["problem"]));
    listed["broken"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn every_kind_of_folder_is_read_with_the_same_care() {
    for (command, folder, file, form) in KINDS {
        let bench = Bench::new();
        let here = format!(".jarvis/{folder}");
        let put = |name: &str, text: &str| bench.file(&format!("{here}/{}", file.replace("NAME", name)), text);
        put("good", &text(form, "good", "near"));
        put("big", &(text(form, "big", "x") + &" ".repeat(64 << 10)));
        put(".hidden", "not looked at");
        std::fs::write(put("bytes", ""), b"\xff\xfe").unwrap();
        let pipe = put("pipe", "");
        std::fs::remove_file(&pipe).unwrap();
        let pipe = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let secret = bench.home.write("secret", &text(form, "leak", "TOP SECRET"));
        let leak = put("leak", "");
        std::fs::remove_file(&leak).unwrap();
        symlink(&secret, &leak).unwrap();
        let seen = listed(&bench, command);
        assert!(!seen.to_string().contains("TOP SECRET"), "{command}: {seen}");
        assert!(seen.to_string().contains("near"), "{command}: {seen}");
        let told = broken(&seen);
        let problem_of = |name: &str| {
            let mut of = told.iter().filter(|(path, _)| path.split('.').next() == Some(name));
            let (_, problem) = of.next().unwrap_or_else(|| panic!("{command}: nothing of {name}: {told:?}"));
            assert!(of.next().is_none(), "{command}: {name} is told twice: {told:?}");
            problem.clone()
        };
        for (name, problem) in [
            ("big", "it has more than 64 KiB"),
            ("bytes", "it is no UTF-8 text"),
            ("pipe", "it is no plain file"),
            ("leak", "it is no plain file"),
        ] {
            assert_eq!(problem_of(name), problem, "{command}");
        }
        assert_eq!(told.len(), 4, "{command}: {told:?}");
    }
}

#[test]
fn a_workspace_whose_folder_is_a_link_is_not_read_and_the_home_is() {
    for (command, folder, file, form) in KINDS {
        let bench = Bench::new();
        let file = file.replace("NAME", "one");
        bench.home.write(&format!("elsewhere/{file}"), &text(form, "one", "foreign"));
        bench.home.write(&format!("{folder}/{}", file.replace("one", "two")), &text(form, "two", "mine"));
        bench.file(".jarvis/keep", "");
        symlink(bench.home.file("elsewhere"), bench.workspace.join(".jarvis").join(folder)).unwrap();
        let seen = listed(&bench, command);
        assert!(!seen.to_string().contains("foreign") && seen.to_string().contains("mine"), "{command}: {seen}");
        let problem = format!("it is a link; {folder} of a workspace lie in it");
        assert_eq!(broken(&seen), [(folder.to_owned(), problem)], "{command}");
    }
}

/// Rules add up instead; an id that is there twice is a conflict.
#[test]
fn the_nearest_of_a_name_counts_and_a_broken_one_hides_the_farther() {
    for (command, folder, file, form) in KINDS.into_iter().filter(|(command, ..)| *command != "rule") {
        let bench = Bench::new();
        for (name, near) in [("both", Some("near")), ("bad", None)] {
            let file = file.replace("NAME", name);
            bench.home.write(&format!("{folder}/{file}"), &text(form, name, "far"));
            let near = near.map_or("nonsense".to_owned(), |word| text(form, name, word));
            bench.file(&format!(".jarvis/{folder}/{file}"), &near);
        }
        let other = file.replace("NAME", "other");
        bench.file(&format!(".jarvis/{folder}/{other}"), &text(form, "another", "x"));
        let seen = listed(&bench, command);
        assert!(seen.to_string().contains("near") && !seen.to_string().contains("\"far\""), "{command}: {seen}");
        let told = broken(&seen);
        assert_eq!(told.len(), 2, "{command}: {told:?}");
        assert_eq!(told[1].1, "it says that its name is `another`; it lies there as `other`", "{command}");
        let workspace = bench.workspace.display().to_string();
        let shown = bench.home.run(&[command, "show", "bad", "--workspace", &workspace]);
        let _ = shown.failed(1, &["bad", " is no ", "mend the file"]);
    }
}

#[test]
fn in_the_persons_home_folder_no_rule_is_there_twice() {
    let bench = Bench::new();
    let (.., form) = KINDS[3];
    bench.file(".jarvis/rules/one.yaml", &text(form, "one", "mine"));
    let inside = bench.workspace.join(".jarvis").display().to_string();
    let workspace = bench.workspace.display().to_string();
    let home = crate::common::Home::new().var("JARVIS_HOME", &inside);
    let seen = home.run(&["rule", "list", "--json", "--workspace", &workspace]).ok().json();
    assert_eq!(seen["rules"].as_array().unwrap().len(), 1, "{seen}");
    assert_eq!(seen["broken"], Value::Array(Vec::new()), "{seen}");
}

//! What a person types, and what comes back when it is wrong.
#![allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]

mod common;

use common::Home;

#[test]
fn version_and_help_are_data_and_need_no_home() {
    let home = Home::new();
    let version = home.run(&["--version"]).ok();
    assert_eq!(version.out, format!("jarvis {}\n", env!("CARGO_PKG_VERSION")));
    let help = home.run(&["--help"]).ok();
    assert!(help.out.contains("jarvis \"What is the 90th Fibonacci number?\""), "{}", help.out);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is made by asking for help");
}

#[test]
fn every_command_has_an_example_in_its_help() {
    let home = Home::new();
    let commands: &[&[&str]] = &[
        &["chat"],
        &["cap"],
        &["cap", "list"],
        &["cap", "search"],
        &["cap", "show"],
        &["cap", "run"],
        &["cap", "register"],
        &["cap", "history"],
        &["cap", "enable"],
        &["cap", "disable"],
        &["cap", "rm"],
        &["model"],
        &["model", "list"],
        &["model", "pull"],
        &["model", "test"],
        &["model", "use"],
        &["config"],
        &["config", "get"],
        &["config", "set"],
        &["config", "path"],
        &["config", "edit"],
        &["audit"],
        &["audit", "tail"],
        &["audit", "verify"],
        &["doctor"],
        &["bench"],
        &["bench", "selfext"],
        &["completions"],
    ];
    for words in commands {
        let help = home.run(&[words, &["--help"][..]].concat()).ok();
        assert!(help.out.contains("Example"), "{words:?} has no example:\n{}", help.out);
    }
}

#[test]
fn a_wrong_flag_is_a_usage_error() {
    let _ = Home::new().run(&["--nonsense", "hello"]).failed(2, &["--nonsense"]);
    let _ = Home::new().run(&["cap", "nonsense"]).failed(2, &["nonsense"]);
    let _ = Home::new().run(&["--max-cost", "-1", "hello"]).failed(2, &["--max-cost"]);
    let _ = Home::new().run(&["--max-turns", "0", "hello"]).failed(2, &["--max-turns"]);
    let _ = Home::new().run(&["--workspace", "/nowhere", "hello"]).failed(2, &["/nowhere", "hint:"]);
}

#[test]
fn a_mistyped_command_is_no_question() {
    let home = Home::new();
    let _ = home.run(&["list"]).failed(2, &["did you mean `jarvis cap list`?", "hint:", "jarvis -- \"list\""]);
    let _ = home.run(&["modle", "list"]).failed(2, &["did you mean `jarvis model list`?"]);
    let events = home.run(&["--json", "docter"]).failed(2, &["jarvis doctor"]).events();
    assert_eq!((events.len(), &events[0]["error"]["kind"]), (1, &"usage".into()));
}

#[test]
fn an_empty_question_is_a_usage_error_with_an_example() {
    for args in [&["  "][..], &["--", ""], &["-"], &[]] {
        let home = Home::new();
        let _ = home.run(args).failed(2, &["the question is empty", "hint: jarvis \""]);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}

#[test]
fn with_json_an_error_is_the_last_event_too() {
    let ran = Home::new().run(&["--json", ""]).failed(2, &["empty"]);
    let events = ran.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["type"], "turn.failed");
    assert_eq!(events[0]["error"]["kind"], "usage");
    assert!(events[0]["error"]["hint"].is_string());
}

#[test]
fn a_question_of_a_megabyte_is_refused_with_the_models_limit() {
    let home = Home::new().config("[providers.mine]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"\"\n");
    let started = std::time::Instant::now();
    let ran = home.run_with_input(&["--model", "mine/m", "-"], &"why? ".repeat(200_000));
    let _ = ran.failed(1, &["1000000 bytes", "mine/m", "32768 tokens", "hint:"]);
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn a_question_that_is_not_text_is_refused() {
    use std::io::Write;
    use std::process::Stdio;
    let home = Home::new();
    let mut child = home.command(&["-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&[0xff, 0xfe, 0x00]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not UTF-8"));
}

#[test]
fn a_reader_that_goes_away_ends_it_silently_with_code_3() {
    use std::process::Stdio;
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = home.command(&["config", "get"]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Home::new().run(&["completions", shell]).ok().out;
        assert!(script.contains("doctor"), "{shell}");
    }
}

#[test]
fn without_any_home_folder_it_says_so() {
    let home = Home::new();
    let output = home.command(&["cap", "list"]).env_remove("HOME").env_remove("JARVIS_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("JARVIS_HOME"));
}

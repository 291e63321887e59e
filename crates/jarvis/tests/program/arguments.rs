//! What a person types, and what comes back when it is wrong.

use crate::common::Home;

#[test]
fn version_and_help_are_data_and_need_no_home() {
    let home = Home::new();
    let version = home.run(&["--version"]).ok();
    assert_eq!(version.out, format!("jarvis {}\n", env!("CARGO_PKG_VERSION")));
    let help = home.run(&["--help"]).ok();
    assert!(help.out.contains("jarvis \"What is the 90th Fibonacci number?\""), "{}", help.out);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is made by asking for help");
}

/// Every command with its help, the program itself first; found by reading the help.
fn commands() -> Vec<(Vec<String>, String)> {
    let home = Home::new();
    let mut open = vec![Vec::new()];
    let mut all = Vec::new();
    while let Some(words) = open.pop() {
        let help = home.run(&[words.clone(), vec!["--help".to_owned()]].concat()).ok().out;
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // What is indented further goes on with the line before it.
        let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|name| !name.starts_with(' ')));
        open.extend(names.map(|line| [&words[..], &[line.split(' ').next().unwrap().to_owned()]].concat()));
        all.push((words, help));
    }
    assert!(all.len() >= 29, "{all:#?}");
    all
}

#[test]
fn every_command_has_an_example_in_its_help() {
    for (words, help) in commands() {
        assert!(help.contains("Example"), "{words:?} has no example:\n{help}");
    }
}

#[test]
fn the_help_of_a_command_lists_a_flag_where_it_does_something() {
    let turn = ["", "acp", "chat", "cap repair", "command run", "serve"];
    let asking = [
        "",
        "acp",
        "chat",
        "cap register",
        "cap rollback",
        "cap enable",
        "cap check",
        "cap repair",
        "sandbox exec",
        "cap unify",
        "command run",
        "mcp serve",
        "serve",
    ];
    let reaching = [
        "",
        "acp",
        "chat",
        "cap register",
        "cap check",
        "cap repair",
        "sandbox run",
        "sandbox exec",
        "command run",
        "mcp serve",
        "serve",
    ];
    let in_a_place = [
        "",
        "acp",
        "chat",
        "agents list",
        "agents show",
        "mcp test",
        "cap register",
        "cap run",
        "cap check",
        "cap test",
        "cap repair",
        "sandbox run",
        "sandbox exec",
        "skill list",
        "skill show",
        "skill rm",
        "rule list",
        "rule show",
        "rule check",
        "command list",
        "command show",
        "command run",
        "mcp serve",
        "serve",
    ];
    let led = ["", "acp", "chat", "cap repair", "bench selfext", "command run", "serve"];
    let answering = [
        "",
        "acp",
        "chat",
        "cap repair",
        "model",
        "model list",
        "model test",
        "doctor",
        "bench",
        "bench selfext",
        "cap unify",
        "command",
        "command run",
        "serve",
    ];
    let acts: [(&str, &[&str]); 9] = [
        ("--max-turns", &turn),
        ("--max-cost", &turn),
        ("--record", &turn),
        ("--replay", &turn),
        ("--approve", &asking),
        ("--allow-net", &reaching),
        ("--workspace", &in_a_place),
        ("--mode", &led),
        ("--model", &answering),
    ];
    for (words, help) in commands() {
        let name = words.join(" ");
        let lists = |flag: &str| help.lines().any(|line| line.trim_start().split(' ').next() == Some(flag));
        for (flag, commands) in acts {
            assert_eq!(lists(flag), commands.contains(&name.as_str()), "`{name}` and {flag}:\n{help}");
        }
        assert_eq!(lists("--json"), name != "completions", "{help}");
    }
}

#[test]
fn what_a_command_does_not_use_it_does_not_take() {
    let home = Home::new();
    for args in [
        &["cap", "list", "--max-turns", "3"][..],
        &["--replay", "x", "doctor"],
        &["cap", "run", "x", "--approve", "auto"],
    ] {
        let _ = home.run(args).failed(2, &["unexpected argument"]);
    }
    // But for the model, which an alias of a shell may name for every command.
    let _ = home.run(&["--model", "ollama/x", "cap", "list"]).ok();
}

/// `` `jarvis cap list`, `search Q` `` → the words of each command and the flags that are shown with it.
fn named_in(cell: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut above: Vec<&str> = Vec::new();
    let snippets = cell.split('`').skip(1).step_by(2);
    snippets
        .map(|snippet| {
            let (own, rest) = match snippet.strip_prefix("jarvis") {
                Some(rest) => (Vec::new(), rest),
                None => (above.clone(), snippet),
            };
            let name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
            let words: Vec<&str> = own.into_iter().chain(rest.split_whitespace().take_while(name)).collect();
            above = words[..words.len().saturating_sub(1)].to_vec();
            (words, rest.split_whitespace().filter(|word| word.starts_with("--")).collect())
        })
        .collect()
}

#[test]
fn every_command_of_the_readme_is_there_with_its_flags() {
    let readme = std::fs::read_to_string(crate::common::source("../../README.md")).unwrap();
    let home = Home::new();
    let rows = readme.lines().filter(|line| line.starts_with("| `jarvis"));
    let mut checked = Vec::new();
    for (words, flags) in rows.flat_map(|row| named_in(row.split('|').nth(1).unwrap())) {
        let help = home.run(&[&words[..], &["--help"]].concat()).ok().out;
        let usage = ["Usage: jarvis", &words.join(" ")].join(" ");
        assert!(help.contains(usage.trim_end()), "{words:?}:\n{help}");
        for flag in flags {
            assert!(help.contains(flag), "{words:?} has no {flag}:\n{help}");
        }
        checked.push(words);
    }
    assert!(checked.len() >= 24, "{checked:?}");
    for (words, _) in
        commands().into_iter().filter(|(words, help)| !words.is_empty() && !help.contains("\nCommands:\n"))
    {
        assert!(checked.iter().any(|named| *named == words), "the README does not name {words:?}");
    }
}

#[test]
fn a_wrong_flag_is_a_usage_error() {
    let _ = Home::new().run(&["--nonsense", "hello"]).failed(2, &["--nonsense"]);
    let _ = Home::new().run(&["cap", "nonsense"]).failed(2, &["nonsense"]);
    let _ = Home::new().run(&["--max-cost", "-1", "hello"]).failed(2, &["--max-cost"]);
    let _ = Home::new().run(&["--max-turns", "0", "hello"]).failed(2, &["--max-turns"]);
    let ran = Home::new().run(&["--json", "--workspace", "/nowhere", "hello"]).failed(2, &["/nowhere", "hint:"]);
    assert_eq!(ran.events()[0]["error"]["hint"], "name one that exists, or leave it out");
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
fn with_json_a_wrong_flag_is_told_on_stdout_too() {
    let home = Home::new();
    let events = home.run(&["--json", "--nonsense", "hello"]).failed(2, &["--nonsense"]).events();
    assert_eq!(
        (events.len(), &events[0]["type"], &events[0]["error"]["kind"]),
        (1, &"turn.failed".into(), &"usage".into())
    );
    let error = home.run(&["cap", "list", "--nonsense", "--json"]).failed(2, &["--nonsense"]).json();
    assert_eq!(error["error"]["kind"], "usage");
    assert!(error["error"]["message"].as_str().unwrap().contains("--nonsense"), "{error}");
    assert_eq!(home.run(&["cap", "list", "--nonsense"]).failed(2, &[]).out, "");
    // Behind `--` it is a word of the question.
    assert_eq!(home.run(&["--nonsense", "--", "--json"]).failed(2, &[]).out, "");
}

#[test]
fn quiet_means_nothing_but_errors_on_stderr() {
    let home = Home::new();
    for args in [
        &["cap", "list"][..],
        &["cap", "search", "primes"],
        &["model", "use", "ollama/x"],
        &["config", "set", "mode", "auto"],
    ] {
        assert!(!home.run(args).ok().err.is_empty(), "{args:?}");
        assert_eq!(home.run(&[args, &["--quiet"]].concat()).ok().err, "", "{args:?}");
    }
    let _ = home.run(&["cap", "show", "nobody", "--quiet"]).failed(1, &["no capability"]);
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

//! Conversations on a terminal, as a person has them: keys, questions, what is seen.

use crate::common::provider::{Provider, Reply, grows};
use crate::common::terminal::{Screen, Terminal};
use crate::common::{Home, REVERSE, prepared, register, reverse_text, signal};
use serde_json::{Value, json};
use std::time::Duration;

const NARROW: Screen = Screen { columns: 60, colour: true, kind: "xterm", nohup: false };

/// What the person said last, in each request.
fn said(provider: &Provider) -> Vec<String> {
    let last = |request: &Value| {
        let messages = request["messages"].as_array().unwrap();
        messages.iter().rfind(|m| m["role"] == "user").unwrap()["content"].as_str().unwrap().to_owned()
    };
    provider.requests.lock().unwrap().iter().map(last).collect()
}

/// Waits until the person can type; colours may part the prompt.
#[track_caller]
fn prompted(terminal: &mut Terminal) -> String {
    let before = terminal.until("you");
    before + &terminal.until("> ")
}

fn answering(text: &'static str) -> Provider {
    Provider::answering(move |_| Some(Reply::Text(text)))
}

#[test]
fn on_a_terminal_commands_work_and_a_request_to_end_leaves_it_in_order() {
    let home = Home::new().config("model = \"ollama/small\"\n");
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    let pid = terminal.pid();
    terminal.until("ollama/small");
    terminal.keys("/help\r");
    terminal.until("Ctrl-C cancels the turn");
    terminal.keys("half a mess");
    terminal.until("mess");
    signal("TERM", pid);
    assert_eq!(terminal.ended(), 130);
}

#[test]
fn a_terminal_that_goes_away_leaves_nothing_running() {
    for nohup in [false, true] {
        let home = Home::new().config("model = \"ollama/small\"\n");
        let Some(mut terminal) = Terminal::like(&Screen { nohup, ..Screen::USUAL }, &home, &["chat"]) else { return };
        // Not there of a process that ended, also where nobody has asked for its exit code yet.
        let program = format!("/proc/{}/exe", terminal.pid());
        terminal.until("ollama/small");
        prompted(&mut terminal);
        drop(terminal);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while std::fs::read_link(&program).is_ok() {
            assert!(std::time::Instant::now() < deadline, "it is still there, with nohup: {nohup}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Asks to read files, and so for a yes.
fn asks() -> Vec<Reply> {
    let mut definition = reverse_text();
    definition["grants"] = json!({"read": ["notes"]});
    let mut script = grows();
    script[1] = Reply::Call("register_capability", json!({"definition": definition, "code": REVERSE}));
    script.truncate(2);
    script
}

#[test]
fn on_a_terminal_a_person_is_asked_and_the_answer_counts() {
    for (answer, kept) in [("y", true), ("n", false)] {
        let mut script = asks();
        script.push(Reply::Text("That is all."));
        let provider = Provider::start(script);
        let home = Home::new().config(&provider.config());
        let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
        terminal.until("fake/m");
        terminal.keys("turn my notes around\r");
        let before = terminal.until("allow `reverse_text`? [y/N]");
        assert!(before.contains("read ") && before.contains("/notes"), "{before:?}");
        terminal.keys(&format!("{answer}\r"));
        terminal.until("That is all.");
        terminal.keys("/exit\r");
        assert_eq!(terminal.ended(), 0);
        let there = home.run(&["cap", "list", "--json"]).ok().json()["capabilities"].as_array().unwrap().len();
        assert_eq!(there == 1, kept, "{answer}");
    }
}

#[test]
fn a_cancelled_question_takes_no_line_from_the_conversation() {
    let mut script = asks();
    script.push(Reply::Text("Good morning."));
    let provider = Provider::start(script);
    let home = Home::new().config(&provider.config());
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    terminal.until("fake/m");
    terminal.keys("turn my notes around\r");
    terminal.until("allow `reverse_text`? [y/N]");
    terminal.keys("\u{3}");
    terminal.until("cancelled");
    terminal.until("you");
    terminal.keys("good morning\r");
    terminal.until("Good morning.");
    terminal.keys("/exit\r");
    assert_eq!(terminal.ended(), 0);
    let asked = provider.requests.lock().unwrap();
    assert!(asked[2]["messages"].to_string().contains("good morning"), "{}", asked[2]);
}

#[test]
fn tab_completes_commands_and_models_and_shows_what_they_are() {
    let provider = answering("well");
    let home = Home::new().config(&(provider.config() + "model = \"other\"\n"));
    let Some(mut terminal) = Terminal::like(&NARROW, &home, &["chat"]) else { return };
    prompted(&mut terminal);
    terminal.keys("/co\t");
    terminal.until("tokens and dollars so far");
    terminal.until("summarise all but the last question");
    terminal.keys("\u{3}");
    prompted(&mut terminal);
    terminal.keys("/mod\t");
    terminal.until("/model ");
    terminal.keys("fake/o\t\r");
    terminal.until("fake/other answers from now on");
    prompted(&mut terminal);
    terminal.keys("/exit\r");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn what_was_typed_is_there_the_next_time_and_can_be_searched() {
    let provider = answering("well");
    let home = Home::new().config(&provider.config());
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    for message in ["remember the milk", "第二条消息"] {
        prompted(&mut terminal);
        terminal.keys(&format!("{message}\r"));
        terminal.until("well");
    }
    prompted(&mut terminal);
    terminal.keys("\u{4}");
    assert_eq!(terminal.ended(), 0);
    let mut terminal = Terminal::start(&home, &["chat"]).unwrap();
    prompted(&mut terminal);
    terminal.keys("\u{1b}[A");
    terminal.until("第二条消息");
    terminal.keys("\r");
    terminal.until("well");
    prompted(&mut terminal);
    terminal.keys("\u{12}milk");
    terminal.until("remember the milk");
    terminal.keys("\r");
    // The search ends with the line in place; it is sent by the next Enter.
    std::thread::sleep(Duration::from_millis(300));
    terminal.keys("\r");
    terminal.until("well");
    let said = said(&provider);
    assert!(said[2].contains("第二条消息") && said[3].contains("remember the milk"), "{said:?}");
}

#[test]
fn several_lines_are_one_message_whether_typed_or_pasted() {
    let provider = answering("well");
    let home = Home::new().config(&provider.config());
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    let typed = [
        // A backslash before Enter, and Alt-Enter.
        ("first\\\rsecond\r", "first\nsecond"),
        ("一\u{1b}\r二\r", "一\n二"),
        // What is pasted stays as it is, and is not sent by its own line ends; what acts on a terminal is left out.
        ("\u{1b}[200~run \\\r\n  --flag\nlast \u{7}line\u{1b}[201~!\r", "run \\\n  --flag\nlast line!"),
        // A command is one only at the beginning.
        ("\u{1b}[200~look:\n/exit\n\u{1b}[201~\r", "look:\n/exit"),
    ];
    for (at, (keys, message)) in typed.iter().enumerate() {
        prompted(&mut terminal);
        terminal.keys(keys);
        terminal.until("well");
        let said = said(&provider);
        assert_eq!(said.len(), at + 1, "{said:?}");
        assert!(said[at].contains(message), "{said:?}");
    }
    prompted(&mut terminal);
    terminal.keys("\u{4}");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn ctrl_c_ends_the_turn_or_clears_the_line_and_never_the_conversation() {
    let provider = Provider::start(vec![Reply::Hangs, Reply::Text("Good morning."), Reply::Text("Whole.")]);
    let home = Home::new().config(&provider.patient_config(50));
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    prompted(&mut terminal);
    terminal.keys("think for long\r");
    provider.was_asked(1);
    // Once more than needed, and once at the prompt.
    terminal.keys("\u{3}\u{3}");
    terminal.until("cancelled");
    prompted(&mut terminal);
    terminal.keys("\u{3}");
    prompted(&mut terminal);
    terminal.keys("good morning\r");
    terminal.until("Good morning.");
    prompted(&mut terminal);
    terminal.keys("half a mess");
    terminal.until("mess");
    terminal.keys("\u{3}");
    prompted(&mut terminal);
    terminal.keys("whole\r");
    terminal.until("Whole.");
    prompted(&mut terminal);
    terminal.keys("\u{4}");
    assert_eq!(terminal.ended(), 0);
    let requests = provider.requests.lock().unwrap();
    let messages = requests[2]["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).filter(|r| *r != "system").collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"], "{messages:?}");
    assert!(!messages.last().unwrap()["content"].to_string().contains("half"), "{messages:?}");
}

#[test]
fn what_is_typed_while_a_turn_runs_is_the_next_message() {
    let provider = Provider::start(vec![
        Reply::Later(Duration::from_millis(1500), Box::new(Reply::Text("First."))),
        Reply::Text("Second."),
    ]);
    let home = Home::new().config(&provider.patient_config(50));
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    prompted(&mut terminal);
    terminal.keys("one\r");
    provider.was_asked(1);
    terminal.keys("two\r");
    terminal.until("First.");
    terminal.until("Second.");
    prompted(&mut terminal);
    terminal.keys("/exit\r");
    assert_eq!(terminal.ended(), 0);
    assert!(said(&provider)[1].contains("two"), "{:?}", said(&provider));
}

#[test]
fn a_new_version_is_asked_for_with_what_is_new_in_it() {
    let mut first = reverse_text();
    first["grants"] = json!({"read": ["notes"]});
    let home = prepared(&first, REVERSE);
    let _ = register(&home, &["--approve", "auto"]).ok();
    let mut second = first.clone();
    second["grants"] = json!({"read": ["notes", "letters"]});
    second["capability"] = json!("Reverses the characters of a text, whatever it is.");
    let script = || {
        vec![
            Reply::Call("list_capabilities", json!({"query": "reverse"})),
            Reply::Call("register_capability", json!({"definition": second, "code": REVERSE})),
            Reply::Text("That is all."),
        ]
    };
    let versions = |home: &Home| home.run(&["cap", "show", "reverse_text", "--json"]).ok().json();
    for (answer, kept) in [("n", false), ("y", true)] {
        let provider = Provider::start(script());
        home.write("config.toml", &provider.config());
        let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
        prompted(&mut terminal);
        terminal.keys("turn my letters around\r");
        terminal.until("may it?");
        let shown = terminal.until("[y/N]");
        let line = |word: &str| shown.lines().rfind(|line| line.contains(word)).unwrap_or_default().trim().to_owned();
        assert!(line("letters").starts_with('+') && line("letters").ends_with("(new)"), "{shown}");
        assert!(line("notes").starts_with('=') && line("notes").ends_with("(as the version before)"), "{shown}");
        terminal.keys(&format!("{answer}\r"));
        terminal.until("That is all.");
        terminal.keys("/exit\r");
        assert_eq!(terminal.ended(), 0);
        assert_eq!(
            versions(&home)["capability"]["grants"]["read"].to_string().contains("letters"),
            kept,
            "{}",
            versions(&home)
        );
    }
}

#[test]
fn a_yes_that_was_typed_before_the_question_is_no_answer_to_it() {
    let mut script = asks();
    let first = script.remove(0);
    script.insert(0, Reply::Later(Duration::from_millis(1500), Box::new(first)));
    script.push(Reply::Text("That is all."));
    let provider = Provider::start(script);
    let home = Home::new().config(&provider.patient_config(50));
    let Some(mut terminal) = Terminal::start(&home, &["chat"]) else { return };
    prompted(&mut terminal);
    terminal.keys("turn my notes around\r");
    provider.was_asked(1);
    terminal.keys("y\ry\ry\r");
    terminal.until("[y/N]");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(home.run(&["cap", "list", "--json"]).ok().json()["capabilities"], json!([]));
    terminal.keys("n\r");
    terminal.until("That is all.");
    terminal.keys("/exit\r");
    assert_eq!(terminal.ended(), 0);
    assert_eq!(home.run(&["cap", "list", "--json"]).ok().json()["capabilities"], json!([]));
}

const ANSWER: &str = "## Result\n\nIt is **forty-two**, which is `six` times seven; a longer sentence follows so that it \
    is wrapped somewhere.\n\n- one 计算所有能被七整除的数字并把它们加起来然后告诉我结果是多少\n\n```rust\nlet x = 1; // c\n```\n\n| a | b |\n|---|---|\n| x | y |\n";

/// Without codes of colour; what else acts on the terminal stays to be found.
fn without_colour(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once("\u{1b}[") {
        out += before;
        let end = code.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        if !code[end..].starts_with('m') {
            out += "\u{1b}[";
            out += &code[..=end];
        }
        rest = &code[end + 1..];
    }
    out + rest
}

#[test]
fn an_answer_is_laid_out_on_a_narrow_terminal() {
    let provider = answering(ANSWER);
    let home = Home::new().config(&provider.config());
    let Some(mut terminal) = Terminal::like(&NARROW, &home, &["what is it?"]) else { return };
    let shown = terminal.until("──┼──");
    for painted in [
        "\u{1b}[1;36mResult\u{1b}[0m",
        "\u{1b}[1mforty-two\u{1b}[0m",
        "\u{1b}[36msix\u{1b}[0m",
        "\u{1b}[35mlet\u{1b}[0m",
    ] {
        assert!(shown.contains(painted), "{painted:?} is not in {shown:?}");
    }
    let plain = without_colour(&shown);
    assert!(
        plain.contains("• one") && !plain.contains('`') && !plain.contains("**") && !plain.contains('\u{1b}'),
        "{plain:?}"
    );
    for line in plain.lines() {
        let columns: usize = line.trim_end().chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum();
        assert!(columns <= 60, "{columns}: {line}");
    }
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn without_colour_an_answer_stays_as_the_model_wrote_it() {
    let provider = answering(ANSWER);
    let home = Home::new().config(&provider.config());
    for kind in ["xterm", "dumb"] {
        let screen = Screen { columns: 60, colour: kind == "dumb", kind, nohup: false };
        let Some(mut terminal) = Terminal::like(&screen, &home, &["what is it?"]) else { return };
        let shown = terminal.until("| x | y |");
        assert!(shown.replace("\r\n", "\n").ends_with(ANSWER.strip_suffix("| x | y |\n").unwrap()), "{shown:?}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert_eq!(terminal.ended(), 0);
    }
    let ran = home.run(&["what is it?"]).ok();
    assert_eq!(ran.out.trim_end(), ANSWER.trim_end(), "a pipe");
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_takes_lines() {
    let provider = Provider::start(vec![Reply::Text("**well**"), Reply::Hangs, Reply::Text("again")]);
    let home = Home::new().config(&provider.patient_config(50));
    let screen = Screen { columns: 80, colour: true, kind: "dumb", nohup: false };
    let Some(mut terminal) = Terminal::like(&screen, &home, &["chat"]) else { return };
    let mut shown = prompted(&mut terminal);
    terminal.keys("hello\r");
    shown += &terminal.until("**well**");
    shown += &prompted(&mut terminal);
    terminal.keys("think\r");
    provider.was_asked(2);
    terminal.keys("\u{3}");
    shown += &terminal.until("cancelled");
    shown += &prompted(&mut terminal);
    terminal.keys("half\u{3}");
    shown += &prompted(&mut terminal);
    terminal.keys("more\r");
    shown += &terminal.until("again");
    shown += &prompted(&mut terminal);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ended(), 0);
    assert!(said(&provider)[2].contains("more") && !said(&provider)[2].contains("half"));
}

#[test]
fn the_last_lines_of_a_program_are_seen_while_it_runs() {
    let command = "for i in 1 2 3 4 5 6 7; do echo line $i; sleep 0.2; done; sleep 1";
    let provider = Provider::start(vec![Reply::Call("shell_exec", json!({"command": command})), Reply::Text("it ran")]);
    let home = Home::new().config(&provider.config());
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().display().to_string();
    let Some(mut terminal) = Terminal::like(&NARROW, &home, &["chat", "--workspace", &workspace]) else { return };
    prompted(&mut terminal);
    terminal.keys("run it\r");
    terminal.until("→ shell_exec");
    let live = terminal.until("│ line 7");
    assert!(live.contains("│ line 1") && live.contains("\u{1b}[5A"), "{live:?}");
    let after = terminal.until("✓");
    // Gone, and the last of them again where they stay.
    assert!(after.contains("\u{1b}[J") && after.contains("│ line 3") && !after.contains("│ line 2\u{1b}"), "{after:?}");
    terminal.until("it ran");
    prompted(&mut terminal);
    terminal.keys("\u{4}");
    assert_eq!(terminal.ended(), 0);
}

//! The snippets of docs/editors.md: each is read as what it is, and its command is started and spoken to as the editor
//! would.

use crate::common::{Home, ends_within};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

struct Snippet {
    editor: String,
    protocol: String,
    /// `json`, `toml` or `lua`.
    language: String,
    text: String,
}

fn snippets() -> Vec<Snippet> {
    let document = std::fs::read_to_string(crate::common::source("../../docs/editors.md")).unwrap();
    let parts = document.split("<!-- snippet: ").skip(1);
    let found: Vec<Snippet> = parts
        .map(|part| {
            let (head, rest) = part.split_once(" -->\n```").unwrap();
            let (editor, protocol) = head.split_once(' ').unwrap();
            let (language, rest) = rest.split_once('\n').unwrap();
            let (text, _) = rest.split_once("\n```").unwrap();
            let [editor, protocol, language, text] = [editor, protocol, language, text].map(str::to_owned);
            Snippet { editor, protocol, language, text }
        })
        .collect();
    let blocks = document.lines().filter(|line| line.starts_with("```")).count();
    assert_eq!(blocks, 2 * found.len(), "every block is a snippet that is tested");
    found
}

/// The command with its arguments, wherever the editor wants them.
fn command(snippet: &Snippet) -> Vec<String> {
    let between = |text: &str, from: &str, to: &str| -> Vec<String> {
        let (_, rest) = text.split_once(from).unwrap();
        serde_json::from_str(&format!("[{}]", rest.split_once(to).unwrap().0)).unwrap()
    };
    match snippet.editor.as_str() {
        "codecompanion" => return between(&snippet.text, "commands = { default = {", "}"),
        "avante" => {
            let program = between(&snippet.text, "command = ", ",");
            return [program, between(&snippet.text, "args = {", "}")].concat();
        }
        _ => {}
    }
    let config: Value = match snippet.language.as_str() {
        "json" => serde_json::from_str(&snippet.text).unwrap(),
        "toml" => toml::from_str(&snippet.text).unwrap(),
        other => panic!("{other}"),
    };
    let place = match snippet.editor.as_str() {
        "zed" | "jetbrains" => "agent_servers",
        "claude-code" | "cursor" => "mcpServers",
        "codex" => "mcp_servers",
        "vscode" => "servers",
        other => panic!("{other}"),
    };
    let server = &config[place]["jarvis"];
    let words = [&server["command"]].into_iter().chain(server["args"].as_array().unwrap());
    words.map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// What it says to the first message of its protocol.
fn greeted(words: &[String], first: &Value) -> Value {
    let home = Home::new().config("model = \"ollama/small\"\n");
    let mut command = home.command(&words[1..]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{first}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(input);
    let ran = ends_within(child, Duration::from_secs(5));
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{words:?}: {e}: {line} {}", ran.err))
}

#[test]
fn every_snippet_starts_something_that_speaks_its_protocol() {
    let all = snippets();
    let (own, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|snippet| snippet.protocol == "config");
    assert_eq!(own.len(), 1);
    let home = Home::new().config(&own[0].text);
    let set = home.run(&["config", "get", "mcp.editor", "--json"]).ok();
    assert!(set.out.contains("read_text_file"), "{}", set.out);
    let editors: Vec<&str> = all.iter().map(|snippet| snippet.editor.as_str()).collect();
    assert_eq!(editors, ["zed", "jetbrains", "codecompanion", "avante", "claude-code", "codex", "vscode", "cursor"]);
    // Tells on the way whether this build has it.
    let served = Home::new().run(&["mcp", "serve", "--help"]).out.contains("Usage: jarvis mcp serve");
    for snippet in &all {
        let words = command(snippet);
        assert_eq!(words[0], "jarvis", "{}", snippet.editor);
        match snippet.protocol.as_str() {
            "acp" => {
                let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
                let first = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
                let answer = greeted(&words, &first);
                assert_eq!(answer["result"]["agentInfo"]["name"], "jarvis", "{}: {answer}", snippet.editor);
            }
            "mcp" if !served => jarvis_testkit::skipped("snippets for MCP: this build has no `jarvis mcp serve`"),
            "mcp" => {
                let client = json!({"name": "e", "version": "1"});
                let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
                let first = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
                let answer = greeted(&words, &first);
                assert!(answer["result"]["serverInfo"].is_object(), "{}: {answer}", snippet.editor);
            }
            other => panic!("{other}"),
        }
    }
}

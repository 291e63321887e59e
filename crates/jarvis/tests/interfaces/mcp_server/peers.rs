//! The official clients and the official conformance suite, which know nothing of jarvis. `JARVIS_TEST_MCP_PEERS` names
//! the folder that `./test` installs them in: `node_modules` with a node of its own, and a Python environment.

use super::http::Server;
use crate::common::{Home, Ran};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

fn peers(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("JARVIS_TEST_MCP_PEERS").map(PathBuf::from);
    if folder.is_none() {
        jarvis_testkit::skipped(&format!("{what}: JARVIS_TEST_MCP_PEERS names no folder (./test installs them)"));
    }
    folder
}

fn file(name: &str) -> String {
    crate::common::source(&format!("tests/interfaces/mcp_server/{name}")).display().to_string()
}

/// A program of the peers', in the surroundings of a test.
fn program(home: &Home, path: PathBuf, peers: &std::path::Path) -> Command {
    let mut command = home.other(path.to_str().unwrap());
    let usual = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{usual}", peers.join("node_modules/.bin").display()));
    command
}

/// A workspace outside of the home, with a note and a skill.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("notes/a.txt", "from the note");
    write(".jarvis/skills/daily/SKILL.md", "---\nname: daily\ndescription: A report\n---\nWrite what was done.\n");
    folder
}

/// What the suite looks for by name, as far as a capability or a skill can be it.
fn fixtures(home: &Home) {
    let tools = [
        (
            "test_simple_text",
            "Says a text.",
            "export default function run({ fine }: { fine?: boolean }) { return ['a', fine ? 'fine' : 'simple', 'text'].join(' '); }\n",
        ),
        (
            "test_error_handling",
            "Fails unless it is told not to.",
            "export default function run({ fine }: { fine?: boolean }) {\n  if (!fine) throw new Error('This tool intentionally \
             returns an error for testing');\n  return String(fine);\n}\n",
        ),
    ];
    for (name, what, code) in tools {
        let definition = serde_json::json!({"name": name, "capability": what, "examples": [{"args": {"fine": true}}],
            "parameters": {"type": "object", "properties": {"fine": {"type": "boolean"}}}});
        home.write("d.json", &definition.to_string());
        home.write("c.ts", code);
        let _ = crate::common::register(home, &[]).ok();
    }
    let skill =
        "---\nname: test_simple_prompt\ndescription: A simple prompt\n---\nThis is a simple prompt for testing.\n";
    home.write("skills/test_simple_prompt/SKILL.md", skill);
}

/// The suite's own list of known failures is strict: one that passes fails the run, as does a new failure.
#[test]
fn the_official_conformance_suite_finds_nothing_but_what_is_listed() {
    let Some(peers) = peers("the conformance suite of MCP") else { return };
    let (home, folder) = (Home::new(), workspace());
    fixtures(&home);
    let server = Server::start(&home, &["--workspace", folder.path().to_str().unwrap(), "--capabilities-as-tools"]);
    let suite = peers.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let known = file("conformance.yml");
    let ran = Ran::of(
        program(&home, peers.join("node_modules/.bin/node"), &peers)
            .arg(suite)
            .args(["server", "--url", &server.url, "--suite", "all", "--expected-failures", &known])
            .output()
            .unwrap(),
    );
    let ran = ran.ok();
    // A suite that looked at nothing would pass as well.
    let scenarios = ran.out.matches("=== Running scenario: ").count();
    assert!(scenarios >= 30, "{scenarios} scenarios:\n{}", ran.out);
    server.stop();
}

#[test]
fn the_inspector_works_and_finds_the_schemas_portable() {
    let Some(peers) = peers("the inspector of MCP") else { return };
    let home = Home::new();
    let inspect = |flags: &[&str]| {
        let mut command = program(&home, peers.join("node_modules/.bin/mcp-inspector"), &peers);
        command.args(["--cli", env!("CARGO_BIN_EXE_jarvis"), "mcp", "serve", "--capabilities-as-tools"]);
        let variable = format!("JARVIS_HOME={}", home.path().display());
        Ran::of(command.args(["-e", &variable]).args(flags).output().unwrap()).ok()
    };
    let definition = crate::common::reverse_text().to_string();
    let made = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "register_capability",
        "--tool-arg",
        &format!("definition={definition}"),
        &format!("code={}", crate::common::REVERSE),
    ]);
    assert!(made.out.contains("\"registered\": \"reverse_text\""), "{}", made.out);
    let tools: Value = inspect(&["--method", "tools/list", "--strict"]).json();
    assert_eq!(tools["tools"].as_array().unwrap().len(), 4, "{tools}");
    let called = inspect(&["--method", "tools/call", "--tool-name", "reverse_text", "--tool-arg", "text=你好"]).json();
    assert_eq!(called["structuredContent"]["result"], "好你", "{called}");
    let resources = inspect(&["--method", "resources/list"]).json();
    assert_eq!(resources["resources"][0]["uri"], "jarvis://audit/tail");
    assert!(inspect(&["--method", "prompts/list"]).json()["prompts"].is_array());
}

#[test]
fn the_python_client_works_over_both_transports_and_with_both_lifecycles() {
    let Some(peers) = peers("the Python client of MCP") else { return };
    // What the older lifecycle made would be the same as what the newer one makes, so each has a home of its own.
    for (way, mode) in [("stdio", "legacy"), ("stdio", "auto"), ("http", "legacy"), ("http", "auto")] {
        let (home, folder) = (Home::new(), workspace());
        let place = folder.path().to_str().unwrap();
        let mut command = program(&home, peers.join("python/bin/python3"), &peers);
        command.env("PYTHONUTF8", "1").arg(file("client.py")).args([way, mode]);
        let server = (way == "http").then(|| Server::start(&home, &["--workspace", place]));
        let ran = match &server {
            Some(server) => command.arg(&server.url).output(),
            None => command.args([env!("CARGO_BIN_EXE_jarvis"), "mcp", "serve", "--workspace", place]).output(),
        };
        assert_eq!(Ran::of(ran.unwrap()).ok().out.trim(), "done", "{way}, {mode}");
        if let Some(server) = server {
            server.stop();
        }
    }
}

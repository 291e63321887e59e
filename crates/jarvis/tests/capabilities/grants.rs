//! What a version may reach, and who says yes.

use crate::common::files::{Behaviour, FileServer};
use crate::common::{Home, Ran, prepared, register};
use serde_json::{Value, json};
use std::path::Path;

const READS: &str =
    "export default async function run({ file }: { file: string }, ctx) {\n  return await ctx.read(file);\n}\n";

fn reads() -> Value {
    json!({
        "name": "read_note", "capability": "Reads a note.",
        "parameters": {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}},
        "examples": [{"args": {"file": "notes/a.txt"}}], "grants": {"read": ["notes"]},
    })
}

/// A folder outside of the home with one note in it.
fn workspace(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("notes")).unwrap();
    std::fs::write(folder.path().join("notes/a.txt"), text).unwrap();
    folder
}

fn registered(home: &Home) -> usize {
    home.run(&["cap", "list", "--json"]).ok().json()["capabilities"].as_array().unwrap().len()
}

#[test]
fn without_a_yes_nothing_is_kept_and_auto_is_one() {
    let folder = workspace("hello");
    let place = folder.path().to_str().unwrap();
    let home = prepared(&reads(), READS);
    let _ = register(&home, &["--workspace", place]).failed(1, &["nobody approved `read_note`", "--approve auto"]);
    let denied =
        register(&home, &["--workspace", place, "--approve", "deny", "--json"]).failed(1, &["would need a yes"]);
    let error = &denied.json()["error"];
    assert_eq!(error["kind"], "denied");
    assert!(error["hint"].as_str().unwrap().contains("--approve auto"), "{error}");
    assert_eq!(registered(&home), 0);
    let _ = register(&home, &["--workspace", place, "--approve", "auto"]).ok();
    assert_eq!(registered(&home), 1);
    assert!(home.run(&["audit", "tail", "--kind", "forge"]).ok().out.contains("--approve auto"));
    // The config says it for every run; the flag goes before it.
    let home = prepared(&reads(), READS).config("approve = \"auto\"\n");
    let _ = register(&home, &["--workspace", place, "--approve", "deny"]).failed(1, &["would need a yes"]);
    let _ = register(&home, &["--workspace", place]).ok();
}

fn read(home: &Home, file: &str, workspace: &Path) -> Ran {
    let args = json!({"file": file}).to_string();
    home.run(&["cap", "run", "read_note", "--args", &args, "--workspace", workspace.to_str().unwrap()])
}

#[test]
fn a_relative_grant_is_bound_to_the_workspace_it_was_approved_in() {
    let (mine, other) = (workspace("mine"), workspace("other"));
    let home = prepared(&reads(), READS);
    let _ = register(&home, &["--workspace", mine.path().to_str().unwrap(), "--approve", "auto"]).ok();
    let granted = home.run(&["cap", "show", "read_note"]).ok().out;
    assert!(granted.contains(&format!("read {}", mine.path().join("notes").display())), "{granted}");
    assert_eq!(read(&home, "notes/a.txt", mine.path()).ok().out, "mine\n");
    let _ = read(&home, "notes/a.txt", other.path()).failed(1, &["not granted"]);
    let absolute = mine.path().join("notes/a.txt");
    assert_eq!(read(&home, absolute.to_str().unwrap(), other.path()).ok().out, "mine\n");
}

const FETCHES: &str = "export default async function run({ url }: { url: string }) {\n  \
                       return await (await fetch(url)).text();\n}\n";

#[test]
fn an_allowed_host_is_approved_without_asking_and_stays_with_the_version() {
    let server = FileServer::start(Behaviour { data: b"from the server".to_vec(), ..Behaviour::default() });
    let host = server.url.strip_prefix("http://").unwrap();
    let definition = json!({
        "name": "fetch_page", "capability": "Fetches a page.",
        "parameters": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}},
        "examples": [{"args": {"url": server.url}, "matches": "from"}], "grants": {"network": [host]},
    });
    let home = prepared(&definition, FETCHES);
    let _ = register(&home, &[]).failed(1, &["nobody approved", host]);
    let _ = register(&home, &["--allow-net", "other.example.com"]).failed(1, &["nobody approved"]);
    // A yes to everything is none to a place that may be this machine.
    let _ = register(&home, &["--approve", "auto"]).failed(1, &["may be this machine", "--allow-net", host]);
    assert!(server.ranges.lock().unwrap().is_empty(), "nothing is fetched before it is allowed");
    let _ = register(&home, &["--allow-net", "other.example.com", "--allow-net", host]).ok();
    // A later run, without the flag.
    let args = json!({"url": server.url}).to_string();
    assert_eq!(home.run(&["cap", "run", "fetch_page", "--args", &args]).ok().out, "from the server\n");
    // What it did with each host is counted and shown.
    let shown = home.run(&["cap", "show", "fetch_page"]).ok().out;
    assert!(shown.contains(&format!("{host}: 1 requests")), "{shown}");
    let stats = home.run(&["cap", "show", "fetch_page", "--json"]).ok().json();
    // The text, and what comes before it.
    assert!(stats["stats"]["egress"][0]["received_bytes"].as_u64().unwrap() >= 15, "{stats}");
    let home = home.var("JARVIS_SANDBOX_NETWORK", "closed");
    let _ = home.run(&["cap", "run", "fetch_page", "--args", &args]).failed(1, &["closed by config"]);
    let _ = register(&home, &["--allow-net", host]).failed(1, &["closed by config", "sandbox.network"]);
}

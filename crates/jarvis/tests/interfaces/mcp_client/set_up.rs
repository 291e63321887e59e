//! `jarvis mcp add`, `list`, `test`, `remove` and `import`.

use super::{Desk, PYTHON};
use crate::common::terminal::Terminal;
use serde_json::{Value, json};

fn config(desk: &Desk) -> String {
    std::fs::read_to_string(desk.home.file("config.toml")).unwrap_or_default()
}

#[test]
fn a_server_is_set_up_tried_and_forgotten() {
    let Some(desk) = Desk::new() else { return };
    desk.home.write("config.toml", "# mine\nmodel = \"openai/x\" # this one\n");
    let add = ["mcp", "add", "hand", "--write", "log", "--timeout", "5", "--", PYTHON, "server.py", "good"];
    let _ = desk.home.run(&add).ok();
    assert!(config(&desk).starts_with("# mine\nmodel = \"openai/x\" # this one\n"), "{}", config(&desk));
    let listed = desk.home.run(&["mcp", "list", "--json"]).ok().json();
    assert_eq!(listed["servers"][0]["name"], "hand");
    assert_eq!(listed["servers"][0]["sandbox"]["write"], json!(["log"]));
    let workspace = desk.workspace.display().to_string();
    let tested = desk.home.run(&["mcp", "test", "hand", "--workspace", &workspace, "--json"]).ok().json();
    let names: Vec<&str> = tested["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["act", "fine", "write"]);
    assert_eq!(tested["server"], "hand 1");
    assert!(tested["isolation"].as_array().unwrap().len() > 2, "{tested}");
    let _ = desk.home.run(&["mcp", "remove", "hand"]).ok();
    assert_eq!(desk.home.run(&["mcp", "list", "--json"]).ok().json(), json!({"servers": []}));
    assert!(config(&desk).contains("# this one"));
}

#[test]
fn bad_input_says_why_and_changes_nothing() {
    let Some(desk) = Desk::new() else { return };
    let _ = desk.home.run(&["mcp", "add", "a", "--", PYTHON]).ok();
    let before = config(&desk);
    for (args, says) in [
        (&["mcp", "add", "a", "--", PYTHON][..], "--replace"),
        (&["mcp", "add", "b"], "<COMMAND|--url <URL>>"),
        (&["mcp", "add", "b__c", "--", PYTHON], "name"),
        (&["mcp", "add", "b", "--", "no-such-program-9"], "no program on this machine"),
        (&["mcp", "add", "b", "--url", "ftp://x"], "no http(s) address"),
        (&["mcp", "add", "b", "--network", "http://", "--", PYTHON], "host pattern"),
        (&["mcp", "add", "b", "--timeout", "0", "--", PYTHON], "timeout_s"),
        (&["mcp", "add", "b", "--env", "X", "--", PYTHON], "NAME=VALUE"),
    ] {
        let _ = desk.home.run(args).failed(2, &[says]);
    }
    for args in [["mcp", "remove", "z"], ["mcp", "test", "z"]] {
        let _ = desk.home.run(&args).failed(1, &["no MCP server is called `z`", "jarvis mcp list"]);
    }
    assert_eq!(config(&desk), before);
}

#[test]
fn a_server_that_does_not_start_shows_its_last_words() {
    let Some(desk) = Desk::new() else { return };
    let _ = desk.home.run(&["mcp", "add", "hand", "--", PYTHON, "server.py", "dies at once"]).ok();
    let workspace = desk.workspace.display().to_string();
    let ran = desk.home.run(&["mcp", "test", "hand", "--workspace", &workspace]);
    let _ = ran.failed(1, &["exit code 1", "I need a key in KEY"]);
}

#[test]
fn servers_of_other_programs_are_shown_and_taken_over_without_their_keys() {
    let desk = Desk::bare();
    let file = desk.home.write(
        "claude.json",
        r#"{"mcpServers": {
            "git hub": {"command": "/bin/true", "args": ["x"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef0123456789abcdef0123", "MODE": "read"}},
            "web": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer abcdef-123456"}},
            "old": {"type": "sse", "url": "https://a.example/sse"}}}"#,
    );
    let file = file.display().to_string();
    let shown = desk.home.run(&["mcp", "import", &file, "--json"]).ok().json();
    assert_eq!(shown["added"], false);
    assert_eq!(config(&desk), "", "it was only shown");
    let args = ["mcp", "import", &file, "--yes", "--json", "--secret-host", "GITHUB_TOKEN=api.github.com"];
    let done = desk.home.run(&args).ok();
    assert!(!done.out.contains("ghp_") && !done.out.contains("abcdef-123456"), "{}", done.out);
    let done: Value = done.json();
    assert_eq!(done["added"], true);
    assert_eq!(done["left"][0]["name"], "old");
    let config = config(&desk);
    assert!(
        config.contains("GITHUB_TOKEN = \"${secret:GITHUB_TOKEN}\"") && config.contains("MODE = \"read\""),
        "{config}"
    );
    assert!(config.contains("Authorization = \"Bearer ${secret:AUTHORIZATION}\""), "{config}");
    assert!(!config.contains("ghp_") && !config.contains("abcdef-123456"), "{config}");
    let secrets = desk.home.run(&["secret", "list", "--json"]).ok().out;
    assert!(secrets.contains("GITHUB_TOKEN") && !secrets.contains("AUTHORIZATION"), "{secrets}");
    // A second time there is nothing to add.
    let again = desk.home.run(&["mcp", "import", &file, "--yes", "--json"]).ok().json();
    assert_eq!((&again["added"], again["left"].as_array().unwrap().len()), (&json!(false), 3));
}

#[test]
fn the_usual_places_are_looked_at_and_a_broken_file_changes_nothing() {
    let desk = Desk::bare();
    desk.home.write(".cursor/mcp.json", "{\"mcpServers\": {\"cur\": {\"command\": \"/bin/true\"}}}");
    desk.home.write(".config/Code/User/mcp.json", "{ // mine\n\"servers\": {\"code\": {\"command\": \"/bin/true\",}}}");
    let _ = desk.home.run(&["mcp", "import", "--yes"]).ok();
    let listed = desk.home.run(&["mcp", "list"]).ok().out;
    assert!(listed.contains("cur") && listed.contains("code"), "{listed}");
    let before = config(&desk);
    let broken = desk.home.write("broken.json", "{").display().to_string();
    let _ = desk.home.run(&["mcp", "import", &broken, "--yes"]).failed(2, &["it is no JSON"]);
    assert_eq!(config(&desk), before);
}

#[test]
fn a_person_on_a_terminal_is_asked_before_anything_is_added_and_for_the_host_of_each_key() {
    let desk = Desk::bare();
    let file = desk.home.write(
        "cursor.json",
        r#"{"mcpServers": {"hub": {"command": "/bin/true", "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef0123456789abcdef0123"}}}}"#,
    );
    let file = file.display().to_string();
    let Some(mut terminal) = Terminal::start(&desk.home, &["mcp", "import", &file]) else { return };
    let before = terminal.until("add them? [y/N]");
    assert!(
        before.contains("hub: /bin/true") && before.contains("GITHUB_TOKEN") && !before.contains("ghp_"),
        "{before}"
    );
    terminal.keys("n\n");
    terminal.until("nothing was added");
    assert_eq!(terminal.ended(), 0);
    assert_eq!(config(&desk), "");
    let Some(mut terminal) = Terminal::start(&desk.home, &["mcp", "import", &file]) else { return };
    terminal.until("add them? [y/N]");
    terminal.keys("y\n");
    terminal.until("GITHUB_TOKEN of hub: the host it may be sent to");
    terminal.keys("http://\n");
    assert_ne!(terminal.ended(), 0);
    assert_eq!(config(&desk), "", "a host that is none changes nothing");
    let Some(mut terminal) = Terminal::start(&desk.home, &["mcp", "import", &file]) else { return };
    terminal.until("add them? [y/N]");
    terminal.keys("是\n");
    terminal.until("the host it may be sent to");
    terminal.keys("api.github.com\n");
    terminal.until("1 added");
    assert_eq!(terminal.ended(), 0);
    assert!(config(&desk).contains("GITHUB_TOKEN = \"${secret:GITHUB_TOKEN}\""), "{}", config(&desk));
    let secrets = desk.home.run(&["secret", "list", "--json"]).ok().out;
    assert!(secrets.contains("api.github.com") && !secrets.contains("ghp_"), "{secrets}");
}

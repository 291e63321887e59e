//! What a host is offered: tools, resources, prompts, completions.

use super::host::{Host, reverse, run};
use crate::common::Home;
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn three_tools_with_schemas_and_honest_annotations() {
    let home = Home::new();
    let mut host = Host::start(&home, &[]);
    let hello = host.hello(json!({}));
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(hello["serverInfo"]["name"], "jarvis");
    assert!(hello["instructions"].as_str().unwrap().contains("list_capabilities"));
    let tools = host.call("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(names(&tools), ["list_capabilities", "register_capability", "execute_capability"]);
    for tool in tools.as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["type"], "object");
    }
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[1]["annotations"]["destructiveHint"], false);
    assert_eq!(tools[2]["annotations"]["openWorldHint"], true);
    let _ = host.close();
}

#[test]
fn each_capability_is_a_tool_where_that_is_wanted_and_changes_are_told() {
    let home = Home::new();
    let mut host = Host::start(&home, &["--capabilities-as-tools"]);
    assert_eq!(host.hello(json!({}))["capabilities"]["tools"]["listChanged"], true);
    let _ = host.value("register_capability", reverse());
    let _ = host.hears("notifications/tools/list_changed");
    let tools = host.call("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(names(&tools)[3..], ["reverse_text"]);
    let tool = &tools[3];
    assert_eq!(tool["inputSchema"]["required"], json!(["text"]));
    assert_eq!(tool["outputSchema"]["properties"]["result"], json!({"type": "string"}));
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    assert!(tool["description"].as_str().unwrap().contains("反转文字"));
    assert_eq!(host.value("reverse_text", json!({"text": "abc"}))["result"], "cba");
    // By another process: a person turns it off.
    let _ = home.run(&["cap", "disable", "reverse_text"]).ok();
    let _ = host.hears("notifications/tools/list_changed");
    let tools = host.call("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(names(&tools).len(), 3);
    let answer = host.call("tools/call", json!({"name": "reverse_text", "arguments": {"text": "abc"}}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let _ = host.close();
}

#[test]
fn without_the_flag_a_capability_is_no_tool() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let _ = host.value("register_capability", reverse());
    let answer = host.call("tools/call", json!({"name": "reverse_text", "arguments": {"text": "abc"}}));
    assert!(answer["error"]["message"].as_str().unwrap().contains("execute_capability"), "{answer}");
    let _ = host.close();
}

#[test]
fn audit_and_statistics_are_resources_and_tell_when_they_change() {
    let home = Home::new();
    let mut host = Host::ready(&home, &[]);
    let _ = host.value("register_capability", reverse());
    let listed = host.call("resources/list", json!({}))["result"]["resources"].clone();
    assert_eq!(names(&listed), ["audit", "statistics"]);
    let read = |host: &mut Host, uri: &str| {
        let answer = host.call("resources/read", json!({"uri": uri}));
        answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let audit: Value = serde_json::from_str(&read(&mut host, "jarvis://audit/tail")).unwrap();
    assert!(audit["records"].as_array().unwrap().iter().any(|r| r["kind"] == "forge"), "{audit}");
    let _ = host.call("resources/subscribe", json!({"uri": "jarvis://statistics"}));
    let _ = host.value("execute_capability", run("reverse_text", json!({"text": "a"})));
    assert_eq!(host.hears("notifications/resources/updated")["params"]["uri"], "jarvis://statistics");
    let statistics: Value = serde_json::from_str(&read(&mut host, "jarvis://statistics")).unwrap();
    assert_eq!(statistics["capabilities"][0]["runs"], 1, "{statistics}");
    assert_eq!(read(&mut host, "jarvis://code/reverse_text"), crate::common::REVERSE);
    let shown: Value = serde_json::from_str(&read(&mut host, "jarvis://capabilities/reverse_text")).unwrap();
    assert_eq!(shown["capability"]["name"], "reverse_text");
    for uri in ["jarvis://code/nobody", "jarvis://code/../../config.toml", "file:///etc/passwd", ""] {
        let answer = host.call("resources/read", json!({"uri": uri}));
        assert_eq!(answer["error"]["code"], -32002, "{uri}: {answer}");
    }
    let answer = host.call("resources/subscribe", json!({"uri": "file:///etc/passwd"}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let templates = host.call("resources/templates/list", json!({}))["result"]["resourceTemplates"].clone();
    assert_eq!(names(&templates), ["capability", "code"]);
    let completed = host.call(
        "completion/complete",
        json!({"ref": {"type": "ref/resource", "uri": "jarvis://code/{name}"}, "argument": {"name": "name", "value": "rev"}}),
    );
    assert_eq!(completed["result"]["completion"]["values"], json!(["reverse_text"]), "{completed}");
    let _ = host.close();
}

#[test]
fn skills_are_prompts_and_a_link_or_a_broken_file_is_none() {
    let home = Home::new();
    home.write(
        "work/.jarvis/skills/daily/SKILL.md",
        "---\nname: daily\ndescription: 站会报告, as a list\n---\nWrite what was done.\n",
    );
    home.write("work/.jarvis/skills/broken/SKILL.md", "no head");
    home.write("skills/mine/SKILL.md", "---\nname: mine\ndescription: One of the home\n---\nDo it.\n");
    home.write("secret.md", "---\nname: linked\ndescription: x\n---\nthe secret\n");
    home.write("work/.jarvis/skills/linked/other.md", "");
    std::os::unix::fs::symlink(home.file("secret.md"), home.file("work/.jarvis/skills/linked/SKILL.md")).unwrap();
    let mut host = Host::ready(&home, &["--workspace", home.file("work").to_str().unwrap()]);
    let prompts = host.call("prompts/list", json!({}))["result"]["prompts"].clone();
    assert_eq!(names(&prompts), ["daily", "mine"], "{prompts}");
    assert_eq!(prompts[0]["description"], "站会报告, as a list");
    let got = host.call("prompts/get", json!({"name": "daily", "arguments": {"request": "for Monday"}}));
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "Write what was done.\n\nfor Monday");
    let answer = host.call("prompts/get", json!({"name": "linked"}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let _ = host.close();
}

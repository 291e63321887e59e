//! The built-in tools as a model is told of them.

use jarvis_protocol::ToolSpec;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Whether a tool may change what another call of the same reply sees, so that it runs alone.
pub fn changes_something(tool: &str) -> bool {
    matches!(tool, "file_write" | "file_edit" | "shell_exec")
}

static SPECS: LazyLock<Vec<ToolSpec>> = LazyLock::new(all);

/// Always the same ones.
pub fn builtin_specs() -> &'static [ToolSpec] {
    &SPECS
}

fn all() -> Vec<ToolSpec> {
    let path = |what: &str| json!({"type": "string", "minLength": 1, "description": format!("{what}; relative to the workspace")});
    let text = |what: &str| json!({"type": "string", "description": what});
    vec![
        spec(
            "file_read",
            "Read a text file: the whole, or lines start_line to end_line (from 1, both included).",
            &["path"],
            json!({"path": path("the file"), "start_line": {"type": "integer", "minimum": 1},
                   "end_line": {"type": "integer", "minimum": 1}}),
        ),
        spec(
            "file_write",
            "Write a text file as a whole. create fails where the file exists; append adds to its end.",
            &["path", "content"],
            json!({"path": path("the file"), "content": text("all of it"),
                   "mode": {"enum": ["create", "overwrite", "append"], "description": "create where it is left out"}}),
        ),
        spec(
            "file_edit",
            "Replace a piece of a text file. `old` must occur exactly once, to the character, unless all is true.",
            &["path", "old", "new"],
            json!({"path": path("the file"), "old": text("what is there now"), "new": text("what shall be there"),
                   "all": {"type": "boolean", "description": "replace every occurrence"}}),
        ),
        spec(
            "file_list",
            "List a folder.",
            &[],
            json!({"path": path("the folder; the workspace where it is left out"),
                   "depth": {"type": "integer", "minimum": 1, "maximum": 5, "description": "levels of folders; 1"}}),
        ),
        spec(
            "file_search",
            "Find lines that match a regular expression in the files below a folder; what .gitignore names is left out.",
            &["pattern"],
            json!({"pattern": {"type": "string", "minLength": 1}, "path": path("folder or file; the workspace"),
                   "glob": text("only files such as *.rs"), "ignore_case": {"type": "boolean"}}),
        ),
        spec(
            "shell_exec",
            "Run a bash command line in a sandbox: the workspace can be changed, the rest of the system only read, no \
             network but the hosts in `network` (a person is asked). For the person's own programs: git, builds, tests. \
             What computes or converts data belongs into a capability.",
            &["command"],
            json!({"command": {"type": "string", "minLength": 1}, "workdir": path("where it runs; the workspace"),
                   "timeout_s": {"type": "integer", "minimum": 1, "maximum": 600, "description": "30 where it is left out"},
                   "network": {"type": "array", "items": {"type": "string"}, "description": "hosts that it must reach"}}),
        ),
        spec(
            "http_request",
            "One HTTP request to a public host; a person is asked. For what is needed again, write a capability.",
            &["url"],
            json!({"url": {"type": "string", "minLength": 1},
                   "method": {"enum": ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]},
                   "headers": {"type": "object", "additionalProperties": {"type": "string"}}, "body": {"type": "string"}}),
        ),
    ]
}

fn spec(name: &str, description: &str, required: &[&str], properties: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties}),
    }
}

//! Servers as other programs have them in their settings: Claude Desktop and Code, Cursor, VS Code.

use super::config::{ServerConfig, ServerConfigs};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Projects of one file whose servers are looked at.
const MOST_PROJECTS: usize = 1000;

/// What a file of settings holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    pub servers: ServerConfigs,
    /// Those that cannot be taken over, and why.
    pub left: Vec<(String, String)>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("it is no JSON: {0}")]
    NotJson(String),
    #[error("it holds no servers: neither `mcpServers` nor `servers` is in it")]
    NoServers,
}

/// One server, in the words that all of them share.
#[derive(Deserialize)]
struct Foreign {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, Value>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(alias = "serverUrl")]
    server_url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    disabled: bool,
}

/// Reads the text of such a file; comments and commas at the end of lists are taken as their programs take them.
///
/// # Errors
/// Where it is no such file. A server that cannot be taken over is told beside the others.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    let plain = |text: &str| serde_json::from_str::<Value>(text);
    let file = plain(text).or_else(|first| plain(&without_comments(text)).map_err(|_| first));
    let file = file.map_err(|e| ImportError::NotJson(e.to_string()))?;
    let mut imported = Imported::default();
    let mut seen = false;
    let mut tables: Vec<&Value> = vec![&file["mcpServers"], &file["servers"], &file["mcp"]["servers"]];
    // Claude Code keeps those of a project with the project.
    let projects = file["projects"].as_object().into_iter().flat_map(|all| all.values()).take(MOST_PROJECTS);
    tables.extend(projects.map(|project| &project["mcpServers"]));
    for table in tables.into_iter().filter_map(Value::as_object) {
        seen = true;
        imported.take(table);
    }
    if seen { Ok(imported) } else { Err(ImportError::NoServers) }
}

impl Imported {
    fn take(&mut self, table: &Map<String, Value>) {
        for (foreign, value) in table {
            let name = name_of(foreign);
            match server(value).and_then(|config| config.check(&name).map(|()| config).map_err(|e| e.problem)) {
                Ok(config) => match self.servers.get(&name) {
                    Some(known) if *known != config => {
                        self.left.push((foreign.clone(), "another server of this name is in the file".to_owned()));
                    }
                    _ => _ = self.servers.insert(name, config),
                },
                Err(problem) => self.left.push((foreign.clone(), problem)),
            }
        }
    }
}

fn server(value: &Value) -> Result<ServerConfig, String> {
    let foreign: Foreign = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    if foreign.kind.as_deref() == Some("sse") {
        return Err("it speaks the old SSE transport; give the address of its streamable HTTP".to_owned());
    }
    // Asked for or looked up by the program that the file belongs to.
    if let Some(place) = value.to_string().split("${").nth(1).and_then(|rest| rest.split('}').next()) {
        return Err(format!("it holds ${{{place}}}, which only its own program knows; set it up by hand"));
    }
    let env = foreign.env.into_iter().map(|(name, value)| (name, jarvis_protocol::value_text(&value))).collect();
    Ok(ServerConfig {
        command: foreign.command,
        args: foreign.args,
        env,
        cwd: foreign.cwd.map(Into::into),
        url: foreign.url.or(foreign.server_url),
        headers: foreign.headers,
        enabled: !foreign.disabled,
        ..ServerConfig::default()
    })
}

/// In the form of a server's name.
pub(super) fn name_of(foreign: &str) -> String {
    let mut name = String::new();
    for c in foreign.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '-' => name.push(c),
            _ if !name.ends_with('_') => name.push('_'),
            _ => {}
        }
    }
    name.trim_matches('_').chars().take(32).collect::<String>().trim_end_matches('_').to_owned()
}

/// JSON as editors take it: without comments, and without a comma before the end of a list.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_text = false;
    while let Some(c) = chars.next() {
        if in_text {
            out.push(c);
            match c {
                '\\' => out.extend(chars.next()),
                '"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match (c, chars.peek()) {
            ('"', _) => {
                in_text = true;
                out.push(c);
            }
            ('/', Some('/')) => while chars.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) => {
                chars.next();
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            ('}' | ']', _) => {
                if out.trim_end().ends_with(',') {
                    out.truncate(out.trim_end().len() - 1);
                }
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_usual_programs_are_read() {
        let desktop =
            r#"{"mcpServers": {"file system": {"command": "npx", "args": ["-y", "x", "/data"], "env": {"N": 1}}}}"#;
        let found = import(desktop).unwrap();
        let files = &found.servers["file_system"];
        assert_eq!((files.place().as_str(), files.env["N"].as_str()), ("npx -y x /data", "1"));
        let code = r#"{"projects": {"/a": {"mcpServers": {"web": {"type": "http", "url": "https://a.example/mcp"}}}}}"#;
        assert_eq!(import(code).unwrap().servers["web"].url.as_deref(), Some("https://a.example/mcp"));
        let vscode =
            "{\n// a comment\n\"servers\": {\"a\": {\"command\": \"x//y\", \"args\": [\"/*\", ], /* b */ },},\n}";
        assert_eq!(import(vscode).unwrap().servers["a"].place(), "x//y /*");
    }

    #[test]
    fn what_cannot_be_taken_over_is_told_and_the_rest_is_taken() {
        let file = r#"{"servers": {
            "ok": {"command": "x"}, "文件": {"command": "x"}, "asks": {"command": "x", "env": {"K": "${input:key}"}},
            "old": {"type": "sse", "url": "https://a.example/sse"}, "empty": {}, "list": []}}"#;
        let found = import(file).unwrap();
        assert_eq!(found.servers.keys().collect::<Vec<_>>(), ["ok"]);
        assert_eq!(found.left.len(), 5, "{:?}", found.left);
        assert!(found.left.iter().any(|(_, why)| why.contains("${input:key}")));
    }

    #[test]
    fn another_file_is_an_error() {
        assert!(matches!(import("[1,"), Err(ImportError::NotJson(_))));
        assert_eq!(import("{\"a\": 1}"), Err(ImportError::NoServers));
    }
}

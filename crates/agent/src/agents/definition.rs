//! A subagent as a file: a head that says what it may do, and its prompt.

use crate::bootstrap;
use crate::context::Strategy;
use crate::remember;
use jarvis_dispatch::{Found, Origin, builtin_specs};
use jarvis_memory::Document;
use jarvis_model::Tool;
use serde::Serialize;
use std::path::PathBuf;

/// Model replies of one task, where the file does not say.
const ITERATIONS: u32 = 12;
const MOST_ITERATIONS: u32 = 100;
/// The model of the conversation reads the description with every request.
const DESCRIPTION_CHARS: usize = 300;
/// Before the names of tools of servers outside.
const EXTERNAL: &str = "mcp/";
const KEYS: [&str; 5] = ["name", "description", "tools", "max_iterations", "context"];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agent {
    pub name: String,
    pub description: String,
    /// All that it may use.
    pub tools: Vec<String>,
    /// Model replies of one task.
    pub max_iterations: u32,
    /// How its own conversation is kept short; as in the session where it does not say.
    pub context: Option<Strategy>,
    pub origin: Origin,
    /// None for a built-in one.
    pub path: Option<PathBuf>,
    pub prompt: String,
}

/// Every tool that a subagent can be given.
fn known_tools() -> impl Iterator<Item = &'static str> {
    let name = |tool: &'static Tool| tool.name.as_str();
    let builtin = builtin_specs().iter().map(|spec| spec.name.as_str());
    bootstrap::specs().iter().map(name).chain(builtin).chain(remember::specs().iter().map(name))
}

impl Agent {
    pub(crate) fn parse(found: &Found, text: &str) -> Result<Agent, String> {
        let document = Document::parse(text)?;
        if let Some(unknown) = document.keys().find(|key| !KEYS.contains(key)) {
            return Err(format!("`{}` is none of {}", short(unknown), KEYS.join(", ")));
        }
        document.one("name")?.map_or(Ok(()), |name| found.says(&name))?;
        let description = document.one("description")?.ok_or("the head has no `description`")?;
        let tools = document.list("tools")?;
        if tools.is_empty() {
            return Err("the head has no `tools`; a subagent without tools could only talk".to_owned());
        }
        let known = |tool: &str| known_tools().any(|name| name == tool);
        if let Some(tool) = tools.iter().find(|tool| !known(tool) && !is_external(tool)) {
            return Err(match tool.as_str() {
                super::DELEGATE => "a subagent starts no subagents: take `delegate` out of `tools`".to_owned(),
                other => format!(
                    "there is no tool `{}`; there are {}, and of MCP servers mcp/SERVER and mcp/SERVER/TOOL",
                    short(other),
                    known_tools().collect::<Vec<_>>().join(", ")
                ),
            });
        }
        let max_iterations = match document.one("max_iterations")? {
            None => ITERATIONS,
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| (1..=MOST_ITERATIONS).contains(n))
                .ok_or_else(|| format!("max_iterations `{}`: it is 1 to {MOST_ITERATIONS}", short(&text)))?,
        };
        let context = document.one("context")?.map(|word| {
            serde_json::from_value(word.as_str().into())
                .map_err(|_| format!("context `{}`: it is window, summary, memory or hybrid", short(&word)))
        });
        if document.text.is_empty() {
            return Err("it has no prompt below its head".to_owned());
        }
        let description: String = description.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Agent {
            name: found.name.clone(),
            description: description.chars().take(DESCRIPTION_CHARS).collect(),
            tools,
            max_iterations,
            context: context.transpose()?,
            origin: found.origin,
            path: found.path.clone(),
            prompt: document.text,
        })
    }

    /// Whether it may use a tool of a server outside.
    pub(crate) fn may_use(&self, server: &str, tool: &str) -> bool {
        let named = self.tools.iter().filter_map(|name| name.strip_prefix(EXTERNAL));
        named.into_iter().any(|name| match name.split_once('/') {
            None => name == server,
            Some((of, one)) => of == server && one == tool,
        })
    }

    /// Servers and tools of them that it names, as they are written.
    pub(crate) fn external(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter_map(|name| name.strip_prefix(EXTERNAL))
    }

    /// Whether files of the workspace can be different after it.
    pub(crate) fn changes_files(&self) -> bool {
        self.tools.iter().any(|tool| jarvis_dispatch::changes_something(tool))
    }
}

/// `mcp/SERVER` or `mcp/SERVER/TOOL`. Which servers there are is known when it works.
fn is_external(tool: &str) -> bool {
    let name = tool.strip_prefix(EXTERNAL).unwrap_or_default();
    let (server, one) = name.split_once('/').unwrap_or((name, "all"));
    !server.is_empty() && !one.is_empty()
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Agent, String> {
        Agent::parse(&Found::built_in("helper", ""), text)
    }

    #[test]
    fn a_file_says_what_it_may_do() {
        let agent = parse("---\ndescription: 读取文件\ntools:\n  - file_read\n  - file_list\nmax_iterations: 3\ncontext: window\n---\nRead.\n").unwrap();
        assert_eq!((agent.description.as_str(), agent.max_iterations), ("读取文件", 3));
        assert_eq!(agent.tools, ["file_read", "file_list"]);
        let outside = parse("---\ndescription: x\ntools: [mcp/files/read_text, mcp/web]\n---\ny").unwrap();
        assert!(outside.may_use("files", "read_text") && outside.may_use("web", "any"));
        assert!(!outside.may_use("files", "write") && !outside.may_use("we", "b"));
        assert_eq!((agent.context, agent.prompt.as_str()), (Some(Strategy::Window), "Read."));
        let folded = parse("---\ndescription: >-\n  reads\n  files\ntools: [file_read]\n---\nx").unwrap();
        assert_eq!((folded.description.as_str(), folded.max_iterations), ("reads files", ITERATIONS));
    }

    #[test]
    fn a_broken_head_says_what_is_wrong() {
        for (text, part) in [
            ("no head", "description"),
            ("---\ndescription: x\n---\ny", "tools"),
            ("---\ndescription: x\ntools: [file_red]\n---\ny", "file_red"),
            ("---\ndescription: x\ntools: [mcp/]\n---\ny", "mcp/SERVER"),
            ("---\ndescription: x\ntools: [delegate]\n---\ny", "starts no subagents"),
            ("---\ndescription: x\ntools: [file_read]\nmax_iterations: 0\n---\ny", "1 to 100"),
            ("---\ndescription: x\ntools: [file_read]\ncontext: all\n---\ny", "hybrid"),
            ("---\ndescription: x\ntools: [file_read]\nmodel: big\n---\ny", "model"),
            ("---\nname: other\ndescription: x\ntools: [file_read]\n---\ny", "other"),
            ("---\ndescription: x\ntools: [file_read]\n---\n", "no prompt"),
            ("---\ndescription: x\n", "`---`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

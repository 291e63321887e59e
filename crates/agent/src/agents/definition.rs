//! A subagent as a file: a head that says what it may do, and its prompt.

use crate::bootstrap;
use crate::context::Strategy;
use crate::remember;
use jarvis_dispatch::builtin_specs;
use jarvis_memory::Document;
use serde::Serialize;
use std::path::PathBuf;

/// Model replies of one task, where the file does not say.
const ITERATIONS: u32 = 12;
const MOST_ITERATIONS: u32 = 100;
/// The model of the conversation reads the description with every request.
const DESCRIPTION_CHARS: usize = 300;
const KEYS: [&str; 5] = ["name", "description", "tools", "max_iterations", "context"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Workspace,
    Home,
    BuiltIn,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Workspace => "workspace",
            Origin::Home => "home",
            Origin::BuiltIn => "built in",
        }
    }
}

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

/// Letters (of any script), digits, `-` and `_`: a name is never a path.
pub(crate) fn valid_name(name: &str) -> bool {
    (1..=64).contains(&name.chars().count())
        && name.starts_with(char::is_alphanumeric)
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

/// Every tool that a subagent can be given.
fn known_tools() -> Vec<String> {
    let specs = bootstrap::specs().iter().chain(builtin_specs()).cloned().chain(remember::specs());
    specs.map(|spec| spec.name).collect()
}

impl Agent {
    pub(crate) fn parse(name: &str, text: &str, origin: Origin, path: Option<PathBuf>) -> Result<Agent, String> {
        let document = Document::parse(text)?;
        if let Some(unknown) = document.keys().find(|key| !KEYS.contains(key)) {
            return Err(format!("`{}` is none of {}", short(unknown), KEYS.join(", ")));
        }
        if let Some(other) = document.one("name")?.filter(|other| other != name) {
            return Err(format!("it says that its name is `{}`; its file says `{name}`", short(&other)));
        }
        let description = document.one("description")?.ok_or("the head has no `description`")?;
        let tools = document.list("tools")?;
        if tools.is_empty() {
            return Err("the head has no `tools`; a subagent without tools could only talk".to_owned());
        }
        let known = known_tools();
        if let Some(tool) = tools.iter().find(|tool| !known.contains(tool)) {
            return Err(match tool.as_str() {
                super::DELEGATE => "a subagent starts no subagents: take `delegate` out of `tools`".to_owned(),
                other => format!("there is no tool `{}`; there are {}", short(other), known.join(", ")),
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
            name: name.to_owned(),
            description: description.chars().take(DESCRIPTION_CHARS).collect(),
            tools,
            max_iterations,
            context: context.transpose()?,
            origin,
            path,
            prompt: document.text,
        })
    }

    /// Whether files of the workspace can be different after it.
    pub(crate) fn changes_files(&self) -> bool {
        self.tools.iter().any(|tool| jarvis_dispatch::changes_something(tool))
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Agent, String> {
        Agent::parse("helper", text, Origin::Home, None)
    }

    #[test]
    fn a_file_says_what_it_may_do() {
        let agent = parse("---\ndescription: 读取文件\ntools:\n  - file_read\n  - file_list\nmax_iterations: 3\ncontext: window\n---\nRead.\n").unwrap();
        assert_eq!((agent.description.as_str(), agent.max_iterations), ("读取文件", 3));
        assert_eq!(agent.tools, ["file_read", "file_list"]);
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

    #[test]
    fn a_name_is_no_path() {
        for name in ["coder", "代码审查", "a-b_2"] {
            assert!(valid_name(name), "{name}");
        }
        for name in ["", "../pwn", "a/b", "a.b", ".hidden", "a b", "-x", &"a".repeat(65)] {
            assert!(!valid_name(name), "{name}");
        }
    }
}

//! Where things live: `$JARVIS_HOME` or `~/.jarvis`.

use crate::error::{Outcome, config};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
    models: PathBuf,
}

impl Home {
    /// A home that is not there yet is made, empty and closed to other users: it will hold what was typed and learned.
    pub fn find() -> Outcome<Home> {
        let root = match (variable("JARVIS_HOME"), variable("HOME")) {
            (Some(root), _) => root,
            (None, Some(home)) => home.join(".jarvis"),
            (None, None) => {
                return Err(config(
                    "there is no home folder: neither JARVIS_HOME nor HOME is set",
                    "set JARVIS_HOME=/some/folder",
                ));
            }
        };
        let root = std::path::absolute(&root)
            .map_err(|e| config(format!("{}: {e}", root.display()), "set JARVIS_HOME to a folder that exists"))?;
        make(&root);
        let models = variable("JARVIS_MODELS").unwrap_or_else(|| root.join("models"));
        Ok(Home { root, models })
    }

    /// A home in a folder that is there, for measurements.
    pub fn at(root: &Path) -> Home {
        Home { root: root.to_owned(), models: root.join("models") }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    pub fn capabilities(&self) -> PathBuf {
        self.root.join("capabilities")
    }

    pub fn database(&self) -> PathBuf {
        self.root.join("jarvis.db")
    }

    pub fn audit(&self) -> PathBuf {
        self.root.join("audit")
    }

    /// Conversations. Apart from the database above, which can be made anew.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions.db")
    }

    /// Notes, as Markdown.
    pub fn memory(&self) -> PathBuf {
        self.root.join("memory")
    }

    /// What they are found by; it can be made anew.
    pub fn memory_index(&self) -> PathBuf {
        self.root.join("memory.db")
    }

    /// Packages that Python capabilities import.
    pub fn packages(&self) -> PathBuf {
        self.root.join("packages")
    }

    /// What is known of servers of the Model Context Protocol, and was allowed of them.
    pub fn mcp(&self) -> PathBuf {
        self.root.join("mcp")
    }

    /// Subagents of the person's own.
    pub fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }

    pub fn chat_history(&self) -> PathBuf {
        self.root.join("chat_history.txt")
    }

    /// Model files and the saved states beside them; `$JARVIS_MODELS` shares them between homes.
    pub fn models(&self) -> &Path {
        &self.models
    }
}

fn make(root: &Path) {
    // Not told: looking needs no home, and whoever writes into it fails with the reason.
    if let Some(above) = root.parent() {
        let _ = std::fs::create_dir_all(above);
    }
    let _ = std::fs::DirBuilder::new().mode(0o700).create(root);
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

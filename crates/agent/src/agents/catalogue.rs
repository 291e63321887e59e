//! Which subagents there are: files of the workspace before those of the home before the built-in ones.

use super::definition::{Agent, Origin, valid_name};
use serde::Serialize;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

const BUILT_IN: [(&str, &str); 3] = [
    ("researcher", include_str!("builtin/researcher.md")),
    ("coder", include_str!("builtin/coder.md")),
    ("reviewer", include_str!("builtin/reviewer.md")),
];

/// Bytes of one file.
const MOST_BYTES: u64 = 64 << 10;
/// Files of one folder.
const MOST_FILES: usize = 100;

/// Where the files lie.
#[derive(Debug, Clone)]
pub struct AgentFolders {
    workspace: PathBuf,
    home: PathBuf,
}

/// A file that is no subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenAgent {
    pub path: PathBuf,
    pub problem: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Catalogue {
    /// By name; of each name the nearest.
    pub agents: Vec<Agent>,
    pub broken: Vec<BrokenAgent>,
}

impl AgentFolders {
    /// `home` is the folder of agents in jarvis's home; in a workspace they lie in `.jarvis/agents`.
    pub fn new(workspace: &Path, home: &Path) -> Self {
        Self { workspace: workspace.to_owned(), home: home.to_owned() }
    }

    /// Reads all of them. One that is broken hides no other but the farther one of its own name, which its writer meant
    /// to replace.
    pub fn load(&self) -> Catalogue {
        let mut catalogue = Catalogue::default();
        let mut taken: Vec<String> = Vec::new();
        let inside = self.workspace.join(".jarvis");
        // A link in somebody's repository must not make a file elsewhere part of a prompt.
        if let Some(link) = [&inside, &inside.join("agents")].into_iter().find(|path| path.is_symlink()) {
            let problem = "it is a link; agents of a workspace lie in it".to_owned();
            catalogue.broken.push(BrokenAgent { path: link.clone(), problem });
        } else {
            catalogue.take_folder(&inside.join("agents"), Origin::Workspace, &mut taken);
        }
        catalogue.take_folder(&self.home, Origin::Home, &mut taken);
        for (name, text) in BUILT_IN {
            catalogue.take(name, Ok(text.to_owned()), Origin::BuiltIn, None, &mut taken);
        }
        catalogue.agents.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue
    }
}

impl Catalogue {
    pub fn get(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    fn take_folder(&mut self, folder: &Path, origin: Origin, taken: &mut Vec<String>) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                self.broken.push(BrokenAgent { path: folder.to_owned(), problem: error.to_string() });
                return;
            }
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
        paths.sort();
        if paths.len() > MOST_FILES {
            let problem = format!("only the first {MOST_FILES} of {} files are read", paths.len());
            self.broken.push(BrokenAgent { path: folder.to_owned(), problem });
            paths.truncate(MOST_FILES);
        }
        let mut here = Vec::new();
        for path in paths {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            if name == "README" || taken.contains(&name) {
                continue;
            }
            let text = read_file(&path, origin);
            self.take(&name, text, origin, Some(path), &mut here);
        }
        taken.append(&mut here);
    }

    fn take(
        &mut self,
        name: &str,
        text: Result<String, String>,
        origin: Origin,
        path: Option<PathBuf>,
        taken: &mut Vec<String>,
    ) {
        if origin == Origin::BuiltIn && taken.iter().any(|t| t == name) {
            return;
        }
        let named = if valid_name(name) {
            Ok(())
        } else {
            Err("the name of the file is no name of an agent: letters, digits, `-` and `_`, 64 at most".to_owned())
        };
        match named.and(text).and_then(|text| Agent::parse(name, &text, origin, path.clone())) {
            Ok(agent) => self.agents.push(agent),
            Err(problem) => self.broken.push(BrokenAgent { path: path.unwrap_or_else(|| name.into()), problem }),
        }
        taken.push(name.to_owned());
    }
}

/// The text of a file that may come with somebody's repository.
pub(crate) fn read_file(path: &Path, origin: Origin) -> Result<String, String> {
    let about = match origin {
        Origin::Workspace => std::fs::symlink_metadata(path),
        // A person may keep their own files elsewhere.
        Origin::Home | Origin::BuiltIn => std::fs::metadata(path),
    };
    // Neither a link nor a pipe, which would never end.
    if !about.map_err(|e| e.to_string())?.is_file() {
        return Err("it is no plain file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it has more than {} KiB", MOST_BYTES >> 10));
    }
    String::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_ones_are_sound() {
        let nowhere = Path::new("/nonexistent/jarvis");
        let catalogue = AgentFolders::new(nowhere, nowhere).load();
        assert_eq!(catalogue.broken, []);
        let names: Vec<&str> = catalogue.agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["coder", "researcher", "reviewer"]);
        let changing: Vec<bool> = catalogue.agents.iter().map(Agent::changes_files).collect();
        assert_eq!(changing, [true, false, false]);
    }
}

//! Which subagents there are: files of the workspace before those of the home before the built-in ones.

use super::definition::Agent;
use jarvis_dispatch::{Broken, Collection, Each, Folders};
use serde::Serialize;
use std::path::Path;

static COLLECTION: Collection = Collection {
    many: "agents",
    each: Each::File(&["md"]),
    built_in: &[
        ("researcher", include_str!("builtin/researcher.md")),
        ("coder", include_str!("builtin/coder.md")),
        ("reviewer", include_str!("builtin/reviewer.md")),
    ],
};

/// Where the files lie.
#[derive(Debug, Clone)]
pub struct AgentFolders(Folders);

#[derive(Debug, Clone, Default, Serialize)]
pub struct Catalogue {
    /// By name; of each name the nearest.
    pub agents: Vec<Agent>,
    pub broken: Vec<Broken>,
}

impl AgentFolders {
    /// `home` is the folder of agents in jarvis's home; in a workspace they lie in `.jarvis/agents`.
    pub fn new(workspace: &Path, home: &Path) -> Self {
        Self(Folders::new(&COLLECTION, workspace, home))
    }

    pub fn load(&self) -> Catalogue {
        let (agents, broken) = self.0.load(|found, text| Agent::parse(found, &text));
        Catalogue { agents, broken }
    }
}

impl Catalogue {
    pub fn get(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == name)
    }
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

//! What is kept between runs: the tools that each server had, so that nothing has to be started to know them, and what
//! a person allowed. Losing it costs a start and a question.

use super::definition::Definition;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The largest file that is read, bytes.
const MOST: u64 = 16 << 20;

/// A folder of its own in jarvis's home. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    /// Of the server's config.
    config: String,
    tools: Vec<Definition>,
}

/// One thing that a person said yes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Yes {
    server: String,
    /// Of the server's config: the yes was to this program, not to another of its name.
    config: String,
    tool: String,
    definition: String,
}

impl Store {
    pub fn new(folder: PathBuf) -> Store {
        Store { folder }
    }

    /// The tools of a server when it was last connected with this very config.
    pub(crate) fn tools(&self, server: &str, config: &str) -> Option<Vec<Definition>> {
        let listed: Listed = read(&self.list_of(server))?;
        (listed.config == config).then_some(listed.tools)
    }

    pub(crate) fn keep_tools(&self, server: &str, config: &str, tools: &[Definition]) {
        let listed = Listed { config: config.to_owned(), tools: tools.to_vec() };
        if let Err(error) = self.write(&self.list_of(server), &listed) {
            tracing::warn!(%error, server, "the tools of an MCP server are not kept");
        }
    }

    /// Whether a person allowed this definition of this server.
    pub(crate) fn is_allowed(&self, server: &str, config: &str, tool: &str, definition: &str) -> bool {
        let same = |yes: &Yes| yes.server == server && yes.config == config && yes.tool == tool;
        self.allowed().iter().any(|yes| same(yes) && yes.definition == definition)
    }

    /// An earlier definition of the tool is no longer allowed by that.
    pub(crate) fn allow(&self, server: &str, config: &str, tool: &str, definition: &str) {
        let [server, config, tool, definition] = [server, config, tool, definition].map(str::to_owned);
        let yes = Yes { server, config, tool, definition };
        self.change(|all| {
            all.retain(|known| known.server != yes.server || known.tool != yes.tool);
            all.push(yes);
        });
    }

    /// All that is kept of a server.
    pub fn forget(&self, server: &str) {
        self.change(|all| all.retain(|yes| yes.server != server));
        // It need not be there.
        let _ = std::fs::remove_file(self.list_of(server));
    }

    fn list_of(&self, server: &str) -> PathBuf {
        self.folder.join(format!("tools-{server}.json"))
    }

    fn allowed(&self) -> Vec<Yes> {
        read(&self.folder.join("allowed.json")).unwrap_or_default()
    }

    /// Two that change it at once go one after the other. What cannot be kept is asked for again.
    fn change(&self, work: impl FnOnce(&mut Vec<Yes>)) {
        let changed = (|| {
            std::fs::create_dir_all(&self.folder)?;
            let lock = File::options().create(true).truncate(false).write(true).open(self.folder.join("lock"))?;
            lock.lock()?;
            let mut all = self.allowed();
            let before = all.clone();
            work(&mut all);
            if all == before { Ok(()) } else { self.write(&self.folder.join("allowed.json"), &all) }
        })();
        if let Err(error) = changed {
            tracing::warn!(%error, "what was allowed of an MCP server is not kept");
        }
    }

    /// Temporary file, fsync, rename.
    fn write(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let mut new = tempfile::NamedTempFile::new_in(&self.folder)?;
        new.write_all(&serde_json::to_vec(value)?)?;
        new.as_file().sync_all()?;
        new.persist(path).map(|_| ()).map_err(|e| e.error)
    }
}

/// None where it is not there or not to be understood: both mean that nothing is known.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let meta = std::fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > MOST {
        return None;
    }
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_is_to_one_definition_of_one_program_and_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("mcp"));
        assert!(!store.is_allowed("files", "c1", "write", "d1"));
        store.allow("files", "c1", "write", "d1");
        store.allow("files", "c1", "move", "d9");
        let again = Store::new(folder.path().join("mcp"));
        assert!(again.is_allowed("files", "c1", "write", "d1"));
        for (server, config, tool, definition) in
            [("other", "c1", "write", "d1"), ("files", "c2", "write", "d1"), ("files", "c1", "write", "d2")]
        {
            assert!(!again.is_allowed(server, config, tool, definition));
        }
        store.allow("files", "c1", "write", "d2");
        assert!(!store.is_allowed("files", "c1", "write", "d1"), "a changed definition takes the place of the old one");
        store.forget("files");
        assert!(!store.is_allowed("files", "c1", "move", "d9"));
    }

    #[test]
    fn a_damaged_file_is_as_if_there_were_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("allowed.json"), "{").unwrap();
        std::fs::write(folder.path().join("tools-a.json"), "[]").unwrap();
        let store = Store::new(folder.path().to_owned());
        assert!(!store.is_allowed("a", "c", "t", "d"));
        assert_eq!(store.tools("a", "c"), None);
        store.allow("a", "c", "t", "d");
        assert!(store.is_allowed("a", "c", "t", "d"));
    }
}

//! What commands changed: the files of the workspace by size, times and inode, before and after.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More files than this are not followed.
const MOST_ENTRIES: usize = 50_000;
/// What programs make for themselves.
pub(crate) const LEFT_OUT: [&str; 6] = [".git", "node_modules", "target", "__pycache__", ".venv", ".mypy_cache"];

type Stamp = (u64, i64, i64, i64, i64, u64);

#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    /// By path below the workspace.
    files: BTreeMap<String, Stamp>,
    /// All files are in it.
    pub complete: bool,
}

impl Tree {
    /// Looks at every file, and follows no link.
    pub async fn of(workspace: &Path) -> Tree {
        let root = workspace.to_owned();
        // A walk that was lost is an incomplete one.
        tokio::task::spawn_blocking(move || walk(&root)).await.unwrap_or_default()
    }

    /// Paths that are new or different in `later`, or gone there.
    pub fn changed(&self, later: &Tree) -> Vec<String> {
        let new = later.files.iter().filter(|(path, stamp)| self.files.get(*path) != Some(stamp)).map(|(path, _)| path);
        let gone = self.files.keys().filter(|path| !later.files.contains_key(*path));
        new.chain(gone).cloned().collect()
    }

    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Whether a path is, or ends with, `name`.
    pub fn holds(&self, name: &str) -> bool {
        self.files.keys().any(|path| is_named(path, name))
    }
}

/// Whether `name` says `path`, from its end at least.
pub(crate) fn is_named(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

fn walk(root: &Path) -> Tree {
    let mut tree = Tree { complete: true, ..Tree::default() };
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let Ok(entries) = std::fs::read_dir(root.join(&below)) else {
            tree.complete = false;
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let path = below.join(&name);
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                if !LEFT_OUT.iter().any(|left| name == *left) {
                    open.push(path);
                }
            } else if tree.files.len() >= MOST_ENTRIES {
                tree.complete = false;
                return tree;
            } else {
                let stamp =
                    (about.len(), about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec(), about.ino());
                tree.files.insert(path.to_string_lossy().into_owned(), stamp);
            }
        }
    }
    tree
}

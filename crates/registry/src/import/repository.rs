//! A git repository, read from its objects: nothing is checked out, so no hook, filter or link of it does anything.

use super::PortError;
use super::files::{Files, MOST_FILES, too_long};
use git2::{BranchType, ErrorCode, ObjectType, Repository, RepositoryOpenFlags, TreeWalkMode, TreeWalkResult};
use std::path::Path;

const LINK: i32 = 0o120_000;

pub(crate) struct Tree {
    repo: Repository,
    tree: git2::Oid,
}

/// Is `path` a repository without files beside it?
pub(crate) fn is_bare(path: &Path) -> bool {
    path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir()
}

/// What HEAD holds now.
pub(crate) fn open(path: &Path) -> Result<Tree, PortError> {
    let failed = |e: git2::Error| PortError::Git { path: path.to_owned(), message: e.message().to_owned() };
    let repo = Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, std::iter::empty::<&Path>());
    let repo = repo.map_err(failed)?;
    let tree = head(&repo).map_err(failed)?;
    let nothing = || PortError::Git { path: path.to_owned(), message: "it has no commit yet".to_owned() };
    let tree = tree.ok_or_else(nothing)?;
    Ok(Tree { repo, tree })
}

/// A new bare repository can name a branch that nobody pushed; then its only one is meant.
fn head(repo: &Repository) -> Result<Option<git2::Oid>, git2::Error> {
    match repo.head() {
        Ok(head) => Ok(Some(head.peel_to_tree()?.id())),
        Err(e) if matches!(e.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
            let branches: Vec<_> = repo.branches(Some(BranchType::Local))?.collect::<Result<_, _>>()?;
            match branches.as_slice() {
                [(only, _)] => Ok(Some(only.get().peel_to_tree()?.id())),
                _ => Ok(None),
            }
        }
        Err(e) => Err(e),
    }
}

impl Files for Tree {
    fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
        let read = || -> Result<Result<Option<Vec<u8>>, String>, git2::Error> {
            let entry = match self.repo.find_tree(self.tree)?.get_path(Path::new(path)) {
                Ok(entry) => entry,
                Err(e) if e.code() == ErrorCode::NotFound => return Ok(Ok(None)),
                Err(e) => return Err(e),
            };
            if entry.filemode() == LINK {
                return Ok(Err("it is a symbolic link".to_owned()));
            }
            if entry.kind() != Some(ObjectType::Blob) {
                return Ok(Err("it is no plain file".to_owned()));
            }
            // The size first: a small pack can hold a huge blob.
            let (size, _) = self.repo.odb()?.read_header(entry.id())?;
            if size as u64 > most {
                return Ok(Err(too_long(most)));
            }
            Ok(Ok(Some(self.repo.find_blob(entry.id())?.content().to_vec())))
        };
        read().map_err(|e| e.message().to_owned())?
    }

    fn top(&self) -> Result<Vec<(String, bool)>, String> {
        let tree = self.repo.find_tree(self.tree).map_err(|e| e.message().to_owned())?;
        let named = |entry: git2::TreeEntry<'_>| {
            let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
            (name, entry.kind() == Some(ObjectType::Tree))
        };
        Ok(tree.iter().map(named).collect())
    }

    fn all(&self) -> Result<Vec<String>, String> {
        let tree = self.repo.find_tree(self.tree).map_err(|e| e.message().to_owned())?;
        let mut found = Vec::new();
        let walked = tree.walk(TreeWalkMode::PreOrder, |folder, entry| {
            if entry.kind() != Some(ObjectType::Tree) {
                found.push(format!("{folder}{}", String::from_utf8_lossy(entry.name_bytes())));
            }
            if found.len() > MOST_FILES { TreeWalkResult::Abort } else { TreeWalkResult::Ok }
        });
        if found.len() > MOST_FILES {
            return Err(format!("it holds more than {MOST_FILES} files"));
        }
        walked.map_err(|e| e.message().to_owned())?;
        found.sort();
        Ok(found)
    }
}

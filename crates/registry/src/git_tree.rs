//! Trees and blobs of a commit. Each folder that changes is written once, however many files of it change.

use crate::git::{Change, Git};
use git2::{Buf, IndexEntry, IndexTime, ObjectType, Oid, Repository, Tree};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

const FILE: i32 = 0o100_644;
const DIRECTORY: i32 = 0o040_000;
/// From this many files on, they go into one pack instead of a file each.
const PACK_FROM: usize = 100;

/// What changes in a folder: its files, none for one that goes, and the folders below.
#[derive(Default)]
struct Folder<'a> {
    files: BTreeMap<&'a str, Option<Oid>>,
    folders: BTreeMap<&'a str, Folder<'a>>,
}

/// A commit's tree, with each folder read once: libgit2 keeps no large ones, and reads them again for every path.
pub(crate) struct Folders<'repo> {
    repo: &'repo Repository,
    top: Tree<'repo>,
    below: HashMap<String, Option<Tree<'repo>>>,
}

impl<'repo> Folders<'repo> {
    pub fn of(repo: &'repo Repository, top: Tree<'repo>) -> Folders<'repo> {
        Folders { repo, top, below: HashMap::new() }
    }

    fn blob(&mut self, path: &str) -> Option<Oid> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let tree = match folder {
            "" => &self.top,
            folder => {
                let (repo, top) = (self.repo, &self.top);
                let read = || repo.find_tree(top.get_path(Path::new(folder)).ok()?.id()).ok();
                self.below.entry(folder.to_owned()).or_insert_with(read).as_ref()?
            }
        };
        tree.get_name(name).filter(|entry| entry.kind() == Some(ObjectType::Blob)).map(|entry| entry.id())
    }
}

impl Git {
    /// `before` with the changes in it: the new tree, and the blobs that were written.
    pub(crate) fn with_changes(
        &self,
        before: Option<&Tree<'_>>,
        changes: &[Change<'_>],
    ) -> Result<(Oid, Vec<Oid>), git2::Error> {
        let blobs = match changes.len() >= PACK_FROM {
            true => self.pack(changes)?,
            false => changes
                .iter()
                .map(|(_, content)| content.map(|b| self.repo.blob(b)).transpose())
                .collect::<Result<_, _>>()?,
        };
        let mut top = Folder::default();
        for ((path, _), blob) in changes.iter().zip(&blobs) {
            let mut folder = &mut top;
            let mut name = *path;
            while let Some((first, rest)) = name.split_once('/') {
                folder = folder.folders.entry(first).or_default();
                name = rest;
            }
            folder.files.insert(name, *blob);
        }
        Ok((write(&self.repo, before, &top)?, blobs.into_iter().flatten().collect()))
    }

    /// How a file of a commit stands in the staging area: with the blob that is there already. To have libgit2 read and
    /// hash the file again took most of the time of a large import. None where the file is not what the commit holds.
    pub(crate) fn staged_entry(
        &self,
        folders: &mut Folders<'_>,
        path: &str,
    ) -> Result<Option<IndexEntry>, git2::Error> {
        let Some(id) = folders.blob(path) else { return Ok(None) };
        let Ok(meta) = std::fs::symlink_metadata(self.root.join(path)) else { return Ok(None) };
        let (size, _) = self.repo.odb()?.read_header(id)?;
        if !meta.is_file() || meta.len() != size as u64 {
            return Ok(None);
        }
        // Without times, so that git looks at the file itself at its next `status`.
        let none = || IndexTime::new(0, 0);
        Ok(Some(IndexEntry {
            ctime: none(),
            mtime: none(),
            dev: 0,
            ino: 0,
            mode: FILE as u32,
            uid: 0,
            gid: 0,
            file_size: 0,
            id,
            flags: 0,
            flags_extended: 0,
            path: path.as_bytes().to_vec(),
        }))
    }

    /// Writes the blobs as one pack, by a handle of its own: objects that a handle holds in memory stay with it.
    fn pack(&self, changes: &[Change<'_>]) -> Result<Vec<Option<Oid>>, git2::Error> {
        let repo = Repository::open(self.repo.path())?;
        let odb = repo.odb()?;
        let _memory = odb.add_new_mempack_backend(1000)?;
        let blobs = changes
            .iter()
            .map(|(_, content)| content.map(|bytes| odb.write(ObjectType::Blob, bytes)).transpose())
            .collect::<Result<Vec<Option<Oid>>, git2::Error>>()?;
        // Nothing new: an earlier try wrote all of it.
        let here = self.repo.odb()?;
        if blobs.iter().flatten().all(|blob| here.exists(*blob)) {
            return Ok(blobs);
        }
        let mut builder = repo.packbuilder()?;
        blobs.iter().flatten().try_for_each(|blob| builder.insert_object(*blob, None))?;
        let mut pack = Buf::new();
        builder.write_buf(&mut pack)?;
        let mut writer = here.packwriter()?;
        writer.write_all(&pack).map_err(|e| git2::Error::from_str(&e.to_string()))?;
        writer.commit()?;
        Ok(blobs)
    }
}

fn write(repo: &Repository, before: Option<&Tree<'_>>, changes: &Folder<'_>) -> Result<Oid, git2::Error> {
    let mut builder = repo.treebuilder(before)?;
    for (name, blob) in &changes.files {
        match blob {
            Some(id) => _ = builder.insert(name, *id, FILE)?,
            None if builder.get(name)?.is_some() => builder.remove(name)?,
            None => {}
        }
    }
    for (name, below) in &changes.folders {
        let old = match before.and_then(|tree| tree.get_name(name)) {
            Some(entry) if entry.kind() == Some(ObjectType::Tree) => Some(repo.find_tree(entry.id())?),
            _ => None,
        };
        let id = write(repo, old.as_ref(), below)?;
        if !repo.find_tree(id)?.is_empty() {
            builder.insert(name, id, DIRECTORY)?;
        } else if builder.get(name)?.is_some() {
            builder.remove(name)?;
        }
    }
    builder.write()
}

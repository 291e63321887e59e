//! Doing what a check found safe to do.

use super::{Cure, Repaired};
use crate::aside::{Aside, stamp};
use crate::digest::digest;
use crate::git::{Git, INDEX, clear_stale_locks};
use crate::index::{Document, entry, parse_entry};
use crate::middle::git_dir;
use crate::recover::relative;
use crate::registry::{STAGED, inside, is_below, plain_tools};
use crate::{Registry, RegistryError, disk};
use jarvis_protocol::{Capability, CapabilityName};
use std::fs;
use std::path::{Path, PathBuf};

/// One repair lets the next be seen: a HEAD that can be read shows what was committed.
const ROUNDS: usize = 6;

impl Registry {
    /// Repairs what can be without losing anything, and says what it did and what is left.
    ///
    /// # Errors
    /// `Busy`, or where the lock cannot be taken; what a repair fails with is told in what is left.
    pub fn repair(&self) -> Result<Repaired, RegistryError> {
        let mut repaired = Repaired::default();
        if !self.inner.root.is_dir() {
            // Nothing to lock; the statistics can still be looked after.
            self.rounds(&mut repaired);
            return Ok(repaired);
        }
        let _lock = disk::lock(&self.inner.root)?;
        clear_stale_locks(&self.inner.root)?;
        self.rounds(&mut repaired);
        Ok(repaired)
    }

    fn rounds(&self, repaired: &mut Repaired) {
        let mut tried: Vec<Cure> = Vec::new();
        let mut failed: Vec<(Cure, String)> = Vec::new();
        for _ in 0..ROUNDS {
            let cures: Vec<(String, Cure)> = self
                .check()
                .into_iter()
                .filter_map(|trouble| Some((trouble.about, trouble.cure?)))
                .filter(|(_, cure)| !tried.contains(cure))
                .collect();
            if cures.is_empty() {
                break;
            }
            for (about, cure) in cures {
                if tried.contains(&cure) {
                    continue;
                }
                tried.push(cure.clone());
                match self.apply(&cure) {
                    Ok(done) => repaired.done.extend(done.into_iter().map(|done| format!("{about}: {done}"))),
                    Err(error) => failed.push((cure, error.to_string())),
                }
            }
        }
        repaired.left = self.check();
        for trouble in &mut repaired.left {
            let why = failed.iter().find(|(cure, _)| Some(cure) == trouble.cure.as_ref());
            if let Some((_, why)) = why {
                trouble.todo = format!("the repair failed: {why}");
            }
        }
    }

    fn apply(&self, cure: &Cure) -> Result<Vec<String>, RegistryError> {
        let root = &self.inner.root;
        let index = root.join(INDEX);
        let mut aside = Aside::new(root);
        let told = |text: String| Ok(vec![text]);
        match cure {
            Cure::RestoreIndex => {
                let snapshot = self.look()?;
                let kept = fs::symlink_metadata(&index).is_ok().then(|| aside.take(&index)).transpose()?;
                self.write_index(&snapshot.bytes)?;
                let kept = kept.map(|path| format!("; what was there is at {}", path.display())).unwrap_or_default();
                told(format!("the last committed version is back{kept}"))
            }
            Cure::Unlink => {
                let bytes = disk::read(&index)?.unwrap_or_default();
                let kept = aside.take(&index)?;
                self.write_index(&bytes)?;
                told(format!("a file with the same content took the place of the link, which is at {}", kept.display()))
            }
            Cure::RestoreEntry(name) => {
                let old = CapabilityName::new(name.clone()).ok().and_then(|n| self.committed_entry(&n));
                let old = old.ok_or_else(|| RegistryError::NotFound(name.clone()))?;
                let snapshot = self.look()?;
                let mut document = snapshot.document.clone();
                let named = |i: usize| match &snapshot.entries[i].parsed {
                    Ok(capability) => capability.name.as_str() == name,
                    Err(damaged) => damaged.entry == *name,
                };
                let position = (0..document.entries.len()).find(|i| named(*i));
                let position = position.ok_or_else(|| RegistryError::NotFound(name.clone()))?;
                document.entries[position] =
                    entry(&old).map_err(|e| RegistryError::Invalid { name: name.clone(), problem: e.to_string() })?;
                self.rewrite(&document, &mut aside, "the last committed entry is back")
            }
            Cure::DropDuplicate(position) => {
                let mut document = self.look()?.document.clone();
                document.entries.remove(*position);
                self.rewrite(&document, &mut aside, "the second entry of the same name and content is gone")
            }
            Cure::RestoreCode(name) => {
                let capability =
                    CapabilityName::new(name.clone()).ok().and_then(|n| self.look().ok()?.get(&n).cloned());
                let capability = capability.ok_or_else(|| RegistryError::NotFound(name.clone()))?;
                let text = committed_code(self, &capability).ok_or_else(|| RegistryError::NotFound(name.clone()))?;
                let path = root.join(relative(&capability));
                plain_tools(root)?;
                inside(root, path.parent().unwrap_or(root))?;
                let kept = fs::symlink_metadata(&path).is_ok().then(|| aside.take(&path)).transpose()?;
                self.put(&path, text.as_bytes())?;
                let kept = kept.map(|kept| format!("; what was in its place is at {}", kept.display()));
                told(format!("its code is back from git{}", kept.unwrap_or_default()))
            }
            Cure::Folder(path) => {
                let kept = aside.take(path)?;
                fs::create_dir(path).map_err(|e| RegistryError::io("create", path, e))?;
                told(format!("the folder is made; the file in its place is at {}", kept.display()))
            }
            Cure::Permit(path) => {
                permit(path)?;
                told(format!("{} can be read and written by you again", path.display()))
            }
            Cure::Merge(middle) => {
                let merged = self.merge(*middle)?;
                Ok(merged.done.into_iter().chain(merged.todo.map(|todo| format!("still to do: {todo}"))).collect())
            }
            Cure::StaleLock(path) => {
                let kept = aside.take(path)?;
                told(format!("the lock that nobody holds is at {}", kept.display()))
            }
            Cure::Head(branch) => {
                let path = git_dir(root).unwrap_or_default().join("HEAD");
                let kept = fs::symlink_metadata(&path).is_ok().then(|| aside.take(&path)).transpose()?;
                disk::stage(&path, format!("ref: refs/heads/{branch}\n").as_bytes())?;
                let kept = kept.map(|kept| format!("; the old one is at {}", kept.display())).unwrap_or_default();
                told(format!("HEAD points to {branch} again{kept}"))
            }
            Cure::Object(id, path) => {
                let bytes = disk::read(&root.join(path))?.unwrap_or_default();
                let name = id.to_string();
                let (folder, file) = name.split_at(2);
                let object = git_dir(root).unwrap_or_default().join("objects").join(folder).join(file);
                if object.exists() {
                    aside.take(&object)?;
                }
                let git = open(root)?;
                git.repo().blob(&bytes).map_err(|e| git.error(e))?;
                told(format!("git has {path} again, from the file in the workspace"))
            }
            Cure::Tip(id) => {
                open(root)?.put_back(*id, &mut aside)?;
                told(format!(
                    "the history ends at {id:.10} again; newer files are there, and the next registration commits them"
                ))
            }
            Cure::Staging => {
                let kept = open(root)?.mend_staging(&mut aside)?;
                let kept = kept.map(|kept| format!("; the damaged one is at {}", kept.display())).unwrap_or_default();
                told(format!("git's staging area is made again from the last commit{kept}"))
            }
            Cure::Attach(branch) => {
                let git = open(root)?;
                let made = branch
                    .clone()
                    .unwrap_or_else(|| format!("kept-{}", stamp().trim_end_matches('Z').replace('.', "-")));
                git.locked(|| {
                    let head = git.head()?.ok_or_else(|| git2::Error::from_str("there is no commit"))?;
                    let name = format!("refs/heads/{made}");
                    git.repo().reference(&name, head.id(), true, "jarvis: HEAD was on no branch")?;
                    git.repo().set_head(&name)
                })?;
                told(format!("HEAD is on the branch {made}; no file changed"))
            }
            Cure::NewHistory => {
                let path = root.join(".git");
                let kept = fs::symlink_metadata(&path).is_ok().then(|| aside.take(&path)).transpose()?;
                let folder = root.join(STAGED);
                fs::create_dir_all(&folder).map_err(|e| RegistryError::io("create", &folder, e))?;
                let snapshot = self.look()?;
                let git = Git::open_or_create(root)?;
                crate::recover::recover(root, &git, &self.inner.author, &snapshot)?;
                let kept = kept.map(|kept| format!("; the old one is at {}", kept.display())).unwrap_or_default();
                told(format!("a new history begins with what is there{kept}"))
            }
            Cure::Statistics(path) => {
                self.inner.stats.close();
                let mut kept = Vec::new();
                for suffix in ["", "-wal", "-shm"] {
                    let mut name = path.file_name().unwrap_or_default().to_owned();
                    name.push(suffix);
                    let from = path.with_file_name(&name);
                    if fs::symlink_metadata(&from).is_ok() {
                        name.push(format!(".damaged-{}", stamp()));
                        let to = path.with_file_name(name);
                        fs::rename(&from, &to).map_err(|e| RegistryError::io("put aside", &from, e))?;
                        kept.push(to.display().to_string());
                    }
                }
                told(format!("the database is put aside as {}; counting begins anew", kept.join(", ")))
            }
        }
    }

    fn rewrite(&self, document: &Document, aside: &mut Aside, done: &str) -> Result<Vec<String>, RegistryError> {
        let kept = aside.copy(&self.inner.root.join(INDEX))?;
        self.write_index(document.render().as_bytes())?;
        Ok(vec![format!("{done}; index.json as it was is at {}", kept.display())])
    }

    fn write_index(&self, bytes: &[u8]) -> Result<(), RegistryError> {
        self.put(&self.inner.root.join(INDEX), bytes)?;
        disk::sync_dir(&self.inner.root)
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), RegistryError> {
        let staging = self.inner.root.join(STAGED);
        for dir in [Some(staging.as_path()), path.parent()].into_iter().flatten() {
            fs::create_dir_all(dir).map_err(|e| RegistryError::io("create", dir, e))?;
        }
        let staged = staging.join("repaired");
        disk::stage(&staged, bytes)?;
        disk::publish(&staged, path)
    }

    fn committed_entry(&self, name: &CapabilityName) -> Option<Capability> {
        let git = Git::open(&self.inner.root).ok()??;
        let document = Document::parse(&git.content(None, INDEX).ok()??).ok()?;
        let parsed = document.entries.iter().enumerate().filter_map(|(i, raw)| parse_entry(raw, i).ok());
        parsed.into_iter().find(|cap| cap.name == *name)
    }
}

fn open(root: &Path) -> Result<Git, RegistryError> {
    let folder = root.join(STAGED);
    fs::create_dir_all(&folder).map_err(|e| RegistryError::io("create", &folder, e))?;
    Git::open(root)?
        .ok_or_else(|| RegistryError::Git { root: root.to_owned(), message: "there is no repository".to_owned() })
}

/// The code of this very entry as git has it.
pub(super) fn committed_code(registry: &Registry, capability: &Capability) -> Option<String> {
    let fits = |text: &String| !capability.digest.is_empty() && digest(capability, text) == capability.digest;
    if !is_below(&capability.tool_path) {
        return None;
    }
    let git = Git::open(&registry.inner.root).ok()??;
    let last = git.content(None, &relative(capability)).ok().flatten();
    last.and_then(|bytes| String::from_utf8(bytes).ok()).filter(fits).or_else(|| {
        let (_, text) = registry.at(&capability.name, &capability.version).ok()??;
        Some(text).filter(fits)
    })
}

#[cfg(unix)]
fn permit(path: &PathBuf) -> Result<(), RegistryError> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |e| RegistryError::io("give rights to", path, e);
    let meta = fs::metadata(path).map_err(failed)?;
    let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
    let mode = meta.permissions().mode() | wanted;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)
}

#[cfg(not(unix))]
fn permit(path: &PathBuf) -> Result<(), RegistryError> {
    let source = std::io::Error::from(std::io::ErrorKind::Unsupported);
    Err(RegistryError::io("give rights to", path, source))
}

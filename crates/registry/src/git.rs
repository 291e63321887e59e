//! The history of the workspace: an ordinary git repository that people can log, diff and push. Commits are made
//! from HEAD's tree and the changed paths alone, so what a person staged or left uncommitted stays theirs.

use crate::aside::Aside;
use crate::git_tree::Folders;
use crate::registry::STAGED;
use crate::{Author, RegistryError};
use git2::{Commit, ErrorCode, ObjectType, Oid, Repository, Signature, Time, Tree};
use std::fs::Metadata;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const INDEX: &str = "index.json";
/// In the folder of staged files, while git's own lock files may be held.
const MARKER: &str = "git-is-written";
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// Objects up to this size are read back whole, bytes.
const READ_BACK: usize = 64 << 10;
const TRAILER: &str = "Capability: ";
/// For versions that are in force, and were not registered by the commit that names them.
const KEPT_TRAILER: &str = "Capability-kept: ";
/// Kept out of `git status`; written to `.git/info/exclude`, so no file of the workspace is needed for it.
const EXCLUDED: [&str; 6] =
    ["/.lock", "/.lock.next", "/.staged/", "/.aside/", "/index.json.damaged-*", "/.damaged.*.tmp"];

pub(crate) struct Git {
    pub(crate) root: PathBuf,
    pub(crate) repo: Repository,
}

/// A path relative to the root, with `/`, and its new content; none deletes it.
pub(crate) type Change<'a> = (&'a str, Option<&'a [u8]>);

/// `name version`, as the commit of a registration carries it, so that history finds the commit of a version.
pub(crate) fn trailer(name: &str, version: &str) -> String {
    format!("{TRAILER}{name} {version}")
}

/// The same of a version that came from outside of jarvis: history finds it, nobody counts it as a registration.
pub(crate) fn kept_trailer(name: &str, version: &str) -> String {
    format!("{KEPT_TRAILER}{name} {version}")
}

impl Git {
    /// None where the workspace has no repository of its own (one of a directory above does not count).
    pub fn open(root: &Path) -> Result<Option<Git>, RegistryError> {
        let flags = git2::RepositoryOpenFlags::NO_SEARCH;
        match Repository::open_ext(root, flags, std::iter::empty::<&Path>()) {
            Ok(repo) => Ok(Some(Git { root: root.to_owned(), repo })),
            Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
            Err(e) => Err(RegistryError::git(root, &e)),
        }
    }

    /// Called under the write lock.
    pub fn open_or_create(root: &Path) -> Result<Git, RegistryError> {
        // Killed while it made the first commit, jarvis left a branch that is noted and not there yet.
        let killed = marked(root);
        clear_stale_locks(root)?;
        let git = match Git::open(root)? {
            Some(git) => match git.lost_branch().filter(|_| !killed) {
                Some(branch) => return Err(RegistryError::LostBranch { root: root.to_owned(), branch }),
                None => git,
            },
            None => {
                let marker = mark(root)?;
                let mut options = git2::RepositoryInitOptions::new();
                options.initial_head("main").external_template(false);
                let repo = Repository::init_opts(root, &options).map_err(|e| RegistryError::git(root, &e))?;
                crate::disk::remove(&marker)?;
                Git { root: root.to_owned(), repo }
            }
        };
        git.exclude_own_files()?;
        Ok(git)
    }

    fn exclude_own_files(&self) -> Result<(), RegistryError> {
        let path = self.repo.path().join("info").join("exclude");
        let failed = |e| RegistryError::io("write", &path, e);
        let present = crate::disk::read(&path)?.unwrap_or_default();
        let present = String::from_utf8_lossy(&present);
        let missing: Vec<&str> =
            EXCLUDED.into_iter().filter(|line| !present.lines().any(|have| have == *line)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        let separator = if present.is_empty() || present.ends_with('\n') { "" } else { "\n" };
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut f| writeln!(f, "{separator}{}", missing.join("\n")))
            .map_err(failed)
    }

    pub fn error(&self, e: git2::Error) -> RegistryError {
        RegistryError::git(&self.root, &e)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn repo(&self) -> &Repository {
        &self.repo
    }

    pub fn head(&self) -> Result<Option<Commit<'_>>, git2::Error> {
        match self.repo.head() {
            Ok(head) => head.peel_to_commit().map(Some),
            Err(e) if matches!(e.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// # Errors
    /// Where the file cannot be read; a missing one is an empty staging area.
    pub fn staging(&self) -> Result<git2::Index, git2::Error> {
        self.repo.index()
    }

    /// Makes the staging area again from HEAD where it cannot be read, and says where the damaged one is.
    pub fn mend_staging(&self, aside: &mut Aside) -> Result<Option<PathBuf>, RegistryError> {
        if self.staging().is_ok() {
            return Ok(None);
        }
        let kept = aside.take(&self.repo.path().join("index"))?;
        self.locked(|| {
            let mut staging = self.staging()?;
            if let Some(head) = self.head()? {
                staging.read_tree(&head.tree()?)?;
            }
            staging.write()
        })?;
        Ok(Some(kept))
    }

    pub fn head_id(&self) -> Result<Option<String>, RegistryError> {
        Ok(self.head().map_err(|e| self.error(e))?.map(|c| c.id().to_string()))
    }

    /// Is `bytes` what HEAD holds at `path`? Compared by hash, without reading the old content.
    pub fn head_has(&self, path: &str, bytes: &[u8]) -> Result<bool, RegistryError> {
        let compare = || -> Result<bool, git2::Error> {
            let Some(head) = self.head()? else { return Ok(false) };
            let Some(id) = blob_id(&head.tree()?, path)? else { return Ok(false) };
            Ok(id == Oid::hash_object(ObjectType::Blob, bytes)?)
        };
        compare().map_err(|e| self.error(e))
    }

    /// The same of the file in the workspace, without reading it where git's own notes say what it holds. False where
    /// they say nothing.
    pub fn head_has_file(&self, path: &str) -> bool {
        let known = || -> Result<bool, git2::Error> {
            let Some(head) = self.head()? else { return Ok(false) };
            let Some(id) = blob_id(&head.tree()?, path)? else { return Ok(false) };
            let staging = self.repo.index()?;
            let Some(entry) = staging.get_path(Path::new(path), 0) else { return Ok(false) };
            Ok(entry.id == id && noted(&self.repo, &self.root.join(path), &entry))
        };
        // What cannot be known this way is worked out from the content.
        known().unwrap_or(false)
    }

    /// The content of `path` in a commit, given in hexadecimal; HEAD without one.
    pub fn content(&self, commit: Option<&str>, path: &str) -> Result<Option<Vec<u8>>, RegistryError> {
        let read = || -> Result<Option<Vec<u8>>, git2::Error> {
            let commit = match commit {
                Some(id) => Some(self.repo.find_commit(Oid::from_str(id)?)?),
                None => self.head()?,
            };
            let Some(commit) = commit else { return Ok(None) };
            let Some(id) = blob_id(&commit.tree()?, path)? else { return Ok(None) };
            Ok(Some(self.repo.find_blob(id)?.content().to_vec()))
        };
        read().map_err(|e| self.error(e))
    }

    /// Writes a commit's objects without making it HEAD: what can fail for want of space fails here, before anything
    /// of the workspace has changed. `when` is in seconds since the epoch.
    pub fn prepare(
        &self,
        author: &Author,
        when: i64,
        message: &str,
        changes: &[Change<'_>],
    ) -> Result<String, RegistryError> {
        let write = || -> Result<Oid, git2::Error> {
            let parent = self.head()?;
            let before = match &parent {
                Some(commit) => Some(commit.tree()?),
                None => None,
            };
            let (tree, blobs) = self.with_changes(before.as_ref(), changes)?;
            let tree = self.repo.find_tree(tree)?;
            let tree_id = tree.id();
            let who = Signature::new(&author.name, &author.email, &Time::new(when, 0))?;
            let parents: Vec<&Commit<'_>> = parent.iter().collect();
            let commit = self.repo.commit(None, &who, &who, message, &tree, &parents)?;
            // On a full disk libgit2 1.9 can report success for an object that is not there.
            let written = self.repo.odb()?;
            for id in blobs.into_iter().chain([tree_id, commit]) {
                // Of a large one its beginning: all of it would be unpacked again to no purpose.
                let (size, _) = written.read_header(id)?;
                if size <= READ_BACK {
                    written.read(id)?;
                }
            }
            Ok(commit)
        };
        // Nothing of it is damaged: it is the disk that does not take it.
        write().map(|id| id.to_string()).map_err(|e| {
            let source = std::io::Error::other(format!("is the disk full? ({})", e.message()));
            RegistryError::io("write a commit into", &self.root, source)
        })
    }

    /// Makes a prepared commit HEAD, whose files are in the workspace by now.
    pub fn publish(&self, commit: &str, paths: &[&str]) -> Result<(), RegistryError> {
        self.publish_known(commit, paths, None)
    }

    /// The same, with the look of a file as it was written: where it is still that one, it is not read again.
    pub fn publish_known(
        &self,
        commit: &str,
        paths: &[&str],
        known: Option<(&str, &Metadata)>,
    ) -> Result<(), RegistryError> {
        self.locked(|| {
            let id = Oid::from_str(commit)?;
            let commit = self.repo.find_commit(id)?;
            // The staging area first: stopped between the two, `git status` shows a change to commit, and the next
            // write commits it.
            let mut staging = self.repo.index()?;
            staging.read(false)?;
            let mut noted = None;
            if let Some((path, written)) = known
                && let Some(blob) = blob_id(&commit.tree()?, path)?
                && let Some(entry) = entry_of(&self.root.join(path), path, blob, written)
            {
                staging.add(&entry)?;
                noted = Some(path);
            }
            let rest = paths.iter().copied().filter(|path| Some(*path) != noted);
            let mut folders = Folders::of(&self.repo, commit.tree()?);
            for path in rest {
                match self.staged_entry(&mut folders, path)? {
                    Some(entry) => staging.add(&entry)?,
                    None if self.root.join(path).exists() => staging.add_path(Path::new(path))?,
                    None => staging.remove_path(Path::new(path))?,
                }
            }
            staging.write()?;
            let note = commit.summary().ok().flatten().unwrap_or("jarvis").to_owned();
            self.advance(id, commit.parent_id(0).ok(), &note)
        })
    }

    /// What the workspace holds at `paths` is staged, and no longer in conflict.
    pub fn stage_paths(&self, paths: &[&str]) -> Result<(), git2::Error> {
        let mut staging = self.repo.index()?;
        staging.read(false)?;
        self.stage_into(&mut staging, paths)
    }

    fn stage_into(&self, staging: &mut git2::Index, paths: &[&str]) -> Result<(), git2::Error> {
        for path in paths {
            if self.root.join(path).exists() {
                staging.add_path(Path::new(path))?;
            } else {
                staging.remove_path(Path::new(path))?;
            }
        }
        staging.write()
    }

    /// Fails when a person has committed since `parent`; then the next write commits on top of theirs.
    pub fn advance(&self, to: Oid, parent: Option<Oid>, note: &str) -> Result<(), git2::Error> {
        let head = self.repo.find_reference("HEAD")?;
        match (head.symbolic_target().ok().flatten(), parent) {
            (Some(branch), Some(parent)) => self.repo.reference_matching(branch, to, true, parent, note).map(|_| ()),
            (Some(branch), None) => self.repo.reference(branch, to, false, note).map(|_| ()),
            (None, _) => self.repo.set_head_detached(to),
        }
    }

    /// The commits that name a version of `name`, the newest first: version, seconds since the epoch, first line of
    /// the message, commit. Stops when `enough` says so.
    pub fn versions_of(
        &self,
        name: &str,
        mut enough: impl FnMut(&[VersionCommit]) -> bool,
    ) -> Result<Vec<VersionCommit>, RegistryError> {
        let prefixes = [trailer(name, ""), kept_trailer(name, "")];
        let mut found = Vec::new();
        self.walk(|commit| {
            let message = String::from_utf8_lossy(commit.message_bytes());
            let named =
                |line: &str| prefixes.iter().find_map(|p| Some(line.strip_prefix(p.as_str())?.trim().to_owned()));
            // A commit that a rebase put upon others names the version it was, and the one it became.
            found.extend(message.lines().filter_map(named).map(|version| VersionCommit {
                version,
                seconds: commit.time().seconds(),
                summary: message.lines().next().unwrap_or_default().to_owned(),
                commit: commit.id().to_string(),
            }));
            !enough(&found)
        })?;
        Ok(found)
    }

    /// Versions registered since `seconds` (since the epoch); what was taken over or kept does not count.
    pub fn registrations_since(&self, seconds: i64) -> Result<usize, RegistryError> {
        let mut count = 0;
        self.walk(|commit| {
            let recent = commit.time().seconds() >= seconds;
            if recent {
                let message = String::from_utf8_lossy(commit.message_bytes());
                count += message.lines().filter(|line| line.starts_with(TRAILER)).count();
            }
            recent
        })?;
        Ok(count)
    }

    /// The newest commit whose `path` passes `good`, of the last hundred.
    pub fn newest<T>(
        &self,
        path: &str,
        mut good: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<(String, T)>, RegistryError> {
        let (mut found, mut looked, mut last) = (None, 0, None);
        self.walk(|commit| {
            looked += 1;
            let id = commit.tree().ok().and_then(|tree| blob_id(&tree, path).ok().flatten());
            if let Some(id) = id.filter(|id| last != Some(*id)) {
                last = Some(id);
                let blob = self.repo.find_blob(id).ok();
                found = blob.and_then(|blob| good(blob.content())).map(|it| (commit.id().to_string(), it));
            }
            found.is_none() && looked < 100
        })?;
        Ok(found)
    }

    fn walk(&self, mut visit: impl FnMut(&Commit<'_>) -> bool) -> Result<(), RegistryError> {
        let mut run = || -> Result<(), git2::Error> {
            let Some(head) = self.head()? else { return Ok(()) };
            let mut walk = self.repo.revwalk()?;
            walk.push(head.id())?;
            for id in walk {
                if !visit(&self.repo.find_commit(id?)?) {
                    break;
                }
            }
            Ok(())
        };
        run().map_err(|e| self.error(e))
    }
}

/// Does the file look as git noted it, and was that long enough ago to tell a later change by its time?
#[cfg(unix)]
fn noted(repo: &Repository, path: &Path, entry: &git2::IndexEntry) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = std::fs::symlink_metadata(path) else { return false };
    let Ok(staging) = std::fs::metadata(repo.path().join("index")) else { return false };
    let time = (i64::from(entry.mtime.seconds()), i64::from(entry.mtime.nanoseconds()));
    let same = file.is_file()
        && time == (file.mtime(), file.mtime_nsec())
        && entry.ino == file.ino() as u32
        && u64::from(entry.file_size) == file.size();
    same && (file.mtime(), file.mtime_nsec()) < (staging.mtime(), staging.mtime_nsec())
}

#[cfg(not(unix))]
fn noted(_: &Repository, _: &Path, _: &git2::IndexEntry) -> bool {
    false
}

/// What git notes about a file that holds `id`; none where it is not the one that was written.
#[cfg(unix)]
fn entry_of(file: &Path, path: &str, id: Oid, written: &Metadata) -> Option<git2::IndexEntry> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::symlink_metadata(file).ok()?;
    let look = |m: &Metadata| (m.ino(), m.size(), m.mtime(), m.mtime_nsec());
    if !meta.is_file() || look(&meta) != look(written) {
        return None;
    }
    Some(git2::IndexEntry {
        ctime: git2::IndexTime::new(meta.ctime() as i32, meta.ctime_nsec() as u32),
        mtime: git2::IndexTime::new(meta.mtime() as i32, meta.mtime_nsec() as u32),
        dev: meta.dev() as u32,
        ino: meta.ino() as u32,
        mode: 0o100_644,
        uid: meta.uid(),
        gid: meta.gid(),
        file_size: u32::try_from(meta.size()).ok()?,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_bytes().to_vec(),
    })
}

#[cfg(not(unix))]
fn entry_of(_: &Path, _: &str, _: Oid, _: &Metadata) -> Option<git2::IndexEntry> {
    None
}

/// Says that jarvis is about to take git's own lock files, which a killed process leaves behind.
fn mark(root: &Path) -> Result<PathBuf, RegistryError> {
    let marker = root.join(STAGED).join(MARKER);
    std::fs::write(&marker, "").map_err(|e| RegistryError::io("write", &marker, e))?;
    Ok(marker)
}

pub(crate) enum LockError {
    Mark(RegistryError),
    Git(git2::Error),
}

/// Does `work`, which takes git's locks, again and again while a person's git holds them; it does not take long.
pub(crate) fn with_locks<T>(root: &Path, mut work: impl FnMut() -> Result<T, git2::Error>) -> Result<T, LockError> {
    let marker = mark(root).map_err(LockError::Mark)?;
    let start = Instant::now();
    loop {
        match work() {
            Err(e) if e.code() == ErrorCode::Locked && start.elapsed() < LONGEST_WAIT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            done => {
                crate::disk::remove(&marker).map_err(LockError::Mark)?;
                return done.map_err(LockError::Git);
            }
        }
    }
}

/// Was jarvis killed while it held git's locks?
pub(crate) fn marked(root: &Path) -> bool {
    root.join(STAGED).join(MARKER).exists()
}

/// Removes the lock files of git that a killed jarvis left. Without its mark they are somebody else's, and stay.
pub(crate) fn clear_stale_locks(root: &Path) -> Result<(), RegistryError> {
    let marker = root.join(STAGED).join(MARKER);
    if !marker.exists() {
        return Ok(());
    }
    let git = root.join(".git");
    for path in lock_files(&git) {
        crate::disk::remove(&path)?;
    }
    crate::disk::remove(&marker)
}

pub(crate) fn lock_files(git: &Path) -> Vec<PathBuf> {
    let folders = [git.to_owned(), git.join("refs/heads"), git.join("logs"), git.join("logs/refs/heads")];
    let files = folders.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
    files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "lock")).collect()
}

pub(crate) struct VersionCommit {
    pub version: String,
    pub seconds: i64,
    pub summary: String,
    pub commit: String,
}

pub(crate) fn blob_id(tree: &Tree<'_>, path: &str) -> Result<Option<Oid>, git2::Error> {
    match tree.get_path(Path::new(path)) {
        Ok(entry) if entry.kind() == Some(ObjectType::Blob) => Ok(Some(entry.id())),
        Ok(_) => Ok(None),
        Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

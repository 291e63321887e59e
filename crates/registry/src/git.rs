//! The history of the workspace: an ordinary git repository that people can log, diff and push. Commits are made
//! from HEAD's tree and the changed paths alone, so what a person staged or left uncommitted stays theirs.

use crate::git_tree::Folders;
use crate::registry::STAGED;
use crate::{Author, RegistryError};
use git2::{Commit, ErrorCode, ObjectType, Oid, Repository, Signature, Time, Tree};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const INDEX: &str = "index.json";
/// In the folder of staged files, while git's own lock files may be held.
const MARKER: &str = "git-is-written";
const LONGEST_WAIT: Duration = Duration::from_secs(3);
const TRAILER: &str = "Capability: ";
/// For versions that are in force, and were not registered by the commit that names them.
const KEPT_TRAILER: &str = "Capability-kept: ";
/// Kept out of `git status`; written to `.git/info/exclude`, so no file of the workspace is needed for it.
const EXCLUDED: [&str; 4] = ["/.lock", "/.staged/", "/index.json.damaged-*", "/.damaged.*.tmp"];

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
        clear_stale_locks(root)?;
        let git = match Git::open(root)? {
            Some(git) => git,
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

    fn error(&self, e: git2::Error) -> RegistryError {
        RegistryError::git(&self.root, &e)
    }

    fn head(&self) -> Result<Option<Commit<'_>>, git2::Error> {
        match self.repo.head() {
            Ok(head) => head.peel_to_commit().map(Some),
            Err(e) if matches!(e.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
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
                written.read(id)?;
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
        let write = || -> Result<(), git2::Error> {
            let id = Oid::from_str(commit)?;
            // The staging area first: stopped between the two, `git status` shows a change to commit, and the next
            // write commits it.
            let mut staging = self.repo.index()?;
            let commit = self.repo.find_commit(id)?;
            let mut folders = Folders::of(&self.repo, commit.tree()?);
            for path in paths {
                match self.staged_entry(&mut folders, path)? {
                    Some(entry) => staging.add(&entry)?,
                    None if self.root.join(path).exists() => staging.add_path(Path::new(path))?,
                    None => staging.remove_path(Path::new(path))?,
                }
            }
            staging.write()?;
            let parent = commit.parent_id(0).ok();
            let note = commit.summary().ok().flatten().unwrap_or("jarvis").to_owned();
            let head = self.repo.find_reference("HEAD")?;
            match (head.symbolic_target().ok().flatten(), parent) {
                // Fails when a person has committed in the meantime; then the next write commits on top of theirs.
                (Some(branch), Some(parent)) => {
                    self.repo.reference_matching(branch, id, true, parent, &note).map(|_| ())
                }
                (Some(branch), None) => self.repo.reference(branch, id, false, &note).map(|_| ()),
                (None, _) => self.repo.set_head_detached(id),
            }
        };
        let marker = mark(&self.root)?;
        let start = Instant::now();
        loop {
            match write() {
                // A person's git is at work here; it does not take long.
                Err(e) if e.code() == ErrorCode::Locked && start.elapsed() < LONGEST_WAIT => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                done => {
                    crate::disk::remove(&marker)?;
                    return done.map_err(|e| self.error(e));
                }
            }
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
            if let Some(version) =
                message.lines().find_map(|line| prefixes.iter().find_map(|prefix| line.strip_prefix(prefix.as_str())))
            {
                found.push(VersionCommit {
                    version: version.trim().to_owned(),
                    seconds: commit.time().seconds(),
                    summary: message.lines().next().unwrap_or_default().to_owned(),
                    commit: commit.id().to_string(),
                });
            }
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

/// Says that jarvis is about to take git's own lock files, which a killed process leaves behind.
fn mark(root: &Path) -> Result<PathBuf, RegistryError> {
    let marker = root.join(STAGED).join(MARKER);
    std::fs::write(&marker, "").map_err(|e| RegistryError::io("write", &marker, e))?;
    Ok(marker)
}

/// Removes the lock files of git that a killed jarvis left. Without its mark they are somebody else's, and stay.
fn clear_stale_locks(root: &Path) -> Result<(), RegistryError> {
    let marker = root.join(STAGED).join(MARKER);
    if !marker.exists() {
        return Ok(());
    }
    let git = root.join(".git");
    for dir in [git.clone(), git.join("refs/heads"), git.join("logs"), git.join("logs/refs/heads")] {
        let Ok(files) = std::fs::read_dir(&dir) else { continue };
        for file in files.flatten().filter(|f| f.file_name().to_string_lossy().ends_with(".lock")) {
            crate::disk::remove(&file.path())?;
        }
    }
    crate::disk::remove(&marker)
}

pub(crate) struct VersionCommit {
    pub version: String,
    pub seconds: i64,
    pub summary: String,
    pub commit: String,
}

fn blob_id(tree: &Tree<'_>, path: &str) -> Result<Option<Oid>, git2::Error> {
    match tree.get_path(Path::new(path)) {
        Ok(entry) if entry.kind() == Some(ObjectType::Blob) => Ok(Some(entry.id())),
        Ok(_) => Ok(None),
        Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

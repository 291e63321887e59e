//! Places that stay as they are inside a writable grant: what is written there is run later, by git, a shell, an editor
//! or jarvis itself. Their names are those that a jail protects.

use crate::jail::{KEPT_NAMES, KEPT_PAIRS, same_name};
use std::ffi::OsStr;
use std::path::Path;

/// Whether a path below a workspace belongs to these. At its top, `HEAD` does as well: it can make the workspace a bare
/// repository, whose settings git follows.
pub(crate) fn is_kept(below: &Path) -> bool {
    let names: Vec<&OsStr> = below.components().map(|part| part.as_os_str()).collect();
    names.iter().any(|name| KEPT_NAMES.iter().any(|kept| same_name(name, kept)))
        || names
            .windows(2)
            .any(|pair| KEPT_PAIRS.iter().any(|(one, two)| same_name(pair[0], one) && same_name(pair[1], two)))
        || matches!(names[..], [name] if same_name(name, "HEAD"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_up_files_are_kept_and_ordinary_ones_are_not() {
        for path in [
            ".git/hooks/x",
            "sub/.GIT",
            ".Bashrc",
            "a/.config/fish/config.fish",
            ".vscode/tasks.json",
            ".envrc",
            "a/.zed/x",
            ".mise.toml",
            "HEAD",
        ] {
            assert!(is_kept(Path::new(path)), "{path}");
        }
        for path in [
            "git",
            ".github/workflows",
            "notes/.config/app.toml",
            "config/fish",
            ".gitignore",
            ".env",
            "bashrc",
            "a/HEAD",
            "HEAD/x",
        ] {
            assert!(!is_kept(Path::new(path)), "{path}");
        }
    }
}

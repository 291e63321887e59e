//! Names inside of writable places whose contents tools of the person run or trust by themselves. One list for jails and
//! for what capabilities write.

use std::ffi::OsStr;
use std::path::Path;

/// Files and folders by name, wherever they lie below a workspace.
pub(crate) const KEPT_NAMES: &[&str] = &[
    // Version control and jarvis.
    ".git",
    ".hg",
    ".svn",
    ".jarvis",
    ".gitconfig",
    ".gitmodules",
    ".pre-commit-config.yaml",
    ".husky",
    ".githooks",
    // Shells.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".login",
    ".logout",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".mkshrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".inputrc",
    ".envrc",
    ".direnvrc",
    ".mise.toml",
    ".pam_environment",
    // Sessions.
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".xserverrc",
    ".screenrc",
    ".tmux.conf",
    // Editors, debuggers, interpreters, package managers.
    ".vimrc",
    ".gvimrc",
    ".exrc",
    ".lvimrc",
    ".nvimrc",
    ".nvim.lua",
    ".vim",
    ".emacs",
    ".emacs.d",
    ".dir-locals.el",
    ".vscode",
    ".idea",
    ".zed",
    ".devcontainer",
    ".gdbinit",
    ".lldbinit",
    ".pdbrc",
    ".pythonrc",
    ".irbrc",
    ".pryrc",
    ".rprofile",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".ripgreprc",
    ".ssh",
    ".gnupg",
    ".netrc",
    ".pypirc",
    // Other agents.
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".mcp.json",
];

/// The same, by two names one after the other.
pub(crate) const KEPT_PAIRS: &[(&str, &str)] = &[
    (".config", "autostart"),
    (".config", "systemd"),
    (".config", "environment.d"),
    (".config", "fish"),
    (".config", "git"),
    (".config", "nvim"),
    (".config", "vim"),
    (".config", "helix"),
    (".config", "zsh"),
    (".config", "powershell"),
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".cargo", "bin"),
    (".local", "bin"),
];

/// Some file systems do not tell case apart.
pub(crate) fn same_name(name: &OsStr, kept: &str) -> bool {
    name.eq_ignore_ascii_case(kept)
}

/// Whether its last names are these, whatever it lies in.
pub(super) fn names_kept(below: &Path) -> bool {
    let mut names = below.components().rev().map(|part| part.as_os_str());
    let (last, above) = (names.next(), names.next());
    last.is_some_and(|last| {
        KEPT_NAMES.iter().any(|kept| same_name(last, kept))
            || KEPT_PAIRS
                .iter()
                .any(|(one, two)| same_name(last, two) && above.is_some_and(|above| same_name(above, one)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jail::lists::{BARE_HEAD, NEVER_MADE};

    #[test]
    fn a_last_name_is_told_from_what_lies_in_it() {
        for (path, kept) in [("a/.git", true), (".git/x", false), ("a/.cargo/bin", true), ("bin", false), ("", false)] {
            assert_eq!(names_kept(Path::new(path)), kept, "{path}");
        }
    }

    #[test]
    fn what_is_never_made_is_kept_where_it_is_there() {
        for (name, _) in NEVER_MADE {
            assert!(*name == BARE_HEAD || KEPT_NAMES.contains(name), "{name}");
        }
    }
}

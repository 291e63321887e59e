//! Folders in which people keep what jarvis reads: rules, skills, commands, subagents. Those of the workspace, which may come
//! with somebody's repository, before those of the home before what is built in.

use serde::Serialize;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of one file.
const MOST_BYTES: u64 = 64 << 10;
/// Entries of one folder.
const MOST_ENTRIES: usize = 100;

/// What lies in such a folder.
#[derive(Debug)]
pub struct Collection {
    /// Many of them; the folder has this name, in `.jarvis` of a workspace.
    pub many: &'static str,
    pub each: Each,
    /// Name and text of what needs no file; one of the same name replaces it.
    pub built_in: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub enum Each {
    /// A file with one of these endings.
    File(&'static [&'static str]),
    /// A folder with this file in it.
    Folder(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Workspace,
    Home,
    BuiltIn,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Workspace => "workspace",
            Origin::Home => "home",
            Origin::BuiltIn => "built in",
        }
    }
}

/// What lies there and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    pub path: PathBuf,
    pub problem: String,
}

impl Broken {
    fn new(path: &Path, problem: impl ToString) -> Broken {
        Broken { path: path.to_owned(), problem: problem.to_string() }
    }

    /// In a sentence; `what` is one of them, such as `skill`.
    pub fn told(&self, what: &str) -> String {
        format!("{} is no {what}: {}", self.path.display(), self.problem)
    }

    /// Whether it would have had this name.
    pub fn is_called(&self, name: &str) -> bool {
        self.path.file_name().is_some_and(|file| file == name) || self.path.file_stem().is_some_and(|stem| stem == name)
    }
}

/// One entry, not read yet.
#[derive(Debug)]
pub struct Found {
    pub name: String,
    pub origin: Origin,
    /// The file, or the folder. None: built in.
    pub path: Option<PathBuf>,
    text: Text,
}

#[derive(Debug)]
enum Text {
    Known(&'static str),
    In(PathBuf),
    /// It is not read, and why.
    None(String),
}

/// Where they lie.
#[derive(Debug, Clone)]
pub struct Folders {
    collection: &'static Collection,
    workspace: PathBuf,
    home: PathBuf,
}

impl Folders {
    /// `home` is the folder of these in jarvis's home.
    pub fn new(collection: &'static Collection, workspace: &Path, home: &Path) -> Folders {
        Folders { collection, workspace: workspace.to_owned(), home: home.to_owned() }
    }

    pub fn of_workspace(&self) -> PathBuf {
        self.workspace.join(".jarvis").join(self.collection.many)
    }

    pub fn of_home(&self) -> &Path {
        &self.home
    }

    /// Of each name the nearest, by name. One that is broken hides the farther one too, which its writer meant to replace.
    pub fn load<T>(&self, read: impl Fn(&Found, String) -> Result<T, String>) -> (Vec<T>, Vec<Broken>) {
        let (mut listed, mut broken) = self.list();
        listed.extend(self.collection.built_in.iter().map(|(name, text)| Found::built_in(name, text)));
        let mut nearest: HashMap<&str, Origin> = HashMap::new();
        for found in &listed {
            let origin = nearest.entry(&found.name).or_insert(found.origin);
            *origin = found.origin.min(*origin);
        }
        let mut counting: Vec<&Found> = listed.iter().filter(|found| nearest[&*found.name] == found.origin).collect();
        counting.sort_by(|a, b| a.name.cmp(&b.name));
        let mut all = Vec::new();
        for found in counting {
            let named = match valid_name(&found.name) {
                true => Ok(()),
                false => Err("its name is none: letters, digits, `-` and `_`, 64 at most".to_owned()),
            };
            match named.and_then(|()| found.read()).and_then(|text| read(found, text)) {
                Ok(one) => all.push(one),
                Err(problem) => {
                    broken.push(Broken { path: found.path.clone().unwrap_or_else(|| (&found.name).into()), problem })
                }
            }
        }
        (all, broken)
    }

    /// All that lies in the folders, whatever its name: the workspace's first.
    pub fn list(&self) -> (Vec<Found>, Vec<Broken>) {
        let (mut found, mut broken) = (Vec::new(), Vec::new());
        let (inside, here) = (self.workspace.join(".jarvis"), self.of_workspace());
        // A link in somebody's repository must not make a file elsewhere part of a prompt.
        match [&inside, &here].into_iter().find(|path| path.is_symlink()) {
            Some(link) => broken.push(Broken::new(link, link_problem(self.collection.many))),
            None => self.list_one(&here, Origin::Workspace, &mut found, &mut broken),
        }
        // In the person's home folder both are one. It counts as the workspace's then, which is trusted less.
        let both = here.canonicalize().ok().is_some_and(|here| self.home.canonicalize().is_ok_and(|home| here == home));
        if !both {
            self.list_one(&self.home, Origin::Home, &mut found, &mut broken);
        }
        (found, broken)
    }

    fn list_one(&self, folder: &Path, origin: Origin, found: &mut Vec<Found>, broken: &mut Vec<Broken>) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => return broken.push(Broken::new(folder, error)),
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| self.is_one(path));
        paths.sort();
        if paths.len() > MOST_ENTRIES {
            let problem = format!("only the first {MOST_ENTRIES} of {} {} are read", paths.len(), self.collection.many);
            broken.push(Broken::new(folder, problem));
            paths.truncate(MOST_ENTRIES);
        }
        for path in paths {
            let (name, text) = match self.collection.each {
                Each::File(_) => (path.file_stem(), Text::In(path.clone())),
                Each::Folder(_) if origin == Origin::Workspace && path.is_symlink() => {
                    (path.file_name(), Text::None(link_problem(self.collection.many)))
                }
                Each::Folder(file) => (path.file_name(), Text::In(path.join(file))),
            };
            let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            found.push(Found { name, origin, path: Some(path), text });
        }
    }

    /// What begins with a dot is unfinished, or something else; a README is for people.
    fn is_one(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        if name.as_encoded_bytes().starts_with(b".") || name == "README.md" {
            return false;
        }
        match self.collection.each {
            Each::File(endings) => path.extension().is_some_and(|ending| endings.iter().any(|e| ending == *e)),
            Each::Folder(_) => path.is_dir(),
        }
    }
}

fn link_problem(many: &str) -> String {
    format!("it is a link; {many} of a workspace lie in it")
}

impl Found {
    pub fn built_in(name: &str, text: &'static str) -> Found {
        Found { name: name.to_owned(), origin: Origin::BuiltIn, path: None, text: Text::Known(text) }
    }

    pub fn read(&self) -> Result<String, String> {
        match &self.text {
            Text::Known(text) => Ok((*text).to_owned()),
            Text::In(path) => read_text(path, self.origin),
            Text::None(problem) => Err(problem.clone()),
        }
    }

    /// For a file that says its own name.
    pub fn says(&self, name: &str) -> Result<(), String> {
        if name == self.name {
            return Ok(());
        }
        let said: String = name.chars().take(40).collect();
        Err(format!("it says that its name is `{said}`; it lies there as `{}`", self.name))
    }
}

/// Letters (of any script), digits, `-` and `_`: a name is never a path.
fn valid_name(name: &str) -> bool {
    (1..=64).contains(&name.chars().count())
        && name.starts_with(char::is_alphanumeric)
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

/// The text of a file that may come with somebody's repository.
pub fn read_text(path: &Path, origin: Origin) -> Result<String, String> {
    let about = match origin {
        Origin::Workspace => std::fs::symlink_metadata(path),
        // A person may keep their own files elsewhere.
        Origin::Home | Origin::BuiltIn => std::fs::metadata(path),
    };
    let about = about.map_err(|e| e.to_string())?;
    let file = if about.is_file() { Some(File::open(path).map_err(|e| e.to_string())?) } else { None };
    // Neither a link nor a pipe, which would never end; also not one that took the file's place just now.
    let same = |opened: Metadata| (opened.dev(), opened.ino()) == (about.dev(), about.ino());
    let file = file.filter(|file| file.metadata().is_ok_and(same)).ok_or("it is no plain file")?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it has more than {} KiB", MOST_BYTES >> 10));
    }
    String::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        for name in ["coder", "代码审查", "a-b_2"] {
            assert!(valid_name(name), "{name}");
        }
        for name in ["", "../pwn", "a/b", "a.b", ".hidden", "a b", "-x", &"a".repeat(65)] {
            assert!(!valid_name(name), "{name}");
        }
    }
}

//! Which skills there are: folders of the workspace before those of the home.

use super::definition::{Skill, parse};
use crate::agents::{BrokenAgent as Broken, Origin, read_file, valid_name};
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Skills of one folder.
const MOST_SKILLS: usize = 100;
/// Files that one skill names, and folders looked into for them.
const MOST_FILES: usize = 100;
const MOST_DEPTH: usize = 3;

/// Where the folders lie.
#[derive(Debug, Clone)]
pub struct SkillFolders {
    workspace: PathBuf,
    home: PathBuf,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct SkillCatalogue {
    /// By name; of each name the nearest.
    pub skills: Vec<Skill>,
    pub broken: Vec<Broken>,
}

impl SkillFolders {
    /// `home` is the folder of skills in jarvis's home; in a workspace they lie in `.jarvis/skills`.
    pub fn new(workspace: &Path, home: &Path) -> Self {
        Self { workspace: workspace.to_owned(), home: home.to_owned() }
    }

    pub fn load(&self) -> SkillCatalogue {
        let mut catalogue = SkillCatalogue::default();
        let inside = self.workspace.join(".jarvis");
        // A link in somebody's repository must not make a file elsewhere part of a prompt.
        if let Some(link) = [&inside, &inside.join("skills")].into_iter().find(|path| path.is_symlink()) {
            let problem = "it is a link; skills of a workspace lie in it".to_owned();
            catalogue.broken.push(Broken { path: link.clone(), problem });
        } else {
            catalogue.take_folder(&inside.join("skills"), Origin::Workspace);
        }
        catalogue.take_folder(&self.home, Origin::Home);
        catalogue.skills.sort_by(|a, b| a.name.cmp(&b.name));
        catalogue
    }
}

impl SkillCatalogue {
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }

    fn take_folder(&mut self, folder: &Path, origin: Origin) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                self.broken.push(Broken { path: folder.to_owned(), problem: error.to_string() });
                return;
            }
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
        // What begins with a dot is unfinished, or no skill.
        let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        paths.retain(|path| !hidden(path) && path.is_dir());
        paths.sort();
        if paths.len() > MOST_SKILLS {
            let problem = format!("only the first {MOST_SKILLS} of {} skills are read", paths.len());
            self.broken.push(Broken { path: folder.to_owned(), problem });
            paths.truncate(MOST_SKILLS);
        }
        // Those of a nearer folder count, broken or not: their writer meant to replace the farther one.
        let nearer: Vec<String> = self.skills.iter().map(|skill| skill.name.clone()).collect();
        let broken: Vec<Option<String>> = self.broken.iter().map(|broken| name_of(&broken.path)).collect();
        for path in paths {
            let name = name_of(&path).unwrap_or_default();
            if nearer.contains(&name) || broken.contains(&Some(name.clone())) {
                continue;
            }
            match read(&path, &name, origin) {
                Ok(skill) => self.skills.push(skill),
                Err(problem) => self.broken.push(Broken { path, problem }),
            }
        }
    }
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn read(folder: &Path, name: &str, origin: Origin) -> Result<Skill, String> {
    if origin == Origin::Workspace && folder.is_symlink() {
        return Err("it is a link; a skill of a workspace lies in it".to_owned());
    }
    if !valid_name(name) {
        return Err("the name of its folder is no name of a skill: letters, digits, `-` and `_`, 64 at most".to_owned());
    }
    let (head, instructions) = parse(&read_file(&folder.join("SKILL.md"), origin)?)?;
    if head.name != name {
        let said: String = head.name.chars().take(40).collect();
        return Err(format!("it says that its name is `{said}`; its folder says `{name}`"));
    }
    let mut files = Vec::new();
    collect(folder, Path::new(""), MOST_DEPTH, &mut files);
    files.retain(|file| file != "SKILL.md");
    files.sort();
    files.truncate(MOST_FILES);
    let description: String = head.description.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Skill { name: name.to_owned(), description, origin, path: folder.to_owned(), files, instructions })
}

/// Plain files, by no link.
fn collect(folder: &Path, below: &Path, depth: usize, files: &mut Vec<String>) {
    // What cannot be looked into has no files to name.
    for entry in std::fs::read_dir(folder.join(below)).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = below.join(entry.file_name());
        if kind.is_dir() && depth > 0 {
            collect(folder, &path, depth - 1, files);
        } else if kind.is_file()
            && files.len() < MOST_FILES * 2
            && let Some(path) = path.to_str()
        {
            files.push(path.to_owned());
        }
    }
}

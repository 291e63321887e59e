//! Which skills there are: folders of the workspace before those of the home.

use super::definition::{Skill, parse};
use jarvis_dispatch::{Broken, Collection, Each, Folders, Found};
use serde::Serialize;
use std::path::Path;

static COLLECTION: Collection = Collection { many: "skills", each: Each::Folder(FILE), built_in: &[] };
const FILE: &str = "SKILL.md";

/// Files that one skill names, and folders looked into for them.
const MOST_FILES: usize = 100;
const MOST_DEPTH: usize = 3;

/// Where the folders lie.
#[derive(Debug, Clone)]
pub struct SkillFolders(Folders);

#[derive(Debug, Clone, Default, Serialize)]
pub struct SkillCatalogue {
    /// By name; of each name the nearest.
    pub skills: Vec<Skill>,
    pub broken: Vec<Broken>,
}

impl SkillFolders {
    /// `home` is the folder of skills in jarvis's home; in a workspace they lie in `.jarvis/skills`.
    pub fn new(workspace: &Path, home: &Path) -> Self {
        Self(Folders::new(&COLLECTION, workspace, home))
    }

    pub fn load(&self) -> SkillCatalogue {
        let (skills, broken) = self.0.load(|found, text| read(found, &text));
        SkillCatalogue { skills, broken }
    }
}

impl SkillCatalogue {
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }
}

fn read(found: &Found, text: &str) -> Result<Skill, String> {
    let (head, instructions) = parse(text)?;
    found.says(&head.name)?;
    let folder = found.path.as_deref().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    collect(folder, Path::new(""), MOST_DEPTH, &mut files);
    files.retain(|file| file != FILE);
    files.sort();
    files.truncate(MOST_FILES);
    let description: String = head.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let (name, path) = (head.name, folder.to_owned());
    Ok(Skill { name, description, origin: found.origin, path, files, instructions })
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

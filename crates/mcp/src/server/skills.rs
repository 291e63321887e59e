//! Skills as prompts: folders with a `SKILL.md`, whose head says what they are for and whose text is what to do.

use jarvis_memory::Document;
use std::io::Read;
use std::path::{Path, PathBuf};

const FILE: &str = "SKILL.md";
/// Of a file; more than a host could give to its model.
const BYTES: u64 = 1 << 20;
/// Of one folder.
const MOST: usize = 500;
const DESCRIPTION_CHARS: usize = 1000;

#[derive(Debug, PartialEq)]
pub(crate) struct Skill {
    pub name: String,
    pub description: String,
    pub text: String,
}

/// Every skill that can be read; one that cannot is left out, with a word in the log.
pub(crate) fn all(folders: &[PathBuf]) -> Vec<Skill> {
    let mut found: Vec<Skill> = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let mut places: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        places.sort();
        for place in places.into_iter().take(MOST) {
            match skill(&place) {
                Ok(Some(skill)) if !found.iter().any(|other| other.name == skill.name) => found.push(skill),
                Ok(_) => {}
                Err(problem) => tracing::warn!(skill = %place.display(), %problem, "a skill cannot be used"),
            }
        }
    }
    found
}

/// A link may lead to any file of the person's, so only a real file in a real folder is read.
fn skill(folder: &Path) -> Result<Option<Skill>, String> {
    let real = |path: &Path| path.symlink_metadata().ok();
    let file = folder.join(FILE);
    if !real(folder).is_some_and(|m| m.is_dir()) || !real(&file).is_some_and(|m| m.is_file()) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(&file).map_err(|e| e.to_string())?;
    opened.take(BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > BYTES {
        return Err(format!("it has more than {BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())?;
    let document = Document::parse(&text)?;
    let folder_name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let description = document.one("description")?.ok_or("its head has no `description`")?;
    if document.text.is_empty() {
        return Err("it has no text below its head".to_owned());
    }
    Ok(Some(Skill {
        name: document.one("name")?.unwrap_or(folder_name),
        description: description.chars().take(DESCRIPTION_CHARS).collect(),
        text: document.text,
    }))
}

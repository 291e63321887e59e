//! Packages with an `index.json`: workspaces of Tendril, homes of jarvis, and what `jarvis cap export` writes.

use super::files::{Files, Memory, inside};
use super::{Incoming, MOST_ENTRIES, Package, PackageKind, PortError, Progress, Watch, names};
use crate::index::{Document, ParseError};
use crate::manifest::{self, MANIFEST, Manifest};
use crate::types::Damaged;
use jarvis_protocol::{Capability, Runtime};
use serde_json::Value;

const INDEX: &str = "index.json";
const MOST_OF_AN_INDEX: u64 = 256 << 20;
const MOST_OF_AN_ENTRY: usize = 1 << 20;
/// The sandbox reads no longer code.
const MOST_OF_CODE: u64 = 256 << 10;
const MOST_OF_A_MANIFEST: u64 = 64 << 20;
/// Where an index can be, below the top: beside the code, in its folder (Tendril), in a home, in a project.
const PLACES: [&str; 4] = ["", "tools/", "capabilities/", ".jarvis/capabilities/"];

pub(crate) fn read(files: &dyn Files, watch: Watch<'_>) -> Result<Package, PortError> {
    let mut bases = vec![String::new()];
    let top = files.top().map_err(|problem| PortError::Refused { what: "it".to_owned(), problem })?;
    // An archive of a repository holds one folder with everything in it.
    if let [(only, true)] = top.as_slice() {
        bases.push(format!("{only}/"));
    }
    for base in &bases {
        if let Some(bytes) = whole(files, &format!("{base}{MANIFEST}"), MOST_OF_A_MANIFEST)?
            && let Some(listed) = Manifest::parse(&bytes)?
        {
            let verified = verified(files, base, &listed)?;
            let index = verified.files.get(INDEX).ok_or_else(|| changed(INDEX, "it is missing"))?.clone();
            let mut package = entries(&verified, "", "", &index, watch)?;
            (package.kind, package.digest) = (PackageKind::Export, Some(listed.digest));
            return Ok(package);
        }
    }
    for base in &bases {
        for place in PLACES {
            if let Some(index) = whole(files, &format!("{base}{place}{INDEX}"), MOST_OF_AN_INDEX)? {
                return entries(files, base, place, &index, watch);
            }
        }
    }
    let tried: Vec<String> = PLACES.iter().map(|place| format!("{place}{INDEX}")).collect();
    Err(PortError::NoPackage { tried: tried.join(", ") })
}

fn whole(files: &dyn Files, path: &str, most: u64) -> Result<Option<Vec<u8>>, PortError> {
    files.read(path, most).map_err(|problem| PortError::Refused { what: format!("`{path}`"), problem })
}

fn changed(file: &str, problem: &str) -> PortError {
    PortError::Changed { file: file.to_owned(), problem: problem.to_owned() }
}

/// The files that the manifest lists, each as it was exported; any other one is not from the export.
fn verified(files: &dyn Files, base: &str, manifest: &Manifest) -> Result<Memory, PortError> {
    let mut memory = Memory::default();
    for listed in &manifest.files {
        if inside(&listed.path).as_deref() != Some(listed.path.as_str()) {
            return Err(changed(&listed.path, "it leads out of the export"));
        }
        let found = files.read(&format!("{base}{}", listed.path), listed.bytes);
        match found {
            Ok(Some(bytes)) if manifest::hash(&bytes) == listed.blake3 => {
                memory.files.insert(listed.path.clone(), bytes);
            }
            Ok(Some(_)) => return Err(changed(&listed.path, "its digest is another one")),
            Ok(None) => return Err(changed(&listed.path, "it is missing")),
            Err(problem) => return Err(changed(&listed.path, &problem)),
        }
    }
    let all = files.all().map_err(|problem| PortError::Refused { what: "it".to_owned(), problem })?;
    let below = all.iter().filter_map(|path| path.strip_prefix(base));
    match below.into_iter().find(|path| *path != MANIFEST && !memory.files.contains_key(*path)) {
        Some(foreign) => Err(changed(foreign, "the manifest does not list it")),
        None => Ok(memory),
    }
}

fn entries(files: &dyn Files, base: &str, place: &str, index: &[u8], watch: Watch<'_>) -> Result<Package, PortError> {
    let file = format!("{place}{INDEX}");
    let document = Document::parse(index).map_err(|e| match e {
        ParseError::Damaged(problem) => PortError::Refused { what: format!("`{file}`"), problem },
        ParseError::Newer(found) => {
            PortError::Refused { what: format!("`{file}`"), problem: format!("format {found} is of a newer jarvis") }
        }
    })?;
    let total = document.entries.len();
    if total > MOST_ENTRIES {
        let problem = format!("it holds more than {MOST_ENTRIES} capabilities");
        return Err(PortError::Refused { what: format!("`{file}`"), problem });
    }
    let mut package = Package::new(PackageKind::Workspace);
    for (position, raw) in document.entries.iter().enumerate() {
        if !watch(Progress { done: position, total }) {
            return Err(PortError::Cancelled);
        }
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
        let read = if raw.get().len() > MOST_OF_AN_ENTRY {
            Err(format!("its definition is longer than {MOST_OF_AN_ENTRY} bytes"))
        } else {
            entry(files, base, place, value)
        };
        match read {
            Ok(entry) => package.entries.push(entry),
            Err(problem) => {
                let entry = name.unwrap_or_else(|| format!("#{}", position + 1));
                package.damaged.push(Damaged { entry, problem });
            }
        }
    }
    Ok(package)
}

fn entry(files: &dyn Files, base: &str, place: &str, mut value: Value) -> Result<Incoming, String> {
    let original = value.get("name").and_then(Value::as_str).ok_or("it has no `name`")?.to_owned();
    let name = names::valid(&original).ok_or("no name can be made of its `name`")?;
    value["name"] = name.as_str().into();
    let says_runtime = value.get("runtime").is_some();
    let mut capability: Capability = serde_json::from_value(value).map_err(|e| e.to_string())?;
    if !capability.parameters.is_object() {
        return Err("`parameters` is not a JSON Schema object".to_owned());
    }
    let Some(path) = code(files, base, place, &capability, &original)? else {
        return match capability.tool_path.is_empty() {
            true => Ok(Incoming::new(capability, None, &original)),
            false => Err(format!("its code `{}` is missing", capability.tool_path)),
        };
    };
    let (path, bytes) = path;
    if !says_runtime && path.ends_with(".py") {
        capability.runtime = Runtime::Python;
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("its code `{path}` is no text in UTF-8"))?;
    if text.trim().is_empty() {
        return Err(format!("its code `{path}` is empty"));
    }
    Ok(Incoming::new(capability, Some(text), &original))
}

/// The file of the code: meant from the top, or from the index; an entry that names none can have one of its name.
fn code(
    files: &dyn Files,
    base: &str,
    place: &str,
    capability: &Capability,
    original: &str,
) -> Result<Option<(String, Vec<u8>)>, String> {
    let mut paths: Vec<String> = Vec::new();
    if capability.tool_path.is_empty() {
        if let Some(name) = inside(original).filter(|name| !name.contains('/')) {
            paths.extend(["ts", "py"].map(|extension| format!("tools/{name}.{extension}")));
        }
    } else {
        let path = inside(&capability.tool_path)
            .ok_or_else(|| format!("its `tool_path` {} leads out of the workspace", capability.tool_path))?;
        paths.push(path);
    }
    for path in paths {
        for from in if place.is_empty() { vec![place] } else { vec![place, ""] } {
            let at = format!("{base}{from}{path}");
            match files.read(&at, MOST_OF_CODE) {
                Ok(Some(bytes)) => return Ok(Some((path, bytes))),
                Ok(None) => {}
                Err(problem) => return Err(format!("its code `{path}`: {problem}")),
            }
        }
    }
    Ok(None)
}

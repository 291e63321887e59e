//! Capabilities as a package that another home can import: definitions, code, and a manifest with the digest of each
//! file. The same capabilities give the same bytes. No statistics and no secret is in it.

use crate::index::{Document, entry};
use crate::manifest::{MANIFEST, Manifest};
use crate::registry::Registry;
use crate::{PortError, RegistryError};
use flate2::{Compression, GzBuilder};
use jarvis_protocol::{Capability, CapabilityName};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder in an archive.
const TOP: &str = "jarvis-export";

/// A package, in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Export {
    /// Path → content; the manifest too.
    pub files: BTreeMap<String, Vec<u8>>,
    pub capabilities: Vec<Exported>,
    /// Of the whole, as the manifest has it.
    pub digest: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    pub capability: Capability,
    pub code: Option<String>,
    /// False where a file was changed by hand since it was registered.
    pub matches_digest: bool,
}

impl Registry {
    /// `names`, or every capability without any.
    pub fn export(&self, names: &[CapabilityName]) -> Result<Export, PortError> {
        let mut wanted: Vec<Capability> = match names {
            [] => self.list()?.capabilities,
            names => names
                .iter()
                .map(|name| self.get(name)?.ok_or_else(|| RegistryError::NotFound(name.to_string())))
                .collect::<Result<_, _>>()?,
        };
        wanted.sort_by(|a, b| a.name.cmp(&b.name));
        wanted.dedup_by(|a, b| a.name == b.name);
        let mut files = BTreeMap::new();
        let mut document = Document::empty();
        let mut capabilities = Vec::with_capacity(wanted.len());
        for mut capability in wanted {
            let mut exported = Exported { capability: capability.clone(), code: None, matches_digest: true };
            if !capability.tool_path.is_empty() {
                let code = self.code(&capability)?;
                capability.tool_path = format!("tools/{}.{}", capability.name, capability.runtime.extension());
                exported.matches_digest = code.matches_digest;
                files.insert(capability.tool_path.clone(), code.text.clone().into_bytes());
                exported.code = Some(code.text);
            }
            let name = capability.name.to_string();
            let raw = entry(&capability).map_err(|e| RegistryError::Invalid { name, problem: e.to_string() })?;
            document.entries.push(raw);
            capabilities.push(exported);
        }
        files.insert("index.json".to_owned(), document.render().into_bytes());
        let manifest = Manifest::of(&files);
        let digest = manifest.digest.clone();
        let text = serde_json::to_string_pretty(&manifest)
            .map_err(|e| RegistryError::Invalid { name: MANIFEST.to_owned(), problem: e.to_string() })?;
        files.insert(MANIFEST.to_owned(), format!("{text}\n").into_bytes());
        Ok(Export { files, capabilities, digest })
    }
}

/// Writes a tarball, compressed or not, whole or not at all. What is at `path` already stays, and is an error.
pub fn write_archive(export: &Export, path: &Path, compress: bool) -> Result<(), PortError> {
    let failed = |source: std::io::Error| PortError::Unwritable { path: path.to_owned(), source };
    let tar = tar(export).map_err(failed)?;
    let bytes = match compress {
        true => {
            // Neither a time nor a name is in it, so the bytes depend on the content alone.
            let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
            encoder.write_all(&tar).and_then(|()| encoder.finish()).map_err(failed)?
        }
        false => tar,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let staged = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = fs::File::create_new(&staged).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()?;
        // A link and not a rename, which would replace what is there.
        fs::hard_link(&staged, path)
    });
    let _ = fs::remove_file(&staged);
    written.map_err(failed)
}

fn tar(export: &Export) -> std::io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in &export.files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        builder.append_data(&mut header, format!("{TOP}/{path}"), bytes.as_slice())?;
    }
    builder.into_inner()
}

/// Writes the files into a folder that is not there yet.
pub fn write_folder(export: &Export, folder: &Path) -> Result<(), PortError> {
    let failed = |path: &Path| {
        let path: PathBuf = path.to_owned();
        move |source: std::io::Error| PortError::Unwritable { path, source }
    };
    if folder.exists() {
        return Err(failed(folder)(std::io::ErrorKind::AlreadyExists.into()));
    }
    let mut staged = folder.as_os_str().to_owned();
    staged.push(format!(".{}.tmp", std::process::id()));
    let staged = PathBuf::from(staged);
    let write = || {
        for (path, bytes) in &export.files {
            let path = staged.join(path);
            let below = path.parent().unwrap_or(&staged);
            fs::create_dir_all(below).map_err(failed(below))?;
            fs::write(&path, bytes).map_err(failed(&path))?;
        }
        fs::rename(&staged, folder).map_err(failed(folder))
    };
    write().inspect_err(|_| {
        let _ = fs::remove_dir_all(&staged);
    })
}

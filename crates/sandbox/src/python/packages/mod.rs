//! Packages that a capability declares: exact versions, resolved once into a lock with the hash of every wheel.

mod error;
mod pip;
mod store;

pub use error::DependencyError;
pub use store::Packages;
pub(super) use store::{Store, Unpack};

use ring::digest;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;

/// One declared package: `name==version` and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// As the package index compares names: small letters, `-` between the words.
    pub name: String,
    pub version: String,
}

impl Requirement {
    pub fn parse(text: &str) -> Result<Requirement, DependencyError> {
        let refuse = |why| Err(DependencyError::Form { text: text.chars().take(200).collect(), why });
        let trimmed = text.trim();
        if trimmed.contains("://") || trimmed.contains('@') || trimmed.contains(['/', '\\']) {
            return refuse("addresses, repositories and paths are not taken");
        }
        if trimmed.contains(';') {
            return refuse("conditions (`; python_version …`) are not taken");
        }
        if trimmed.contains('[') {
            return refuse("extras are not taken; declare the packages that the extra stands for");
        }
        let Some((name, version)) = trimmed.split_once("==") else {
            return refuse("it has no exact version");
        };
        let (name, version) = (name.trim(), version.trim());
        let word = |c: char| c.is_ascii_alphanumeric();
        let named = name.chars().all(|c| word(c) || matches!(c, '-' | '_' | '.'))
            && name.starts_with(word)
            && name.ends_with(word)
            && name.len() <= 100;
        if !named {
            return refuse("that is no name of a package");
        }
        let exact = version.starts_with(|c: char| c.is_ascii_digit())
            && version.chars().all(|c| word(c) || matches!(c, '.' | '!' | '+' | '-' | '_'))
            && version.len() <= 60;
        if !exact {
            return refuse("that is no exact version (such as 1.2 or 2.0.1)");
        }
        Ok(Requirement { name: normal(name), version: version.to_owned() })
    }

    /// All of them, sorted, each name once.
    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Requirement>, DependencyError> {
        let mut all = texts.iter().map(|text| Requirement::parse(text)).collect::<Result<Vec<_>, _>>()?;
        all.sort();
        all.dedup();
        if let Some(pair) = all.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let text = format!("{}, {}", pair[0], pair[1]);
            return Err(DependencyError::Form { text, why: "two versions of one package" });
        }
        Ok(all)
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}=={}", self.name, self.version)
    }
}

/// One wheel, known by its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wheel {
    pub name: String,
    pub version: String,
    /// Its file name, which says for which machines it is.
    pub file: String,
    /// Hexadecimal.
    pub sha256: String,
}

/// What the declared packages came to, with all that they need themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Kind of the interpreter, such as `cpython-311`.
    pub python: String,
    pub requested: Vec<String>,
    pub wheels: Vec<Wheel>,
}

impl Lock {
    /// Names the environment: the same lock is the same environment.
    pub fn digest(&self) -> String {
        let mut words = vec!["jarvis environment 1", &self.python];
        for wheel in &self.wheels {
            words.extend([wheel.name.as_str(), &wheel.version, &wheel.file, &wheel.sha256]);
        }
        sha256_of(words.join("\n").as_bytes())
    }
}

impl Wheel {
    /// Reads the name of a wheel's file: `name-version-(build-)python-abi-platform.whl`.
    fn of_file(file: &str, sha256: String) -> Option<Wheel> {
        let parts: Vec<&str> = file.strip_suffix(".whl")?.split('-').collect();
        let (name, version) = match parts.as_slice() {
            [name, version, _, _, _] | [name, version, _, _, _, _] => (normal(name), (*version).to_owned()),
            _ => return None,
        };
        Some(Wheel { name, version, file: file.to_owned(), sha256 })
    }
}

fn normal(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256_of(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn sha256_of_file(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(context.finish().as_ref())),
            count => context.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_and_an_exact_version_are_taken() {
        for (text, name, version) in [
            ("requests==2.31.0", "requests", "2.31.0"),
            (" Ruamel.Yaml == 0.18.6 ", "ruamel-yaml", "0.18.6"),
            ("a==1!2.0+local.1", "a", "1!2.0+local.1"),
        ] {
            let read = Requirement::parse(text).unwrap();
            assert_eq!((read.name.as_str(), read.version.as_str()), (name, version));
        }
        for text in [
            "",
            "requests",
            "requests>=2",
            "requests==2.*",
            "requests===2",
            "requests==2,!=2.1",
            "requests==",
            "requests==1 --index-url=x",
            "--index-url==1",
            "-r==1",
            "requests[socks]==2.31.0",
            "requests==2.31.0; python_version<'4'",
            "requests @ https://evil.example/x.whl",
            "git+https://evil.example/x==1",
            "../x==1",
            "/etc/passwd==1",
            "x==1\nevil==2",
            "x==1 # note",
            "水==1",
            "x==水",
        ] {
            let error = Requirement::parse(text).unwrap_err();
            assert!(error.to_string().contains("name==version"), "{text}: {error}");
        }
        let twice = ["A_b==1".to_owned(), "a.b==2".to_owned()];
        assert!(Requirement::parse_all(&twice).is_err());
        let same = ["A_b==1".to_owned(), "a.b==1".to_owned()];
        assert_eq!(Requirement::parse_all(&same).unwrap().len(), 1);
    }

    #[test]
    fn a_lock_is_known_by_its_wheels() {
        let wheel = Wheel::of_file("My_Pkg-1.0-py3-none-any.whl", "aa".to_owned()).unwrap();
        assert_eq!((wheel.name.as_str(), wheel.version.as_str()), ("my-pkg", "1.0"));
        assert_eq!(Wheel::of_file("my-pkg-1.0.tar.gz", String::new()), None);
        let lock = Lock { python: "cpython-311".to_owned(), requested: vec![], wheels: vec![wheel.clone()] };
        let other = Wheel { sha256: "ab".to_owned(), ..wheel };
        assert_ne!(lock.digest(), Lock { wheels: vec![other], ..lock.clone() }.digest());
        assert_eq!(lock.digest().len(), 64);
    }
}

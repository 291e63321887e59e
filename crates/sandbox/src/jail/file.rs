//! `sandbox.yaml` of a tool: what it may have. Plain data for serde; whoever reads the file parses the YAML.

use super::filter::Seccomp;
use super::oci::Profile;
use super::settle::spec_error;
use super::spec::{JailSpec, JailUser};
use crate::error::SandboxError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Every field may be left out; then the jail's own standard holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxFile {
    #[serde(default)]
    pub network: FileNetwork,
    /// `512` (MiB), `512Mi`, `2G`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Processors, such as `1.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Of the private /tmp, which also bounds any file in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Size>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_root: Option<bool>,
    #[serde(default)]
    pub devices: Vec<PathBuf>,
    /// Names, or `ALL`. Jails never have any; a name that does not exist is an error.
    #[serde(default)]
    pub capabilities_drop: Vec<String>,
    /// `default`, `strict`, or the path of a profile in the OCI format, from the tool's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<String>,
    /// `nobody`, or `UID` or `UID:GID` as numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserText>,
    #[serde(default)]
    pub best_effort: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FileNetwork {
    /// `none`, which is what holds when nothing is said, or `host-only`.
    Word(NetworkWord),
    /// Host patterns, through the proxy.
    Hosts(Vec<String>),
    #[default]
    #[serde(skip)]
    Unsaid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkWord {
    None,
    /// Services of this machine alone, through the proxy.
    HostOnly,
}

/// What the tool's proxy lets through; the caller builds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkWish {
    None,
    HostOnly,
    Hosts(Vec<String>),
}

/// In MiB, as a number, or with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(from)? {
            Form::Number(number) => Ok(Size(number)),
            Form::Text(text) => parse_size(&text).map(Size).ok_or_else(|| {
                serde::de::Error::custom(format!("`{text}` is no size; write MiB as a number, or `512Mi`, `2Gi`"))
            }),
        }
    }
}

/// Both `M` and `Mi` are powers of 1024, as in other tools that limit memory.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    match text[digits..].trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" | "m" => Some(number),
        "g" => number.checked_mul(1024),
        "t" => number.checked_mul(1 << 20),
        "k" => Some(number.div_ceil(1024)),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UserText {
    Number(u32),
    Text(String),
}

/// The unprivileged user that every Linux has.
const NOBODY: u32 = 65_534;

impl SandboxFile {
    /// Puts its settings into the specification. `folder` is the tool's own. What is asked of the network comes back: the
    /// proxy is built outside.
    pub fn apply(&self, spec: &mut JailSpec, folder: &Path) -> Result<NetworkWish, SandboxError> {
        let limits = &mut spec.limits;
        if let Some(Size(memory)) = self.memory {
            limits.memory_mb = memory;
        }
        if let Some(pids) = self.pids {
            limits.pids = pids;
        }
        if let Some(Size(disk)) = self.disk {
            limits.disk_mb = disk;
            limits.file_mb = limits.file_mb.min(disk);
        }
        if let Some(cpu) = self.cpu {
            if !(0.01..=1024.0).contains(&cpu) {
                return Err(spec_error(
                    format!("`cpu: {cpu}` is no number of processors"),
                    "write for example 0.5 or 2",
                ));
            }
            spec.cpus = Some(cpu);
        }
        if let Some(read_only) = self.read_only_root {
            spec.read_only_root = read_only;
        }
        spec.devices.clone_from(&self.devices);
        for name in &self.capabilities_drop {
            check_capability(name)?;
        }
        if let Some(name) = self.seccomp.as_deref() {
            spec.seccomp = match name {
                "default" => Seccomp::Default,
                "strict" => Seccomp::Strict,
                path => Seccomp::Profile(read_profile(&folder.join(path))?),
            };
        }
        if let Some(user) = &self.user {
            spec.user = parse_user(user)?;
        }
        spec.best_effort = self.best_effort;
        Ok(match &self.network {
            FileNetwork::Unsaid | FileNetwork::Word(NetworkWord::None) => NetworkWish::None,
            FileNetwork::Hosts(hosts) if hosts.is_empty() => NetworkWish::None,
            FileNetwork::Word(NetworkWord::HostOnly) => NetworkWish::HostOnly,
            FileNetwork::Hosts(hosts) => NetworkWish::Hosts(hosts.clone()),
        })
    }
}

fn read_profile(path: &Path) -> Result<Profile, SandboxError> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        spec_error(
            format!("the seccomp profile {}: {e}", path.display()),
            "write `default`, `strict`, or the path of a profile from the tool's folder",
        )
    })?;
    Profile::parse(&text)
}

fn parse_user(user: &UserText) -> Result<JailUser, SandboxError> {
    let other = |uid, gid| Ok(JailUser::Other { uid, gid });
    match user {
        UserText::Number(uid) => other(*uid, *uid),
        UserText::Text(text) if text == "nobody" => other(NOBODY, NOBODY),
        UserText::Text(text) => {
            let (uid, gid) = text.split_once(':').unwrap_or((text, text));
            match (uid.parse(), gid.parse()) {
                (Ok(uid), Ok(gid)) => other(uid, gid),
                _ => Err(spec_error(
                    format!("`user: {text}` is not known"),
                    "write `nobody`, or numbers as in 1000:1000",
                )),
            }
        }
    }
}

const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

fn check_capability(name: &str) -> Result<(), SandboxError> {
    let short = name.to_ascii_uppercase();
    let short = short.strip_prefix("CAP_").unwrap_or(&short);
    if short == "ALL" || CAPABILITIES.contains(&short) {
        return Ok(());
    }
    Err(spec_error(
        format!("there is no capability `{name}`"),
        "write ALL, or names such as NET_RAW; jails have none anyway",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<SandboxFile, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn every_field_reaches_the_specification() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("calls.json"), r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#).unwrap();
        let text = r#"{"network":["*.example.com"],"memory":"1Gi","cpu":1.5,"pids":9,"disk":"64M","read_only_root":false,
            "devices":["/dev/ttyS0"],"capabilities_drop":["ALL","cap_net_raw"],"seccomp":"calls.json","user":"1000:100","best_effort":true}"#;
        let mut spec = JailSpec::new("/bin/true", "/tmp/x");
        let wish = file(text).unwrap().apply(&mut spec, folder.path()).unwrap();
        assert_eq!(wish, NetworkWish::Hosts(vec!["*.example.com".to_owned()]));
        let limits = (spec.limits.memory_mb, spec.limits.pids, spec.limits.disk_mb, spec.limits.file_mb);
        assert_eq!(limits, (1024, 9, 64, 64));
        assert_eq!((spec.cpus, spec.read_only_root, spec.best_effort), (Some(1.5), false, true));
        assert_eq!(spec.user, JailUser::Other { uid: 1000, gid: 100 });
        assert!(matches!(spec.seccomp, Seccomp::Profile(_)) && spec.devices == [PathBuf::from("/dev/ttyS0")]);
        let mut spec = JailSpec::new("/bin/true", "/tmp/x");
        assert_eq!(file("{}").unwrap().apply(&mut spec, folder.path()).unwrap(), NetworkWish::None);
        let host = file(r#"{"network":"host-only","seccomp":"strict","user":"nobody"}"#).unwrap();
        assert_eq!(host.apply(&mut spec, folder.path()).unwrap(), NetworkWish::HostOnly);
        assert_eq!(spec.seccomp, Seccomp::Strict);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            r#"{"netwrok":"none"}"#,
            r#"{"network":"all"}"#,
            r#"{"memory":"lots"}"#,
            r#"{"memory":-1}"#,
            r#"{"memory":"1e9"}"#,
            r#"{"memory":"99999999999999999999G"}"#,
            r#"{"memory":"18446744073709551615G"}"#,
        ] {
            assert!(file(text).is_err(), "{text}");
        }
        for text in [
            r#"{"cpu":0}"#,
            r#"{"cpu":-1}"#,
            r#"{"capabilities_drop":["NET_ROW"]}"#,
            r#"{"seccomp":"missing.json"}"#,
            r#"{"user":"bob"}"#,
            r#"{"user":"1:x"}"#,
        ] {
            let e = file(text).unwrap().apply(&mut JailSpec::new("/bin/true", "/tmp/x"), Path::new("/")).unwrap_err();
            assert!(e.hint().is_some(), "{text}: {e}");
        }
    }
}

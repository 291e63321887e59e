//! What a person or a tool asks the jail for. Nothing in it has been checked yet.

use super::filter::Seccomp;
pub use jarvis_protocol::Preset;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// What else can be seen, read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Programs, libraries and settings of the system, and the toolchains in the person's home.
    System,
    /// Programs and libraries alone; no settings, no home.
    Bare,
}

/// Takes the listener of the jail's proxy when the jail is up, before the program starts.
pub type ServeProxy = Arc<dyn Fn(std::net::TcpListener) + Send + Sync>;

#[derive(Clone)]
pub enum JailNetwork {
    /// No way out at all.
    None,
    /// A proxy on the jail's own loopback, served from outside; the only way out.
    Proxy { serve: ServeProxy },
}

impl std::fmt::Debug for JailNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            JailNetwork::None => "None",
            JailNetwork::Proxy { .. } => "Proxy",
        })
    }
}

/// All must be positive. There is no default, so that nothing unbounded is built by accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JailLimits {
    pub wall_ms: u64,
    /// Processor time of each process, and of all together.
    pub cpu_ms: u64,
    /// Of all processes together.
    pub memory_mb: u64,
    pub pids: u32,
    /// Size of any one file.
    pub file_mb: u64,
    /// Size of the private /tmp.
    pub disk_mb: u64,
    /// Descriptors of each process.
    pub open_files: u64,
    /// Of standard output and of standard error, each.
    pub output_bytes: u64,
}

impl JailLimits {
    /// What a command of a person gets that says nothing else.
    pub const STANDARD: JailLimits = JailLimits {
        wall_ms: 60_000,
        cpu_ms: 60_000,
        memory_mb: 2048,
        pids: 256,
        file_mb: 512,
        disk_mb: 512,
        open_files: 1024,
        output_bytes: 1 << 20,
    };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Reads nothing.
    Closed,
    /// [`super::Jailed::stdin`] is its other end.
    Piped,
    /// These bytes, and then the end.
    Bytes(Vec<u8>),
}

/// Whose rights the program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JailUser {
    /// The person's, without any privilege.
    Same,
    /// Somebody else's; only root can give them.
    Other { uid: u32, gid: u32 },
}

#[derive(Debug)]
pub struct JailSpec {
    /// Absolute.
    pub program: PathBuf,
    /// Without the program's name.
    pub args: Vec<OsString>,
    /// Where it starts; absolute.
    pub dir: PathBuf,
    /// All there is; nothing is inherited. [`JailSpec::new`] puts a small standard set here.
    pub env: Vec<(OsString, OsString)>,
    pub preset: Preset,
    /// Empty with `Preset::ReadOnly`: there is none.
    pub workspace: PathBuf,
    /// Shown beside the view.
    pub read_only: Vec<PathBuf>,
    /// Writable beside the workspace; not with `Preset::ReadOnly`.
    pub read_write: Vec<PathBuf>,
    /// Not shown whatever else is, beside the built-in list. Jarvis's own home belongs here.
    pub hidden: Vec<PathBuf>,
    /// The person's home folder.
    pub home: Option<PathBuf>,
    pub view: View,
    pub network: JailNetwork,
    pub limits: JailLimits,
    pub stdin: Stdin,
    /// Becomes descriptor 3.
    pub channel: Option<OwnedFd>,
    /// Processors, as a share of time: `0.5` is half of one. Needs a cgroup.
    pub cpus: Option<f64>,
    /// Device nodes to show, such as `/dev/ttyUSB0`.
    pub devices: Vec<PathBuf>,
    /// False: new entries may be made in `/` itself; they live in memory and end with the jail.
    pub read_only_root: bool,
    pub seccomp: Seccomp,
    pub user: JailUser,
    /// What the machine cannot enforce is left out and shown in the layers; otherwise it is an error.
    pub best_effort: bool,
}

/// Where `HOME` points to in a jail: private, and gone with it.
pub const JAIL_HOME: &str = "/tmp/home";

impl JailSpec {
    /// The given program in the workspace, which it cannot change, with the standard environment and limits.
    pub fn new(program: impl Into<PathBuf>, workspace: impl Into<PathBuf>) -> JailSpec {
        let workspace = workspace.into();
        let env = [("PATH", super::STANDARD_PATH), ("LANG", "C.UTF-8"), ("HOME", JAIL_HOME), ("TMPDIR", "/tmp")];
        JailSpec {
            program: program.into(),
            args: Vec::new(),
            dir: workspace.clone(),
            env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
            preset: Preset::ReadOnly,
            workspace,
            read_only: Vec::new(),
            read_write: Vec::new(),
            hidden: Vec::new(),
            home: None,
            view: View::System,
            network: JailNetwork::None,
            limits: JailLimits::STANDARD,
            stdin: Stdin::Closed,
            channel: None,
            cpus: None,
            devices: Vec::new(),
            read_only_root: true,
            seccomp: Seccomp::Default,
            user: JailUser::Same,
            best_effort: false,
        }
    }

    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> JailSpec {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

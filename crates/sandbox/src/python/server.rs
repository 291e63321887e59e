//! A program that serves on its standard streams, such as an MCP server, in the person's Python and in the jail: it sees
//! its own files and packages, and nothing else of the person's.

use super::{Python, bare};
use crate::jail::{JailExit, JailLimits, Jailed, Stdin};
use crate::pool::lock;
use crate::process::limits;
use crate::python::packages::DependencyError;
use crate::tool::NewFile;
use jarvis_policy::ProcessPermit;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// Takes the packages and the program from its arguments; nothing of the person's own site is on the module path.
const START: &str =
    "import sys,runpy;a=sys.argv[1:];sys.path+=a[:-1];sys.argv=a[-1:];runpy.run_path(a[-1],run_name='__main__')";

/// Of what it writes to standard error, the last bytes that are kept.
const MOST_NOISE: usize = 8 << 10;
/// How long the end of a jail is waited for, once it is killed.
const REPORT: Duration = Duration::from_secs(2);

pub struct PythonServer {
    pub files: Vec<NewFile>,
    /// Which of the files is started.
    pub entry: String,
    /// `name==version` each, installed.
    pub dependencies: Vec<String>,
}

/// One that runs. The jail ends when this is dropped.
pub struct Served {
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    noise: Arc<Mutex<Vec<u8>>>,
    listening: tokio::task::JoinHandle<()>,
    jailed: Jailed,
    _folder: tempfile::TempDir,
}

impl Python {
    pub(crate) async fn serve(&self, permit: ProcessPermit, server: &PythonServer) -> Result<Served, DependencyError> {
        let plan = permit.into_plan();
        let interpreter = self.interpreter().await?;
        let packages = self.packages(&interpreter, &server.dependencies).await?;
        let folder = self.store()?.workplace("checks")?;
        write(folder.path(), &server.files).map_err(DependencyError::io("files of a server"))?;
        let mut spec = bare(&interpreter.program, JailLimits { open_files: 256, ..limits(&plan.limits) });
        spec.read_only.extend(interpreter.needs.iter().cloned());
        spec.read_only.push(folder.path().to_owned());
        spec.hidden.clone_from(&interpreter.others);
        spec.stdin = Stdin::Piped;
        spec.args = ["-I", "-S", "-B", "-X", "utf8", "-c", START].map(OsString::from).to_vec();
        if let Some(packages) = packages {
            spec.read_only.push(packages.folder.clone());
            spec.args.push(packages.folder.into());
        }
        spec.args.push(folder.path().join(&server.entry).into());
        let mut jailed = self.jail.spawn(spec).await?;
        let noise = Arc::<Mutex<Vec<u8>>>::default();
        // Always read, so that a server that complains a lot is not stopped by it.
        let listening = tokio::spawn(listen(jailed.stderr.take(), Arc::clone(&noise)));
        let (stdin, stdout) = (jailed.stdin.take(), jailed.stdout.take());
        Ok(Served { stdin, stdout, noise, listening, jailed, _folder: folder })
    }
}

impl Served {
    /// Ends it with all it has started. How it had ended before, if it had, and the last it said on standard error.
    pub async fn end(mut self) -> (Option<JailExit>, String) {
        self.jailed.kill();
        let exit = tokio::time::timeout(REPORT, self.jailed.wait()).await.ok().and_then(Result::ok);
        // The stream ends with the jail; what is not there by then is not waited for.
        let _ = tokio::time::timeout(REPORT, &mut self.listening).await;
        let noise = String::from_utf8_lossy(&lock(&self.noise)).into_owned();
        (exit, noise)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(stderr: Option<pipe::Receiver>, noise: Arc<Mutex<Vec<u8>>>) {
    let Some(mut stderr) = stderr else { return };
    let mut part = vec![0; 4 << 10];
    while let Ok(count) = stderr.read(&mut part).await {
        if count == 0 {
            return;
        }
        let mut kept = lock(&noise);
        kept.extend_from_slice(&part[..count]);
        let over = kept.len().saturating_sub(MOST_NOISE);
        kept.drain(..over);
    }
}

fn write(folder: &Path, files: &[NewFile]) -> std::io::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, &file.bytes)?;
    }
    Ok(())
}

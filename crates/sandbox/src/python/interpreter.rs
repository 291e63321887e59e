//! The person's own python3: asked once where it keeps itself, and for the worker's programs in its own bytecode.

use super::Missing;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const PROBE: &str = include_str!("py/probe.py");
const WORKER: [&str; 3] = [include_str!("py/entry.py"), include_str!("py/result.py"), include_str!("py/worker.py")];

/// The oldest version whose syntax the worker is written in.
const OLDEST: (u32, u32) = (3, 9);

const PATIENCE: Duration = Duration::from_secs(20);

pub(super) const INSTALL: &str = "install Python 3.9 or newer (apt install python3, brew install python, or python.org), or name \
                       one in the configuration";

#[derive(Debug)]
pub(super) struct Interpreter {
    /// The real program, behind links, shims and virtual environments.
    pub program: PathBuf,
    /// What it needs to see: its standard library and the folders of its shared libraries.
    pub needs: Vec<PathBuf>,
    /// Other packages in these folders, which are nobody's business.
    pub others: Vec<PathBuf>,
    /// Kind of bytecode and binary extensions, such as `cpython-311`.
    pub tag: String,
    /// The worker's program as marshalled code.
    pub worker: Vec<u8>,
}

#[derive(Deserialize)]
struct Told {
    version: (u32, u32),
    tag: String,
    program: PathBuf,
    asked: PathBuf,
    library: Vec<PathBuf>,
    mapped: Vec<PathBuf>,
    programs: Vec<String>,
}

impl Interpreter {
    /// `env` is what the program may need to find itself (a shim reads `PATH` and `HOME`).
    pub(super) async fn ask(python: &Path, env: &[(OsString, OsString)]) -> Result<Interpreter, Missing> {
        let mut told = tell(python, env).await?;
        if told.program != told.asked {
            // A virtual environment: what counts is the interpreter it was made from.
            told = tell(&told.program.clone(), env).await?;
        }
        if told.version < OLDEST {
            let (major, minor) = told.version;
            let what = format!("`{}` is Python {major}.{minor}; 3.9 is needed", python.display());
            return Err(Missing { what, fix: INSTALL.to_owned() });
        }
        let worker = told.programs.first().and_then(|hex| from_hex(hex));
        let worker = worker.ok_or_else(|| unusable(python, "its answer is not what was asked"))?;
        let others = ["site-packages", "dist-packages"]
            .map(|name| told.library.iter().map(move |folder| folder.join(name)).filter(|folder| folder.is_dir()));
        let others = others.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect();
        let folders = told.mapped.iter().filter_map(|library| library.parent().map(Path::to_owned));
        let needs = outermost(told.library.iter().cloned().chain(folders).chain([told.program.clone()]));
        Ok(Interpreter { program: told.program, needs, others, tag: told.tag, worker })
    }

    /// The program text that loads the worker from the channel, where it is the first thing sent.
    pub(super) fn loader(&self) -> String {
        let length = self.worker.len();
        format!(
            "import posix,marshal,sys\nb=b''\nwhile len(b)<{length}:\n p=posix.read(3,{length}-len(b))\n if not \
             p:posix._exit(0)\n b+=p\nexec(marshal.loads(b),{{'__name__':'jarvis','__builtins__':\
             dict(vars(sys.modules['builtins']))}})"
        )
    }
}

async fn tell(python: &Path, env: &[(OsString, OsString)]) -> Result<Told, Missing> {
    // Starts the program that the person configured, with a program of ours; nobody else's code is involved.
    #[allow(clippy::disallowed_methods)]
    let mut command = tokio::process::Command::new(python);
    command.args(["-I", "-S", "-B", "-X", "utf8", "-c", PROBE]).env_clear().envs(env.iter().cloned());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|e| unusable(python, &e.to_string()))?;
    let mut stdin = child.stdin.take();
    let ask = async {
        if let Some(stdin) = &mut stdin {
            // When it does not listen its exit says more.
            let _ = stdin.write_all(WORKER.concat().as_bytes()).await;
        }
        drop(stdin);
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(PATIENCE, ask).await;
    let output = output.map_err(|_| unusable(python, "it does not answer"))?;
    let output = output.map_err(|e| unusable(python, &e.to_string()))?;
    let answer = output.stdout.split(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice(line).ok());
    answer.ok_or_else(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        unusable(python, words.trim().lines().last().unwrap_or("it does not answer"))
    })
}

fn unusable(python: &Path, why: &str) -> Missing {
    Missing { what: format!("`{}` cannot be used as Python: {why}", python.display()), fix: INSTALL.to_owned() }
}

/// Without those inside others.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let all: BTreeSet<PathBuf> = paths.filter_map(|path| path.canonicalize().ok()).collect();
    let inside = |path: &PathBuf| all.iter().any(|other| other != path && path.starts_with(other));
    all.iter().filter(|path| !inside(path)).cloned().collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    Some(digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_inside_others_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let kept = outermost([inner, folder.path().to_owned(), folder.path().join("absent")].into_iter());
        assert_eq!(kept, [folder.path().canonicalize().unwrap()]);
    }

    #[tokio::test]
    async fn what_is_no_python_is_explained() {
        for program in ["/nonexistent/python3", "/bin/true", "/bin/sh"] {
            let missing = Interpreter::ask(Path::new(program), &[]).await.unwrap_err();
            assert!(missing.what.contains(program) && missing.fix.contains("install Python"), "{missing:?}");
        }
    }
}

//! Runs a command in a jail (`jail DIR CMD…`), or measures what a jail costs (`jail bench`), or shows what
//! holds here (`jail probe`).
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "an example prints, and compares"
)]

use jarvis_sandbox::{Jail, JailConfig, JailSpec, Preset, Stdin};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

type Anything = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Anything> {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    if Path::new(&name).file_name() == Some("jarvis-jail".as_ref()) {
        return Ok(jarvis_sandbox::jail_main());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let jail = Jail::new(JailConfig { helper_exe: PathBuf::from("/proc/self/exe"), without_namespaces: false });
    let first = args.next().ok_or("jail DIR CMD… | jail bench | jail probe")?;
    if first == "bench" {
        return runtime.block_on(bench(&jail)).map(|()| ExitCode::SUCCESS);
    }
    if first == "probe" {
        let folder = std::env::temp_dir().join(format!("jail-probe-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        for layer in runtime.block_on(jail.probe(&folder)) {
            println!("{:44} {:5} {} {}", layer.name, layer.in_force, layer.detail, layer.fix.unwrap_or_default());
        }
        std::fs::remove_dir(&folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = args.next().ok_or("which program?")?;
    let mut spec = JailSpec::new(program, first).args(args);
    spec.preset = Preset::WorkspaceWrite;
    spec.stdin = Stdin::Closed;
    spec.home = std::env::home_dir();
    let cancel = CancellationToken::new();
    let done =
        runtime.block_on(jail.run(spec, &cancel, |_, _| {})).inspect_err(|e| eprintln!("{e}: {:?}", e.hint()))?;
    print!("{}", done.stdout_text());
    eprint!("{}", done.stderr_text());
    eprintln!("{:?}\n{:?}", done.exit, done.layers);
    Ok(ExitCode::from(u8::try_from(done.exit.code.unwrap_or(255)).unwrap_or(255)))
}

/// Bare, jailed and under bwrap in turn, so that the machine's mood is the same for all.
async fn bench(jail: &Jail) -> Result<(), Anything> {
    let workspace = std::env::temp_dir().join(format!("jail-bench-{}", std::process::id()));
    std::fs::create_dir_all(&workspace)?;
    let cancel = CancellationToken::new();
    for (program, args) in [("/bin/true", &[][..]), ("/usr/bin/python3", &["-I", "-c", "pass"][..])] {
        let mut times: [Vec<f64>; 3] = Default::default();
        let mut layers = Vec::new();
        for _ in 0..60 {
            let started = Instant::now();
            let mut bare = Command::new(program);
            bare.args(args).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).status()?;
            times[0].push(started.elapsed().as_secs_f64() * 1e3);
            let mut spec = JailSpec::new(program, &workspace).args(args.iter().copied());
            spec.preset = Preset::WorkspaceWrite;
            let started = Instant::now();
            let done = jail.run(spec, &cancel, |_, _| {}).await?;
            times[1].push(started.elapsed().as_secs_f64() * 1e3);
            layers = done.layers;
            let mut bwrap = Command::new("bwrap");
            bwrap.args(
                "--unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64"
                    .split(' '),
            );
            bwrap.args(
                "--symlink usr/bin /bin --ro-bind /etc /etc --proc /proc --dev /dev --tmpfs /tmp --bind".split(' '),
            );
            bwrap.arg(&workspace).arg(&workspace).arg("--").arg(program).args(args);
            let started = Instant::now();
            if bwrap
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .is_ok()
            {
                times[2].push(started.elapsed().as_secs_f64() * 1e3);
            }
        }
        println!("{program} {args:?}");
        for (name, times) in ["bare", "jail", "bwrap"].into_iter().zip(times) {
            let mut times = times;
            times.sort_by(f64::total_cmp);
            let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(f64::NAN);
            println!("  {name:6} median {:6.2} ms   p90 {:6.2} ms", at(50), at(90));
        }
        println!("  {layers:?}");
    }
    std::fs::remove_dir_all(&workspace)?;
    Ok(())
}

//! `jarvis sandbox run`.

use crate::cli::{Common, Place, Reach};
use crate::commands::cap::arguments;
use crate::error::{Failure, Outcome, failed, unreadable, usage};
use crate::home::Home;
use crate::{config, files, run, term};
use clap::{Args, ValueEnum};
use jarvis_dispatch::{Approved, Reviewed, Verdict, review};
use jarvis_policy::{Approval, Policy};
use jarvis_protocol::{
    Capability, CapabilityName, ErrorBody, ErrorKind, Execution, ExitClass, Grants, Limits, Runtime, value_text,
};
use serde_json::json;
use std::path::{Path, PathBuf};

pub const HELP: &str = "\
Examples:
  jarvis sandbox run hello.ts --args '{\"name\": \"Ada\"}'
  jarvis sandbox run --runtime python - < hello.py
  jarvis sandbox run page.ts --allow-net api.example.com --json

hello.ts:  export default function run({ name }: { name: string }) { return `Hello, ${name}`; }
hello.py:  def run(args, ctx): return \"Hello, \" + args[\"name\"]

The result goes to stdout, what the code prints to stderr. With --json: the whole \
execution, with the isolation that was in force.";

#[derive(Debug, Args)]
pub struct Run {
    /// By the file's ending where it is not said: .py is python, all else typescript.
    #[arg(long, value_name = "RUNTIME")]
    runtime: Option<RuntimeArg>,
    /// The code; - reads it from stdin.
    file: PathBuf,
    /// What the code is called with: a JSON object, @FILE, or - for stdin.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    args: String,
    /// A host that it may reach; may be given more than once, like the next three.
    #[arg(long, value_name = "HOST")]
    allow_net: Vec<String>,
    /// A file or folder that it may read.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A file or folder that it may write.
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// A secret that it may use (jarvis secret list).
    #[arg(long, value_name = "NAME")]
    secret: Vec<String>,
    /// A package that it imports, python only: NAME==VERSION.
    #[arg(long, value_name = "PACKAGE")]
    dependency: Vec<String>,
    /// Wall-clock milliseconds.
    #[arg(long, value_name = "MS", default_value_t = Limits::STANDARD.timeout_ms)]
    timeout: u64,
    /// Memory, MiB.
    #[arg(long, value_name = "MIB", default_value_t = Limits::STANDARD.memory_mb)]
    memory: u64,
    /// Result and printed text together, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::STANDARD.output_bytes)]
    output: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RuntimeArg {
    Typescript,
    Python,
    Deno,
}

pub fn run(args: &Run, common: &Common) -> Outcome {
    let home = Home::find()?;
    if args.file.as_os_str() == "-" && args.args == "-" {
        return Err(usage("both the code and --args cannot come from stdin", "name a file for one of them"));
    }
    let code = source(&args.file)?;
    let given = arguments(&args.args)?;
    let grants = grants(args)?;
    run::enter(&args.place)?;
    let settings = config::load(&home)?;
    let policy = Policy { approval: Approval::Ask, network: settings.sandbox.network, ..Policy::closed() };
    let mut capability = Capability::new(name_of(&args.file)?, "tried by hand");
    capability.runtime = runtime(args);
    capability.limits = Limits { timeout_ms: args.timeout, memory_mb: args.memory, output_bytes: args.output };
    capability.dependencies.clone_from(&args.dependency);
    let approved = approved(&policy, &capability.name, &grants, &args.dependency)?;
    capability.grants = grants;
    let dispatch = run::dispatch(&settings, &Reach::default(), &home)?;
    if let Some(problem) = args.secret.iter().find_map(|name| dispatch.secret_problem(name)) {
        return Err(failed(ErrorKind::NotFound, problem));
    }
    if capability.runtime != Runtime::Python && !args.dependency.is_empty() {
        return Err(usage("--dependency is for python code", "leave it out, or add --runtime python"));
    }
    let done = run::block(async |signals| {
        let cancel = signals.work();
        dispatch.install(&capability.name, &capability.dependencies, &cancel).await?;
        Ok(dispatch.run_by_hand(&capability, &code, given, None, &approved, &cancel).await?)
    })?;
    show(&done, common.json)
}

fn source(file: &Path) -> Outcome<String> {
    if file.as_os_str() == "-" { files::stdin() } else { files::text(file) }
}

fn runtime(args: &Run) -> Runtime {
    match args.runtime {
        Some(RuntimeArg::Typescript) => Runtime::Typescript,
        Some(RuntimeArg::Python) => Runtime::Python,
        Some(RuntimeArg::Deno) => Runtime::Deno,
        None if args.file.extension().is_some_and(|e| e == "py") => Runtime::Python,
        None => Runtime::Typescript,
    }
}

/// Paths are meant from where the command was typed.
fn grants(args: &Run) -> Outcome<Grants> {
    let absolute = |paths: &[PathBuf]| -> Outcome<Vec<String>> {
        paths
            .iter()
            .map(|path| {
                let whole = std::path::absolute(path).map_err(|e| unreadable(path, &e))?;
                whole.into_os_string().into_string().map_err(|name| {
                    usage(format!("{} is no text", name.to_string_lossy()), "grants need a path in UTF-8")
                })
            })
            .collect()
    };
    for host in &args.allow_net {
        jarvis_dispatch::check_host(host).map_err(|problem| usage(problem, "for example api.example.com"))?;
    }
    Ok(Grants {
        network: args.allow_net.clone(),
        read: absolute(&args.read)?,
        write: absolute(&args.write)?,
        secrets: args.secret.clone(),
    })
}

fn approved(policy: &Policy, name: &CapabilityName, grants: &Grants, dependencies: &[String]) -> Outcome<Approved> {
    let version =
        Reviewed { name: name.as_str(), grants, previous: None, dependencies, dropped_examples: 0, alarm: None };
    match review(policy, &version) {
        Verdict::Approved(approved) => Ok(approved),
        Verdict::Denied(deny) => {
            let body = ErrorBody::new(ErrorKind::Denied, deny.reason);
            Err(Failure::from(ErrorBody { hint: deny.hint, ..body }))
        }
        // Whoever types a grant has said yes to it.
        Verdict::Ask(ask) => Ok(ask.allow()),
    }
}

/// A name for the audit, after the file's.
fn name_of(file: &Path) -> Outcome<CapabilityName> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(50).collect();
    CapabilityName::new(format!("try_{plain}")).map_err(|e| failed(ErrorKind::Internal, e.to_string()))
}

fn show(done: &Execution, json: bool) -> Outcome {
    let failure = (done.exit != ExitClass::Ok).then(|| done.failure());
    if json {
        term::json(&json!({"execution": done}))?;
    } else {
        if !done.printed.is_empty() {
            term::note(done.printed.trim_end());
        }
        if let (Some(value), None) = (&done.result, &failure) {
            term::line(value_text(value))?;
        }
        term::status(term::stderr_style().dim(&about(done)));
    }
    match failure {
        None => Ok(()),
        Some(_) if done.exit == ExitClass::Cancelled => Err(Failure::Told(130)),
        Some(problem) => {
            let body = ErrorBody::new(ErrorKind::Sandbox, problem);
            // With --json the execution says it already, and stdout holds one value.
            if json {
                crate::error::tell(&body);
                return Err(Failure::Told(1));
            }
            Err(body.into())
        }
    }
}

fn about(done: &Execution) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let (ms, mib) = (done.wall_us as f64 / 1e3, done.peak_memory_kb as f64 / 1024.0);
    let isolation = if done.isolation.is_empty() { "nothing was run".to_owned() } else { done.isolation.join(", ") };
    format!("{ms:.1} ms, {mib:.1} MiB; {isolation}")
}

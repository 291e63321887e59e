//! `jarvis cap export`: capabilities as a package for another home, with a digest over all of it.

use super::{done, existing};
use crate::error::{Outcome, usage};
use crate::home::Home;
use crate::run;
use clap::Args;
use jarvis_protocol::CapabilityName;
use jarvis_registry::{Exported, write_archive, write_folder};
use serde_json::json;
use std::path::{Path, PathBuf};

pub const HELP: &str = "\
Examples:
  jarvis cap export fibonacci gcd --out numbers.tar.gz
  jarvis cap export --all --out shared/

The package holds definitions, code and a manifest with the BLAKE3 digest of each \
file and of all of them; `jarvis cap import` refuses it where a byte was changed, \
and with --digest takes this very package only. The same capabilities give the
same bytes. Statistics and secrets are not in it, only the names of secrets.";

#[derive(Debug, Args)]
pub struct Export {
    #[arg(conflicts_with = "all")]
    names: Vec<String>,
    /// Everything registered.
    #[arg(long)]
    all: bool,
    /// A new file that ends in .tar.gz, .tgz or .tar, or else a new folder; NAME.tar.gz by default.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Export what looks like it holds a password or a key too.
    #[arg(long)]
    with_secrets: bool,
}

pub fn export(home: &Home, args: &Export, json: bool) -> Outcome {
    if args.names.is_empty() && !args.all {
        return Err(usage("nothing is named to be exported", "name capabilities, or say --all"));
    }
    let registry = run::registry(home)?;
    let names: Vec<CapabilityName> =
        args.names.iter().map(|name| Ok(existing(&registry, name)?.name)).collect::<Outcome<_>>()?;
    let export = registry.export(&names)?;
    if export.capabilities.is_empty() {
        return Err(usage("there is nothing to export: nothing is registered", "see `jarvis cap list`"));
    }
    if !args.with_secrets {
        export.capabilities.iter().try_for_each(no_secret)?;
    }
    let path = args.out.clone().unwrap_or_else(|| match names.as_slice() {
        [only] => PathBuf::from(format!("{only}.tar.gz")),
        _ => PathBuf::from("capabilities.tar.gz"),
    });
    let ends = |ending: &str| path.to_string_lossy().ends_with(ending);
    if path.symlink_metadata().is_ok() {
        let message = format!("{} is there already, and is not overwritten", path.display());
        return Err(usage(message, "name another one with --out, or remove it"));
    }
    match ends(".tar.gz") || ends(".tgz") {
        true => write_archive(&export, &path, true)?,
        false if ends(".tar") => write_archive(&export, &path, false)?,
        false => write_folder(&export, Path::new(path.to_string_lossy().trim_end_matches('/')))?,
    }
    let listed: Vec<_> = export
        .capabilities
        .iter()
        .map(|e| json!({"name": e.capability.name, "version": e.capability.version, "code_matches_digest": e.matches_digest}))
        .collect();
    let shown = json!({"path": path, "digest": export.digest, "capabilities": listed});
    done(
        json,
        &shown,
        format!("{} exported to {}\ndigest {}", export.capabilities.len(), path.display(), export.digest),
    )
}

/// A key that stands in the code or in an example would be given away.
fn no_secret(exported: &Exported) -> Outcome {
    let capability = &exported.capability;
    let name = &capability.name;
    let hint = "take it out (jarvis secret set keeps it apart), or export it all the same with --with-secrets";
    for (number, line) in exported.code.iter().flat_map(|code| code.lines()).enumerate() {
        if jarvis_audit::redact(line) != line {
            let message = format!("line {} of the code of `{name}` looks like it holds a secret", number + 1);
            return Err(usage(message, hint));
        }
    }
    let examples = json!(capability.examples);
    if jarvis_audit::redact_value(&examples) != examples {
        return Err(usage(format!("an example of `{name}` looks like it holds a secret"), hint));
    }
    Ok(())
}

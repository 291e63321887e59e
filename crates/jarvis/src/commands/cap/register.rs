//! `jarvis cap register`: a definition and its code, after the same checks as anything a model writes.

use super::done;
use crate::cli::Reach;
use crate::error::{Outcome, usage};
use crate::home::Home;
use crate::show::Show;
use crate::{config, files, run};
use clap::Args;
use jarvis_forge::{Draft, check_keys};
use jarvis_protocol::{Capability, CreatedBy};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What `cap register` reads, whole, so that it can be copied.
pub const HELP: &str = "\
Example:
  jarvis cap register --definition gcd.json --code gcd.ts

gcd.json:
  {
    \"name\": \"gcd\",
    \"capability\": \"Computes the greatest common divisor of two integers.\",
    \"triggers\": [\"common divisor of two numbers\", \"最大公约数\"],
    \"parameters\": {
      \"type\": \"object\",
      \"required\": [\"a\", \"b\"],
      \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"integer\"}}
    },
    \"returns\": {\"type\": \"integer\"},
    \"examples\": [
      {\"args\": {\"a\": 12, \"b\": 18}, \"returns\": 6},
      {\"args\": {\"a\": 7, \"b\": 5}, \"matches\": \"^1$\"}
    ]
  }

gcd.ts:
  export default function run({ a, b }: { a: number; b: number }): number {
    while (b !== 0) [a, b] = [b, a % b];
    return Math.abs(a);
  }

The keys; name, capability and examples are needed:
  name         a-z, 0-9 and _, a letter first; a name that is taken makes the
               next version of that capability
  capability   what it does, in one sentence
  triggers     situations in which it fits, in any language; search goes by them
  suppression  look-alike situations in which it must not be used
  aliases      other names that it answers to; nothing else may have them
  parameters   JSON Schema of the arguments: an object, without $ref
  returns      JSON Schema of the result
  examples     calls that must pass, each with args and
                 returns   the exact result, or
                 matches   a regular expression for the result as text;
                           with neither it only has to run
                 held_out  true keeps it from a model that writes the code
                 origin    person (you), request or model: who gave it
  grants       what code that reaches outside may reach, {\"network\": [HOST],
               \"read\": [PATH], \"write\": [PATH], \"secrets\": [NAME]} (of
               jarvis secret list); a person is asked for them
  limits       {\"timeout_ms\": 45000, \"memory_mb\": 128, \"output_bytes\": 1048576};
               all three, where these do not do
  runtime      typescript (JavaScript too), python or deno
  dependencies packages that Python code imports, [\"NAME==VERSION\"]; a person
               is asked for them
  model        the model that wrote the code, if one did
  supersedes   the capability that it takes the place of
Worked out and not read: tool_path, version, changelog, created, created_by,
digest, status. Keys of your own begin with x_; any other one is an error.

Code can run what is registered: await capability(\"gcd\", { a: 12, b: 18 }), in
Python capability(\"gcd\", {\"a\": 12, \"b\": 18}). That reaches only what both
have grants for.";

#[derive(Debug, Args)]
pub struct Register {
    /// A JSON file (see below), or what `jarvis cap show NAME --json` printed.
    #[arg(long, value_name = "FILE")]
    definition: PathBuf,
    /// The code.
    #[arg(long, value_name = "FILE")]
    code: PathBuf,
    #[command(flatten)]
    pub reach: Reach,
}

pub fn register(home: &Home, args: &Register, json: bool) -> Outcome {
    let draft = draft(&args.definition, &args.code)?;
    run::enter(&args.reach.place)?;
    let forge = run::forge(&config::load(home)?, &args.reach, home)?;
    let accepted = run::block(async |signals| {
        let cancel = signals.work();
        let mut show = Show::new(false);
        let mut approver = run::approver(json, &cancel);
        Ok(forge.submit(draft, &mut |event| show.event(&event), approver.as_mut(), &cancel).await?)
    })?;
    let shown = json!({
        "name": accepted.name, "version": accepted.version, "previous": accepted.previous, "verified": accepted.verified,
    });
    done(json, &shown, format!("{} {} is registered", accepted.name, accepted.version))
}

/// What the two files say, with every key checked.
fn draft(definition: &Path, code: &Path) -> Outcome<Draft> {
    let raw = files::text(definition)?;
    let no_definition = |problem: String| {
        usage(
            format!("{} is no definition: {problem}", definition.display()),
            "`jarvis cap register --help` shows a whole one, `jarvis cap show NAME --json` prints one that is registered",
        )
    };
    let mut value: Value = serde_json::from_str(&raw).map_err(|e| no_definition(e.to_string()))?;
    // What `cap show --json` prints holds the definition under this key.
    if let Some(inner) = value.get_mut("capability").filter(|inner| inner.is_object()) {
        value = inner.take();
    }
    check_keys(&value).map_err(no_definition)?;
    let mut capability: Capability = serde_json::from_value(value).map_err(|e| no_definition(e.to_string()))?;
    capability.created_by = CreatedBy::Human;
    let code = files::text(code)?;
    Ok(Draft {
        capability,
        code,
        request: None,
        change: "registered by a person".to_owned(),
        instead_of: None,
        restored: false,
    })
}

//! `jarvis cap unify KEEP OTHER…`: several that do the same become one.

use super::{done, existing};
use crate::cli::{ApproveArg, Common, Reach, Tape};
use crate::error::{Outcome, usage};
use crate::home::Home;
use crate::show::Show;
use crate::{config, model, run, term};
use clap::{Arg, Args};
use jarvis_forge::Writer;
use jarvis_protocol::Usage;
use jarvis_registry::health::Renamed;
use serde_json::json;
use std::time::Instant;

pub const HELP: &str = "Examples:
  jarvis cap unify gcd common_divisor
  jarvis cap unify power raise_number --map x=base --map y=exponent

KEEP gets a new version that must pass the recorded examples of all, and the others are retired in the same moment; \
calls by their names run KEEP. If anything fails, nothing has changed. To undo it:
  jarvis cap rollback KEEP && jarvis cap enable OTHER";

#[derive(Debug, Args)]
pub struct Unify {
    /// The one that stays.
    keep: String,
    /// Those that it answers for from now on.
    #[arg(required = true)]
    others: Vec<String>,
    /// Which argument of an other is which of KEEP, where the names differ and it is not plain. May be given more than once.
    #[arg(long, value_name = "OTHERS=KEEPS", value_parser = pair)]
    map: Vec<(String, String)>,
    /// If the code of KEEP does not pass the examples of all, have the model write one version that does.
    #[arg(long)]
    rewrite: bool,
    /// What to do where a yes is due, as it is where KEEP reaches outside: ask, auto or deny.
    #[arg(long, value_name = "WHAT")]
    approve: Option<ApproveArg>,
}

/// `--model`, for `--rewrite`.
pub fn model() -> Arg {
    Arg::new("model")
        .long("model")
        .global(true)
        .value_name("PROVIDER/MODEL")
        .help("The model that writes, with --rewrite")
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.trim().is_empty() && !to.trim().is_empty() => {
            Ok((from.trim().to_owned(), to.trim().to_owned()))
        }
        _ => Err("two names with `=` between them: --map x=base".to_owned()),
    }
}

pub fn unify(home: &Home, args: &Unify, common: &Common) -> Outcome {
    let settings = config::load(home)?;
    let reach = Reach { approve: args.approve, ..Reach::default() };
    let forge = run::forge(&settings, &reach, home)?;
    let registry = forge.dispatch().registry();
    let keep = existing(registry, &args.keep)?.name;
    let others = args.others.iter().map(|name| Ok(existing(registry, name)?.name)).collect::<Outcome<Vec<_>>>()?;
    let told: Renamed = args.map.iter().cloned().collect();
    for (from, _) in &args.map {
        let known = others.iter().any(|other| {
            registry.get(other).ok().flatten().is_some_and(|other| other.takes().iter().any(|p| p.name == from))
        });
        if !known {
            return Err(usage(
                format!("--map: none of {} takes `{from}`", args.others.join(", ")),
                "the name on the left is one of theirs, the one on the right is of KEEP",
            ));
        }
    }
    let plan = jarvis_forge::Unify { keep, others, told };
    let choice = match args.rewrite {
        true => Some(model::choose(&settings, common.model.as_deref())?),
        false => None,
    };
    let (mut spent, started) = (Usage::default(), Instant::now());
    let unified = run::block(async |signals| {
        let cancel = signals.work();
        let handle = match &choice {
            Some(choice) => Some(run::handle(choice, &settings, &Tape::default(), home, &cancel).await?),
            None => None,
        };
        let mut show = Show::new(false);
        let mut approver = run::approver(common.json, &cancel);
        let mut count = |usage| spent.add(usage);
        let writer = handle.as_ref().map(|model| Writer { model, count: &mut count });
        let mut emit = |event| show.event(&event);
        Ok(forge.unify(&plan, writer, &mut emit, approver.as_mut(), &cancel).await?)
    })?;
    if unified.triggers_left_out > 0 {
        term::note(format!("{} triggers did not find room in the definition", unified.triggers_left_out));
    }
    let accepted = &unified.accepted;
    if unified.rewritten {
        forge.record_build(accepted.name.as_str(), spent, started.elapsed())?;
    }
    let shown = json!({
        "name": accepted.name, "version": accepted.version, "previous": accepted.previous, "verified": accepted.verified,
        "aliases": unified.aliases, "retired": unified.retired, "arguments": unified.renamed,
        "rewritten": unified.rewritten, "triggers_left_out": unified.triggers_left_out, "usage": spent,
    });
    let others: Vec<&str> = unified.retired.iter().map(|name| name.as_str()).collect();
    let words = format!("{} {} answers for {} too", accepted.name, accepted.version, others.join(", "));
    done(common.json, &shown, words)
}

//! `jarvis cap test`: the recorded examples, each with what it should give and what it gave.

use super::check::{Which, chosen};
use super::look::wanted;
use crate::cli::{Place, Reach};
use crate::error::{Failure, Outcome};
use crate::home::Home;
use crate::{config, run, term};
use clap::Args;
use jarvis_forge::Tested;
use jarvis_protocol::value_text;
use serde_json::{Value, json};

pub const HELP: &str = "Examples:\n  jarvis cap test fibonacci\n  jarvis cap test --all --json\n\n\
The exit code is 1 where an example does not pass.";

#[derive(Debug, Args)]
pub struct Test {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    place: Place,
}

pub fn test(home: &Home, args: &Test, json: bool) -> Outcome {
    run::enter(&args.place)?;
    let forge = run::forge(&config::load(home)?, &Reach::default(), home)?;
    let (names, damaged) = chosen(forge.dispatch().registry(), &args.which)?;
    let mut failed = damaged.len();
    let mut shown: Vec<Value> = Vec::new();
    for (entry, problem) in damaged {
        term::note(format!("{}: damaged: {problem}", term::flat(&entry)));
        shown.push(json!({"name": entry, "passed": 0, "failed": 1, "problem": problem, "examples": []}));
    }
    run::block(async |signals| {
        let cancel = signals.work();
        for name in &names {
            let tested = match forge.test(name, &cancel).await {
                Ok(tested) => tested,
                // The others are tested all the same.
                Err(_) if cancel.is_cancelled() => return Err(Failure::Told(130)),
                Err(error) => {
                    let problem = term::flat(&error.to_string()).clone();
                    failed += 1;
                    term::note(format!("{name}: {problem}"));
                    shown.push(json!({"name": name, "passed": 0, "failed": 1, "problem": problem, "examples": []}));
                    continue;
                }
            };
            let wrong = tested.iter().filter(|t| t.problem.is_some()).count();
            failed += wrong;
            if !json {
                tested.iter().try_for_each(|tested| term::line(line(name.as_str(), tested)))?;
                if tested.is_empty() {
                    term::line(format!("{name}: no example is recorded"))?;
                }
            }
            let examples: Vec<Value> = tested.iter().map(as_json).collect();
            shown.push(json!({
                "name": name, "passed": tested.len() - wrong, "failed": wrong, "examples": examples,
            }));
        }
        Ok(())
    })?;
    if json {
        term::json(&json!({"capabilities": shown, "failed": failed}))?;
    }
    if failed > 0 { Err(Failure::Told(1)) } else { Ok(()) }
}

fn line(name: &str, tested: &Tested) -> String {
    let style = term::stdout_style();
    let ms = format!("{:.1} ms", tested.wall_us as f64 / 1e3);
    let expected = term::flat(&wanted(&tested.example));
    let args = term::flat(&tested.example.args.to_string());
    match &tested.problem {
        None => {
            let got = term::flat(&tested.got.as_ref().map(value_text).unwrap_or_default());
            format!("{} {name} {args}: expected {expected}, got {got} ({ms})", style.green("✓"))
        }
        Some(problem) => {
            let got = tested.got.as_ref().map(|got| format!(", got {}", term::flat(&value_text(got))));
            let got = got.unwrap_or_default();
            format!("{} {name} {args}: expected {expected}{got} ({ms}): {}", style.red("✗"), term::flat(problem))
        }
    }
}

fn as_json(tested: &Tested) -> Value {
    json!({
        "args": tested.example.args, "returns": tested.example.returns, "matches": tested.example.matches,
        "held_out": tested.example.held_out, "got": tested.got, "ok": tested.problem.is_none(),
        "problem": tested.problem, "ms": tested.wall_us as f64 / 1e3,
    })
}

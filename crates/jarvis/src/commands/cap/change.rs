//! `jarvis cap run | enable | disable | rm | rollback`: one capability, named.

use super::told::Told;
use super::{answering, calls, done, existing};
use crate::cli::{ApproveArg, Place, Reach};
use crate::error::{Outcome, usage};
use crate::home::Home;
use crate::show::Show;
use crate::{config, files, run, term};
use clap::Args;
use jarvis_protocol::{Status, Version, value_text};
use serde_json::{Value, json};
use std::path::Path;

#[derive(Debug, Args)]
pub struct Run {
    name: String,
    /// A JSON object, @FILE, or - for stdin.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    args: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct Rollback {
    name: String,
    /// As `jarvis cap history NAME` shows it.
    #[arg(value_parser = super::version)]
    version: Option<Version>,
    /// What to do where a yes is due, as it is where the version reaches outside: ask, auto or deny.
    #[arg(long, value_name = "WHAT")]
    approve: Option<ApproveArg>,
}

#[derive(Debug, Args)]
pub struct Enable {
    name: String,
    /// What to do where a yes is due, as it is for a quarantined one that reaches outside: ask, auto or deny.
    #[arg(long, value_name = "WHAT")]
    approve: Option<ApproveArg>,
}

pub fn enable(home: &Home, args: &Enable, json: bool) -> Outcome {
    let reach = Reach { approve: args.approve, ..Reach::default() };
    let forge = run::forge(&config::load(home)?, &reach, home)?;
    let name = existing(forge.dispatch().registry(), &args.name)?.name;
    run::block(async |signals| {
        let mut told = Told::new();
        let mut approver = run::approver(json, &signals.work());
        Ok(forge.enable(&name, &mut |event| told.event(event), approver.as_mut()).await?)
    })?;
    done(json, &json!({"name": name, "status": Status::Active}), format!("{name} is active"))
}

pub fn set_status(home: &Home, name: &str, to: Status, json: bool) -> Outcome {
    let dispatch = run::dispatch(&config::load(home)?, &Reach::default(), home)?;
    let capability = existing(dispatch.registry(), name)?;
    let callers = if to == Status::Active { None } else { Some(calls::warn(&dispatch, &capability, to.as_str())?) };
    dispatch.set_status(&capability.name, to)?;
    let mut shown = json!({"name": name, "status": to});
    if let Some(callers) = callers {
        shown["called_by"] = json!(callers);
    }
    done(json, &shown, format!("{name} is {}", to.as_str()))
}

pub fn remove(home: &Home, name: &str, json: bool) -> Outcome {
    let dispatch = run::dispatch(&config::load(home)?, &Reach::default(), home)?;
    let capability = existing(dispatch.registry(), name)?;
    let callers = calls::warn(&dispatch, &capability, "removed")?;
    dispatch.remove(&capability.name)?;
    done(json, &json!({"removed": name, "called_by": callers}), format!("{name} is removed"))
}

pub fn execute(home: &Home, args: &Run, json: bool) -> Outcome {
    let given = arguments(&args.args)?;
    run::enter(&args.place)?;
    let dispatch = run::dispatch(&config::load(home)?, &Reach::default(), home)?;
    let capability = answering(dispatch.registry(), &args.name)?;
    let mut told = Told::new();
    let ran = run::block(async |signals| {
        let cancel = signals.work();
        // What came by an import or a pull reaches out only once a person here has said yes.
        if capability.status == Status::Active {
            dispatch.approve(&capability, run::approver(json, &cancel).as_mut()).await?;
        }
        Ok(dispatch.run(&args.name, given, &mut |event| told.event(event), &cancel).await)
    })?;
    match ran {
        Ok(ran) if json => term::json(&json!({"result": ran.value, "execution": ran.execution, "events": told.events})),
        Ok(ran) => term::line(value_text(&ran.value)),
        Err(error) => told.failed(error.body(), json),
    }
}

pub fn arguments(raw: &str) -> Outcome<Value> {
    let text = match raw.strip_prefix('@') {
        Some(path) => files::text(Path::new(path))?,
        None if raw == "-" => files::stdin()?,
        None => raw.to_owned(),
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => match jarvis_dispatch::check_exact(&value) {
            Ok(()) => Ok(value),
            Err(problem) => {
                Err(usage(format!("--args: {problem}"), "for example --args '{\"n\": \"12345678901234567890\"}'"))
            }
        },
        Ok(_) => Err(usage("--args must be a JSON object", "for example --args '{\"n\": 90}'")),
        Err(e) => Err(usage(format!("--args is not JSON: {e}"), "for example --args '{\"n\": 90}'")),
    }
}

pub fn roll_back(home: &Home, args: &Rollback, json: bool) -> Outcome {
    let reach = Reach { approve: args.approve, ..Reach::default() };
    let forge = run::forge(&config::load(home)?, &reach, home)?;
    let name = existing(forge.dispatch().registry(), &args.name)?.name;
    let accepted = run::block(async |signals| {
        let cancel = signals.work();
        let mut show = Show::new(false);
        let mut approver = run::approver(json, &cancel);
        let mut emit = |event| show.event(&event);
        Ok(forge.rollback(&name, args.version.as_ref(), &mut emit, approver.as_mut(), &cancel).await?)
    })?;
    let shown = json!({"name": accepted.name, "version": accepted.version, "previous": accepted.previous});
    done(json, &shown, format!("{} is back, as version {}", accepted.name, accepted.version))
}

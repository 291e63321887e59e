//! `jarvis secret`. A value comes from stdin or a hidden prompt, never from the command line, which other users see.

use crate::cli::{Common, unused_model};
use crate::error::{Failure, Outcome, usage};
use crate::home::Home;
use crate::{secrets, term};
use clap::Subcommand;
use jarvis_protocol::ErrorKind;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;
use std::io::{IsTerminal, Read};

/// More than this is no secret.
const MOST: u64 = 64 << 10;

#[derive(Debug, Subcommand)]
#[command(
    arg = unused_model(),
    after_help = "Examples:\n  jarvis secret set GITHUB_TOKEN --host api.github.com\n  jarvis secret list"
)]
pub enum Secret {
    /// Sets a secret and the hosts it may be sent to; the value is asked for, or read from stdin.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis secret set GITHUB_TOKEN --host api.github.com\n  \
        pass show weather | jarvis secret set WEATHER_KEY --host '*.weather.example' --host 'GET api.example.com/v1'")]
    Set {
        /// As grants.secrets and ctx.secret name it: letters, digits and underscores.
        name: String,
        /// A host that it may be sent to: api.example.com, *.example.com, host:port, 'GET host/path'. More than once for more.
        #[arg(long, value_name = "PATTERN", required = true)]
        host: Vec<String>,
    },
    /// Names and hosts of all secrets; never their values.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis secret list --json")]
    List,
    /// Removes a secret.
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis secret rm GITHUB_TOKEN")]
    Rm { name: String },
}

pub fn run(args: Secret, common: &Common) -> Outcome {
    let home = Home::find()?;
    match args {
        Secret::Set { name, host } => {
            // What is wrong with these is said before a value is typed.
            secrets::check_name(&name)?;
            secrets::check_hosts(&name, &host)?;
            let value = value(&name)?;
            let replaced = secrets::set(&home, &name, value, host.clone())?;
            if common.json {
                return term::json(&json!({"name": name, "hosts": host, "replaced": replaced}));
            }
            let what = if replaced { "replaced" } else { "set" };
            term::status(format!("{name} is {what}; it may be sent to {}", host.join(", ")));
            Ok(())
        }
        Secret::List => {
            let all = secrets::list(&home)?;
            if common.json {
                let all: Vec<_> = all.iter().map(|(name, hosts)| json!({"name": name, "hosts": hosts})).collect();
                return term::json(&all);
            }
            if all.is_empty() {
                term::status("no secrets; `jarvis secret set NAME --host HOST` sets one");
                return Ok(());
            }
            let rows: Vec<Vec<String>> = all.into_iter().map(|(name, hosts)| vec![name, hosts.join(", ")]).collect();
            term::table(&["NAME", "HOSTS"], &rows)
        }
        Secret::Rm { name } => {
            if !secrets::remove(&home, &name)? {
                let body = jarvis_protocol::ErrorBody::new(ErrorKind::NotFound, format!("there is no secret `{name}`"));
                return Err(body.hint("`jarvis secret list` shows those there are").into());
            }
            if common.json {
                return term::json(&json!({"name": name, "removed": true}));
            }
            term::status(format!("{name} is removed"));
            Ok(())
        }
    }
}

fn value(name: &str) -> Outcome<String> {
    let text = if std::io::stdin().is_terminal() {
        term::ask(format!("value of {name} (it is not shown): "));
        let typed = typed();
        term::note("");
        typed?
    } else {
        let mut text = String::new();
        std::io::stdin().lock().take(MOST).read_to_string(&mut text).map_err(unreadable)?;
        text
    };
    // What `echo` and the Enter key add.
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(usage(
            "no value was given",
            format!("printf %s \"$VALUE\" | jarvis secret set {name} --host HOST"),
        ));
    }
    Ok(value.to_owned())
}

fn unreadable(error: std::io::Error) -> Failure {
    usage(format!("the value cannot be read: {error}"), "give it as UTF-8 text on stdin")
}

/// A line from the terminal, read key by key: Ctrl-C is a key here, so that no signal ends the process while the
/// terminal hides what is typed.
fn typed() -> Outcome<String> {
    let _hidden = Hidden::now()?;
    let mut line = Vec::new();
    for key in std::io::stdin().lock().take(MOST).bytes() {
        match key.map_err(unreadable)? {
            b'\r' | b'\n' => break,
            CTRL_C => return Err(Failure::Told(130)),
            CTRL_D => break,
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => {
                // The whole last character.
                while line.pop().is_some_and(|byte: u8| byte & 0xc0 == 0x80) {}
            }
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| usage("the value is no text", "give it as UTF-8 text"))
}

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CTRL_U: u8 = 21;
const DELETE: u8 = 127;

/// The terminal does not show what is typed, and hands over every key, while this lives.
struct Hidden(Termios);

impl Hidden {
    fn now() -> Outcome<Hidden> {
        let hide = || {
            let before = tcgetattr(std::io::stdin())?;
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
            tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
            rustix::io::Result::Ok(Hidden(before))
        };
        hide().map_err(|e| usage(format!("the terminal cannot hide what is typed: {e}"), "give the value on stdin"))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Nothing is left to do if it fails; a new line in the shell sets it right.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

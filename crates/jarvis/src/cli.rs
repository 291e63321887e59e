//! Arguments: raw first, then one command. A first word that is no command begins a question.

use crate::commands::{self, Command};
use crate::error::{self, Failure, Outcome};
use crate::term;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Arg, ArgAction, Args, CommandFactory, Parser, ValueEnum};
use jarvis_agent::Mode;
use jarvis_policy::Approval;
use jarvis_protocol::{ErrorBody, ErrorKind};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  jarvis \"What is the 90th Fibonacci number?\"
  jarvis                                  a conversation
  echo \"a long text\" | jarvis -           the question from stdin
  jarvis --json \"…\"                       one JSON event a line
  jarvis --model ollama/qwen2.5:7b \"…\"    another model
  jarvis --continue \"and of 91?\"          goes on with the latest session of this folder
  jarvis cap list                         what it has learned";

/// An agent that grows its own capabilities: it looks for a capability, writes and proves one where none fits, and keeps it.
#[derive(Debug, Parser)]
#[command(name = "jarvis", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub turn: Turn,
    /// Go on with the latest session of this folder.
    #[arg(long = "continue")]
    pub go_on: bool,
    /// An image to look at with the question: PNG, JPEG, GIF or WebP. May be given more than once.
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub image: Vec<PathBuf>,
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The question; all words are joined. `-` reads it from stdin.
    #[arg(value_name = "QUESTION")]
    pub question: Vec<String>,
    /// The command that a question looks like.
    #[arg(skip)]
    pub meant: Option<String>,
}

/// A question and its flags, without subcommands: its words may be anything.
#[derive(Debug, Parser)]
#[command(name = "jarvis", version, after_help = EXAMPLES)]
struct Question {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    turn: Turn,
    /// Go on with the latest session of this folder.
    #[arg(long = "continue")]
    go_on: bool,
    /// An image to look at with the question: PNG, JPEG, GIF or WebP. May be given more than once.
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    image: Vec<PathBuf>,
    #[arg(value_name = "QUESTION")]
    question: Vec<String>,
}

/// Taken by every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Output for scripts: JSON on stdout.
    #[arg(long, global = true)]
    pub json: bool,
    /// Nothing on stderr but errors.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// The model that answers: local, local/NAME, local//path/to.gguf, openai/…, anthropic/…, ollama/…, or one of your own.
    #[arg(long, global = true, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
}

/// `--model` where no model answers: taken, so that a shell alias may hold it, and not listed.
pub fn unused_model() -> Arg {
    Arg::new("model").long("model").global(true).hide(true).value_name("PROVIDER/MODEL")
}

/// The same for `--json` where the output is no JSON.
pub fn unused_json() -> Arg {
    Arg::new("json").long("json").global(true).hide(true).action(ArgAction::SetTrue)
}

/// How a turn is answered, bounded and recorded.
#[derive(Debug, Clone, Default, Args)]
pub struct Turn {
    #[command(flatten)]
    pub lead: Lead,
    #[command(flatten)]
    pub reach: Reach,
    /// Stop a turn after this many replies with tool calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,
    /// Stop a turn that has cost this many US dollars.
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true)]
    pub max_cost: Option<f64>,
    #[command(flatten)]
    pub tape: Tape,
}

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Lead {
    /// How the model is led: auto, native (it drives tools) or staged (jarvis leads step by step).
    #[arg(long, value_name = "MODE")]
    pub mode: Option<ModeArg>,
}

/// What a new version may reach, and who is asked.
#[derive(Debug, Clone, Default, Args)]
pub struct Reach {
    /// What to do where a yes is due: for grants (network, files, secrets) of a new version, and for more than 5 new capabilities
    /// within 10 minutes or more than 100 in all. Without a yes it is not kept; the answer to a question is still given.
    #[arg(long, value_name = "WHAT")]
    pub approve: Option<ApproveArg>,
    /// Approve this host without asking, for what is registered in this run; the grant stays with that version, in later
    /// runs too. May be given more than once.
    #[arg(long, value_name = "HOST", action = ArgAction::Append)]
    pub allow_net: Vec<String>,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Clone, Default, Args)]
pub struct Place {
    /// The folder that relative paths of grants are meant in; the current one by default.
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(folder))]
    pub workspace: Option<PathBuf>,
}

/// Model calls on file. Absolute: the workspace becomes the current folder later, and what was typed is meant from here.
#[derive(Debug, Clone, Default, Args)]
pub struct Tape {
    /// Record every model call into this file.
    #[arg(long, value_name = "FILE", conflicts_with = "replay", value_parser = PathBufValueParser::new().try_map(std::path::absolute::<PathBuf>))]
    pub record: Option<PathBuf>,
    /// Answer model calls from a recorded file.
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(std::path::absolute::<PathBuf>))]
    pub replay: Option<PathBuf>,
}

/// Between what is wrong with an argument and what to do about it.
const HINT: &str = "\n hint: ";

fn folder(path: PathBuf) -> Result<PathBuf, String> {
    if path.is_dir() { Ok(path) } else { Err(format!("no such folder{HINT}name one that exists, or leave it out")) }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ModeArg {
    Auto,
    Native,
    Staged,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Auto => Mode::Auto,
            ModeArg::Native => Mode::Native,
            ModeArg::Staged => Mode::Staged,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ApproveArg {
    Ask,
    Auto,
    Deny,
}

impl From<ApproveArg> for Approval {
    fn from(approve: ApproveArg) -> Self {
        match approve {
            ApproveArg::Ask => Approval::Ask,
            ApproveArg::Auto => Approval::Auto,
            ApproveArg::Deny => Approval::Deny,
        }
    }
}

fn dollars(raw: &str) -> Result<f64, String> {
    match raw.parse::<f64>() {
        Ok(cost) if cost.is_finite() && cost > 0.0 => Ok(cost),
        _ => Err("an amount of US dollars above 0, such as 0.50".to_owned()),
    }
}

pub fn main() -> ExitCode {
    // A panic is a bug: told in one line, with the exit code that says so.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|l| format!("{}:{}", l.file(), l.line())).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        term::note(format!("error: {message} ({place})\n this is a bug in jarvis; please report it with what you did"));
    }));
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match parse(args.clone()) {
        Ok(cli) => cli,
        Err(error) => return refused(&error, &args),
    };
    term::set_quiet(cli.common.quiet);
    let json = cli.common.json;
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(cli))) {
        Ok(outcome) => error::finish(outcome, json),
        Err(_) => ExitCode::from(255),
    }
}

fn run(cli: Cli) -> Outcome {
    match cli.command {
        Some(command) => commands::run(command, &cli.common),
        None => {
            let Cli { common, turn, go_on, image, question, meant, .. } = cli;
            let said = commands::ask::Said { words: question, meant, images: image };
            commands::ask::run(said, &common, turn, go_on)
        }
    }
}

/// Arguments that are not right, or a wish for help or the version, which goes to stdout and is no failure.
fn refused(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let printed = error.print();
    let flags = args.iter().take_while(|arg| *arg != "--");
    let told = if error.use_stderr() && flags.into_iter().any(|arg| arg == "--json") {
        let rendered = error.render().to_string();
        let first = rendered.split("\n\n").next().unwrap_or_default();
        let told = first.strip_prefix("error: ").unwrap_or(first).trim();
        let (message, hint) = told.split_once(HINT).unwrap_or((told, "--help lists what there is"));
        let body = ErrorBody::new(ErrorKind::Usage, message).hint(hint);
        let command = Cli::command();
        let question = first_word(&command, args.get(1..).unwrap_or_default())
            .is_none_or(|word| command.find_subcommand(word).is_none());
        if question { commands::ask::failed_event(body, Duration::ZERO) } else { error::json(&body) }
    } else {
        Ok(())
    };
    match (printed, told) {
        (Err(e), _) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::from(3),
        (_, Err(Failure::BrokenPipe)) => ExitCode::from(3),
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// Decides by the first word that is no flag whether this is a command or a question.
fn parse(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let command = Cli::command();
    let rest = args.get(1..).unwrap_or_default();
    // `help` and `help COMMAND` are what they look like; "help me …" is a question.
    if rest.first().is_some_and(|word| word == "help")
        && rest.get(1).is_none_or(|word| command.find_subcommand(word).is_some())
    {
        let asked = args.iter().take(1).chain(&rest[1..]).cloned().chain([OsString::from("--help")]);
        return Cli::try_parse_from(asked);
    }
    match first_word(&command, rest) {
        None => Cli::try_parse_from(args),
        Some(first) if command.find_subcommand(first).is_some() => {
            Cli::try_parse_from(words_before_flags(&command, &args))
        }
        Some(first) => {
            // After `--` it is a question, whatever it looks like.
            let meant = if first == "--" { None } else { Some(first.to_string_lossy().into_owned()) };
            let Question { common, turn, go_on, image, question } = Question::try_parse_from(args)?;
            let meant = meant.filter(|_| question.len() <= 2).and_then(|word| meant_command(&command, &word));
            Ok(Cli { common, turn, go_on, image, command: None, question, meant })
        }
    }
}

/// Flags may stand before a command; they are the command's, which takes them or says that it does not.
fn words_before_flags(command: &clap::Command, args: &[OsString]) -> Vec<OsString> {
    let (mut words, mut flags) = (Vec::new(), Vec::new());
    let mut here = command;
    let mut args = args.iter();
    words.extend(args.next().cloned());
    while here.has_subcommands()
        && let Some(arg) = args.next()
    {
        let text = arg.to_string_lossy();
        if text.starts_with('-') && text != "-" && text != "--" {
            flags.push(arg.clone());
            if takes_value(command, &text) {
                flags.extend(args.next().cloned());
            }
            continue;
        }
        words.push(arg.clone());
        match here.find_subcommand(arg) {
            Some(found) => here = found,
            None => break,
        }
    }
    words.into_iter().chain(flags).chain(args.cloned()).collect()
}

fn takes_value(command: &clap::Command, flag: &str) -> bool {
    command.get_arguments().any(|arg| {
        arg.get_action().takes_values() && flag.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long))
    })
}

/// The command somebody meant who typed `word`: a command of `cap` without `cap`, or a command misspelt by a letter
/// (two in a long one). Its first letter is right, so that "what" is no "chat".
fn meant_command(command: &clap::Command, word: &str) -> Option<String> {
    let word = word.to_lowercase();
    if command.find_subcommand("cap").is_some_and(|cap| cap.find_subcommand(&word).is_some()) {
        return Some(format!("cap {word}"));
    }
    // "help me" is a question.
    if word.chars().count() < 4 || word == "help" {
        return None;
    }
    let names = command.get_subcommands().map(clap::Command::get_name).chain(["help"]);
    names
        .filter(|name| name.chars().next() == word.chars().next())
        .map(|name| (distance(name, &word), name))
        .filter(|(distance, name)| *distance <= if name.len() < 6 { 1 } else { 2 })
        .min()
        .map(|(_, name)| name.to_owned())
}

/// Letters put in, left out, exchanged or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differ = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + differ);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The first argument that is neither a flag nor a flag's value; after `--` nothing is a command.
fn first_word<'a>(command: &clap::Command, args: &'a [OsString]) -> Option<&'a OsStr> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        if text == "--" {
            return args.next().map(|_| OsStr::new("--"));
        }
        if text == "-" || !text.starts_with('-') {
            return Some(arg);
        }
        if takes_value(command, &text) {
            args.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Cli {
        parse(std::iter::once("jarvis").chain(args.iter().copied()).map(OsString::from).collect()).unwrap()
    }

    #[test]
    fn the_definition_of_the_arguments_is_sound() {
        Cli::command().debug_assert();
        Question::command().debug_assert();
    }

    #[test]
    fn a_first_word_that_is_a_command_is_the_command_wherever_flags_stand() {
        assert!(parsed(&["cap", "list"]).command.is_some());
        assert!(parsed(&["--model", "openai/x", "--json", "cap", "list"]).command.is_some());
        assert!(parsed(&["cap", "list", "--json"]).common.json);
        assert!(parsed(&["cap", "--json", "list"]).common.json);
    }

    #[test]
    fn a_flag_before_a_command_is_the_commands() {
        let reach = |args: &[&str]| match parsed(args).command {
            Some(Command::Cap(commands::Cap::Register(register))) => register.reach,
            other => panic!("{other:?}"),
        };
        let files = ["--definition", "d", "--code", "c"];
        let before = reach(&[&["--approve", "auto", "--allow-net", "x", "cap", "register"], &files[..]].concat());
        let between = reach(&[&["cap", "--approve", "auto", "--allow-net", "x", "register"], &files[..]].concat());
        for reach in [before, between] {
            assert!(matches!(reach.approve, Some(ApproveArg::Auto)) && reach.allow_net == ["x"], "{reach:?}");
        }
        let refused = |args: &[&str]| {
            parse(std::iter::once("jarvis").chain(args.iter().copied()).map(OsString::from).collect()).unwrap_err()
        };
        assert_eq!(refused(&["--max-turns", "3", "cap", "list"]).kind(), clap::error::ErrorKind::UnknownArgument);
    }

    #[test]
    fn any_other_first_word_begins_a_question_whatever_follows() {
        let cli = parsed(&["what", "is", "cap", "list", "--json"]);
        assert!(cli.command.is_none() && cli.common.json);
        assert_eq!(cli.question, ["what", "is", "cap", "list"]);
        // A flag's value is no command.
        assert_eq!(parsed(&["--model", "model", "why?"]).question, ["why?"]);
        assert_eq!(parsed(&["--", "cap", "--json"]).question, ["cap", "--json"]);
        assert_eq!(parsed(&["-"]).question, ["-"]);
        assert_eq!(parsed(&["model is what?"]).question, ["model is what?"]);
    }

    #[test]
    fn one_or_two_words_that_look_like_a_command_are_told_from_a_question() {
        let meant = |words: &[&str]| parsed(words).meant;
        for (words, command) in [
            (&["list"][..], "cap list"),
            (&["show", "gcd"], "cap show"),
            (&["--json", "history", "gcd"], "cap history"),
            (&["docter"], "doctor"),
            (&["confgi", "get"], "config"),
            (&["modle", "list"], "model"),
            (&["audti"], "audit"),
            (&["hepl"], "help"),
        ] {
            assert_eq!(meant(words).as_deref(), Some(command), "{words:?}");
        }
        for words in [
            &["hello"][..],
            &["hi"],
            &["谢谢"],
            &["thanks"],
            &["what"],
            &["that"],
            &["cat"],
            &["hello", "there"],
            &["help", "me"],
            &["list all files"],
            &["list", "all", "primes"],
            &["--", "list"],
            &["--json", "--", "list"],
        ] {
            assert_eq!(meant(words), None, "{words:?}");
        }
    }

    #[test]
    fn help_is_help_and_help_me_is_a_question() {
        let args = |words: &[&str]| parse(words.iter().map(OsString::from).collect());
        let asked = |words| args(words).unwrap_err().kind();
        assert_eq!(asked(&["jarvis", "help"]), clap::error::ErrorKind::DisplayHelp);
        assert_eq!(asked(&["jarvis", "help", "cap", "run"]), clap::error::ErrorKind::DisplayHelp);
        assert_eq!(parsed(&["help", "me", "count"]).question, ["help", "me", "count"]);
    }

    #[test]
    fn without_words_there_is_neither() {
        let cli = parsed(&["--quiet"]);
        assert!(cli.command.is_none() && cli.question.is_empty());
    }
}

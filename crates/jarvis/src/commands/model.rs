//! `jarvis model`.

use crate::cli::{Common, Tape, unused_model};
use crate::config::{self, Settings};
use crate::error::{Failure, Outcome, config as config_error};
use crate::home::Home;
use crate::model::{self, Choice, What};
use crate::{pull, run, term};
use clap::Subcommand;
use jarvis_agent::Mode;
use jarvis_model::fetch::{self, DEFAULT_MODEL, ModelFile, Presence};
use jarvis_model::{Completion, Delta, ModelError, ModelHandle};
use jarvis_protocol::{ErrorKind, Message, ToolSpec};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  jarvis model list\n  jarvis model test ollama/qwen2.5:7b\n  jarvis model use anthropic/claude-sonnet-4-5"
)]
pub enum Model {
    /// The embedded models: what is here, how big, whether its digest was compared; and which model answers now.
    #[command(after_help = "Example:\n  jarvis model list")]
    List,
    /// Fetches an embedded model: resumable, from several sources in turn, never used unless its SHA-256 matches.
    #[command(arg = unused_model(), after_help = "Examples:\n  jarvis model pull\n  jarvis model pull qwen2.5-coder-0.5b")]
    Pull {
        /// Default: the model that is used when nothing else is set up.
        name: Option<String>,
    },
    /// Asks the model something, measures it, and says how it is best led.
    #[command(after_help = "Example:\n  jarvis model test ollama/qwen2.5:7b")]
    Test {
        /// PROVIDER/MODEL; default: the one that answers now.
        name: Option<String>,
    },
    /// Makes a model the one that answers (writes it into config.toml).
    #[command(arg = unused_model(), after_help = "Example:\n  jarvis model use local/qwen2.5-coder-0.5b")]
    Use {
        /// PROVIDER/MODEL, or the name of an embedded model.
        name: String,
    },
}

pub fn run(args: Model, common: &Common) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    match args {
        Model::List => list(&home, &settings, common),
        Model::Pull { name } => pull(&home, &settings, name.as_deref(), common),
        Model::Use { name } => {
            let choice = model::resolve(&settings, &full_name(&settings, &name), "model use")?;
            config::set(&home, "model", &choice.id)?;
            if common.json {
                return term::json(&choice);
            }
            term::status(format!("{} answers from now on", choice.id));
            Ok(())
        }
        Model::Test { name } => {
            let named = name.as_deref().or(common.model.as_deref()).map(|name| full_name(&settings, name));
            let choice = model::choose(&settings, named.as_deref())?;
            test(&home, &settings, &choice, common)
        }
    }
}

/// The name of an embedded model stands for itself.
fn full_name(settings: &Settings, name: &str) -> String {
    let embedded = settings.model_files().iter().any(|file| file.name == name);
    if embedded { format!("local/{name}") } else { name.to_owned() }
}

fn list(home: &Home, settings: &Settings, common: &Common) -> Outcome {
    let files = settings.model_files();
    let chosen = model::choose(settings, common.model.as_deref());
    if common.json {
        let models: Vec<Value> = files
            .iter()
            .map(|file| {
                json!({"name": file.name, "id": format!("local/{}", file.name), "file": fetch::model_path(file, home.models()),
                       "bytes": file.bytes, "license": file.license, "presence": fetch::presence(file, home.models())})
            })
            .collect();
        return term::json(&json!({"folder": home.models(), "models": models, "answers": chosen.ok()}));
    }
    let rows: Vec<Vec<String>> = files
        .iter()
        .map(|file| {
            let here = presence(fetch::presence(file, home.models()), file);
            vec![format!("local/{}", file.name), fetch::size(file.bytes), file.license.clone(), here]
        })
        .collect();
    term::table(&["model", "size", "license", "here"], &rows)?;
    term::line(format!("in {}", home.models().display()))?;
    match chosen {
        Ok(choice) => term::line(format!("answers now: {} ({})", choice.id, choice.why)),
        Err(Failure::Body(body)) => term::line(format!("answers now: none ({})", body.message)),
        Err(other) => Err(other),
    }
}

fn presence(presence: Presence, file: &ModelFile) -> String {
    match presence {
        Presence::Missing => "no (jarvis model pull)".to_owned(),
        Presence::Partial { bytes } => format!("{} of {}; pull goes on", fetch::size(bytes), fetch::size(file.bytes)),
        Presence::Unchecked => "yes, digest not compared yet".to_owned(),
        Presence::Checked => "yes, digest ok".to_owned(),
        Presence::WrongSize { bytes } => format!("damaged: {bytes} bytes instead of {}", file.bytes),
    }
}

fn pull(home: &Home, settings: &Settings, name: Option<&str>, common: &Common) -> Outcome {
    let wanted = name.map_or(DEFAULT_MODEL, |name| name.strip_prefix("local/").unwrap_or(name));
    let files = settings.model_files();
    let known: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let file = files.iter().find(|file| file.name == wanted).ok_or_else(|| {
        config_error(format!("there is no embedded model `{wanted}`"), format!("known: {}", known.join(", ")))
    })?;
    let path = run::block(async |signals| pull::pull(file, settings, home, &signals.work()).await)?;
    if common.json {
        return term::json(&json!({"name": file.name, "file": path, "bytes": file.bytes, "sha256": file.sha256}));
    }
    term::line(path.display())
}

/// What one model showed.
struct Tested {
    first: Duration,
    answer: Completion,
    whole: Duration,
    /// None where no tool can be offered.
    tools: Option<Result<bool, ModelError>>,
}

fn test(home: &Home, settings: &Settings, choice: &Choice, common: &Common) -> Outcome {
    let tested = run::block(async |signals| {
        let cancel = signals.work();
        let handle = run::handle(choice, settings, &Tape::default(), home, &cancel).await?;
        measure(&handle, &cancel).await
    })?;
    let native = matches!(tested.tools, Some(Ok(true)));
    let recommended = if native { Mode::Native } else { Mode::Staged };
    // From the second token on: loading and reading the prompt are not writing.
    let writing = tested.whole.saturating_sub(tested.first).as_secs_f64();
    let per_second = (writing > 0.0).then(|| tested.answer.usage.output_tokens.saturating_sub(1) as f64 / writing);
    let now = choice.mode(settings);
    if common.json {
        return term::json(&json!({
            "model": choice.id, "answer": tested.answer.text.trim(), "first_token_s": tested.first.as_secs_f64(),
            "tokens_per_s": per_second, "usage": tested.answer.usage, "native_tools": native,
            "native_tools_problem": tested.tools.as_ref().and_then(|t| t.as_ref().err()).map(ToString::to_string),
            "recommended_mode": recommended, "mode": now,
        }));
    }
    term::line(format!("model        {} ({})", choice.id, choice.why))?;
    term::line(format!("answer       {}", term::cut(tested.answer.text.trim(), 60)))?;
    term::line(format!("first token  {:.2} s (loading included)", tested.first.as_secs_f64()))?;
    term::line(format!("speed        {}", per_second.map_or("not told".to_owned(), |s| format!("{s:.1} tokens/s"))))?;
    let tools = match &tested.tools {
        Some(Ok(true)) => "yes".to_owned(),
        None => "not offered: the embedded engine is led step by step".to_owned(),
        Some(Ok(false)) => "no: offered a tool, it did not call it rightly".to_owned(),
        Some(Err(error)) => format!("no: {error}"),
    };
    term::line(format!("tool calls   {tools}"))?;
    let mode = if native { "native" } else { "staged" };
    term::line(format!("best led     {mode}"))?;
    if let What::Remote { endpoint, .. } = &choice.what
        && !native
        && now != Mode::Staged
    {
        term::status(format!("to have it led so: jarvis config set providers.{}.mode staged", endpoint.provider));
    }
    Ok(())
}

async fn measure(handle: &ModelHandle, cancel: &CancellationToken) -> Outcome<Tested> {
    let started = Instant::now();
    let mut first = None;
    let mut request = handle
        .request(vec![Message::user("Count from 1 to 40 in figures, separated by spaces, and write nothing else.")]);
    request.max_tokens = 160;
    let answer = request
        .send(
            &mut |delta| match delta {
                Delta::Text(_) | Delta::Reasoning(_) => {
                    first.get_or_insert_with(|| started.elapsed());
                }
                Delta::Status(status) => term::status(status),
            },
            cancel,
        )
        .await?;
    let whole = started.elapsed();
    if answer.text.trim().is_empty() {
        return Err(crate::error::failed(ErrorKind::Protocol, format!("{} answered nothing", handle.id())));
    }
    let tools = if handle.traits().native_tools { Some(calls_a_tool(handle, cancel).await) } else { None };
    Ok(Tested { first: first.unwrap_or(whole), answer, whole, tools })
}

/// True when the model calls an offered tool by its name with the arguments of the request.
async fn calls_a_tool(handle: &ModelHandle, cancel: &CancellationToken) -> Result<bool, ModelError> {
    let mut request = handle.request(vec![
        Message::system("Use the tool for anything about the weather."),
        Message::user("What is the weather in Lisbon?"),
    ]);
    request.max_tokens = 300;
    let weather = ToolSpec {
        name: "weather".to_owned(),
        description: "The weather in a city.".to_owned(),
        parameters: json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}),
    };
    request.tools = vec![weather.into()];
    let completion = request.send(&mut |_| {}, cancel).await?;
    Ok(completion
        .tool_calls
        .iter()
        .any(|call| call.name == "weather" && call.args["city"].as_str().is_some_and(|city| city.contains("Lisbon"))))
}

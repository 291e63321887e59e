//! `jarvis serve`: the agent over HTTP.

use crate::cli::{Common, Turn};
use crate::config::{self, Settings};
use crate::error::{Failure, Outcome, config as config_error, failed, usage};
use crate::home::Home;
use crate::{hosting, model, run, term};
use clap::Args;
use jarvis_agent::find;
use jarvis_audit::AuditLog;
use jarvis_host::Limits;
use jarvis_http::{Access, App, Bounds, Found, ModelRow, Parts, Search, Telemetry, serve};
use jarvis_model::Embedder;
use jarvis_model::fetch::{self, Presence};
use jarvis_protocol::ErrorKind;
use jarvis_registry::{Registry, Statuses};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// More than cores: records are on disk before what they are of goes on, so threads wait for the disk.
const THREADS: usize = 8;
/// Characters of a token; a shorter one can be guessed.
const SHORTEST: usize = 16;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jarvis serve
  JARVIS_TOKEN=… jarvis serve --listen 0.0.0.0:7878 --token-env JARVIS_TOKEN
  curl -s http://127.0.0.1:7878/v1/sessions -H 'Content-Type: application/json' -d '{}'
  curl -sN http://127.0.0.1:7878/v1/sessions/ID/events

GET /openapi.json describes every path. Programs that speak to OpenAI take http://127.0.0.1:7878/v1 as their base address \
and `jarvis`, or PROVIDER/MODEL, as the model. Whoever reaches the address may do what you may: other users of this \
machine too, so set a token where there are any. Beyond loopback a token is needed; put a server that speaks TLS in front. \
Ctrl-C or SIGTERM ends it: turns may end within `serve.grace_s`, then they are cancelled.")]
pub struct Serve {
    /// Address and port; port 0 takes a free one. Default: 127.0.0.1:7878, or `serve.listen`.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Name of the environment variable that holds the token which every request must bring.
    #[arg(long, value_name = "VAR")]
    token_env: Option<String>,
    #[command(flatten)]
    turn: Turn,
}

fn address(raw: &str) -> Result<SocketAddr, String> {
    raw.parse().map_err(|_| "an address and a port, such as 127.0.0.1:7878".to_owned())
}

pub fn run(args: Serve, common: &Common) -> Outcome {
    let home = Home::find()?;
    let settings = config::load(&home)?;
    let listen = args.listen.unwrap_or(settings.serve.listen);
    let token = args.token_env.as_ref().or(settings.serve.token_env.as_ref()).map(|name| token(name)).transpose()?;
    if token.is_none() && !listen.ip().is_loopback() {
        return Err(usage(
            format!("{listen} can be reached from other machines, and whoever reaches it may do what you may"),
            "set a token (--token-env VAR), or listen on loopback: --listen 127.0.0.1:7878",
        ));
    }
    run::enter(&args.turn.reach.place)?;
    let limits = Limits { sessions: settings.serve.max_sessions, ..Limits::default() };
    let bounds = Bounds {
        connections: settings.serve.max_connections,
        rate: settings.serve.rate,
        grace: Duration::from_secs(settings.serve.grace_s),
        ..Bounds::STANDARD
    };
    run::block_on(THREADS, async |signals| {
        // First, so that nothing is made ready for an address that is taken.
        let listener = crate::listen::listen(listen).map_err(|error| not_bound(listen, &error))?;
        let address = listener.local_addr().map_err(|error| not_bound(listen, &error))?;
        let telemetry = match &settings.telemetry.otlp_endpoint {
            None => None,
            Some(endpoint) => Some(
                Telemetry::start(endpoint, settings.telemetry.content)
                    .map_err(|error| config_error(error.to_string(), "see telemetry.otlp_endpoint"))?,
            ),
        };
        let hosted = hosting::hosted(args.turn, common.model.clone(), "http", limits)?;
        let registry = run::registry(&home)?;
        let app = App::new(Parts {
            host: hosted.host,
            search: search(registry.clone(), hosted.embedder),
            registry,
            audit: Arc::new(AuditLog::open(home.audit())),
            memory: hosted.memory,
            models: models(settings.clone(), home.clone(), common.model.clone()),
            access: Access { token, hosts: settings.serve.hosts.clone() },
            bounds,
        });
        let stop = signals.work();
        told(address, common.json, settings.serve.token_env.is_some() || args.token_env.is_some())?;
        let served = serve(listener, app, &stop).await;
        if let Some(telemetry) = telemetry {
            telemetry.end().await;
        }
        if served.turns > 0 {
            term::status(format!("stopped; {} turns ran, {} of them were cancelled", served.turns, served.cancelled));
        }
        Ok(())
    })
}

fn told(address: SocketAddr, json: bool, token: bool) -> Outcome {
    let url = format!("http://{address}");
    if json {
        return term::json(&json!({"listening": url, "token": token, "openapi": format!("{url}/openapi.json")}));
    }
    term::line(&url)?;
    term::status(format!("Ctrl-C stops it; {url}/openapi.json describes it, {url}/v1 is its address in OpenAI's form"));
    Ok(())
}

fn token(name: &str) -> Outcome<String> {
    let value = std::env::var(name).map(|value| value.trim().to_owned()).unwrap_or_default();
    let problem = match value.chars().count() {
        0 => format!("{name} holds no token"),
        1..SHORTEST => format!("the token in {name} has less than {SHORTEST} characters"),
        _ if !value.bytes().all(|b| b.is_ascii_graphic()) => format!("the token in {name} is not plain ASCII"),
        _ => return Ok(value),
    };
    Err(usage(problem, format!("for example: export {name}=$(openssl rand -hex 24)")))
}

fn not_bound(listen: SocketAddr, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => usage(
            format!("something listens on {listen} already"),
            "end it, or take another port: --listen 127.0.0.1:0 takes a free one",
        ),
        std::io::ErrorKind::AddrNotAvailable | std::io::ErrorKind::PermissionDenied => usage(
            format!("{listen} cannot be listened on: {error}"),
            "take an address of this machine and a port above 1023",
        ),
        _ => failed(ErrorKind::Network, format!("{listen} cannot be listened on: {error}")),
    }
}

/// By words and, with an embedder, by meaning; as `jarvis cap search` does.
fn search(registry: Registry, embedder: Option<Arc<dyn Embedder>>) -> Search {
    Arc::new(move |query, limit| {
        let (registry, embedder) = (registry.clone(), embedder.clone());
        Box::pin(async move {
            let found = find(&registry, embedder.as_ref(), &query, limit, Statuses::WithQuarantined).await;
            found.map(|found| Found { hits: found.hits, notice: found.notice }).map_err(|error| error.body())
        })
    })
}

fn models(settings: Settings, home: Home, flag: Option<String>) -> Arc<dyn Fn() -> Vec<ModelRow> + Send + Sync> {
    Arc::new(move || {
        let usual = model::choose(&settings, flag.as_deref()).ok().map(|choice| choice.id);
        let mut rows: Vec<ModelRow> = Vec::new();
        let mut add = |id: String, present: bool| {
            if !rows.iter().any(|row| row.id == id) {
                rows.push(ModelRow { usual: usual.as_deref() == Some(&id), id, present });
            }
        };
        let files = settings.model_files();
        let here = |file| matches!(fetch::presence(file, home.models()), Presence::Checked | Presence::Unchecked);
        // An embedded one is told by its file, below.
        usual.iter().filter(|id| !id.starts_with("local/")).for_each(|id| add(id.clone(), true));
        model::askable(&settings).into_iter().for_each(|choice| add(choice.id, true));
        if cfg!(feature = "local") {
            files.iter().for_each(|file| add(format!("local/{}", file.name), here(file)));
        }
        rows
    })
}

//! Capabilities: listed, found, looked at, run. A run goes the one way that all calls go.

use super::messages::live;
use super::sessions::exact;
use crate::app::{App, off};
use crate::error::{ApiError, ApiResult, Problem};
use crate::extract::{Asked, At, Body};
use crate::view::CapabilityRow;
use axum::Json;
use axum::extract::State;
use jarvis_protocol::{Capability, CapabilityName, ErrorBody};
use jarvis_registry::{FailingCall, Registry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

/// Hits of one search at most.
const HITS: usize = 50;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// What is wanted, in words of any language: what fits, best first, quarantined ones too.
    pub q: Option<String>,
    /// At most so many; 50 of a search.
    #[serde(default = "page")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: usize,
    #[serde(default)]
    #[param(minimum = 0, maximum = 9007199254740991u64)]
    pub offset: usize,
}

fn page() -> usize {
    100
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CapabilityList {
    pub capabilities: Vec<CapabilityRow>,
    /// Without a search: all there are. Of a search: those that were found.
    pub total: usize,
    /// Of a search: nothing of it is good enough to be used for the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing_fits: Option<bool>,
    /// Of a search: why it was by words alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// Entries that cannot be read; they are kept as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DamagedView {
    pub entry: String,
    pub problem: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Shown {
    /// The whole definition: parameters, examples, grants, limits, version.
    #[schema(value_type = Object)]
    pub capability: Capability,
    pub code: String,
    /// False: it was changed by hand since it was checked, and does not run.
    pub code_matches_digest: bool,
    /// Runs, failures, times, traffic.
    #[schema(value_type = Object)]
    pub stats: Value,
    /// Calls that failed last.
    #[schema(value_type = Vec<Object>)]
    pub failing_calls: Vec<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Versions {
    pub name: String,
    pub versions: Vec<VersionView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct VersionView {
    pub version: String,
    pub date: String,
    pub change: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// As its parameters say.
    #[schema(value_type = Object)]
    pub args: serde_json::Map<String, Value>,
    /// An open session: the run is in its folder, its questions and its events are the session's. Without one nobody is
    /// asked, and what needs a yes is refused.
    pub session: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Done {
    /// As its definition promises it.
    #[schema(value_type = Value)]
    pub result: Value,
    /// How it ran: times, memory, isolation, what it did with the network.
    #[schema(value_type = Object)]
    pub execution: Value,
}

fn unknown(name: &str) -> ApiError {
    let name: String = name.chars().take(100).collect();
    ApiError::not_found(format!("no capability is called `{name}`")).hint("GET /v1/capabilities lists them")
}

/// By its name, or by another one that it answers to.
async fn with<T: Send + 'static>(
    app: &App,
    name: &str,
    work: impl FnOnce(&Registry, Capability) -> Result<T, ErrorBody> + Send + 'static,
) -> ApiResult<T> {
    let known = CapabilityName::new(name).map_err(|_| unknown(name))?;
    let registry = app.parts.registry.clone();
    let found = off(move || {
        let found = match registry.get(&known).map_err(|e| e.body())? {
            Some(capability) => Some(capability),
            None => registry.resolve(&known).map_err(|e| e.body())?,
        };
        found.map(|capability| work(&registry, capability)).transpose()
    });
    found.await?.ok_or_else(|| unknown(name))
}

/// Capabilities: all of them, or what fits `q`.
#[utoipa::path(get, path = "/v1/capabilities", tag = "capabilities", params(List),
    responses((status = 200, body = CapabilityList), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn list(State(app): State<App>, Asked(asked): Asked<List>) -> ApiResult<Json<CapabilityList>> {
    if !(1..=1000).contains(&asked.limit) {
        return Err(ApiError::usage("limit is 1 to 1000"));
    }
    exact(asked.offset as u64)?;
    if let Some(q) = asked.q {
        let most = asked.limit.saturating_add(asked.offset).min(HITS);
        let found = (app.parts.search)(q, most).await?;
        let mut capabilities: Vec<CapabilityRow> = found.hits.iter().map(CapabilityRow::from).collect();
        let fits = capabilities.iter().any(|row| row.fits == Some(true));
        capabilities.drain(..asked.offset.min(capabilities.len()));
        return Ok(Json(CapabilityList {
            total: found.hits.len(),
            nothing_fits: Some(!fits),
            notice: found.notice,
            capabilities,
            damaged: Vec::new(),
        }));
    }
    let registry = app.parts.registry.clone();
    let listing = off(move || registry.list().map_err(|error| error.body())).await?;
    let rows = listing.capabilities.iter().skip(asked.offset).take(asked.limit).map(CapabilityRow::from);
    let damaged = listing.damaged.into_iter().map(|d| DamagedView { entry: d.entry, problem: d.problem });
    Ok(Json(CapabilityList {
        capabilities: rows.collect(),
        total: listing.capabilities.len(),
        nothing_fits: None,
        notice: None,
        damaged: damaged.collect(),
    }))
}

/// A capability with its code, its statistics and the calls that failed.
#[utoipa::path(get, path = "/v1/capabilities/{name}", tag = "capabilities", params(("name" = String, Path)),
    responses((status = 200, body = Shown), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn show(State(app): State<App>, At(name): At<String>) -> ApiResult<Json<Shown>> {
    let shown = with(&app, &name, |registry, capability| {
        // A definition that was imported without code has none yet.
        let (code, code_matches_digest) = match capability.tool_path.is_empty() {
            true => (String::new(), true),
            false => registry.code(&capability).map(|code| (code.text, code.matches_digest)).map_err(|e| e.body())?,
        };
        let stats = registry.stats(&capability.name).map_err(|e| e.body())?;
        let failing = registry.failing_calls(&capability.name).map_err(|e| e.body())?;
        Ok(Shown {
            code,
            code_matches_digest,
            stats: json!({
                "runs": stats.runs, "failures": stats.failures, "mean_ms": stats.mean_ms, "last_used": stats.last_used,
                "recent": stats.recent, "errors": stats.errors, "egress": stats.egress,
            }),
            failing_calls: failing.iter().map(failed).collect(),
            capability,
        })
    });
    shown.await.map(Json)
}

fn failed(call: &FailingCall) -> Value {
    let args = serde_json::from_str(&call.args).ok().filter(|_| call.exact);
    json!({
        "version": call.version, "args": args.unwrap_or_else(|| json!(call.args)), "exact": call.exact,
        "class": call.class, "error": call.error, "at": call.at,
    })
}

/// The versions of a capability.
#[utoipa::path(get, path = "/v1/capabilities/{name}/history", tag = "capabilities", params(("name" = String, Path)),
    responses((status = 200, body = Versions), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn history(State(app): State<App>, At(name): At<String>) -> ApiResult<Json<Versions>> {
    let versions = with(&app, &name, |registry, capability| {
        let entries = registry.history(&capability.name).map_err(|e| e.body())?;
        let versions = entries.into_iter().map(|entry| VersionView {
            version: entry.version.to_string(),
            date: entry.date,
            change: entry.change,
            commit: entry.commit,
        });
        Ok(Versions { name: capability.name.to_string(), versions: versions.collect() })
    });
    versions.await.map(Json)
}

/// Runs a capability in the sandbox.
#[utoipa::path(post, path = "/v1/capabilities/{name}/run", tag = "capabilities", params(("name" = String, Path)), request_body = Run,
    responses((status = 200, body = Done), (status = "4XX", body = Problem), (status = "5XX", body = Problem)))]
pub async fn run(State(app): State<App>, At(name): At<String>, Body(asked): Body<Run>) -> ApiResult<Json<Done>> {
    let args = Value::Object(asked.args);
    let called = match &asked.session {
        Some(id) => live(&app, id)?.execute(&name, args).await?,
        None => {
            // Whoever hangs up does not want it any more.
            let cancel = CancellationToken::new();
            let _gone = cancel.clone().drop_guard();
            app.host().execute(&name, args, &cancel).await?
        }
    };
    // Plain data.
    let execution = serde_json::to_value(&called.execution).unwrap_or_default();
    Ok(Json(Done { result: called.value, execution }))
}

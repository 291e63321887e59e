//! Which model answers: flag > config > keys found in the environment > the embedded one. Resolved once per conversation, and
//! again only by `/model`.

use crate::config::{Provider, Settings, WireName};
use crate::error::{Outcome, config, usage};
use crate::home::Home;
use jarvis_agent::{Mode, Price};
use jarvis_model::fetch::{DEFAULT_MODEL, ModelFile};
use jarvis_model::{ApiKey, Backend, Embedder, Endpoint, Traits, Wire};
use jarvis_protocol::{ErrorBody, ErrorKind};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A provider that needs no config. A context size is what every current model of it reads at least.
struct BuiltIn {
    name: &'static str,
    base_url: &'static str,
    key: Option<&'static str>,
    wire: WireName,
    model: Option<&'static str>,
    context_tokens: usize,
    /// Whether its models look at images; where only some do, it is asked.
    images: bool,
}

/// In the order in which their keys are looked for.
const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        key: Some("ANTHROPIC_API_KEY"),
        wire: WireName::Anthropic,
        model: Some("claude-sonnet-4-5"),
        context_tokens: 200_000,
        images: true,
    },
    BuiltIn {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        key: Some("OPENAI_API_KEY"),
        wire: WireName::Openai,
        model: Some("gpt-4.1-mini"),
        context_tokens: 128_000,
        images: true,
    },
    BuiltIn {
        name: "deepseek",
        base_url: "https://api.deepseek.com/v1",
        key: Some("DEEPSEEK_API_KEY"),
        wire: WireName::Openai,
        model: Some("deepseek-chat"),
        context_tokens: 64_000,
        images: false,
    },
    BuiltIn {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        key: Some("OPENROUTER_API_KEY"),
        wire: WireName::Openai,
        model: Some("anthropic/claude-sonnet-4.5"),
        context_tokens: 128_000,
        images: true,
    },
    BuiltIn {
        name: "ollama",
        base_url: "http://127.0.0.1:11434/v1",
        key: None,
        wire: WireName::Openai,
        model: None,
        context_tokens: 8_192,
        images: true,
    },
];

/// For a provider of the config that does not say.
const UNKNOWN_CONTEXT: usize = 32_768;

/// The model that was chosen, and why.
#[derive(Debug, Clone, Serialize)]
pub struct Choice {
    pub id: String,
    pub why: String,
    #[serde(skip)]
    pub what: What,
}

#[derive(Debug, Clone)]
pub enum What {
    Remote {
        wire: Wire,
        endpoint: Box<Endpoint>,
        traits: Traits,
        images: bool,
        mode: Option<Mode>,
    },
    /// Fetched when it is missing.
    Known(Box<ModelFile>),
    File(PathBuf),
}

/// `flag` is `--model`.
pub fn choose(settings: &Settings, flag: Option<&str>) -> Outcome<Choice> {
    if let Some(named) = flag {
        return resolve(settings, named, "--model");
    }
    if let Some(named) = &settings.model {
        return resolve(settings, named, "config");
    }
    for provider in BUILT_IN {
        if let Some(key) = provider.key.filter(|key| key_in(key).is_some()) {
            return resolve(settings, provider.name, &format!("{key} is set"));
        }
    }
    if cfg!(feature = "local") {
        return resolve(settings, "local", "no key is set");
    }
    Err(no_model("no model is set up: no key is in the environment, and this build has no embedded model").into())
}

fn no_model(message: &str) -> ErrorBody {
    ErrorBody::new(ErrorKind::NoModel, message).hint(
        "one of: set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, DEEPSEEK_API_KEY or OPENROUTER_API_KEY); use a server of your \
         own (`jarvis config set model ollama/qwen2.5:7b`); or build with the embedded model (`./run` does, where cmake and \
         libclang are to be had)",
    )
}

/// `provider/model`, or a provider alone for its usual model.
pub fn resolve(settings: &Settings, named: &str, why: &str) -> Outcome<Choice> {
    let (provider, model) = match named.split_once('/') {
        Some((provider, model)) => (provider, Some(model).filter(|m| !m.is_empty())),
        None => (named, None),
    };
    if provider == "local" {
        return local(settings, model.unwrap_or(DEFAULT_MODEL), why);
    }
    known_provider(settings, named, why)?;
    let built_in = BUILT_IN.iter().find(|b| b.name == provider);
    let own = settings.providers.get(provider);
    remote(provider, built_in, own.cloned().unwrap_or_default(), model, why)
}

/// Models that can be named without knowing more than the settings do, each with what is to know about it.
pub fn known(settings: &Settings) -> Vec<(String, String)> {
    let mut known: Vec<(String, String)> = Vec::new();
    let mut add = |id: String, about: String| {
        if !known.iter().any(|(there, _)| *there == id) {
            known.push((id, about));
        }
    };
    if let Some(usual) = settings.model.as_ref().filter(|id| id.contains('/')) {
        add(usual.clone(), "the usual one".to_owned());
    }
    for (name, provider) in &settings.providers {
        if let Some(model) = &provider.model {
            add(format!("{name}/{model}"), provider.base_url.clone().unwrap_or_default());
        }
    }
    settings.prices.keys().for_each(|id| add(id.clone(), "it has a price".to_owned()));
    for provider in BUILT_IN {
        let missing = provider.key.filter(|key| key_in(key).is_none());
        if let Some(model) = provider.model {
            let about = missing.map_or_else(String::new, |key| format!("{key} is not set"));
            add(format!("{}/{model}", provider.name), about);
        }
    }
    if cfg!(feature = "local") {
        settings.model_files().iter().for_each(|file| add(format!("local/{}", file.name), "embedded".to_owned()));
    }
    known
}

/// Whether the provider of `named` is built in or configured; its key and its model are not looked at.
pub fn known_provider(settings: &Settings, named: &str, why: &str) -> Outcome {
    let provider = named.split_once('/').map_or(named, |(provider, _)| provider);
    let built_in = BUILT_IN.iter().map(|b| b.name);
    let known: Vec<&str> =
        std::iter::once("local").chain(built_in).chain(settings.providers.keys().map(String::as_str)).collect();
    if known.contains(&provider) {
        return Ok(());
    }
    Err(config(
        format!("there is no provider `{provider}` (asked for as {named}, {why})"),
        format!(
            "known: {}; another one is set up with `jarvis config set providers.NAME.base_url http://…/v1`",
            known.join(", ")
        ),
    ))
}

fn remote(name: &str, built_in: Option<&BuiltIn>, own: Provider, model: Option<&str>, why: &str) -> Outcome<Choice> {
    let base_url = own.base_url.or_else(|| built_in.map(|b| b.base_url.to_owned())).ok_or_else(|| {
        config(
            format!("[providers.{name}] has no base_url"),
            format!("jarvis config set providers.{name}.base_url http://…/v1"),
        )
    })?;
    let model = model.map(str::to_owned).or(own.model).or_else(|| built_in.and_then(|b| b.model.map(str::to_owned)));
    let model = model.ok_or_else(|| {
        usage(
            format!("which model of {name}? None is named ({why})"),
            format!("--model {name}/MODEL, or `jarvis config set providers.{name}.model MODEL`"),
        )
    })?;
    let key_name =
        own.api_key_env.or_else(|| built_in.and_then(|b| b.key.map(str::to_owned))).filter(|k| !k.is_empty());
    let key = match &key_name {
        None => None,
        Some(variable) => Some(key_in(variable).ok_or_else(|| {
            config(
                format!("no key for {name}: {variable} is not set"),
                format!("export {variable}=…, or use another model with --model"),
            )
        })?),
    };
    let wire = match own.wire.or_else(|| built_in.map(|b| b.wire)).unwrap_or(WireName::Openai) {
        WireName::Openai => Wire::OpenAi,
        WireName::Anthropic => Wire::Anthropic,
    };
    let traits = Traits {
        native_tools: true,
        grammar: false,
        context_tokens: own.context_tokens.or(built_in.map(|b| b.context_tokens)).unwrap_or(UNKNOWN_CONTEXT),
    };
    let endpoint = Box::new(Endpoint {
        provider: name.to_owned(),
        base_url,
        key,
        model: model.clone(),
        connect_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(own.idle_timeout_s.unwrap_or(60)),
        total_timeout: Duration::from_secs(600),
        retries: own.retries.unwrap_or(3),
        extra_headers: own.headers.into_iter().collect(),
        extra_body: own.body,
        replay_reasoning: own.replay_reasoning,
    });
    let images = own.images.or(built_in.map(|b| b.images)).unwrap_or(true);
    Ok(Choice {
        id: format!("{name}/{model}"),
        why: why.to_owned(),
        what: What::Remote { wire, endpoint, traits, images, mode: own.mode },
    })
}

fn local(settings: &Settings, model: &str, why: &str) -> Outcome<Choice> {
    if !cfg!(feature = "local") {
        return Err(no_model(&format!("local/{model} ({why}): this build has no embedded model")).into());
    }
    let id = format!("local/{model}");
    let what = if model.starts_with(['/', '.', '~']) || model.ends_with(".gguf") {
        let path = match (model.strip_prefix("~/"), std::env::var_os("HOME")) {
            (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => PathBuf::from(model),
        };
        let path = std::path::absolute(&path).map_err(|e| crate::error::unreadable(&path, &e))?;
        if !path.is_file() {
            return Err(config(
                format!("there is no model file {} ({why})", path.display()),
                "give the path of a GGUF file: --model local//path/to/file.gguf",
            ));
        }
        What::File(path)
    } else {
        let files = settings.model_files();
        let known: Vec<String> = files.iter().map(|file| format!("local/{}", file.name)).collect();
        let file = files.into_iter().find(|file| file.name == model).ok_or_else(|| {
            config(
                format!("there is no embedded model `{model}` ({why})"),
                format!("known: {}; any GGUF file by its path: local//path/to/file.gguf", known.join(", ")),
            )
        })?;
        What::Known(Box::new(file))
    };
    Ok(Choice { id, why: why.to_owned(), what })
}

fn key_in(variable: &str) -> Option<ApiKey> {
    std::env::var(variable).ok().and_then(|value| ApiKey::new(&value))
}

impl Choice {
    pub fn context_tokens(&self, settings: &Settings) -> usize {
        match &self.what {
            What::Remote { traits, .. } => traits.context_tokens,
            What::Known(_) | What::File(_) => settings.local.context_tokens,
        }
    }

    /// How the model is led, unless a flag says otherwise.
    pub fn mode(&self, settings: &Settings) -> Mode {
        match &self.what {
            What::Remote { mode: Some(mode), .. } if settings.mode == Mode::Auto => *mode,
            _ => settings.mode,
        }
    }

    pub fn price(&self, settings: &Settings) -> Option<Price> {
        settings.prices.get(&self.id).copied()
    }

    /// Whether the model looks at images, as far as is known.
    pub fn takes_images(&self) -> bool {
        match self.what {
            What::Remote { images, .. } => images,
            What::Known(_) | What::File(_) => false,
        }
    }

    pub fn is_local(&self) -> bool {
        match self.what {
            What::Remote { .. } => false,
            What::Known(_) | What::File(_) => true,
        }
    }

    pub fn traits(&self, settings: &Settings) -> Traits {
        match &self.what {
            What::Remote { traits, .. } => *traits,
            // As the embedded engine says of itself; a replay must lead the model in the same way without loading it.
            What::Known(_) | What::File(_) => jarvis_model::local_traits(settings.local.context_tokens),
        }
    }

    /// For an embedded model its file must be there (see `pull::ensure`).
    pub fn backend(&self, settings: &Settings, home: &Home) -> Outcome<Arc<dyn Backend>> {
        Ok(match &self.what {
            What::Remote { wire: Wire::OpenAi, endpoint, .. } => jarvis_model::openai((**endpoint).clone()),
            What::Remote { wire: Wire::Anthropic, endpoint, .. } => jarvis_model::anthropic((**endpoint).clone()),
            What::Known(file) => embedded(home.models().join(&file.file), &file.name, settings, home)?,
            What::File(path) => {
                let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                embedded(path.clone(), &name, settings, home)?
            }
        })
    }
}

#[cfg(feature = "local")]
fn embedded(path: PathBuf, name: &str, settings: &Settings, home: &Home) -> Outcome<Arc<dyn Backend>> {
    Ok(jarvis_model::local(local_config(path, name, settings, home)))
}

#[cfg(feature = "local")]
fn local_config(path: PathBuf, name: &str, settings: &Settings, home: &Home) -> jarvis_model::LocalConfig {
    jarvis_model::LocalConfig {
        model_path: path,
        name: name.to_owned(),
        context_tokens: settings.local.context_tokens,
        threads: settings.local.threads,
        gpu_layers: settings.local.gpu_layers,
        state_dir: home.models().join("states"),
    }
}

#[cfg(not(feature = "local"))]
fn embedded(_: PathBuf, name: &str, _: &Settings, _: &Home) -> Outcome<Arc<dyn Backend>> {
    Err(no_model(&format!("local/{name}: this build has no embedded model")).into())
}

/// What turns texts into vectors, where the settings name one.
pub fn embedder(settings: &Settings, home: &Home) -> Outcome<Option<Arc<dyn Embedder>>> {
    let Some(named) = &settings.embeddings.model else { return Ok(None) };
    let choice = resolve(settings, named, "embeddings.model")?;
    Ok(Some(match choice.what {
        What::Remote { wire: Wire::OpenAi, endpoint, .. } => jarvis_model::openai_embedder(*endpoint),
        What::Remote { wire: Wire::Anthropic, .. } => {
            return Err(config(
                format!("embeddings.model = {named}: this provider has no embeddings"),
                "name one that speaks OpenAI's format, or a GGUF file: local//path/to.gguf",
            ));
        }
        What::Known(file) => embedded_embedder(home.models().join(&file.file), &file.name, settings, home)?,
        What::File(path) => {
            let name = path.display().to_string();
            embedded_embedder(path, &name, settings, home)?
        }
    }))
}

#[cfg(feature = "local")]
fn embedded_embedder(path: PathBuf, name: &str, settings: &Settings, home: &Home) -> Outcome<Arc<dyn Embedder>> {
    Ok(jarvis_model::local_embedder(local_config(path, name, settings, home)))
}

#[cfg(not(feature = "local"))]
fn embedded_embedder(_: PathBuf, name: &str, _: &Settings, _: &Home) -> Outcome<Arc<dyn Embedder>> {
    Err(no_model(&format!("local/{name}: this build has no embedded model")).into())
}

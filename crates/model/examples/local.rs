//! Asks a GGUF model one question and prints answers and timings.
//!
//! `cargo run --release -p jarvis-model --example local -- MODEL.gguf [--system F] [--grammar F] [--schema F]
//! [--samples N] [--max N] [--temp T] [--seed N] [--prefix TEXT] [--stop TEXT] [--context N] [--threads N]
//! [--state DIR] [--repeat N] [--quiet] PROMPT`
//!
//! `--system` is a file and is the stable beginning whose state is kept (in `--state`, default: beside the model).
#![allow(clippy::print_stdout, clippy::print_stderr)]

use jarvis_model::{Constraint, Delta, LocalConfig, ModelHandle, local, local_traits};
use jarvis_protocol::Message;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (mut words, mut flags) = (Vec::new(), Vec::new());
    while let Some(arg) = args.next() {
        match arg.strip_prefix("--") {
            Some("quiet") => flags.push(("quiet".to_owned(), String::new())),
            Some(name) => flags.push((name.to_owned(), args.next().ok_or("a flag without its value")?)),
            None => words.push(arg),
        }
    }
    let flag = |name: &str| flags.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    let file = |name: &str| flag(name).map(std::fs::read_to_string).transpose();
    let (Some(model), Some(question)) = (words.first().map(PathBuf::from), words.get(1)) else {
        return Err("usage: local MODEL.gguf [flags] PROMPT".into());
    };

    let state_dir = flag("state").map_or_else(|| model.with_extension("states"), PathBuf::from);
    let config = LocalConfig {
        name: model.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        model_path: model,
        context_tokens: flag("context").map_or(Ok(8192), |n| n.parse())?,
        threads: flag("threads").map(|n| n.parse()).transpose()?,
        gpu_layers: None,
        state_dir,
    };
    let handle = ModelHandle::new(format!("local/{}", config.name), local_traits(config.context_tokens), local(config));
    let mut messages = Vec::new();
    messages.extend(file("system")?.map(Message::system));
    let stable = messages.len();
    messages.push(Message::user(question));
    let mut request = handle.request(messages);
    request.stable_prefix = stable;
    request.max_tokens = flag("max").map_or(Ok(512), |n| n.parse())?;
    request.samples = flag("samples").map_or(Ok(1), |n| n.parse())?;
    request.temperature = flag("temp").map(|t| t.parse()).transpose()?;
    request.seed = flag("seed").map(|n| n.parse()).transpose()?;
    request.assistant_prefix = flag("prefix");
    request.stop = flags.iter().filter(|(n, _)| n == "stop").map(|(_, v)| v.clone()).collect();
    request.constraint = file("grammar")?.map(Constraint::Gbnf);

    for _ in 0..flag("repeat").map_or(Ok(1), |n| n.parse::<usize>())? {
        let started = Instant::now();
        let mut first = None;
        let mut show = |delta: Delta| match delta {
            Delta::Text(_) => {
                first.get_or_insert(started.elapsed());
            }
            Delta::Status(status) => eprintln!("[{:.3} s] {status}", started.elapsed().as_secs_f64()),
            Delta::Reasoning(_) => {}
        };
        let completion = request.send(&mut show, &CancellationToken::new()).await?;
        let total = started.elapsed();
        if flag("quiet").is_none() {
            println!("{}", completion.text);
            for (i, text) in completion.alternatives.iter().enumerate() {
                println!("--- alternative {}\n{text}", i + 1);
            }
        }
        let first = first.unwrap_or(total);
        let usage = completion.usage;
        let decode = (total - first).as_secs_f64();
        eprintln!(
            "[{:?}] prompt {} tokens ({} cached), answer {} tokens; first text {:.3} s, total {:.3} s, {:.1} tokens/s",
            completion.finish,
            usage.input_tokens,
            usage.cached_tokens,
            usage.output_tokens,
            first.as_secs_f64(),
            total.as_secs_f64(),
            usage.output_tokens as f64 / decode.max(1e-9),
        );
    }
    Ok(())
}

//! Traces for OpenTelemetry, by the conventions for generative AI: a turn (`invoke_agent`), the model calls in it (`chat`),
//! the tools it calls (`execute_tool`). They are made of the spans that the crates below announce with `tracing`; where
//! nobody wants traces, those cost a load and a comparison each.

mod attributes;
mod export;
mod spans;

use export::Sender;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use std::collections::HashMap;
use std::time::Duration;

/// For one batch to be taken by the collector.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("traces cannot be sent to {endpoint}: {problem}")]
    Endpoint { endpoint: String, problem: String },
    #[error("traces are collected in this process already")]
    Twice,
}

/// Traces are being sent until this is ended.
pub struct Telemetry {
    provider: SdkTracerProvider,
    sender: Sender,
}

impl Telemetry {
    /// Sends traces to an OTLP collector over HTTP; must be called in a runtime. `content`: what is said, called with and
    /// answered is sent too.
    ///
    /// # Errors
    /// An address that is none, or traces that are collected already.
    pub fn start(endpoint: &str, content: bool) -> Result<Telemetry, TelemetryError> {
        let failed = |problem: String| TelemetryError::Endpoint { endpoint: endpoint.to_owned(), problem };
        // An error only says that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(traces(endpoint))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(PATIENCE)
            .with_headers(HashMap::new())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let (processor, sender) = export::processor(exporter);
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(Resource::builder_empty().with_service_name("jarvis").with_attribute(version).build())
            .with_span_processor(processor)
            .build();
        let spans = spans::Spans::new(provider.tracer("jarvis"), content);
        tracing::subscriber::set_global_default(spans).map_err(|_| TelemetryError::Twice)?;
        Ok(Telemetry { provider, sender })
    }

    /// Sends what is left; a collector that does not answer does not keep the process.
    pub async fn end(self) {
        self.sender.flush(PATIENCE).await;
        if let Err(error) = self.provider.shutdown_with_timeout(Duration::from_millis(100)) {
            tracing::debug!(%error, "traces were not ended");
        }
    }
}

/// A collector is named by its address; its path for traces is a convention.
fn traces(endpoint: &str) -> String {
    let (_, rest) = endpoint.split_once("://").unwrap_or(("", endpoint));
    match rest.split_once('/') {
        Some((_, path)) if !path.is_empty() => endpoint.to_owned(),
        _ => format!("{}/v1/traces", endpoint.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_added_where_none_is_named() {
        assert_eq!(traces("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(traces("http://127.0.0.1:4318/"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(traces("https://c.example/in/v1/traces"), "https://c.example/in/v1/traces");
    }
}

//! Ended spans go to the collector in batches, from a task of their own. A collector that is slow or gone costs spans,
//! never time or memory of the sessions.

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Spans that wait; what comes on top is dropped.
const WAITING: usize = 4096;
const BATCH: usize = 256;
const EVERY: Duration = Duration::from_secs(2);

enum Told {
    Span(Box<SpanData>),
    Resource(Box<Resource>),
    Flush(oneshot::Sender<()>),
}

#[derive(Debug)]
pub struct Processor(mpsc::Sender<Told>);

/// The other end, for whoever ends the process.
pub struct Sender(mpsc::Sender<Told>);

/// Must be called in a runtime.
pub fn processor(exporter: impl SpanExporter + 'static) -> (Processor, Sender) {
    let (send, receive) = mpsc::channel(WAITING);
    tokio::spawn(export(exporter, receive));
    (Processor(send.clone()), Sender(send))
}

async fn export(mut exporter: impl SpanExporter, mut receive: mpsc::Receiver<Told>) {
    let mut batch = Vec::new();
    let mut tick = tokio::time::interval(EVERY);
    loop {
        let told = tokio::select! {
            told = receive.recv() => told,
            _ = tick.tick() => {
                send(&exporter, &mut batch).await;
                continue;
            }
        };
        match told {
            None => break,
            Some(Told::Span(span)) => {
                batch.push(*span);
                if batch.len() >= BATCH {
                    send(&exporter, &mut batch).await;
                }
            }
            Some(Told::Resource(resource)) => exporter.set_resource(&resource),
            Some(Told::Flush(done)) => {
                send(&exporter, &mut batch).await;
                // Whoever waited may have given up.
                let _ = done.send(());
            }
        }
    }
    send(&exporter, &mut batch).await;
}

async fn send(exporter: &impl SpanExporter, batch: &mut Vec<SpanData>) {
    if batch.is_empty() {
        return;
    }
    if let Err(error) = exporter.export(std::mem::take(batch)).await {
        tracing::warn!(%error, "traces were not taken");
    }
}

impl SpanProcessor for Processor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.0.try_send(Told::Span(Box::new(span))).is_err() {
            tracing::debug!("a span was dropped: the collector is too slow");
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        // At the very beginning, when nothing waits.
        let _ = self.0.try_send(Told::Resource(Box::new(resource.clone())));
    }
}

impl Sender {
    pub async fn flush(&self, most: Duration) {
        let flushed = async {
            let (done, wait) = oneshot::channel();
            if self.0.send(Told::Flush(done)).await.is_ok() {
                // Gone without an answer is gone.
                let _ = wait.await;
            }
        };
        if tokio::time::timeout(most, flushed).await.is_err() {
            tracing::debug!("the last traces were not taken in time");
        }
    }
}

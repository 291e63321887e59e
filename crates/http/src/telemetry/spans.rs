//! From `tracing` spans to OpenTelemetry's. Only the spans of turns, model calls and tools are listened to.

use super::attributes::{self, Kind};
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// The spans that this thread is in.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

pub struct Spans {
    tracer: SdkTracer,
    content: bool,
    next: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
}

struct Open {
    span: SdkSpan,
    kind: Kind,
    holders: usize,
}

impl Spans {
    pub fn new(tracer: SdkTracer, content: bool) -> Self {
        Self { tracer, content, next: AtomicU64::new(1), open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of the span that the new one is in.
    fn above(&self, attributes: &Attributes<'_>) -> Option<SpanContext> {
        let id = match attributes.parent() {
            Some(parent) => parent.into_u64(),
            None if attributes.is_root() => return None,
            None => INSIDE.with_borrow(|inside| inside.last().copied())?,
        };
        self.open().get(&id).map(|above| above.span.span_context().clone())
    }
}

impl Subscriber for Spans {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && Kind::of(metadata.target()).is_some()
    }

    fn new_span(&self, new: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // Nothing else is enabled.
        let kind = Kind::of(new.metadata().target()).unwrap_or(Kind::Turn);
        let mut fields = Fields::default();
        new.record(&mut fields);
        let named = fields.0.iter().find(|(name, _)| *name == if kind == Kind::Chat { "model" } else { "name" });
        let about = match (kind, named) {
            (Kind::Turn, _) => "jarvis".to_owned(),
            (_, Some((_, value))) => value.to_string().split_once('/').map_or(value.to_string(), |(_, m)| m.to_owned()),
            (_, None) => String::new(),
        };
        let mut attributes = vec![KeyValue::new("gen_ai.operation.name", kind.operation())];
        if kind == Kind::Turn {
            attributes.push(KeyValue::new("gen_ai.agent.name", "jarvis"));
        }
        attributes
            .extend(fields.0.into_iter().flat_map(|(name, value)| attributes::of(kind, name, value, self.content)));
        let span_kind = if kind == Kind::Chat { SpanKind::Client } else { SpanKind::Internal };
        let builder = self.tracer.span_builder(format!("{} {about}", kind.operation()));
        let builder = builder.with_kind(span_kind).with_attributes(attributes);
        let around = self.above(new).map_or_else(Context::new, |above| Context::new().with_remote_span_context(above));
        let span = builder.start_with_context(&self.tracer, &around);
        self.open().insert(id, Open { span, kind, holders: 1 });
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(open) = self.open().get_mut(&id.into_u64()) {
            for (name, value) in fields.0 {
                if name == "error" {
                    open.span.set_status(Status::error(""));
                }
                open.span.set_attributes(attributes::of(open.kind, name, value, self.content));
            }
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        INSIDE.with_borrow_mut(|inside| {
            if let Some(at) = inside.iter().rposition(|within| *within == id.into_u64()) {
                inside.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(open) = self.open().get_mut(&id.into_u64()) {
            open.holders += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut all = self.open();
        let Some(open) = all.get_mut(&id.into_u64()) else { return false };
        open.holders -= 1;
        if open.holders > 0 {
            return false;
        }
        let ended = all.remove(&id.into_u64());
        drop(all);
        if let Some(mut ended) = ended {
            ended.span.end();
        }
        true
    }
}

#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), Value::I64(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), Value::I64(i64::try_from(value).unwrap_or(i64::MAX))));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), Value::Bool(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), Value::from(value.to_owned())));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), Value::from(format!("{value:?}"))));
    }
}

//! The layer of `tracing` that makes OpenTelemetry spans of this program's spans. It never waits: a span that finds the
//! queue full is dropped and counted.

use std::fmt;
use std::time::Instant;

use callboard_engine::trace::SPANS;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Subscriber, dispatcher};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry, filter};

use super::DROPPED;
use super::context::{Sampler, SpanContext};
use super::proto::{Proto, ProtoValue};

/// A text of an attribute is cut after so many bytes. Attributes are words and ids; a longer text is a mistake.
const TEXT_BYTES_MAX: usize = 256;

const KIND_INTERNAL: u8 = 1;
const KIND_SERVER: u8 = 2;
const STATUS_ERROR: u8 = 2;

/// A span that is not over.
struct OpenSpan {
    context: SpanContext,
    started_at: u64,
    started: Instant,
    fields: SpanFields,
}

/// The facts of a span, as its fields have them.
#[derive(Default)]
struct SpanFields {
    name: Option<String>,
    kind: Option<u8>,
    /// The parent in this process or in another one.
    parent: Option<SpanContext>,
    attributes: Vec<Proto>,
    is_error: bool,
}

pub(super) struct SpanLayer {
    sampler: Sampler,
    /// Messages of spans that are over.
    ended: mpsc::Sender<Proto>,
}

impl SpanLayer {
    /// The layer, for this program's spans alone.
    pub(super) fn filtered<S>(sampler: Sampler, ended: mpsc::Sender<Proto>) -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let ours = filter::filter_fn(|metadata| metadata.target() == SPANS);
        Self { sampler, ended }.with_filter(ours)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut fields = SpanFields::default();
        attributes.record(&mut fields);
        if fields.parent.is_none() {
            let parent = span.parent();
            fields.parent = parent
                .and_then(|parent| parent.extensions().get::<OpenSpan>().map(|open| open.context));
        }
        let Some(context) = SpanContext::child_of(fields.parent, self.sampler) else { return };
        let (started_at, started) = (now(), Instant::now());
        span.extensions_mut().insert(OpenSpan { context, started_at, started, fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        if !open.context.is_sampled {
            return;
        }
        match self.ended.try_send(open.into_message(span.name())) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                metrics::counter!(DROPPED).increment(1);
            }
        }
    }
}

impl OpenSpan {
    fn into_message(self, name: &str) -> Proto {
        let Self { context, started_at, started, fields } = self;
        // By the steady clock: a clock that was set back must not end a span before its start.
        let lasted = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let ended_at = started_at.saturating_add(lasted);
        let name = fields.name.unwrap_or_else(|| name.to_owned());
        let mut message = Proto::default()
            .with(1, "traceId", ProtoValue::Id(context.trace.to_vec()))
            .with(2, "spanId", ProtoValue::Id(context.span.to_vec()));
        if let Some(parent) = fields.parent {
            message = message.with(4, "parentSpanId", ProtoValue::Id(parent.span.to_vec()));
        }
        message = message
            .text(5, "name", name)
            .with(6, "kind", ProtoValue::Word(fields.kind.unwrap_or(KIND_INTERNAL)))
            .with(7, "startTimeUnixNano", ProtoValue::Fixed(started_at))
            .with(8, "endTimeUnixNano", ProtoValue::Fixed(ended_at))
            .many(9, "attributes", fields.attributes);
        if fields.is_error {
            let status = Proto::default().with(3, "code", ProtoValue::Word(STATUS_ERROR));
            message = message.one(15, "status", status);
        }
        message
    }
}

impl SpanFields {
    fn add(&mut self, field: &Field, value: ProtoValue) {
        self.is_error |= field.name() == "error.type";
        self.attributes.push(Proto::attribute(field.name(), value));
    }
}

impl Visit for SpanFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "otel.name" => self.name = Some(cut(value)),
            "otel.kind" => self.kind = (value == "server").then_some(KIND_SERVER),
            // An invalid parent is ignored, and the span begins a trace.
            "traceparent" => self.parent = SpanContext::parse(value),
            _ => self.add(field, ProtoValue::Text(cut(value))),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, ProtoValue::Flag(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, ProtoValue::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, ProtoValue::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, ProtoValue::Double(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

pub(super) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default()
}

/// The span in which this is called, as a `traceparent` for a program that is started there; `None` without an exporter.
pub(crate) fn traceparent_here() -> Option<String> {
    dispatcher::get_default(|dispatch| {
        let registry = dispatch.downcast_ref::<Registry>()?;
        let current = dispatch.current_span();
        let span = registry.span(current.id()?)?;
        let context = span.extensions().get::<OpenSpan>()?.context;
        Some(context.traceparent())
    })
}

//! Log lines as flat JSON objects.
//!
//! The formatter of tracing-subscriber nests spans, so a query for one pool would depend on the depth of the
//! spans. Here the fields of all spans are on the same level as those of the event. If two fields have the
//! same name, the inner one is used.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, Layer, MakeWriter};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// The layer `lines` with JSON output.
pub(crate) fn json_layer<S, W>(
    lines: Layer<
        S,
        tracing_subscriber::fmt::format::DefaultFields,
        tracing_subscriber::fmt::format::Format,
        W,
    >,
) -> Layer<S, JsonFields, FlatJson, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    lines.fmt_fields(JsonFields::new()).event_format(FlatJson)
}

/// Formats an event as a flat object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlatJson;

impl<S, N> FormatEvent<S, N> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        let metadata = event.metadata();
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<N>>() else { continue };
            if let Ok(Value::Object(fields)) = serde_json::from_str(fields) {
                line.extend(fields);
            }
        }
        event.record(&mut Fields(&mut line));
        // Added last, so that no other field can replace them.
        line.insert("timestamp".to_owned(), Value::String(time));
        line.insert("level".to_owned(), Value::String(metadata.level().to_string()));
        line.insert("target".to_owned(), Value::String(metadata.target().to_owned()));
        writeln!(writer, "{}", Value::Object(line))
    }
}

struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn insert(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_error(&mut self, field: &Field, error: &(dyn std::error::Error + 'static)) {
        self.insert(field, super::causes::with_causes(error).into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}").into());
    }
}

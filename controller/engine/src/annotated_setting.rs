//! Settings of pools that a field of the spec or an annotation contains: definitions of pools other than
//! those of vmpool do not have the fields.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::Value;

/// A field of the spec of pools, and the annotation with the same meaning. The field overrides the
/// annotation.
#[derive(Debug)]
pub struct AnnotatedSetting<T, E> {
    /// The field of the spec.
    pub field: &'static str,
    /// The annotation.
    pub annotation: &'static str,
    /// Reads the value of the field.
    pub parse_field: fn(&Value) -> Result<T, E>,
    /// Reads the text of the annotation.
    pub parse_annotation: fn(&str) -> Result<T, E>,
    /// What follows from an unreadable value: the rest of a message, after the error.
    pub consequence: &'static str,
    /// Why admission refuses an unreadable value.
    pub reason: fn(&E) -> &'static str,
    /// What admission proposes instead.
    pub way_out: &'static str,
}

/// A setting cannot be read, and a message says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableSetting;

impl<T, E: Display> AnnotatedSetting<T, E> {
    /// The setting of a pool; `None` if it has neither the field nor the annotation.
    ///
    /// # Errors
    /// The value cannot be read. Then `invalid_settings` gets a message.
    pub(crate) fn read(
        &self,
        field: &Value,
        annotations: Option<&BTreeMap<String, String>>,
        invalid_settings: &mut Vec<String>,
    ) -> Result<Option<T>, UnreadableSetting> {
        let annotation = annotations.and_then(|annotations| annotations.get(self.annotation));
        let (setting, read) = match (field, annotation) {
            (Value::Null, None) => return Ok(None),
            (Value::Null, Some(text)) => {
                (format!("annotation {}", self.annotation), (self.parse_annotation)(text))
            }
            (field, _) => (self.field.to_owned(), (self.parse_field)(field)),
        };
        read.map(Some).map_err(|error| {
            invalid_settings.push(format!("{setting}: {error}{}", self.consequence));
            UnreadableSetting
        })
    }

    /// As [`AnnotatedSetting::read`], with `default` for a missing or unreadable value.
    pub(crate) fn read_or(
        &self,
        default: T,
        field: &Value,
        annotations: Option<&BTreeMap<String, String>>,
        invalid_settings: &mut Vec<String>,
    ) -> T {
        self.read(field, annotations, invalid_settings).ok().flatten().unwrap_or(default)
    }
}

/// Reads an annotation with the JSON of a field. An error quotes the text as it is.
///
/// # Errors
/// The text is no JSON, or `parse` refuses its value.
pub(crate) fn parse_json_annotation<T, E>(
    text: &str,
    parse: fn(&Value) -> Result<T, E>,
    quote: fn(&str) -> E,
) -> Result<T, E> {
    let value = serde_json::from_str(text).map_err(|_| quote(text))?;
    parse(&value).map_err(|_| quote(text))
}

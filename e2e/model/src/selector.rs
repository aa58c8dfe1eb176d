//! Label and field selectors.

use serde_json::Value;

use crate::api_error::ApiError;
use crate::call::Call;

#[cfg(test)]
mod tests;

/// The label and field selectors of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestSelectors {
    labels: Vec<Label>,
    fields: Vec<Field>,
}

/// The requirement for one label.
#[derive(Debug)]
struct Label {
    key: String,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    Exists,
    Absent,
    In(Vec<String>),
    /// Also matches if the label is missing.
    NotIn(Vec<String>),
}

/// The requirement for `metadata.name` or `metadata.namespace`, the only selectable fields of custom
/// resources.
#[derive(Debug)]
struct Field {
    name: &'static str,
    value: String,
    equal: bool,
}

impl RequestSelectors {
    /// The selectors of a list or a watch.
    ///
    /// # Errors
    /// A refusal if a selector cannot be parsed.
    pub(crate) fn of(call: &Call) -> Result<Self, ApiError> {
        let labels = requirements(call.parameter("labelSelector").unwrap_or_default());
        let fields = requirements(call.parameter("fieldSelector").unwrap_or_default());
        Ok(Self {
            labels: labels.into_iter().map(label).collect::<Result<_, _>>()?,
            fields: fields.into_iter().map(field).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the selector matches every object.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let field = |field: &Field| (metadata[field.name] == field.value.as_str()) == field.equal;
        let label = |label: &Label| {
            let found = metadata["labels"][&label.key].as_str();
            match &label.rule {
                Rule::Exists => found.is_some(),
                Rule::Absent => found.is_none(),
                Rule::In(values) => found.is_some_and(|found| values.iter().any(|value| value == found)),
                Rule::NotIn(values) => found.is_none_or(|found| values.iter().all(|value| value != found)),
            }
        };
        self.fields.iter().all(field) && self.labels.iter().all(label)
    }
}

/// Splits at commas outside parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let parts = text.split(|letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn label(text: &str) -> Result<Label, ApiError> {
    let (key, rule) = if let Some((key, value)) = text.split_once("!=") {
        (key, Rule::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once('=') {
        (key, Rule::In(vec![value.trim_start_matches('=').trim().to_owned()]))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Rule::Absent)
    } else if let Some((key, values)) = text.split_once(" notin ") {
        (key, Rule::NotIn(set(values, text)?))
    } else if let Some((key, values)) = text.split_once(" in ") {
        (key, Rule::In(set(values, text)?))
    } else {
        (text, Rule::Exists)
    };
    let key = key.trim().to_owned();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(unreadable(text));
    }
    Ok(Label { key, rule })
}

fn set(values: &str, text: &str) -> Result<Vec<String>, ApiError> {
    let inner = values.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or_else(|| unreadable(text))?;
    Ok(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

fn unreadable(text: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement: {text:?}"))
}

fn field(text: &str) -> Result<Field, ApiError> {
    let (name, value, equal) = if let Some((name, value)) = text.split_once("!=") {
        (name, value, false)
    } else if let Some((name, value)) = text.split_once('=') {
        (name, value.trim_start_matches('='), true)
    } else {
        return Err(ApiError::bad_request(format!("invalid selector: {text:?}")));
    };
    let name = match name {
        "metadata.name" => "name",
        "metadata.namespace" => "namespace",
        other => return Err(ApiError::bad_request(format!("field label not supported: {other}"))),
    };
    Ok(Field { name, value: value.to_owned(), equal })
}

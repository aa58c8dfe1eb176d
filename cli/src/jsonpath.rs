//! The templates of `-o jsonpath=`, in the syntax of kubectl.
//!
//! ```text
//!  {.pools[*].name}                                                fields, indices and all elements
//!  {range .pools[*]}{.name}{"\t"}{.phase}{"\n"}{end}               one text for each element
//!  {.conditions[?(@.type=="Ready")].status}                        the elements with a value
//! ```
//!
//! A missing field is empty. Several values are separated by spaces. Slices, recursive descent and other
//! comparisons than `==` are not supported.

mod parser;

use serde_json::Value;

use self::parser::{ParsedPart, PathStep, parse_template};

/// A template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JsonPathTemplate {
    parts: Vec<ParsedPart>,
}

impl JsonPathTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// The syntax is not one of the supported forms.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(Self { parts: parse_template(text)? })
    }

    /// The text for this data.
    pub(crate) fn render(&self, data: &Value) -> String {
        let mut text = String::new();
        render_parts(&self.parts, data, &mut text);
        text
    }
}

fn render_parts(parts: &[ParsedPart], current: &Value, text: &mut String) {
    for part in parts {
        match part {
            ParsedPart::Text(own) => text.push_str(own),
            ParsedPart::Path(path) => {
                let values: Vec<String> = select_values(path, current).into_iter().map(value_text).collect();
                text.push_str(&values.join(" "));
            }
            ParsedPart::Range { path, body } => {
                for element in select_values(path, current) {
                    render_parts(body, element, text);
                }
            }
        }
    }
}

/// The values at a path.
fn select_values<'a>(path: &[PathStep], current: &'a Value) -> Vec<&'a Value> {
    let mut values = vec![current];
    for step in path {
        values = values.into_iter().flat_map(|value| step_values(step, value)).collect();
    }
    values
}

fn step_values<'a>(step: &PathStep, value: &'a Value) -> Vec<&'a Value> {
    match step {
        PathStep::Field(name) => value.get(name).into_iter().collect(),
        PathStep::Index(index) => {
            value.as_array().and_then(|list| element_at(list, *index)).into_iter().collect()
        }
        PathStep::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        },
        PathStep::Filter { path, equals } => {
            let elements = value.as_array().into_iter().flatten();
            elements.filter(|element| select_values(path, element).contains(&equals)).collect()
        }
    }
}

/// The element at an index; a negative one counts from the end.
fn element_at(list: &[Value], index: i64) -> Option<&Value> {
    let place = if index < 0 { i64::try_from(list.len()).ok()? + index } else { index };
    list.get(usize::try_from(place).ok()?)
}

/// A value as kubectl prints it: texts without quotes, others as JSON.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;

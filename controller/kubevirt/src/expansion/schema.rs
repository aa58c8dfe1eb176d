//! Checks an object that a client sends against the schema of its definition.
//!
//! The API server checks only what it stores, so nothing else checks these objects. Messages name fields and
//! never quote values.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use vmpool_api::kubevirt::crds::{PLATFORM_CRDS, POOL_CRD};
use vmpool_instancetype::fields::{CauseReason, StatusCause};

use super::super::keys::MACHINE_KIND;

/// The most violations that are reported. Later ones are rarely of another kind.
const MOST: usize = 100;

static POOL: LazyLock<Value> = LazyLock::new(|| definition_schema(POOL_CRD.yaml));

static MACHINE: LazyLock<Value> = LazyLock::new(|| {
    let definition = PLATFORM_CRDS.iter().find(|definition| definition.kind == MACHINE_KIND);
    definition.map_or(Value::Null, |definition| definition_schema(definition.yaml))
});

/// The schema of the first version in a definition.
fn definition_schema(yaml: &str) -> Value {
    let definition: Value = serde_yaml_ng::from_str(yaml).unwrap_or_default();
    definition.pointer("/spec/versions/0/schema/openAPIV3Schema").cloned().unwrap_or_default()
}

/// The violations in a pool.
pub(super) fn pool_schema_violations(object: &Value) -> Vec<StatusCause> {
    schema_violations(&POOL, object)
}

/// The violations in a machine.
pub(super) fn machine_schema_violations(object: &Value) -> Vec<StatusCause> {
    schema_violations(&MACHINE, object)
}

fn schema_violations(schema: &Value, object: &Value) -> Vec<StatusCause> {
    let mut found = Vec::new();
    check_schema_value(schema, "", object, &mut found);
    found
}

fn invalid_field_cause(field: String, message: String) -> StatusCause {
    StatusCause { reason: CauseReason::FieldValueInvalid, message, field }
}

/// Checks a value and all values below it. As in KubeVirt's own decoder, `null` equals an absent field.
fn check_schema_value(schema: &Value, path: &str, value: &Value, found: &mut Vec<StatusCause>) {
    if found.len() >= MOST || value.is_null() {
        return;
    }
    let mut report = |problem: String| found.push(invalid_field_cause(path.to_owned(), problem));
    if let Some(wanted) = wrong_type(schema, value) {
        return report(format!("must be {wanted}"));
    }
    let limit = |name: &str| schema[name].as_f64();
    let words = schema["enum"].as_array();
    if words.is_some_and(|words| !words.contains(value)) {
        let words: Vec<String> = words.into_iter().flatten().map(Value::to_string).collect();
        report(format!("must be one of {}", words.join(", ")));
    }
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            if limit("minimum").is_some_and(|least| number < least) {
                report(format!("must be at least {}", schema["minimum"]));
            }
            if limit("maximum").is_some_and(|most| number > most) {
                report(format!("must be at most {}", schema["maximum"]));
            }
        }
        Value::String(text) => {
            check_size_limits(schema, "Length", "characters", text.chars().count(), &mut report);
        }
        Value::Array(items) => {
            check_size_limits(schema, "Items", "entries", items.len(), &mut report);
            for (index, item) in items.iter().enumerate() {
                check_schema_value(&schema["items"], &format!("{path}[{index}]"), item, found);
            }
        }
        Value::Object(fields) => {
            check_size_limits(schema, "Properties", "fields", fields.len(), &mut report);
            check_object_fields(schema, path, fields, found);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_object_fields(
    schema: &Value,
    path: &str,
    fields: &Map<String, Value>,
    found: &mut Vec<StatusCause>,
) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if fields.get(name).is_none_or(Value::is_null) {
            found.push(invalid_field_cause(below(name), "is required".to_owned()));
        }
    }
    let known: BTreeSet<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| &**name).collect();
    for (name, value) in fields {
        let schema = if known.contains(&**name) {
            &schema["properties"][name]
        } else {
            &schema["additionalProperties"]
        };
        check_schema_value(schema, &below(name), value, found);
    }
}

/// Reports a number of parts outside the limits, such as `minLength` and `maxLength`.
fn check_size_limits(
    schema: &Value,
    limit: &str,
    parts: &str,
    number: usize,
    report: &mut impl FnMut(String),
) {
    let number = u64::try_from(number).unwrap_or(u64::MAX);
    let bound = |which: &str| schema[format!("{which}{limit}")].as_u64();
    if let Some(least) = bound("min").filter(|least| number < *least) {
        report(format!("must have at least {least} {parts}"));
    }
    if let Some(most) = bound("max").filter(|most| number > *most) {
        report(format!("must have at most {most} {parts}"));
    }
}

/// What the value must be, if it has another type.
fn wrong_type(schema: &Value, value: &Value) -> Option<&'static str> {
    if schema["x-kubernetes-int-or-string"] == true {
        return (!value.is_i64() && !value.is_u64() && !value.is_string()).then_some("a number or a string");
    }
    let (fits, wanted) = match schema["type"].as_str()? {
        "object" => (value.is_object(), "an object"),
        "array" => (value.is_array(), "a list"),
        "string" => (value.is_string(), "a string"),
        "boolean" => (value.is_boolean(), "true or false"),
        "integer" => (value.is_i64() || value.is_u64(), "an integer"),
        "number" => (value.is_number(), "a number"),
        _ => return None,
    };
    (!fits).then_some(wanted)
}

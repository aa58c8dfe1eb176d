//! The values that the definition of vmpool allows, for clusters whose definition of pools checks less.
//!
//! Enums, lengths, ranges, numbers of entries and patterns are read from the definition itself, so that both
//! say the same. Its CEL rules are not evaluated here: each has a rule of its own in the other modules.

use std::sync::LazyLock;

use serde_json::Value;
use vmpool_api::names::{is_dns_label, is_dns_subdomain};
use vmpool_api::{Quantity, crds};
use vmpool_engine::admission::{RuleResult, refuse_value};

use super::rule::Rule;
use super::view::{json_at_path, json_entries, json_field, json_text};

static POOL: LazyLock<Value> = LazyLock::new(|| pool_spec_schema(crds::POOL_CRD.yaml));

/// The schema of the spec in a definition.
fn pool_spec_schema(yaml: &str) -> Value {
    let definition: Value = serde_yaml_ng::from_str(yaml).unwrap_or_default();
    let versions = json_entries(json_at_path(&definition, &["spec", "versions"]));
    let schema = versions.first().map(|version| json_at_path(version, &["schema", "openAPIV3Schema"]));
    schema.map_or(Value::Null, |schema| json_at_path(schema, &["properties", "spec"]).clone())
}

/// Checks one field of the spec.
pub(super) fn spec_field(name: &str, value: &Value) -> RuleResult {
    if value.is_null() && json_entries(json_field(&POOL, "required")).iter().any(|required| required == name)
    {
        return refuse_schema_value(&format!("spec.{name}"), value, "it is required", "add it");
    }
    check_schema_value(json_at_path(&POOL, &["properties", name]), &format!("spec.{name}"), value)
}

/// Checks the spec of the machine template.
pub(super) fn check_machine_schema(path: &str, value: &Value) -> RuleResult {
    let template = json_at_path(&POOL, &["properties", "virtualMachineTemplate", "properties", "spec"]);
    check_schema_value(template, path, value)
}

/// Checks the list of disk templates, without its entries.
pub(super) fn disk_list(value: &Value) -> RuleResult {
    let schema = json_at_path(&POOL, &["properties", "virtualDiskTemplates"]);
    let path = "spec.virtualDiskTemplates";
    check_entry_count(schema, path, json_entries(value))?;
    for (index, entry) in json_entries(value).iter().enumerate() {
        let name = json_field(entry, "name");
        let name_path = format!("{path}[{index}].name");
        check_schema_value(json_at_path(schema, &["items", "properties", "name"]), &name_path, name)?;
        if name.is_null() {
            return refuse_schema_value(&name_path, name, "it is required", "add it");
        }
        if json_entries(value)[..index].iter().any(|other| json_field(other, "name") == name) {
            return refuse_schema_value(
                &name_path,
                name,
                "another entry has this name",
                "give each disk template its own name",
            );
        }
    }
    Ok(())
}

/// Checks one part of a disk template.
pub(super) fn disk_part(part: &str, path: &str, value: &Value) -> RuleResult {
    check_schema_value(
        json_at_path(&POOL, &["properties", "virtualDiskTemplates", "items", "properties", part]),
        path,
        value,
    )
}

/// Checks a value and all values below it.
fn check_schema_value(schema: &Value, path: &str, value: &Value) -> RuleResult {
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(_) => check_number_value(schema, path, value),
        Value::String(text) => check_string_value(schema, path, text),
        Value::Array(items) => {
            check_entry_count(schema, path, items)?;
            let of_item = json_field(schema, "items");
            items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| check_schema_value(of_item, &format!("{path}[{index}]"), item))
        }
        Value::Object(map) => {
            for name in json_entries(json_field(schema, "required")).iter().filter_map(Value::as_str) {
                if json_field(value, name).is_null() {
                    return refuse_schema_value(
                        &format!("{path}.{name}"),
                        &Value::Null,
                        "it is required",
                        "add it",
                    );
                }
            }
            let required = |name: &str| {
                json_entries(json_field(schema, "required")).iter().any(|required| required == name)
            };
            for (name, value) in map {
                let schema = json_at_path(schema, &["properties", name]);
                // Optional empty values are omitted in machines.
                if value == "" && !required(name) && json_field(schema, "minLength") == 1 {
                    continue;
                }
                check_schema_value(schema, &format!("{path}.{name}"), value)?;
            }
            Ok(())
        }
    }
}

fn check_number_value(schema: &Value, path: &str, value: &Value) -> RuleResult {
    let (least, most) = (json_field(schema, "minimum").as_f64(), json_field(schema, "maximum").as_f64());
    let number = value.as_f64().unwrap_or_default();
    if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
        let way_out = match (least, most) {
            (Some(least), Some(most)) => format!("use a number from {least} to {most}"),
            (Some(least), None) => format!("use a number from {least}"),
            (None, _) => format!("use a number up to {}", most.unwrap_or_default()),
        };
        return refuse_schema_value(path, value, "out of range", way_out);
    }
    Ok(())
}

fn check_string_value(schema: &Value, path: &str, string: &str) -> RuleResult {
    let value = Value::from(string);
    let words: Vec<&str> =
        json_entries(json_field(schema, "enum")).iter().filter_map(Value::as_str).collect();
    if !words.is_empty() && !words.contains(&string) {
        return refuse_schema_value(path, &value, "no such value", format_args!("use {}", words.join(", ")));
    }
    let length = u64::try_from(string.chars().count()).unwrap_or(u64::MAX);
    if json_field(schema, "minLength").as_u64().is_some_and(|least| length < least) {
        return refuse_schema_value(path, &value, "it is empty", "fill it in");
    }
    if let Some(most) = json_field(schema, "maxLength").as_u64().filter(|most| length > *most) {
        return refuse_schema_value(
            path,
            &value,
            format_args!("it has {length} characters"),
            format_args!("use at most {most}"),
        );
    }
    let pattern = json_text(schema, "pattern").unwrap_or_default();
    match PATTERNS.iter().find(|known| known.regex == pattern) {
        Some(known) if !(known.accepts)(string) => {
            refuse_schema_value(path, &value, known.reason, known.way_out)
        }
        _ => Ok(()),
    }
}

fn check_entry_count(schema: &Value, path: &str, items: &[Value]) -> RuleResult {
    let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
    let (least, most) = (json_field(schema, "minItems").as_u64(), json_field(schema, "maxItems").as_u64());
    if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
        let (least, most) =
            (least.unwrap_or_default(), most.map_or_else(String::new, |most| format!(" to {most}")));
        let reason = format!("it has {count} entries");
        return refuse_schema_value(path, &Value::from(items), reason, format_args!("use {least}{most}"));
    }
    Ok(())
}

fn refuse_schema_value(
    path: &str,
    value: &Value,
    reason: impl std::fmt::Display,
    way_out: impl std::fmt::Display,
) -> RuleResult {
    refuse_value(Rule::Schema, path, value, reason, way_out)
}

/// A pattern of the definition, with messages.
struct Pattern {
    regex: &'static str,
    accepts: fn(&str) -> bool,
    reason: &'static str,
    way_out: &'static str,
}

const fn digest_pattern(regex: &'static str, accepts: fn(&str) -> bool) -> Pattern {
    let way_out = "use the hexadecimal digits of the digest, all of them";
    Pattern { regex, accepts, reason: "it is not a digest of this kind", way_out }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

const fn amount_pattern(regex: &'static str) -> Pattern {
    let accepts = |text: &str| serde_json::from_value::<Quantity>(text.into()).is_ok();
    Pattern { regex, accepts, reason: "it is not an amount", way_out: "use an amount such as 512Mi or 4Gi" }
}

const PATTERNS: [Pattern; 10] = [
    digest_pattern("^[0-9a-fA-F]{32}$", |text| is_hex(text, 32)),
    digest_pattern("^[0-9a-fA-F]{40}$", |text| is_hex(text, 40)),
    digest_pattern("^[0-9a-fA-F]{64}$", |text| is_hex(text, 64)),
    digest_pattern("^[0-9a-fA-F]{128}$", |text| is_hex(text, 128)),
    Pattern {
        regex: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        accepts: is_dns_label,
        reason: "it is not a DNS label",
        way_out: "use at most 63 lower-case letters, digits and dashes, with a letter or digit at both ends",
    },
    Pattern {
        regex: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        accepts: is_dns_subdomain,
        reason: "it is not a DNS name",
        way_out: "use lower-case letters, digits, dashes and dots, with a letter or digit at both ends",
    },
    amount_pattern(
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    ),
    // The rule of disk sizes refuses zero and less.
    amount_pattern(
        r"^\+?(([0-9]*[1-9][0-9]*(\.[0-9]*)?)|([0-9]*\.[0-9]*[1-9][0-9]*))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    ),
    Pattern {
        regex: URL,
        accepts: is_url,
        reason: "it is not an address that the platform can download from",
        way_out: "use an http or https address, with other characters such as ~, # or spaces as percent-encoded bytes",
    },
    Pattern {
        regex: IMAGE,
        accepts: is_image,
        reason: "it is not a reference of a container image",
        way_out: "use host/repository:tag or host/repository@digest, as in registry.example.com/images/debian:13; the repository is in lower case",
    },
];

const URL: &str = r"^https?://[a-zA-Z0-9\[][a-zA-Z0-9$-_!]*$";
const IMAGE: &str = r"^((localhost|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+)(:[0-9]+)?/|[A-Za-z0-9_]+:[0-9]+/)?[a-z0-9_.-]+(/[a-z0-9_.-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*([+._][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$";

/// The range from `$` to `_` contains the digits, the capital letters and most of the punctuation.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let part = |byte: u8| byte.is_ascii_lowercase() || byte == b'!' || (b'$'..=b'_').contains(&byte);
    let begins = |rest: &str| rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
    rest.is_some_and(|rest| begins(rest) && rest.bytes().all(part))
}

fn is_image(text: &str) -> bool {
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    if digest.is_some_and(|digest| !is_image_digest(digest)) {
        return false;
    }
    let path = match name.split_once('/') {
        Some((host, path)) if is_host(host) => path,
        _ => name,
    };
    let (path, tag) = path.split_once(':').map_or((path, None), |(path, tag)| (path, Some(tag)));
    tag.is_none_or(is_tag) && path.split('/').all(is_path_part)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// A host has a dot or a port, or is `localhost`. Any other first part belongs to the repository.
fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let labels = |name: &str| {
        name.contains('.')
            && name
                .split('.')
                .all(|label| !label.is_empty() && label.bytes().all(|byte| is_word(byte) || byte == b'-'))
    };
    let short = port.is_some() && !name.is_empty() && name.bytes().all(is_word);
    (name == "localhost" || labels(name) || short)
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()))
}

fn is_path_part(part: &str) -> bool {
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-');
    !part.is_empty() && part.bytes().all(inner)
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_image_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let part = |part: &str| {
        part.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['+', '.', '_']).all(part)
        && hex.len() >= 32
        && hex.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
pub(super) mod tests;

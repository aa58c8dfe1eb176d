//! Redacts objects for a report: a pure function of their JSON.
//!
//! What a field may contain is decided by its name first, and then by the text itself, because templates and
//! annotations can contain fields that this version does not know.

use serde_json::{Map, Value};
use vmpool_api::kubevirt::annotations::SCALE_IN_TARGETS;

use super::scrub::{contains_user_data, describe_redaction, is_secret_name, scrub_text};

/// Beginnings of the names of fields with user data of guests, in lower case.
const USER_DATA: [&str; 5] = ["cloudinit", "provisioning", "userdata", "networkdata", "ignition"];

/// A key or the beginning of keys in each domain of vmpool's annotations, which stay.
const OWN_KEYS: [&str; 3] = [vmpool_api::PREFIX, vmpool_api::diskimage::PREFIX, SCALE_IN_TARGETS];

/// The domains of Kubernetes, whose annotations stay, as those of their subdomains.
const KUBERNETES_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// The annotation with the manifest that a user has applied. It can contain everything.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields whose text programs write for users, which may have several lines.
const MESSAGES: [&str; 6] = ["message", "note", "reason", "what", "remedy", "unreadable"];

/// Fields that a report leaves out: they repeat the names of all other fields.
const OMITTED: &str = "managedFields";

/// The value without user data of guests, values of environments, annotations of other programs, addresses,
/// tokens, and certificates of authorities. Each is replaced by its size.
pub(super) fn redact_value(value: &Value) -> Value {
    match value {
        Value::Object(fields) => redact_fields(fields),
        Value::Array(items) => items.iter().map(redact_value).collect(),
        Value::String(text) => redact_text(text, false).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn redact_fields(fields: &Map<String, Value>) -> Value {
    let kept = fields.iter().filter(|(name, _)| *name != OMITTED);
    let redacted = kept.map(|(name, value)| (scrub_text(name), redact_field(name, value)));
    Value::Object(redacted.collect())
}

fn redact_field(name: &str, value: &Value) -> Value {
    let lower = name.to_ascii_lowercase();
    if USER_DATA.iter().any(|beginning| lower.starts_with(beginning)) {
        return replace_value(value);
    }
    match value {
        // Headers of a download, which users write although they can contain tokens.
        Value::Array(items) if lower == "extraheaders" => items.iter().map(replace_value).collect(),
        Value::String(_) if is_secret_name(name) => replace_value(value),
        Value::String(text) => redact_text(text, MESSAGES.contains(&name)).into(),
        Value::Object(annotations) if name == "annotations" => redact_annotations(annotations),
        Value::Array(variables) if name == "env" => variables.iter().map(redact_variable).collect(),
        Value::Array(items) if is_secret_name(name) => items.iter().map(replace_value).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            redact_value(value)
        }
    }
}

fn redact_annotations(annotations: &Map<String, Value>) -> Value {
    let redact = |name: &str, value: &Value| {
        if is_known_annotation(name) { redact_field(name, value) } else { replace_value(value) }
    };
    Value::Object(annotations.iter().map(|(name, value)| (scrub_text(name), redact(name, value))).collect())
}

fn is_known_annotation(name: &str) -> bool {
    let domain = domain_of(name);
    let is_below = |parent: &str| {
        let rest = domain.strip_suffix(parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_own = OWN_KEYS.iter().any(|own| domain_of(own) == domain);
    let is_known = is_own || KUBERNETES_DOMAINS.into_iter().any(is_below);
    is_known && name != LAST_APPLIED
}

fn domain_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

/// A variable of an environment. Its name stays, and where its value comes from.
fn redact_variable(variable: &Value) -> Value {
    match variable {
        Value::Object(fields) => {
            let redact = |name: &String, value: &Value| match &**name {
                "name" | "valueFrom" => redact_value(value),
                _ => replace_value(value),
            };
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), redact(name, value))).collect())
        }
        other => replace_value(other),
    }
}

/// A text, which can be JSON itself. A text of several lines is user data unless a program wrote it for
/// users.
fn redact_text(text: &str, is_message: bool) -> String {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
    {
        return redact_value(&inner).to_string();
    }
    let has_lines = text.trim_end().contains('\n');
    if contains_user_data(text) || has_lines && !is_message {
        return describe_redaction(text.len());
    }
    scrub_text(text)
}

fn replace_value(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::String(text) => describe_redaction(text.len()).into(),
        other => describe_redaction(other.to_string().len()).into(),
    }
}

#[cfg(test)]
mod tests;

//! Requirements for the project's CRDs beyond those of the API server.
//!
//! `kubectl explain` must describe every field, and every refusal must contain a written message. Kubernetes
//! 1.30, the oldest release that the chart accepts, must accept every rule.

use serde_yaml_ng::Value;

use crate::schema::{
    ResolvedCrd, SchemaRule, list_entries, schema_cel_rules, schema_fields, schema_properties,
};

#[cfg(test)]
mod tests;

/// The problems of a CRD, one line each, starting with its source file.
pub(crate) fn crd_problems(crd: &ResolvedCrd) -> Vec<String> {
    let mut problems = Vec::new();
    let mut report = |path: &str, text: &str| problems.push(format!("{}: {path}: {text}", crd.source));

    let expected = format!("{}.{}", crd.plural(), crd.text("spec.group"));
    if crd.name() != expected {
        report("metadata.name", &format!("must be {expected}"));
    }
    check_description(crd.schema(), "(root)", &mut report);
    check_required(crd.schema(), "(root)", &mut report);
    for field in schema_fields(crd.schema()) {
        // The API server provides the description of metadata.
        if field.path != "metadata" {
            check_description(field.schema, &field.path, &mut report);
        }
        check_required(field.schema, &field.path, &mut report);
        if let Some(items) = field.schema.get("items") {
            check_required(items, &format!("{}[]", field.path), &mut report);
        }
        if field.schema["type"] == "array" && field.schema.get("x-kubernetes-list-type").is_none() {
            // Server-side apply needs the list type to track the ownership of entries.
            report(&field.path, "x-kubernetes-list-type is missing");
        }
    }
    for rule in schema_cel_rules(crd.schema()) {
        if rule.rule.get("message").and_then(Value::as_str).is_none_or(str::is_empty) {
            report(&rule.path, "a rule has no message");
        }
        check_rule_for_oldest_kubernetes(&rule, &mut report);
    }
    problems
}

fn check_description(schema: &Value, path: &str, report: &mut impl FnMut(&str, &str)) {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() {
        report(path, "has no description");
    } else if !text.ends_with('.') {
        report(path, "the description is not a sentence, it lacks a period");
    } else if text.contains(['<', '[']) {
        report(path, "the description has brackets, which break the Rust docs");
    }
}

fn check_required(schema: &Value, path: &str, report: &mut impl FnMut(&str, &str)) {
    for name in list_entries(schema.get("required")).iter().filter_map(Value::as_str) {
        if !schema_properties(schema).any(|(property, _)| property == name) {
            report(path, &format!("requires {name}, which it does not have"));
        }
    }
}

/// Checks what Kubernetes 1.30 refuses and later releases accept.
fn check_rule_for_oldest_kubernetes(rule: &SchemaRule<'_>, report: &mut impl FnMut(&str, &str)) {
    // CEL reserves this word.
    let text = rule.rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    if [")", " ", "."].iter().any(|end| text.contains(&format!(".namespace{end}"))) {
        report(&rule.path, "a rule needs the escaped form of a field, __namespace__");
    }
    // That release ignores maxLength beside x-kubernetes-int-or-string, and estimates the costs of a rule in
    // a list for texts as long as a request.
    if rule.path.contains("[]") && rule.schema.get("x-kubernetes-int-or-string").is_some() {
        report(&rule.path, "a rule reads a value in a list that is text or a number");
    }
}

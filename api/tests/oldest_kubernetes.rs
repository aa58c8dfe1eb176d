//! What Kubernetes 1.30, the oldest release that the chart accepts, refuses in a definition, and later
//! releases accept.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The definitions, which are generated, with their files.
fn read_definitions() -> std::io::Result<Vec<(PathBuf, Value)>> {
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let mut definitions = Vec::new();
    for folder in ["", "autoscaler", "diskimage", "instancetype", "kubevirt"] {
        for entry in fs::read_dir(crds.join(folder))? {
            let file = entry?.path();
            if file.extension().is_some_and(|end| end == "yaml") {
                let definition = serde_yaml_ng::from_str(&fs::read_to_string(&file)?);
                definitions.push((file, definition.map_err(std::io::Error::other)?));
            }
        }
    }
    Ok(definitions)
}

/// Checks each rule of each definition. `is_refused` also reads whether the value of the rule is text or a
/// number in a list.
fn check_rules(is_refused: impl Fn(&str, bool) -> bool) {
    let definitions = read_definitions().expect("every definition can be read");
    assert!(definitions.len() > 15, "{} definitions", definitions.len());
    for (file, definition) in definitions {
        visit_rules(&definition, false, &mut |rule, is_mixed_in_list| {
            assert!(!is_refused(rule, is_mixed_in_list), "{}: {rule}", file.display());
        });
    }
}

/// Calls `visit` for each rule below `schema`, with whether its value is text or a number in a list.
fn visit_rules(schema: &Value, is_in_list: bool, visit: &mut impl FnMut(&str, bool)) {
    match schema {
        Value::Object(fields) => {
            let is_mixed = fields.get("x-kubernetes-int-or-string").is_some();
            let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
            for rule in rules.into_iter().flatten() {
                visit(rule["rule"].as_str().unwrap_or_default(), is_in_list && is_mixed);
            }
            for (key, value) in fields {
                visit_rules(value, is_in_list || key == "items", visit);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit_rules(item, is_in_list, visit)),
        _ => {}
    }
}

/// CEL reserves the word `namespace`. Kubernetes 1.30 accepts a field of that name only in its escaped form.
#[test]
fn rules_escape_words_that_cel_reserves() {
    check_rules(|rule, _| [")", " ", "."].iter().any(|end| rule.contains(&format!(".namespace{end}"))));
}

/// Kubernetes 1.30 ignores `maxLength` beside `x-kubernetes-int-or-string`. It estimates the costs of a rule
/// in a list for texts as long as a request.
#[test]
fn rules_in_lists_read_no_value_that_is_text_or_a_number() {
    check_rules(|_, is_mixed_in_list| is_mixed_in_list);
}

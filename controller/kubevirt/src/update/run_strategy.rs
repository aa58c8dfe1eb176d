//! The run strategy of a machine, which has two spellings of which at most one may be set.

use serde_json::{Map, Value, json};

/// `spec.runStrategy`.
const STRATEGY: &str = "runStrategy";
/// `spec.running`, the older spelling of `Always` and `Halted`.
const RUNNING: &str = "running";

/// Removes both spellings from the spec of a machine.
pub(super) fn remove_run_strategy(spec: &mut Value) {
    if let Some(spec) = spec.as_object_mut() {
        spec.remove(STRATEGY);
        spec.remove(RUNNING);
    }
}

/// The fields of the merge patch that write a changed strategy.
///
/// If both templates have the same strategy, or the former one is unknown, the machine keeps its own: users
/// start and stop a machine by writing this field.
pub(super) fn run_strategy_patch(live: &Value, from: Option<&Value>, to: &Value) -> Map<String, Value> {
    let mut patch = Map::new();
    let (current, wanted) = (effective_run_strategy(live), effective_run_strategy(to));
    let changed = match from {
        Some(from) => effective_run_strategy(from) != wanted,
        None => current.is_none(),
    };
    if !changed || wanted.is_none() || current == wanted {
        return patch;
    }
    let (set, other) = if to[STRATEGY].is_string() { (STRATEGY, RUNNING) } else { (RUNNING, STRATEGY) };
    patch.insert(set.to_owned(), to[set].clone());
    if !live[other].is_null() {
        patch.insert(other.to_owned(), json!(null));
    }
    patch
}

/// The strategy in a spec.
fn effective_run_strategy(spec: &Value) -> Option<&str> {
    match (&spec[STRATEGY], &spec[RUNNING]) {
        (Value::String(strategy), _) if !strategy.is_empty() => Some(strategy),
        (_, Value::Bool(true)) => Some("Always"),
        (_, Value::Bool(false)) => Some("Halted"),
        _ => None,
    }
}

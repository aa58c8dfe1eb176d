//! The disruption budget of a pool, read independently of the engine.

use serde_json::Value;

use crate::object::JsonObject;

/// The annotation of DVP pools with the budget, for definitions that drop the field.
const ANNOTATION: &str = "vmpool.virtualization.deckhouse.io/rollout-max-unavailable";

/// How many of the `desired` machines of the pool may be unavailable at the same time, at least one. A value
/// that cannot be read allows all of them, so that it violates nothing.
pub(super) fn disruption_budget(pool: &JsonObject, desired: usize) -> usize {
    let (field, default) = if pool.is_kubevirt() {
        (pool.at("/spec/maxUnavailable"), "100%")
    } else {
        (pool.at("/spec/rollout/maxUnavailable"), pool.annotation(ANNOTATION).unwrap_or("25%"))
    };
    let text = match field {
        Value::Null => default.to_owned(),
        Value::String(text) => text.clone(),
        number => number.to_string(),
    };
    let budget = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(|percent: usize| desired.saturating_mul(percent) / 100),
        None => text.parse().ok(),
    };
    budget.unwrap_or(desired).max(1)
}

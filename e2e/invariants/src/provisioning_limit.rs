//! The limit of a pool on machines that have not been ready yet, read independently of the engine.

use serde_json::Value;

use crate::object::JsonObject;

/// The annotation of pools with the limit, for definitions that drop the field.
const ANNOTATION: &str = "vmpool.dev/max-provisioning";

/// How many machines of the pool may provision at the same time; `None` without a limit. A value that cannot
/// be read allows one.
pub(super) fn provisioning_limit(pool: &JsonObject, desired: usize) -> Option<usize> {
    let field = pool.at("/spec/maxProvisioning");
    let text = match field {
        Value::Null => pool.annotation(ANNOTATION)?.to_owned(),
        Value::String(text) if text.ends_with('%') => text.clone(),
        Value::String(_) => return Some(1),
        number => number.to_string(),
    };
    let limit = match text.strip_suffix('%') {
        Some(percent) => percent
            .parse()
            .ok()
            .filter(|percent| *percent <= 100)
            .map(|percent: usize| desired.saturating_mul(percent).div_ceil(100)),
        None => text.parse().ok(),
    };
    Some(limit.unwrap_or(1).max(1))
}

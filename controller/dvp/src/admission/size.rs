//! The rule about the size of a pool. The schema limits every part, and this rule limits the whole spec.

use serde_json::Value;
use vmpool_engine::admission::{RuleResult, refuse_value};

use super::rule::Rule;
use super::view::ReviewedPool;
use vmpool_engine::limits;

/// Checks the spec of `new` if its templates differ from those of `old`.
pub(super) fn check_spec_size(old: Option<ReviewedPool<'_>>, new: ReviewedPool<'_>) -> RuleResult {
    const PARTS: [&str; 2] = ["virtualMachineTemplate", "virtualDiskTemplates"];
    let spec = new.spec();
    if old.is_some_and(|old| PARTS.iter().all(|part| old.spec()[*part] == spec[*part])) {
        return Ok(());
    }
    let size = spec.to_string().len();
    if size <= limits::POOL_SPEC {
        return Ok(());
    }
    let sizes = PARTS.map(|part| (spec[part].to_string().len(), part));
    let (part_size, part) = sizes.into_iter().max().unwrap_or((size, PARTS[0]));
    refuse_value(
        Rule::SpecSize,
        format!("spec.{part}"),
        &Value::from(format!("{part_size} bytes")),
        format_args!("spec takes {size} bytes of JSON, and the limit is {}", limits::POOL_SPEC),
        format_args!("shorten virtualMachineTemplate or virtualDiskTemplates"),
    )
}

//! The rule about the size of a pool. The schema limits every part, and this rule limits the whole spec.

use serde_json::Value;
use vmpool_engine::admission::{Checked, refuse};

use super::rule::Rule;
use super::view::Pool;
use vmpool_engine::limits;

/// Checks the spec of `new` if its templates differ from those of `old`.
pub(super) fn check(old: Option<Pool<'_>>, new: Pool<'_>) -> Checked {
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
    refuse(
        Rule::SpecSize,
        format!("spec.{part}"),
        &Value::from(format!("{part_size} bytes")),
        format_args!("spec takes {size} bytes of JSON, and the limit is {}", limits::POOL_SPEC),
        format_args!("shorten virtualMachineTemplate or virtualDiskTemplates"),
    )
}

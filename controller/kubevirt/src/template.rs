//! The machine template: when two templates are equal, and what a difference requires of a running machine.
//!
//! KubeVirt compares templates as values of its Go types. There, absent, null and empty lists and maps are
//! equal, as are spellings of the same quantity, and absent and zero values of fields that are no pointers.
//! Revisions of KubeVirt contain such values in other spellings than the pool, or lack them, so that a
//! comparison of JSON would find differences in pools that are unchanged.

use serde_json::{Value, json};
use vmpool_engine::revisions::{Fingerprint, TemplateParts};

use super::canonical_values::{canonical_field_value, canonical_value, live_parts, remove_live_parts};
use super::machine;

/// The canonical form of `virtualMachineTemplate`: what machines are created from, in one spelling. Two
/// templates with equal forms are the same template.
pub fn canonical_template(template: &Value) -> Value {
    let machine::Metadata { labels, annotations } = machine::template_metadata(template);
    let whole =
        json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": template["spec"] });
    canonical_value(&whole)
}

/// Whether two values of the field at a path are equal. The path is a JSON pointer into the spec of a
/// machine template.
pub(super) fn is_same_field_value(path: &str, one: &Value, other: &Value) -> bool {
    canonical_field_value(path, one) == canonical_field_value(path, other)
}

/// The parts of a template that decide what a change of it requires of a running machine. `written` is the
/// same template with instance type and preference written out, and `sizes` what machines get from them if it
/// is not.
///
/// Storage is compared as the template describes it. The preference adds a storage class to new storage only,
/// so it is no reason to create that of existing machines again.
pub fn template_parts(template: &Value, written: &Value, sizes: &Value) -> TemplateParts {
    let mut instance = canonical_template(written)["spec"]["template"].clone();
    let live = live_parts(&instance["spec"]);
    remove_live_parts(&mut instance);
    TemplateParts {
        instance: Fingerprint::of_exact(&json!({ "template": instance, "sizes": sizes })),
        live,
        storage: fingerprint_storage(template),
    }
}

/// Fingerprint of the part of a template that storage is created from.
pub(super) fn fingerprint_storage(template: &Value) -> Fingerprint {
    Fingerprint::of_exact(
        &json!({ "templates": canonical_template(template)["spec"]["dataVolumeTemplates"] }),
    )
}

#[cfg(test)]
mod tests;

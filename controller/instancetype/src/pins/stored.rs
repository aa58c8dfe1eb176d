//! The pins in the content of a revision.

use serde_json::Value;

use crate::copy::{self, DecodedCopy, InstanceTypeCopy};
use crate::model::{InstanceTypeKind, TypeFamily};

/// The field of the pins with the spec of machines in which instance type and preference are written out.
pub(super) const EXPANDED: &str = "expanded";

/// The matchers of a machine.
pub const FAMILIES: [TypeFamily; 2] = [TypeFamily::Instancetype, TypeFamily::Preference];

/// A ControllerRevision in the current version of the API, under the same name: machines refer to it. One
/// that cannot be read stays as it is.
pub(super) fn to_current_version(revision: &Value) -> Value {
    let upgraded = decode_former_version(revision).map(|(copy, decoded)| copy::in_place(&copy, &decoded));
    upgraded.map_or_else(|| revision.clone(), |copy| copy.to_json())
}

/// The version of a ControllerRevision; `None` if it has the current one, or cannot be read.
pub(super) fn former_version(revision: &Value) -> Option<&'static str> {
    decode_former_version(revision).map(|(_, decoded)| decoded.stored.as_str())
}

/// A ControllerRevision that has a former version of the API.
fn decode_former_version(revision: &Value) -> Option<(InstanceTypeCopy, DecodedCopy)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let label =
        |key: &str| Some(text(&revision["metadata"]["labels"][key])).filter(|label| !label.is_empty());
    let data = &revision["data"];
    let kind = label(copy::labels::KIND).unwrap_or_else(|| text(&data["kind"]));
    let name = label(copy::labels::NAME).unwrap_or_else(|| text(&data["metadata"]["name"]));
    let copy = InstanceTypeCopy::read(revision).ok()?;
    let decoded = copy::decode_copy(&copy, InstanceTypeKind::of_object(&kind)?, &name).ok()?;
    // The text of the current version stays as it is, and so does that of a later one.
    decoded.stored.is_former().then_some((copy, decoded))
}

/// Writes the pinned matchers into the spec of a machine. `pins` is the field of the content of a revision;
/// null changes nothing.
pub fn apply_pins(spec: &mut Value, pins: &Value) {
    if let Some(expanded) = pins.get(EXPANDED) {
        spec.clone_from(expanded);
        return;
    }
    let Some(spec) = spec.as_object_mut() else { return };
    for family in FAMILIES {
        let Some(pin) = pins.get(family.field()) else { continue };
        match &pin["matcher"] {
            Value::Null => spec.remove(family.field()),
            matcher => spec.insert(family.field().to_owned(), matcher.clone()),
        };
        if pin["removesMemory"] == true
            && let Some(domain) =
                spec.get_mut("template").and_then(|template| template.pointer_mut("/spec/domain"))
            && let Some(domain) = domain.as_object_mut()
        {
            domain.remove("memory");
        }
    }
}

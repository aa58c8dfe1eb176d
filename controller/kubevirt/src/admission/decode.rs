//! Whether the parts of a pool have the types of the API. The fields of newer versions of KubeVirt are no
//! error.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;
use vmpool_api::kubevirt::{Autohealing, MachineTemplate, NameGeneration, ScaleInStrategy, UpdateStrategy};
use vmpool_engine::admission::shorten_text;

use super::pool::KubeVirtPoolView;

/// The error of decoding a value as `T`.
fn decode_error<T: for<'de> Deserialize<'de>>(value: &Value) -> Option<String> {
    Option::<T>::deserialize(value).err().map(|error| error.to_string())
}

/// A part of the spec: its name, and the error of decoding it.
type Part = (&'static str, fn(&Value) -> Option<String>);

/// The parts with their types. The number of replicas and `maxUnavailable` have rules of their own.
const PARTS: [Part; 7] = [
    ("selector", decode_error::<LabelSelector>),
    ("virtualMachineTemplate", decode_error::<MachineTemplate>),
    ("paused", decode_error::<bool>),
    ("scaleInStrategy", decode_error::<ScaleInStrategy>),
    ("updateStrategy", decode_error::<UpdateStrategy>),
    ("nameGeneration", decode_error::<NameGeneration>),
    ("autohealing", decode_error::<Autohealing>),
];

/// The first error in a part that the request changes.
pub(super) fn first_decode_error(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
) -> Option<String> {
    if let Some(error) = decode_error::<serde_json::Map<String, Value>>(new.spec()) {
        return Some(format!("spec: {error}"));
    }
    PARTS.iter().find_map(|(name, error)| {
        let value = new.part(name);
        if old.is_some_and(|old| old.part(name) == value) {
            return None;
        }
        Some(format!("spec.{name}: {}", shorten_text(&error(value)?, 300)))
    })
}

//! The pins in the content of a revision.

use serde_json::{Map, Value};

use crate::copy::{self, DecodedCopy, InstanceTypeCopy};
use crate::metadata::DocumentMetadata;
use crate::model::{InstanceTypeKind, TypeFamily, TypeMatcher};

/// The field of the content of a revision with the pins. Pools do not have it.
pub const FIELD: &str = "vmpoolPins";

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
    let metadata = DocumentMetadata::of(revision);
    let label = |key: &str| metadata.label(key).filter(|label| !label.is_empty());
    let data = &revision["data"];
    let kind = label(copy::labels::KIND).or_else(|| data["kind"].as_str())?;
    let name = label(copy::labels::NAME).or_else(|| DocumentMetadata::of(data).name()).unwrap_or_default();
    let copy = InstanceTypeCopy::read(revision).ok()?;
    let decoded = copy::decode_copy(&copy, InstanceTypeKind::of_object(kind)?, name).ok()?;
    // The text of the current version stays as it is, and so does that of a later one.
    decoded.stored.is_former().then_some((copy, decoded))
}

/// What machines of one revision get instead of the matchers of its template.
#[derive(Clone, Copy, Debug)]
pub struct Pins<'a>(&'a Value);

impl<'a> Pins<'a> {
    /// The pins in the content of a revision; `None` if it has none.
    pub fn of(content: &'a Value) -> Option<Self> {
        content.get(FIELD).filter(|pins| pins.is_object()).map(Self)
    }

    /// The pins in this field of the content of a revision. Null has none.
    pub fn in_field(field: &'a Value) -> Self {
        Self(field)
    }

    /// The pin of a matcher; `None` if the matcher is not resolved.
    pub fn pin(self, family: TypeFamily) -> Option<Pin<'a>> {
        Some(&self.0[family.field()]).filter(|pin| pin.is_object()).map(Pin)
    }

    /// All pins.
    pub fn each(self) -> impl Iterator<Item = (TypeFamily, Pin<'a>)> {
        FAMILIES.into_iter().filter_map(move |family| Some((family, self.pin(family)?)))
    }

    /// The spec of machines in which instance type and preference are written out; `None` if machines name
    /// copies.
    pub fn expanded(self) -> Option<&'a Value> {
        self.0.get(EXPANDED)
    }

    /// Writes the pinned matchers into the spec of a machine.
    pub fn apply(self, spec: &mut Value) {
        if let Some(expanded) = self.expanded() {
            spec.clone_from(expanded);
            return;
        }
        for family in FAMILIES {
            if let Some(pin) = self.0.get(family.field()).map(Pin) {
                apply_matcher(spec, family, pin.matcher(), pin.removes_memory());
            }
        }
    }

    /// The pins as JSON.
    pub fn to_json(self) -> Value {
        self.0.clone()
    }
}

/// What machines of one revision get instead of one matcher of its template.
#[derive(Clone, Copy, Debug)]
pub struct Pin<'a>(&'a Value);

impl<'a> Pin<'a> {
    /// The matcher that machines get; null if they get none.
    pub fn matcher(self) -> &'a Value {
        &self.0["matcher"]
    }

    /// A field of this matcher.
    pub fn matcher_text(self, field: &str) -> Option<&'a str> {
        self.matcher()[field].as_str()
    }

    /// Whether the name that inference wrote replaces the memory of the template.
    pub fn removes_memory(self) -> bool {
        self.0["removesMemory"] == true
    }

    /// The ControllerRevision with the copy, which machines name; `None` if there is none, or the template
    /// names a copy itself.
    pub fn revision(self) -> Option<&'a Value> {
        Some(&self.0["revision"]).filter(|revision| revision.is_object())
    }

    /// Whether the controller copied the object.
    pub fn has_copy(self) -> bool {
        self.revision().is_some() || self.is_written_out()
    }

    /// The copied object in the current version of the API: apiVersion, kind, metadata and spec. Null if the
    /// controller copied none.
    pub fn copied_object(self) -> Value {
        let revision = if self.is_written_out() { self.0 } else { &self.0["revision"] };
        to_current_version(revision)["data"].take()
    }

    /// The pin as JSON.
    pub fn to_json(self) -> Value {
        self.0.clone()
    }

    /// Whether the pin has the data of the copy only, because it is written into the machines.
    fn is_written_out(self) -> bool {
        self.0["data"].is_object()
    }
}

/// What inference changed of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceEffect {
    /// Nothing but the name in the matcher, or nothing at all.
    NamedObject,
    /// The name replaces the memory of the machine.
    RemovedMemory,
    /// The volume names no object, so the machine has no matcher any more.
    RemovedMatcher,
}

/// What a new pin contains of an object.
pub(super) enum PinnedObject {
    /// The matcher of the template, which names a copy itself.
    Named(TypeMatcher),
    /// A matcher with the name of this copy.
    Copied(TypeMatcher, InstanceTypeCopy),
    /// The data of this copy, which is written into the machines.
    WrittenOut(InstanceTypeCopy),
}

/// A new pin.
pub(super) fn compose_pin(effect: InferenceEffect, object: Option<PinnedObject>) -> Value {
    let mut pin = Map::new();
    let mut set = |field: &str, value: Value| pin.insert(field.to_owned(), value);
    match effect {
        InferenceEffect::NamedObject => None,
        InferenceEffect::RemovedMemory => set("removesMemory", true.into()),
        InferenceEffect::RemovedMatcher => set("matcher", Value::Null),
    };
    match object {
        None => {}
        Some(PinnedObject::Named(matcher)) => {
            set("matcher", matcher.to_json());
        }
        Some(PinnedObject::Copied(matcher, copy)) => {
            set("matcher", matcher.pinned(&copy.name).to_json());
            set("revision", copy.to_json());
        }
        Some(PinnedObject::WrittenOut(copy)) => {
            set("data", copy.data);
        }
    }
    pin.into()
}

/// Writes the pinned matchers into the spec of a machine. `pins` is the field of the content of a revision;
/// null changes nothing.
pub fn apply_pins(spec: &mut Value, pins: &Value) {
    Pins::in_field(pins).apply(spec);
}

/// Writes a matcher into the spec of a machine; null removes it.
pub(super) fn apply_matcher(spec: &mut Value, family: TypeFamily, matcher: &Value, removes_memory: bool) {
    let Some(spec) = spec.as_object_mut() else { return };
    match matcher {
        Value::Null => spec.remove(family.field()),
        matcher => spec.insert(family.field().to_owned(), matcher.clone()),
    };
    if removes_memory
        && let Some(domain) =
            spec.get_mut("template").and_then(|template| template.pointer_mut("/spec/domain"))
        && let Some(domain) = domain.as_object_mut()
    {
        domain.remove("memory");
    }
}

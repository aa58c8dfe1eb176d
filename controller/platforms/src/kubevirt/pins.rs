//! Pins: the copies of instance types and preferences that all machines of a revision use.
//!
//! A copy is a ControllerRevision that the pool owns. The content of a revision contains it as well, beside the template,
//! so that a later revision with the same template uses the same copy, and a lost copy can be made again.

mod foreign;
pub mod owners;
pub mod policy;
mod resolve;
pub mod source;
mod stored;

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};
use vmpool_api::kubevirt::{annotations::INSTANCETYPE_POLICY, labels::POOL_UID};
use vmpool_engine::model::{References, Unresolved, UsedCopy};
use vmpool_engine::{ObjectId, limits};
use vmpool_instancetype::expand::expand;
use vmpool_instancetype::fields::Location;
use vmpool_instancetype::model::{Family, Kind, Object, Types};
use vmpool_instancetype::start::{Binding, Settings};

use super::keys::owner;
use crate::{Configuration, Existing, Found, LookupFailure, Resolution};
use policy::Policy;
pub use resolve::Problem;
pub(crate) use resolve::revision_at;
pub(super) use resolve::{
    INFERENCE_FAILED, INSTANCETYPE_CONFLICT, Open, REQUIREMENTS_NOT_MET, REVISION_MISMATCH, Resolved, Scope,
    binding, inferred, live, lookup_reason, named_kind, object as named_object, objects as resolve_machine,
    prefers_interface, read, refused,
};
pub(super) use stored::FAMILIES;
pub use stored::apply;
use stored::{EXPANDED, current};

/// The field of the content of a revision with the pins. Pools do not have it.
pub const FIELD: &str = "vmpoolPins";

/// The field of the spec of a pool that contains the template of its machines.
pub(super) const TEMPLATE: &str = "virtualMachineTemplate";

/// The labels that only pins have. An instance type that KubeVirt captured lacks the second one.
pub const LABELS: &str = "instancetype.kubevirt.io/object-kind,vmpool.dev/pool-uid";

/// The reasons why a template cannot be resolved.
pub const REASONS: [&str; 6] = [
    "InstancetypeNotFound",
    "PreferenceNotFound",
    INSTANCETYPE_CONFLICT,
    REQUIREMENTS_NOT_MET,
    INFERENCE_FAILED,
    "RevisionMismatch",
];

/// Whether the template in the spec of a pool names an instance type or a preference, and the pool pins them.
pub fn has_references(spec: &Value) -> bool {
    has_matchers(spec) && Policy::of(spec) != Policy::PerMember
}

/// The same for a pool, which can have its policy in an annotation.
pub fn has_references_in(pool: &Value) -> bool {
    let (spec, annotations) = (&pool["spec"], &pool["metadata"]["annotations"]);
    let policy = Policy::of_pool(spec, annotations[INSTANCETYPE_POLICY].as_str());
    has_matchers(spec) && policy != Policy::PerMember
}

fn has_matchers(spec: &Value) -> bool {
    let machine = &spec[TEMPLATE]["spec"];
    FAMILIES.iter().any(|family| machine[family.field()].is_object())
}

/// The policy, as a part of the canonical form of a template. A template that names nothing has none, and the default is
/// no part, because revisions of earlier versions do not contain it.
pub fn canonical_policy(spec: &Value) -> Option<&'static str> {
    let policy = Policy::of(spec);
    (policy != Policy::default() && has_matchers(spec)).then(|| policy.as_str())
}

/// Replaces the policy [`Policy::Pin`] by [`Policy::Expand`], if the template in the spec names anything. Returns whether it
/// did.
pub fn write_out(spec: &mut Value) -> bool {
    let is_pinned = has_references(spec) && Policy::of(spec) == Policy::Pin;
    if is_pinned {
        spec[policy::FIELD] = Policy::Expand.as_str().into();
    }
    is_pinned
}

/// The spec of a pool with the pins of its template. Pins that it contains already stay. `configuration` says what KubeVirt adds to
/// machines.
pub fn resolve(
    pool: &ObjectId,
    namespace: &str,
    (spec, configuration): (&Value, &Configuration),
    found: &Found,
) -> Resolution {
    let template = resolve::Template {
        content: &spec[TEMPLATE],
        policy: Policy::of(spec),
        configuration,
        pins: &spec[FIELD],
    };
    let with = |pins: Value| {
        let mut spec = spec.clone();
        spec[FIELD] = pins;
        spec
    };
    let unresolved = |Problem { reason, message, family, lookup, .. }: Problem| {
        let kind = resolve::named_kind(&spec[TEMPLATE], family);
        (Unresolved { reason, message }, LookupFailure { reason: lookup, kind })
    };
    match resolve::pins(pool, namespace, &template, found) {
        Ok((pins, None)) => Resolution::Resolved(with(pins)),
        Ok((pins, Some(problem))) => {
            let (unresolved, failure) = unresolved(problem);
            Resolution::Partial(with(pins), unresolved, failure)
        }
        Err(Open::Needs(reference)) => Resolution::Needs(reference),
        Err(Open::Unresolved(problem)) => {
            let (unresolved, failure) = unresolved(problem);
            Resolution::Unresolved(unresolved, failure)
        }
    }
}

/// The spec of a pool with the pins that the content of a revision contains.
pub fn inherit(spec: &Value, stored: &Value) -> Option<Value> {
    let pins = stored.get(FIELD).filter(|pins| pins.is_object())?;
    let mut spec = spec.clone();
    spec[FIELD] = pins.clone();
    Some(spec)
}

/// Whether the content of a revision has what machines get from a matcher of its template: the copy of an object, or the knowledge
/// that the volume names none.
pub fn is_resolved(content: &Value, family: Family) -> bool {
    content[FIELD][family.field()].is_object()
}

/// Whether the content of a revision has a matcher that is not resolved.
pub fn lacks_copies(content: &Value) -> bool {
    let lacks = |family: &Family| {
        content[TEMPLATE]["spec"][family.field()].is_object() && !is_resolved(content, *family)
    };
    has_references(content) && FAMILIES.iter().any(lacks)
}

/// The ControllerRevisions in the content of a revision, in the current version of the API.
pub fn objects(content: &Value) -> Vec<Value> {
    let pins = FAMILIES.iter().map(|family| &content[FIELD][family.field()]["revision"]);
    pins.filter(|revision| revision.is_object()).map(current).collect()
}

/// Compares a ControllerRevision with a pin of the same name.
pub fn existing(pool: &ObjectId, pin: &Value, live: &Value) -> Existing {
    let upgraded = current(live);
    let stored = &pin["data"];
    let is_same = owners::is_same_copy(stored, &upgraded["data"]);
    let mut owners = owners::owners(live);
    let was_owned = !owners::add_owner(&mut owners, owner(&pool.name, pool.uid.as_str()));
    let is_ours = was_owned && live["metadata"]["labels"][POOL_UID] == *pool.uid.as_str();
    if !(is_same || is_ours) || !live["metadata"]["deletionTimestamp"].is_null() {
        return Existing::Other;
    }
    if !is_same || live["data"]["apiVersion"] != stored["apiVersion"] {
        // Data of a ControllerRevision cannot change.
        let mut replacement = pin.clone();
        replacement["metadata"]["ownerReferences"] = owners.into();
        let former_version = if is_same { stored::former_version(live) } else { None };
        return Existing::Replace { object: replacement, former_version };
    }
    owners::complete(pin, live, !was_owned, owners).map_or(Existing::Same, Existing::Incomplete)
}

/// What the spec of a machine refers to. Its kinds are normalized, because KubeVirt completes them.
pub fn references(spec: &Value) -> References {
    let (mut text, mut copies) = (String::new(), Vec::new());
    for family in FAMILIES {
        let matcher = &spec[family.field()];
        if !matcher.is_object() {
            continue;
        }
        let part = |field: &str| matcher[field].as_str().unwrap_or_default();
        let kind = Kind::of_matcher(family, part("kind")).map_or_else(|_| part("kind"), |kind| kind.as_str());
        let revision = part("revisionName");
        let _ = write!(text, "{kind}/{}@{revision} ", part("name"));
        add_copy(&mut copies, revision);
    }
    References { text: limits::clip(&text).into(), copies }
}

/// What a machine refers to. `recorded` are the copies that its status names: the machine uses them while its spec names none,
/// and its instance may have been started with them.
pub fn references_with<'a>(spec: &Value, recorded: impl Iterator<Item = &'a Value>) -> References {
    let mut references = references(spec);
    for revision in recorded.filter_map(Value::as_str) {
        add_copy(&mut references.copies, revision);
    }
    references
}

fn add_copy(copies: &mut Vec<Arc<str>>, revision: &str) {
    let is_new = !copies.iter().any(|known| **known == *revision);
    if is_new && !revision.is_empty() && revision.len() <= limits::NAME {
        copies.push(revision.into());
    }
}

/// What machines from the content of a revision refer to; `None` if it has no copies.
pub fn references_of(content: &Value) -> Option<References> {
    let pins = content.get(FIELD).filter(|pins| pins.is_object())?;
    let mut spec = content[TEMPLATE]["spec"].clone();
    apply(&mut spec, pins);
    Some(references(&spec))
}

/// The copies that the machines from the content of a revision name, with what the template says about their objects. Machines
/// that contain their instance type and preference name none.
pub fn used_copies(content: &Value) -> Vec<UsedCopy> {
    let pins = &content[FIELD];
    if pins.get(EXPANDED).is_some() {
        return Vec::new();
    }
    let used = FAMILIES.iter().filter_map(|family| {
        let (matcher, written) =
            (&pins[family.field()]["matcher"], &content[TEMPLATE]["spec"][family.field()]);
        let text = |value: &Value| -> Arc<str> { limits::clip(value.as_str().unwrap_or_default()).into() };
        let copy = text(&matcher["revisionName"]);
        (!copy.is_empty()).then(|| UsedCopy {
            field: family.field(),
            name: text(&matcher["name"]),
            kind: text(&matcher["kind"]),
            copy,
            volume: text(&written["inferFromVolume"]),
            volume_policy: text(&written["inferFromVolumeFailurePolicy"]),
        })
    });
    used.collect()
}

/// What the machines from the content of a revision use, for people: each object with the name of its copy, or without one if it is
/// written into the machines.
pub fn described(content: &Value) -> Vec<String> {
    let described = FAMILIES.iter().filter_map(|family| {
        let pin = &content[FIELD][family.field()];
        let object = copied(content, *family);
        let name = object["metadata"]["name"].as_str().or_else(|| pin["matcher"]["name"].as_str())?;
        let revision = pin["matcher"]["revisionName"].as_str();
        let copy = revision.map_or_else(|| "written out".to_owned(), |revision| format!("copy {revision}"));
        Some(format!("{} {name} ({copy})", family.noun()))
    });
    described.collect()
}

/// The copy of an object that a template names, in the content of a revision: apiVersion, kind, metadata and spec. Null if
/// the revision has none.
pub(super) fn copied(content: &Value, family: Family) -> Value {
    let pin = &content[FIELD][family.field()];
    let revision = if pin["data"].is_object() { pin } else { &pin["revision"] };
    let mut revision = current(revision);
    revision["data"].take()
}

/// What machines get from their instance type and preference: the copied specs, or else the matchers.
pub fn effective(content: &Value) -> Value {
    let part = |family: Family| {
        let object = copied(content, family);
        let spec = &object["spec"];
        if spec.is_null() { content[TEMPLATE]["spec"][family.field()].clone() } else { spec.clone() }
    };
    FAMILIES.map(|family| (family.field().to_owned(), part(family))).into_iter().collect::<Map<_, _>>().into()
}

/// The `virtualMachineTemplate` in the content of a revision.
pub(super) enum Pinned {
    /// Instance type and preference are written out in it.
    Written(Value),
    /// It names the copies of these objects.
    Named(Value, Box<Types>),
}

/// The template in the content of a revision; `None` if the revision has no copies of what its template names.
pub(super) fn pinned(content: &Value) -> Option<Pinned> {
    let pins = content.get(FIELD).filter(|pins| pins.is_object())?;
    let mut template = content[TEMPLATE].clone();
    apply(&mut template["spec"], pins);
    if pins.get(EXPANDED).is_some() {
        return Some(Pinned::Written(template));
    }
    let mut types = Types::default();
    for family in FAMILIES {
        let Value::Object(_) = template["spec"][family.field()] else { continue };
        types.insert(Object::read(copied(content, family)).ok()?).ok()?;
    }
    Some(Pinned::Named(template, Box::new(types)))
}

/// The template in the content of a revision, with instance type and preference written out, for the comparison with other
/// revisions; `None` if the revision has no copies of what its template names.
///
/// A preference that sets the model of interfaces also changes the interface that KubeVirt adds to a machine that lists none. The
/// configuration of KubeVirt selects the binding of this interface, so the binding is no part of the template.
pub fn compared(content: &Value) -> Option<Value> {
    let mut written = match pinned(content)? {
        Pinned::Written(template) => template,
        Pinned::Named(template, types) => {
            let interface = Some(Binding::Bridge).filter(|_| prefers_interface(&types));
            let settings = Settings { interface, defaults: None };
            expand(&template, &types, &settings, Location::Pool).ok()?
        }
    };
    if !lists_interfaces(&content[TEMPLATE])
        && let Some(Value::Array(interfaces)) = written.pointer_mut(INTERFACES)
    {
        for interface in interfaces.iter_mut().filter_map(Value::as_object_mut) {
            for binding in [Binding::Bridge, Binding::Masquerade] {
                interface.remove(binding.field());
            }
        }
    }
    Some(written)
}

/// The interfaces in a machine template.
const INTERFACES: &str = "/spec/template/spec/domain/devices/interfaces";

/// Whether a machine template lists interfaces or networks, so that KubeVirt adds none.
fn lists_interfaces(template: &Value) -> bool {
    let lists =
        |path: &str| template.pointer(path).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    [INTERFACES, "/spec/template/spec/networks"].into_iter().any(lists)
}

#[cfg(test)]
mod tests;

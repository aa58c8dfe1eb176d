//! Pins: the copies of instance types and preferences that all machines of a revision use.
//!
//! A copy is a ControllerRevision that the pool owns. The content of a revision contains it as well, beside
//! the template, so that a later revision with the same template uses the same copy, and a lost copy can be
//! made again.

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
use vmpool_decision::Step;
use vmpool_engine::condition::ConditionReason;
use vmpool_engine::model::{MachineReferences, UnusableTemplate, UsedCopy};
use vmpool_engine::{ObjectId, limits};
use vmpool_platform::{
    Configuration, CopyComparison, FetchedObjects, LookupFailure, ReferencedObject, Resolution,
};

use crate::expand::expand_machine;
use crate::fields::MachineLocation;
use crate::keys::pool_owner_reference;
use crate::metadata::DocumentMetadata;
use crate::model::{InstanceTypeAndPreference, InstanceTypeKind, InstanceTypeObject, TypeFamily};
use crate::start::{Binding, InstanceSettings};

use policy::InstancetypePolicy;
pub use resolve::MatcherProblem;
pub use resolve::{
    InferenceResource, MatcherScope, ObjectSource, ResolveError, ResolvedMachine, expansion_problem,
    find_live_object, find_read_object, infer_matcher, inference_resource, interface_binding, lookup_reason,
    named_kind, prefers_interface, resolve_machine_matchers as resolve_machine,
    resolve_named_object as named_object,
};
use stored::to_current_version;
pub use stored::{FAMILIES, FIELD, InferenceEffect, Pin, Pins, apply_pins};

/// The field of the spec of a pool that contains the template of its machines.
pub const TEMPLATE: &str = "virtualMachineTemplate";

/// The labels that only pins have. An instance type that KubeVirt captured lacks the second one.
pub const LABELS: &str = "instancetype.kubevirt.io/object-kind,vmpool.dev/pool-uid";

/// The reasons why a template cannot be resolved.
pub const REASONS: [ConditionReason; 6] = [
    ConditionReason::InstancetypeNotFound,
    ConditionReason::PreferenceNotFound,
    ConditionReason::InstancetypeConflict,
    ConditionReason::RequirementsNotMet,
    ConditionReason::InferenceFailed,
    ConditionReason::RevisionMismatch,
];

/// Whether the template in the spec of a pool names an instance type or a preference, and the pool pins them.
pub fn has_references(spec: &Value) -> bool {
    has_matchers(spec) && InstancetypePolicy::of(spec) != InstancetypePolicy::PerMember
}

/// The same for a pool, which can have its policy in an annotation.
pub fn has_references_in(pool: &Value) -> bool {
    let spec = &pool["spec"];
    let annotation = DocumentMetadata::of(pool).annotation(INSTANCETYPE_POLICY);
    let policy = InstancetypePolicy::of_pool(spec, annotation);
    has_matchers(spec) && policy != InstancetypePolicy::PerMember
}

fn has_matchers(spec: &Value) -> bool {
    FAMILIES.into_iter().any(|family| template_matcher(spec, family).is_object())
}

/// A matcher of the template in the spec of a pool, or in the content of a revision. Null if it has none.
fn template_matcher(spec: &Value, family: TypeFamily) -> &Value {
    &spec[TEMPLATE]["spec"][family.field()]
}

/// The policy, as a part of the canonical form of a template. A template that names nothing has none, and the
/// default is no part, because revisions of earlier versions do not contain it.
pub fn canonical_policy(spec: &Value) -> Option<&'static str> {
    let policy = InstancetypePolicy::of(spec);
    (policy != InstancetypePolicy::default() && has_matchers(spec)).then(|| policy.as_str())
}

/// Replaces the policy [`InstancetypePolicy::Pin`] by [`InstancetypePolicy::Expand`], if the template in the
/// spec names anything. Returns whether it did.
pub fn write_out(spec: &mut Value) -> bool {
    let is_pinned = has_references(spec) && InstancetypePolicy::of(spec) == InstancetypePolicy::Pin;
    if is_pinned {
        spec[policy::FIELD] = InstancetypePolicy::Expand.as_str().into();
    }
    is_pinned
}

/// The spec of a pool with the pins of its template. Pins that it contains already stay. `configuration` says
/// what KubeVirt adds to machines.
///
/// # Errors
/// Objects were not read.
pub fn resolve_pool_pins(
    pool: &ObjectId,
    namespace: &str,
    spec: &Value,
    configuration: &Configuration,
    found: &FetchedObjects,
) -> Step<Resolution, ReferencedObject> {
    let template = resolve::TemplateToResolve {
        content: &spec[TEMPLATE],
        policy: InstancetypePolicy::of(spec),
        configuration,
        pins: Pins::in_field(&spec[FIELD]),
    };
    let with = |pins: Value| {
        let mut spec = spec.clone();
        spec[FIELD] = pins;
        spec
    };
    let unresolved = |MatcherProblem { reason, message, family, lookup, .. }: MatcherProblem| {
        let kind = resolve::named_kind(&spec[TEMPLATE], family);
        (UnusableTemplate { reason, message }, LookupFailure { reason: lookup, kind })
    };
    Ok(match resolve::resolve_template_pins(pool, namespace, &template, found) {
        Ok((pins, None)) => Resolution::Resolved(with(pins)),
        Ok((pins, Some(problem))) => {
            let (unresolved, failure) = unresolved(problem);
            Resolution::Partial(with(pins), unresolved, failure)
        }
        Err(ResolveError::Needs(needs)) => return Err(needs),
        Err(ResolveError::Unresolved(problem)) => {
            let (unresolved, failure) = unresolved(problem);
            Resolution::Unresolved(unresolved, failure)
        }
    })
}

/// The spec of a pool with the pins that the content of a revision contains.
pub fn inherit_copies(spec: &Value, stored: &Value) -> Option<Value> {
    let pins = Pins::of(stored)?;
    let mut spec = spec.clone();
    spec[FIELD] = pins.to_json();
    Some(spec)
}

/// Whether the content of a revision has what machines get from a matcher of its template: the copy of an
/// object, or the knowledge that the volume names none.
pub fn is_resolved(content: &Value, family: TypeFamily) -> bool {
    Pins::of(content).is_some_and(|pins| pins.pin(family).is_some())
}

/// Whether the content of a revision has a matcher that is not resolved.
pub fn lacks_copies(content: &Value) -> bool {
    let lacks = |family| template_matcher(content, family).is_object() && !is_resolved(content, family);
    has_references(content) && FAMILIES.into_iter().any(lacks)
}

/// The ControllerRevisions in the content of a revision, in the current version of the API.
pub fn copy_objects(content: &Value) -> Vec<Value> {
    let pins = Pins::of(content).into_iter().flat_map(Pins::each);
    pins.filter_map(|(_, pin)| pin.revision()).map(to_current_version).collect()
}

/// Compares a ControllerRevision with a pin of the same name.
pub fn compare_pinned_copy(pool: &ObjectId, pin: &Value, live: &Value) -> CopyComparison {
    let upgraded = to_current_version(live);
    let stored = &pin["data"];
    let is_same = owners::is_same_copy(stored, &upgraded["data"]);
    let mut owners = owners::stored_owner_references(live);
    let was_owned = !owners::add_owner(&mut owners, pool_owner_reference(&pool.name, pool.uid.as_str()));
    let metadata = DocumentMetadata::of(live);
    let is_ours = was_owned && metadata.label(POOL_UID) == Some(pool.uid.as_str());
    if !(is_same || is_ours) || metadata.is_deleted() {
        return CopyComparison::Other;
    }
    if !is_same || live["data"]["apiVersion"] != stored["apiVersion"] {
        // Data of a ControllerRevision cannot change.
        let mut replacement = pin.clone();
        replacement["metadata"]["ownerReferences"] = owners.into();
        let former_version = if is_same { stored::former_version(live) } else { None };
        return CopyComparison::Replace { object: replacement, former_version };
    }
    owners::owners_and_labels_patch(pin, live, !was_owned, owners)
        .map_or(CopyComparison::Same, CopyComparison::Incomplete)
}

/// What the spec of a machine refers to. Its kinds are normalized, because KubeVirt completes them.
pub fn spec_references(spec: &Value) -> MachineReferences {
    let (mut text, mut copies) = (String::new(), Vec::new());
    for family in FAMILIES {
        let matcher = &spec[family.field()];
        if !matcher.is_object() {
            continue;
        }
        let part = |field: &str| matcher[field].as_str().unwrap_or_default();
        let kind = InstanceTypeKind::of_matcher(family, part("kind"))
            .map_or_else(|_| part("kind"), |kind| kind.as_str());
        let revision = part("revisionName");
        let _ = write!(text, "{kind}/{}@{revision} ", part("name"));
        add_copy(&mut copies, revision);
    }
    MachineReferences { text: limits::clip_name(&text).into(), copies }
}

/// What a machine refers to. `recorded` are the copies that its status names: the machine uses them while its
/// spec names none, and its instance may have been started with them.
pub fn machine_references<'a>(spec: &Value, recorded: impl Iterator<Item = &'a Value>) -> MachineReferences {
    let mut references = spec_references(spec);
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
pub fn revision_references(content: &Value) -> Option<MachineReferences> {
    let pins = Pins::of(content)?;
    let mut spec = content[TEMPLATE]["spec"].clone();
    pins.apply(&mut spec);
    Some(spec_references(&spec))
}

/// The copies that the machines from the content of a revision name, with what the template says about their
/// objects. Machines that contain their instance type and preference name none.
pub fn used_copies(content: &Value) -> Vec<UsedCopy> {
    let named = Pins::of(content).filter(|pins| pins.expanded().is_none());
    let used = named.into_iter().flat_map(Pins::each).filter_map(|(family, pin)| {
        let written = template_matcher(content, family);
        let text = |text: Option<&str>| -> Arc<str> { limits::clip_name(text.unwrap_or_default()).into() };
        let copy = text(pin.matcher_text("revisionName"));
        (!copy.is_empty()).then(|| UsedCopy {
            field: family.field(),
            name: text(pin.matcher_text("name")),
            kind: text(pin.matcher_text("kind")),
            copy,
            volume: text(written["inferFromVolume"].as_str()),
            volume_policy: text(written["inferFromVolumeFailurePolicy"].as_str()),
        })
    });
    used.collect()
}

/// What the machines from the content of a revision use, for people: each object with the name of its copy,
/// or without one if it is written into the machines.
pub fn describe_copies(content: &Value) -> Vec<String> {
    let pins = Pins::of(content).into_iter().flat_map(Pins::each);
    let described = pins.filter_map(|(family, pin)| {
        let object = pin.copied_object();
        let name = DocumentMetadata::of(&object).name().or_else(|| pin.matcher_text("name"))?;
        let revision = pin.matcher_text("revisionName");
        let copy = revision.map_or_else(|| "written out".to_owned(), |revision| format!("copy {revision}"));
        Some(format!("{} {name} ({copy})", family.noun()))
    });
    described.collect()
}

/// The copy of an object that a template names, in the content of a revision: apiVersion, kind, metadata and
/// spec. Null if the revision has none.
pub fn copied_type_object(content: &Value, family: TypeFamily) -> Value {
    let pin = Pins::of(content).and_then(|pins| pins.pin(family));
    pin.map_or(Value::Null, Pin::copied_object)
}

/// What machines get from their instance type and preference: the copied specs, or else the matchers.
pub fn effective_type_specs(content: &Value) -> Value {
    let part = |family: TypeFamily| {
        let object = copied_type_object(content, family);
        let spec = &object["spec"];
        if spec.is_null() { template_matcher(content, family).clone() } else { spec.clone() }
    };
    FAMILIES.map(|family| (family.field().to_owned(), part(family))).into_iter().collect::<Map<_, _>>().into()
}

/// The `virtualMachineTemplate` in the content of a revision.
pub enum PinnedTemplate {
    /// Instance type and preference are written out in it.
    Written(Value),
    /// It names the copies of these objects.
    Named(Value, Box<InstanceTypeAndPreference>),
}

/// The template in the content of a revision; `None` if the revision has no copies of what its template
/// names.
pub fn pinned_template(content: &Value) -> Option<PinnedTemplate> {
    let pins = Pins::of(content)?;
    let mut template = content[TEMPLATE].clone();
    pins.apply(&mut template["spec"]);
    if pins.expanded().is_some() {
        return Some(PinnedTemplate::Written(template));
    }
    let mut types = InstanceTypeAndPreference::default();
    for family in FAMILIES {
        let Value::Object(_) = template["spec"][family.field()] else { continue };
        types.insert(InstanceTypeObject::read(copied_type_object(content, family)).ok()?).ok()?;
    }
    Some(PinnedTemplate::Named(template, Box::new(types)))
}

/// The template in the content of a revision, with instance type and preference written out, for the
/// comparison with other revisions; `None` if the revision has no copies of what its template names.
///
/// A preference that sets the model of interfaces also changes the interface that KubeVirt adds to a machine
/// that lists none. The configuration of KubeVirt selects the binding of this interface, so the binding is no
/// part of the template.
pub fn comparable_template(content: &Value) -> Option<Value> {
    let mut written = match pinned_template(content)? {
        PinnedTemplate::Written(template) => template,
        PinnedTemplate::Named(template, types) => {
            let interface = Some(Binding::Bridge).filter(|_| prefers_interface(&types));
            let settings = InstanceSettings { interface, defaults: None };
            expand_machine(&template, &types, &settings, MachineLocation::Pool).ok()?
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

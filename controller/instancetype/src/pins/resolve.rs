//! Resolving the matchers of a machine template.

use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::{POOL_API_VERSION, clone_account, labels::POOL_UID};
use vmpool_decision::{Needs, Step};
use vmpool_engine::ObjectId;
use vmpool_engine::condition::ConditionReason;
use vmpool_platform::{
    Configuration, CrossNamespaceReference, DefaultInterface, FetchedObjects, LookupReason, ReferencedObject,
    revision_at,
};

use crate::apply::ApplyError;
use crate::copy::{self, Acceptance, CopyOwner, ExpectedCopy, InstanceTypeCopy};
use crate::expand::{self, ExpandError};
use crate::fields::{CauseReason, MachineLocation, StatusCause};
use crate::inference::{self, InferenceLookup, InferenceSourceKind, Inferred};
use crate::keys::POOL_KIND;
use crate::metadata::DocumentMetadata;
use crate::model::{
    GROUP, InstanceTypeAndPreference, InstanceTypeKind, InstanceTypeObject, TypeFamily, TypeMatcher, VERSION,
};
use crate::start::{Binding, InstanceSettings};
use crate::status_ref::{self, StatusRef};
use crate::{Malformed, validation};

use super::foreign::{CLONE_TARGET, cloned_instead_of};
use super::policy::InstancetypePolicy;
use super::stored::{
    EXPANDED, FAMILIES, InferenceEffect, Pin, PinnedObject, Pins, apply_matcher, compose_pin,
};

/// Why resolving did not end.
#[derive(Debug)]
pub enum ResolveError {
    /// Objects were not read.
    Needs(Needs<ReferencedObject>),
    /// A matcher cannot be resolved.
    Unresolved(MatcherProblem),
}

impl From<Needs<ReferencedObject>> for ResolveError {
    fn from(needs: Needs<ReferencedObject>) -> Self {
        Self::Needs(needs)
    }
}

/// Why the matchers of a machine cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct MatcherProblem {
    /// The reason, one of those that the pins of a pool have.
    pub reason: ConditionReason,
    /// What is wrong, and what to do.
    pub message: String,
    /// The fields, for a response.
    pub causes: Vec<StatusCause>,
    /// The matcher that cannot be resolved.
    pub family: TypeFamily,
    /// The reason, for metrics.
    pub lookup: LookupReason,
}

impl MatcherProblem {
    fn new(family: TypeFamily, reason: ConditionReason, message: String, causes: Vec<StatusCause>) -> Self {
        Self { reason, message, causes, family, lookup: lookup_reason(reason) }
    }

    fn of(family: TypeFamily, reason: ConditionReason, cause: StatusCause) -> Self {
        Self::new(family, reason, cause.to_string(), vec![cause])
    }
}

fn matcher_error(family: TypeFamily, reason: ConditionReason, cause: StatusCause) -> ResolveError {
    ResolveError::Unresolved(MatcherProblem::of(family, reason, cause))
}

/// The problem of an object or a copy that cannot be read.
fn unreadable_object_error(family: TypeFamily, reason: ConditionReason, cause: StatusCause) -> ResolveError {
    ResolveError::Unresolved(MatcherProblem {
        lookup: LookupReason::Decode,
        ..MatcherProblem::of(family, reason, cause)
    })
}

/// The reason for metrics. Objects and copies that cannot be read have one of their own.
pub fn lookup_reason(reason: ConditionReason) -> LookupReason {
    match reason {
        ConditionReason::RevisionMismatch => LookupReason::Mismatch,
        ConditionReason::InstancetypeConflict | ConditionReason::RequirementsNotMet => LookupReason::Conflict,
        _ => LookupReason::NotFound,
    }
}

/// The kind that a machine names; `None` if it does not exist, or the machine names only a volume.
pub fn named_kind(machine: &Value, family: TypeFamily) -> Option<&'static str> {
    let matcher = TypeMatcher::of_machine(machine, family).ok().flatten()?;
    if matcher.name.is_empty() { None } else { matcher.kind(family).ok().map(InstanceTypeKind::as_str) }
}

fn not_found_reason(family: TypeFamily) -> ConditionReason {
    match family {
        TypeFamily::Instancetype => ConditionReason::InstancetypeNotFound,
        TypeFamily::Preference => ConditionReason::PreferenceNotFound,
    }
}

/// What was read of the objects that a machine refers to.
pub trait ObjectSource {
    /// An object; `None` if it does not exist.
    ///
    /// # Errors
    /// It was not read.
    fn find_object(&self, reference: &ReferencedObject) -> Step<Option<&Value>, ReferencedObject>;
}

impl ObjectSource for FetchedObjects {
    fn find_object(&self, reference: &ReferencedObject) -> Step<Option<&Value>, ReferencedObject> {
        Ok(self.find(reference)?.as_ref())
    }
}

/// A matcher that was resolved.
struct Part {
    family: TypeFamily,
    /// What inference changed.
    effect: InferenceEffect,
    /// The matcher and its object; `None` if inference removed the matcher.
    object: Option<(TypeMatcher, InstanceTypeObject)>,
    /// Whether the object is from a ControllerRevision that the machine names.
    is_copy: bool,
}

/// A machine whose matchers were resolved.
pub struct ResolvedMachine {
    /// The machine, with what was inferred.
    pub machine: Value,
    /// The objects that its matchers name.
    pub types: InstanceTypeAndPreference,
    parts: Vec<Part>,
}

/// Where a machine stands.
#[derive(Clone, Copy)]
pub struct MatcherScope<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// In which object it stands.
    pub location: MachineLocation,
}

/// Resolves the matchers of a machine: infers them, and finds the objects that they name.
///
/// # Errors
/// A matcher cannot be resolved, or objects were not read.
pub fn resolve_machine_matchers(
    machine: &Value,
    scope: MatcherScope<'_>,
    found: &dyn ObjectSource,
) -> Result<ResolvedMachine, ResolveError> {
    let mut resolved = ResolvedMachine {
        machine: machine.clone(),
        types: InstanceTypeAndPreference::default(),
        parts: Vec::new(),
    };
    for family in FAMILIES {
        resolved.add(family, scope, found)?;
    }
    Ok(resolved)
}

impl ResolvedMachine {
    /// Resolves a matcher.
    fn add(
        &mut self,
        family: TypeFamily,
        scope: MatcherScope<'_>,
        found: &dyn ObjectSource,
    ) -> Result<(), ResolveError> {
        let Some(effect) = infer_matcher(&mut self.machine, scope, family, found)? else { return Ok(()) };
        let matcher = TypeMatcher::of_machine(&self.machine, family)
            .map_err(|error| matcher_error(family, not_found_reason(family), error.into()))?;
        let mut part = Part { family, effect, object: None, is_copy: false };
        if let Some(matcher) = matcher {
            let (object, is_copy) = resolve_named_object(&self.machine, &matcher, scope, family, found)?;
            part.is_copy = is_copy;
            self.types.insert(object.clone()).map_err(|error| {
                matcher_error(
                    family,
                    not_found_reason(family),
                    matcher_cause(scope, family, "name", error.to_string()),
                )
            })?;
            part.object = Some((matcher, object));
        }
        self.parts.push(part);
        Ok(())
    }

    /// Uses the object of which a pin contains a copy.
    fn keep(
        &mut self,
        family: TypeFamily,
        pin: Pin<'_>,
        matcher: TypeMatcher,
        object: InstanceTypeObject,
    ) -> Result<(), ResolveError> {
        apply_matcher(&mut self.machine["spec"], family, &matcher.to_json(), pin.removes_memory());
        self.types.insert(object.clone()).map_err(|error| {
            matcher_error(
                family,
                not_found_reason(family),
                StatusCause {
                    reason: CauseReason::FieldValueNotFound,
                    message: error.to_string(),
                    field: MachineLocation::Pool.matcher_field(family, "name"),
                },
            )
        })?;
        let effect = InferenceEffect::NamedObject;
        self.parts.push(Part { family, effect, object: Some((matcher, object)), is_copy: false });
        Ok(())
    }
}

/// The object that a matcher of a machine names, and whether it is from a ControllerRevision that the machine
/// refers to.
///
/// # Errors
/// The object cannot be used, or was not read.
pub fn resolve_named_object(
    machine: &Value,
    matcher: &TypeMatcher,
    scope: MatcherScope<'_>,
    family: TypeFamily,
    found: &dyn ObjectSource,
) -> Result<(InstanceTypeObject, bool), ResolveError> {
    let status = StatusRef::of_machine(machine, family)
        .map_err(|error| matcher_error(family, not_found_reason(family), error.into()))?;
    if let Some(reference) = status_ref::machine_pin(matcher, status.as_ref())
        && let Some(copy) = find_copied_object(machine, matcher, &reference, scope, family, found)?
    {
        return Ok((copy, true));
    }
    Ok((find_live_object(matcher, scope, family, found)?, false))
}

/// The problem that keeps a machine from being expanded.
pub fn expansion_problem(error: &ExpandError, location: MachineLocation) -> MatcherProblem {
    let (reason, family) = match error {
        ExpandError::Requirements(_) => (ConditionReason::RequirementsNotMet, TypeFamily::Preference),
        ExpandError::Apply(ApplyError::Topology(_) | ApplyError::Conflicts(_) | ApplyError::Malformed(_))
        | ExpandError::InvalidMatcher(_)
        | ExpandError::NotInferred { .. }
        | ExpandError::UnknownKind(_)
        | ExpandError::NotFound { .. }
        | ExpandError::NotNamed { .. } => (ConditionReason::InstancetypeConflict, TypeFamily::Instancetype),
    };
    MatcherProblem::new(family, reason, error.to_string(), error.causes(location))
}

/// A machine template to resolve.
pub(super) struct TemplateToResolve<'a> {
    pub(super) content: &'a Value,
    pub(super) policy: InstancetypePolicy,
    /// What KubeVirt adds to machines.
    pub(super) configuration: &'a Configuration,
    /// The pins that it has already.
    pub(super) pins: Pins<'a>,
}

/// The pins of a machine template. If some of its matchers can be resolved and others cannot, the result
/// contains the problem, and the pins of the former.
pub(super) fn resolve_template_pins(
    pool: &ObjectId,
    namespace: &str,
    &TemplateToResolve { content: template, policy, configuration, pins: kept }: &TemplateToResolve<'_>,
    found: &dyn ObjectSource,
) -> Result<(Value, Option<MatcherProblem>), ResolveError> {
    let scope = MatcherScope { namespace, location: MachineLocation::Pool };
    // The template of a pool has no status.
    let machine = json!({ "metadata": template["metadata"], "spec": template["spec"] });
    let mut resolved =
        ResolvedMachine { machine, types: InstanceTypeAndPreference::default(), parts: Vec::new() };
    let mut problem = None;
    for family in FAMILIES {
        let copied = kept.pin(family).and_then(|pin| Some((pin, pinned_object(pin, family)?)));
        let added = match copied {
            Some((pin, (matcher, object))) => resolved.keep(family, pin, matcher, object),
            None => resolved.add(family, scope, found),
        };
        match added {
            Err(ResolveError::Unresolved(found)) if problem.is_none() => problem = Some(found),
            Err(ResolveError::Unresolved(_)) | Ok(()) => {}
            Err(needs) => return Err(needs),
        }
    }
    let ResolvedMachine { machine, types, parts } = resolved;
    let mut pins = Map::new();
    let mut is_new = false;
    for Part { family, effect, object, is_copy } in parts {
        if let Some(pin) = kept.pin(family) {
            pins.insert(family.field().to_owned(), pin.to_json());
            continue;
        }
        let object = match object {
            Some((matcher, _)) if is_copy => Some(PinnedObject::Named(matcher)),
            Some((matcher, object)) => {
                let copy = match new_pinned_copy(pool, scope, &object, family) {
                    Ok(copy) => copy,
                    Err(ResolveError::Unresolved(found)) => {
                        problem.get_or_insert(found);
                        continue;
                    }
                    Err(needs) => return Err(needs),
                };
                is_new = true;
                Some(match policy {
                    InstancetypePolicy::Expand => PinnedObject::WrittenOut(copy),
                    InstancetypePolicy::Pin | InstancetypePolicy::PerMember => {
                        PinnedObject::Copied(matcher, copy)
                    }
                })
            }
            None => None,
        };
        pins.insert(family.field().to_owned(), compose_pin(effect, object));
    }
    if let Some(problem) = problem {
        return if is_new {
            Ok((pins.into(), Some(problem)))
        } else {
            Err(ResolveError::Unresolved(problem))
        };
    }
    let refused =
        |error: ExpandError| ResolveError::Unresolved(expansion_problem(&error, MachineLocation::Pool));
    if let Some(machine) = with_architecture(&machine, &types, configuration) {
        expand::check_expansion(&machine, &types, &InstanceSettings::default(), MachineLocation::Pool)
            .map_err(refused)?;
    }
    let checked = match policy {
        InstancetypePolicy::Expand => {
            let interface = interface_binding(configuration.interface).filter(|_| prefers_interface(&types));
            let settings = InstanceSettings { interface, defaults: None };
            expand::expand_machine(&machine, &types, &settings, MachineLocation::Pool).map(Some)
        }
        InstancetypePolicy::Pin | InstancetypePolicy::PerMember => {
            expand::check_expansion(&machine, &types, &InstanceSettings::default(), MachineLocation::Pool)
                .map(|_| None)
        }
    };
    let expanded = checked.map_err(refused)?;
    pins.extend(expanded.map(|mut machine| (EXPANDED.to_owned(), machine["spec"].take())));
    Ok((pins.into(), None))
}

/// A machine with the architecture that KubeVirt gives to it before it checks the requirement of the
/// preference; `None` if there is no such requirement, or the architecture follows from the machine and the
/// preference.
fn with_architecture(
    machine: &Value,
    types: &InstanceTypeAndPreference,
    configuration: &Configuration,
) -> Option<Value> {
    let preference = types.preference_spec()?;
    let chosen = machine.pointer("/spec/template/spec/architecture").and_then(Value::as_str);
    let is_open = preference.architecture.is_none() && chosen.is_none_or(str::is_empty);
    let architecture = configuration.architecture.as_deref().filter(|_| is_open)?;
    preference.requirements.architecture.as_ref()?;
    let mut machine = machine.clone();
    machine
        .pointer_mut("/spec/template/spec")?
        .as_object_mut()?
        .insert("architecture".to_owned(), architecture.into());
    Some(machine)
}

/// The object of which a pin contains a copy, and the matcher that names it.
fn pinned_object(pin: Pin<'_>, family: TypeFamily) -> Option<(TypeMatcher, InstanceTypeObject)> {
    let object = InstanceTypeObject::read(pin.copied_object()).ok()?;
    let matcher = json!({ "name": object.identity.name, "kind": object.kind.as_str() });
    let machine = json!({ "spec": { (family.field()): matcher } });
    Some((TypeMatcher::of_machine(&machine, family).ok()??, object))
}

/// Whether the preference changes the default interface. KubeVirt adds it when a machine starts, and a
/// machine in which the preference is written out names no preference then.
pub fn prefers_interface(types: &InstanceTypeAndPreference) -> bool {
    let devices = types.preference_spec().and_then(|preference| preference.devices.as_ref());
    devices.and_then(|devices| devices.interface_model.as_deref()).is_some_and(|model| !model.is_empty())
}

/// The binding of the default interface; `None` if vmpool does not know it.
pub fn interface_binding(interface: DefaultInterface) -> Option<Binding> {
    match interface {
        DefaultInterface::Bridge => Some(Binding::Bridge),
        DefaultInterface::Masquerade => Some(Binding::Masquerade),
        DefaultInterface::Other => None,
    }
}

fn matcher_cause(scope: MatcherScope<'_>, family: TypeFamily, field: &str, message: String) -> StatusCause {
    let field = scope.location.matcher_field(family, field);
    StatusCause { reason: CauseReason::FieldValueNotFound, message, field }
}

/// Validates a matcher, and replaces it by what its volume names. If the machine has a copy of what it
/// inferred from the volume, the copy decides: later labels of the volume are those of another machine. The
/// result is what changed; `None` if the machine has no such matcher.
///
/// # Errors
/// The matcher is not valid, the volume names nothing, or objects were not read.
pub fn infer_matcher(
    machine: &mut Value,
    scope: MatcherScope<'_>,
    family: TypeFamily,
    found: &dyn ObjectSource,
) -> Result<Option<InferenceEffect>, ResolveError> {
    let matcher = TypeMatcher::of_machine(machine, family)
        .map_err(|error| matcher_error(family, not_found_reason(family), error.into()))?;
    let Some(matcher) = matcher else { return Ok(None) };
    let causes = validation::validate_matcher(family, &matcher, None, scope.location);
    if let Some(first) = causes.first() {
        let message = first.to_string();
        return Err(ResolveError::Unresolved(MatcherProblem::new(
            family,
            not_found_reason(family),
            message,
            causes,
        )));
    }
    let failed = |error: String| {
        matcher_error(
            family,
            ConditionReason::InferenceFailed,
            matcher_cause(scope, family, "inferFromVolume", error),
        )
    };
    let recorded =
        recorded_inference(machine, family, &matcher).map_err(|error| failed(error.to_string()))?;
    let account = clone_account(&machine["spec"]["template"]["spec"]);
    let find = |lookup: &InferenceLookup| find_read_object(&lookup_reference(lookup, scope, account), found);
    let inferred = match recorded {
        Some(inferred) => Ok(Some(inferred)),
        None => inference::infer_matcher(machine, scope.namespace, family, find)?,
    };
    let Some(inferred) = inferred.map_err(|error| failed(error.to_string()))? else {
        return Ok(Some(InferenceEffect::NamedObject));
    };
    let memory = |machine: &Value| machine.pointer("/spec/template/spec/domain/memory").is_some();
    let had_memory = memory(machine);
    inference::write_inferred_matcher(machine, family, &inferred)
        .map_err(|error| failed(error.to_string()))?;
    if let Inferred::Removed(_) = inferred {
        return Ok(Some(InferenceEffect::RemovedMatcher));
    }
    let is_removed = had_memory && !memory(machine);
    Ok(Some(if is_removed { InferenceEffect::RemovedMemory } else { InferenceEffect::NamedObject }))
}

/// What the status of a machine with a copy says of its volume.
fn recorded_inference(
    machine: &Value,
    family: TypeFamily,
    matcher: &TypeMatcher,
) -> Result<Option<Inferred>, Malformed> {
    let volume = &matcher.infer_from_volume;
    let is_of_volume = |status: &StatusRef| {
        !volume.is_empty() && !status.revision.is_empty() && status.matcher.infer_from_volume == *volume
    };
    let status = StatusRef::of_machine(machine, family)?.filter(is_of_volume);
    Ok(status.map(|StatusRef { matcher: TypeMatcher { name, kind, .. }, .. }| Inferred::Named { name, kind }))
}

/// The object that was read.
///
/// # Errors
/// It was not read.
pub fn find_read_object<'a>(
    reference: &ReferencedObject,
    found: &'a dyn ObjectSource,
) -> Step<Option<&'a Value>, ReferencedObject> {
    if is_segment(&reference.name) { found.find_object(reference) } else { Ok(None) }
}

/// Whether a name can be the name of an object. Others do not exist, and must not become a part of a path.
fn is_segment(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_valid) && !name.starts_with(['.', '-'])
}

/// Group, version and plural name of a resource that inference reads.
pub struct InferenceResource {
    /// Group and version.
    pub api_version: &'static str,
    /// Plural name.
    pub plural: &'static str,
}

/// The resource of the objects of a kind.
pub fn inference_resource(source: InferenceSourceKind) -> InferenceResource {
    let (api_version, plural) = match source {
        InferenceSourceKind::Claim => ("v1", "persistentvolumeclaims"),
        InferenceSourceKind::DataVolume => ("cdi.kubevirt.io/v1beta1", "datavolumes"),
        InferenceSourceKind::DataSource => ("cdi.kubevirt.io/v1beta1", "datasources"),
        InferenceSourceKind::Snapshot => ("snapshot.storage.k8s.io/v1", "volumesnapshots"),
    };
    InferenceResource { api_version, plural }
}

fn lookup_reference(lookup: &InferenceLookup, scope: MatcherScope<'_>, account: &str) -> ReferencedObject {
    let InferenceLookup { source, namespace, name } = lookup;
    let InferenceResource { api_version, plural: resource } = inference_resource(*source);
    let group = api_version.split_once('/').map(|(group, _)| group);
    let root = if group.is_some() { "apis" } else { "api" };
    // A namespace that cannot exist has no objects.
    let name = if is_segment(namespace) { name.clone() } else { String::new() };
    let collection = format!("/{root}/{api_version}/namespaces/{namespace}/{resource}");
    let foreign = (namespace != scope.namespace).then(|| {
        Box::new(CrossNamespaceReference {
            account: (scope.namespace.to_owned(), account.to_owned()),
            group: group.unwrap_or_default(),
            resource,
            namespace: namespace.clone(),
            clone_target: CLONE_TARGET,
            cloned_instead: cloned_instead_of(resource),
        })
    });
    ReferencedObject { kind: source.as_str(), collection, name, cross_namespace: foreign }
}

/// The live object that a matcher names.
///
/// # Errors
/// The object does not exist, cannot be decoded, or was not read.
pub fn find_live_object(
    matcher: &TypeMatcher,
    scope: MatcherScope<'_>,
    family: TypeFamily,
    found: &dyn ObjectSource,
) -> Result<InstanceTypeObject, ResolveError> {
    let failed = |field: &str, message: String| {
        matcher_error(family, not_found_reason(family), matcher_cause(scope, family, field, message))
    };
    let kind = matcher.kind(family).map_err(|error| failed("kind", error.to_string()))?;
    let path = if kind.is_cluster() { String::new() } else { format!("/namespaces/{}", scope.namespace) };
    let collection = format!("/apis/{GROUP}/{VERSION}{path}/{}", kind.plural());
    let reference = ReferencedObject {
        kind: kind.as_str(),
        collection,
        name: matcher.name.clone(),
        cross_namespace: None,
    };
    let object = find_read_object(&reference, found)?.ok_or_else(|| {
        let name = &matcher.name;
        failed("name", format!("{kind} {name:?} does not exist; create it, or name another one"))
    })?;
    InstanceTypeObject::read(object.clone()).map_err(|error| {
        unreadable_object_error(
            family,
            not_found_reason(family),
            matcher_cause(scope, family, "name", error.to_string()),
        )
    })
}

/// The object in the ControllerRevision that a machine names. `None` if its status names one of another
/// object, because the matcher has changed.
fn find_copied_object(
    machine: &Value,
    matcher: &TypeMatcher,
    reference: &status_ref::MachinePin,
    scope: MatcherScope<'_>,
    family: TypeFamily,
    found: &dyn ObjectSource,
) -> Result<Option<InstanceTypeObject>, ResolveError> {
    let because = |message: String| matcher_cause(scope, family, "revisionName", message);
    let failed = |message: String| matcher_error(family, ConditionReason::RevisionMismatch, because(message));
    let undecoded = |message: String| {
        unreadable_object_error(family, ConditionReason::RevisionMismatch, because(message))
    };
    let kind = matcher.kind(family).map_err(|error| failed(error.to_string()))?;
    let revision = &reference.revision;
    let Some(stored) = find_read_object(&revision_at(scope.namespace, revision), found)? else {
        let message =
            format!("ControllerRevision {revision:?} does not exist; correct or remove revisionName");
        return Err(matcher_error(
            family,
            not_found_reason(family),
            matcher_cause(scope, family, "revisionName", message),
        ));
    };
    let copy = InstanceTypeCopy::read(stored).map_err(|error| undecoded(error.to_string()))?;
    let decoded =
        copy::decode_copy(&copy, kind, &matcher.name).map_err(|error| undecoded(error.to_string()))?;
    let by_spec = reference.by_spec;
    let metadata = DocumentMetadata::of(machine);
    let machine_uid = metadata.uid().unwrap_or_default();
    let machine_name = metadata.name().unwrap_or_default();
    let by_status =
        status_ref::is_recorded(machine, family, revision).map_err(|error| failed(error.to_string()))?;
    let wanted = ExpectedCopy { kind, name: &matcher.name, by_spec, by_status, machine_uid, machine_name };
    match copy::accept_copy(&copy, &decoded, &wanted) {
        Ok(Acceptance::Use | Acceptance::Upgrade) => Ok(Some(decoded.object)),
        Ok(Acceptance::Stale) if !by_spec => Ok(None),
        Ok(Acceptance::Stale) => Err(failed(format!("ControllerRevision {revision:?} is of another object"))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The ControllerRevision with the copy of an object.
fn new_pinned_copy(
    pool: &ObjectId,
    scope: MatcherScope<'_>,
    object: &InstanceTypeObject,
    family: TypeFamily,
) -> Result<InstanceTypeCopy, ResolveError> {
    let owner = CopyOwner {
        api_version: POOL_API_VERSION.to_owned(),
        kind: POOL_KIND.to_owned(),
        name: pool.name.to_string(),
        uid: pool.uid.as_str().to_owned(),
        controller: true,
    };
    let failed = |message: String| {
        matcher_error(family, not_found_reason(family), matcher_cause(scope, family, "name", message))
    };
    let name = &object.identity.name;
    if name.len() > validation::LONGEST_NAME {
        let (kind, most) = (object.kind, validation::LONGEST_NAME);
        return Err(failed(format!(
            "the name of {kind} {name:?} has more than {most} characters, so it cannot be pinned"
        )));
    }
    let mut copy =
        InstanceTypeCopy::of(object, owner, scope.namespace).map_err(|error| failed(error.to_string()))?;
    copy.labels.insert(POOL_UID.to_owned(), pool.uid.as_str().to_owned());
    Ok(copy)
}

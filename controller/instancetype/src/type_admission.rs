//! Admission of instance types, of preferences, and of the machines that name them. In a cluster with
//! KubeVirt's own webhooks, these do it.
//!
//! The rules are those of [`crate`]. This module finds out which objects they need, one after
//! the other, because each can lead to the next.

use kube::Resource as _;
use serde_json::Value;
use vmpool_api::instancetype::API_VERSION;
use vmpool_decision::{
    AdmissionRead, AdmissionReads, LookupNamespace, LookupOutcome, LookupSubject, Needs, ObjectLookup, Step,
    join_steps,
};
use vmpool_engine::condition::ConditionReason;
use vmpool_platform::ReferencedObject;

use crate::copies::{Machine, Pool};
use crate::expand;
use crate::fields::MachineLocation;
use crate::fill::fill_machine_from_preference;
use crate::inference::InferenceSourceKind;
use crate::machine::{self, NamedTypes};
use crate::metadata::DocumentMetadata;
use crate::model::{
    InstanceTypeAndPreference, InstanceTypeKind, InstanceTypeObject, ObjectError, TypeFamily, TypeMatcher,
};
use crate::pins::{
    self, FAMILIES, InferenceEffect, InferenceResource, MatcherProblem, MatcherScope, ObjectSource,
    ResolveError, ResolvedMachine,
};
use crate::start::InstanceSettings;
use crate::type_protection::ProtectedType;
use crate::validation;

pub use crate::fields::{CauseReason, StatusCause};
pub use crate::validation::ValidationReport;

/// The path of the webhook for the four kinds.
pub const OBJECT_PATH: &str = "/validate-instancetype-kubevirt-io-v1beta1";
/// The path of the webhook that protects objects of the four kinds.
pub const PROTECT_PATH: &str = "/mutate-instancetype-kubevirt-io-v1beta1";
/// The path of the webhook that validates machines.
pub const MACHINE_PATH: &str = "/validate-kubevirt-io-v1-virtualmachine";
/// The path of the webhook that completes machines.
pub const COMPLETE_PATH: &str = "/mutate-kubevirt-io-v1-virtualmachine";

/// The path of the webhook that compares the template of a pool with its instance type and its preference.
pub const POOL_PATH: &str = "/validate-pool-kubevirt-io-v1beta1-virtualmachinepool-instancetypes";

/// The kind of pools.
pub const POOL_KIND: &str = crate::keys::POOL_KIND;
/// The group of pools.
pub const POOL_GROUP: &str = vmpool_api::kubevirt::POOL_GROUP;
/// The kind of machines.
pub const MACHINE_KIND: &str = crate::keys::MACHINE_KIND;
/// The group of machines.
pub const MACHINE_GROUP: &str = vmpool_api::kubevirt::GROUP;
/// The group of the four kinds.
pub const GROUP: &str = vmpool_api::instancetype::GROUP;

/// The fields that the rules use, of all objects that are read.
const FIELDS: &[&str] = &["apiVersion", "kind", "metadata", "spec", "data"];

/// Why an object was not read.
enum TypeReadFailure {
    /// The client has not authenticated itself as an API server, and the answer would reveal facts.
    NotPermitted,
    /// The object is in another namespace. The webhook does not read it, because the answer would show
    /// whether it exists. The controller reads it, if the account of the machine may clone it.
    Foreign,
    /// The read failed. Contains the object and the error.
    Error(String),
}

/// Objects of namespaces, of which the answer shows facts, are read only for an API server. All users may
/// read the kinds of the cluster.
impl ObjectSource for AdmissionReads {
    fn find_object(&self, reference: &ReferencedObject) -> Step<Option<&Value>, ReferencedObject> {
        let found = lookup_of_reference(reference).map(|lookup| self.object(&lookup));
        match found {
            Some(Ok(Some(LookupOutcome::There(object)))) => Ok(Some(object)),
            Some(Ok(Some(LookupOutcome::Absent))) => Ok(None),
            Some(Ok(Some(LookupOutcome::Failed(_)) | None) | Err(_)) | None => {
                Err(Needs(vec![reference.clone()]))
            }
        }
    }
}

/// Why the first of these objects was not read.
///
/// # Errors
/// It can be read.
fn why_unread(
    Needs(references): &Needs<ReferencedObject>,
    reads: &AdmissionReads,
) -> Step<TypeReadFailure, AdmissionRead> {
    let mut failures = join_steps(references.iter().map(|reference| {
        if lookup_in_namespace(reference).reveals && !reads.may_reveal() {
            return Ok(TypeReadFailure::NotPermitted);
        }
        let Some(lookup) = lookup_of_reference(reference) else { return Ok(TypeReadFailure::Foreign) };
        let ReferencedObject { kind, name, .. } = reference;
        Ok(match reads.object(&lookup)? {
            Some(LookupOutcome::Failed(error)) => {
                TypeReadFailure::Error(format!("reading {kind} {name}: {error}"))
            }
            Some(LookupOutcome::There(_) | LookupOutcome::Absent) | None => TypeReadFailure::NotPermitted,
        })
    }))?;
    Ok(failures.swap_remove(0))
}

/// The result of a review.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeReviewDecision {
    /// The request is allowed.
    Allowed {
        /// The completed machine; `None` if it does not change.
        machine: Option<Value>,
        /// What the user should know.
        warnings: Vec<String>,
    },
    /// The request is invalid.
    Refused {
        /// What is wrong.
        causes: Vec<StatusCause>,
        /// What the user should know, too.
        warnings: Vec<String>,
    },
    /// The name of an instance type or a preference could not be inferred.
    NotInferred(Vec<StatusCause>),
    /// A read failed without which the request cannot be answered.
    Undecided(String),
}

impl TypeReviewDecision {
    fn of(report: ValidationReport) -> Self {
        let ValidationReport { causes, warnings } = report;
        if causes.is_empty() {
            Self::Allowed { machine: None, warnings }
        } else {
            Self::Refused { causes, warnings }
        }
    }
}

/// Reviews a create or an update of one of the four kinds.
///
/// # Errors
/// The document is not of these kinds.
pub fn review_type_object(old: Option<&Value>, new: &Value) -> Result<TypeReviewDecision, ObjectError> {
    let read = |object: &Value| InstanceTypeObject::read(object.clone());
    let new = read(new)?;
    // An object that was stored by another version may be unreadable. All of the new one is then validated.
    let old = old.and_then(|old| read(old).ok());
    Ok(TypeReviewDecision::of(validation::validate_object(&new, old.as_ref())))
}

/// A list of machines or pools that may use an edited object when their copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeUserKind {
    /// Machines.
    Machines,
    /// Pools.
    Pools,
}

/// The most machines, and the most pools, that are read for one edit.
pub const EXAMINED_USERS: usize = 1000;
/// The number of them in one response.
pub const USERS_IN_A_PAGE: usize = 250;

impl TypeUserKind {
    /// Both lists.
    pub const ALL: [Self; 2] = [Self::Machines, Self::Pools];

    /// The fields that are read.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Machines => &[
                "metadata.continue",
                "items.*.metadata.name",
                "items.*.metadata.namespace",
                "items.*.metadata.deletionTimestamp",
                "items.*.spec.instancetype",
                "items.*.spec.preference",
                "items.*.status.instancetypeRef",
                "items.*.status.preferenceRef",
            ],
            Self::Pools => &[
                "metadata.continue",
                "items.*.metadata.name",
                "items.*.metadata.namespace",
                "items.*.metadata.deletionTimestamp",
                "items.*.metadata.annotations.vmpool.dev/instancetype-policy",
                "items.*.spec.instancetypePolicy",
                "items.*.spec.virtualMachineTemplate.spec.instancetype",
                "items.*.spec.virtualMachineTemplate.spec.preference",
                "items.*.status.conditions",
                "items.*.status.labelSelector",
            ],
        }
    }

    /// The path of a page, for an object of this kind and namespace. `after` is the token of the page before.
    pub fn page(self, kind: InstanceTypeKind, namespace: &str, after: &str) -> String {
        let namespace = (!kind.is_cluster()).then_some(namespace);
        let path = match self {
            Self::Machines => Machine::url_path(&(), namespace),
            Self::Pools => Pool::url_path(&(), namespace),
        };
        let after = if after.is_empty() { String::new() } else { format!("&continue={after}") };
        format!("{path}?limit={USERS_IN_A_PAGE}{after}")
    }

    /// Those in a page that will use the object as it is when their copies are made.
    pub fn awaiting(self, object: &ProtectedType, page: &Value) -> Vec<String> {
        let items = page["items"].as_array().into_iter().flatten();
        let is_awaiting = |user: &&Value| match self {
            Self::Machines => object.awaited_by_machine(user),
            Self::Pools => object.awaited_by_pool(user),
        };
        let noun = match self {
            Self::Machines => "machine",
            Self::Pools => "pool",
        };
        items
            .filter(is_awaiting)
            .map(|user| format!("{noun} {}", DocumentMetadata::of(user).name().unwrap_or_default()))
            .collect()
    }

    /// What it is, for metrics.
    pub const fn subject(self) -> LookupSubject {
        match self {
            Self::Machines => LookupSubject::Machine,
            Self::Pools => LookupSubject::Pool,
        }
    }
}

/// The object of this namespace whose spec an update changes, and its kind; `None` if there is nothing to
/// warn about.
pub fn find_edited_type(
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
) -> Option<(InstanceTypeKind, ProtectedType)> {
    let old = old?;
    if old["spec"] == new["spec"] || validation::bypasses_admission(new) {
        return None;
    }
    let mut old = old.clone();
    old["metadata"]["namespace"] = namespace.into();
    Some((InstanceTypeKind::of_object(old["kind"].as_str()?)?, ProtectedType::read(&old)?))
}

/// Reviews a create or an update of a machine.
///
/// # Errors
/// Objects were not read.
pub fn review_machine(
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
    reads: &AdmissionReads,
) -> Step<TypeReviewDecision, AdmissionRead> {
    let scope = MatcherScope { namespace, location: MachineLocation::VirtualMachine };
    let mut named = NamedTypes::default();
    if machine::needs_validation(new, old) {
        for family in FAMILIES {
            match find_named_type(new, family, scope, reads) {
                Ok(None) => {}
                Ok(Some(object)) => add_named_type(&mut named, family, object),
                Err(NamedTypeFailure::Needs(needs)) => return Err(needs),
                Err(NamedTypeFailure::Unusable(why)) => named.unusable.push((family, why)),
            }
        }
    }
    Ok(TypeReviewDecision::of(machine::validate_machine(
        new,
        old,
        &named,
        &InstanceSettings::default(),
        scope.location,
    )))
}

/// Completes a machine: infers the names of instance type and preference from volumes, and fills in what the
/// preference prefers and must be known before an instance exists.
///
/// # Errors
/// Objects were not read.
pub fn complete_machine(
    namespace: &str,
    machine: &Value,
    reads: &AdmissionReads,
) -> Step<TypeReviewDecision, AdmissionRead> {
    let scope = MatcherScope { namespace, location: MachineLocation::VirtualMachine };
    if validation::bypasses_admission(machine) {
        return Ok(TypeReviewDecision::Allowed { machine: None, warnings: Vec::new() });
    }
    let (mut completed, mut warnings) = (machine.clone(), Vec::new());
    for family in FAMILIES {
        let noun = family.noun();
        match pins::infer_matcher(&mut completed, scope, family, reads) {
            Ok(effect) => {
                if effect == Some(InferenceEffect::RemovedMatcher) {
                    warnings.push(format!(
                        "no {noun} was inferred, and spec.{} was removed, because inferFromVolumeFailurePolicy is Ignore",
                        family.field()
                    ));
                }
            }
            Err(ResolveError::Needs(needs)) => match why_unread(&needs, reads)? {
                TypeReadFailure::NotPermitted => warnings.push(format!(
                    "the {noun} was not inferred from its volume, because the webhook has no client certificate of \
                     the API server"
                )),
                TypeReadFailure::Foreign => warnings.push(format!(
                    "the {noun} was not inferred from its volume yet, because the volume leads to another namespace: the \
                     controller does it if the service account of the machine may clone the volume"
                )),
                TypeReadFailure::Error(error) => {
                    let message = format!("inferring the {noun}: {error}");
                    return Ok(TypeReviewDecision::Undecided(message));
                }
            },
            Err(ResolveError::Unresolved(MatcherProblem {
                reason: ConditionReason::InferenceFailed,
                causes,
                ..
            })) => {
                return Ok(TypeReviewDecision::NotInferred(causes));
            }
            // The other webhook refuses a matcher that is not valid.
            Err(ResolveError::Unresolved(_)) => {}
        }
    }
    match find_named_type(&completed, TypeFamily::Preference, scope, reads) {
        Err(NamedTypeFailure::Needs(needs)) => return Err(needs),
        Ok(Some(object)) => {
            let mut types = InstanceTypeAndPreference::default();
            let mut filled = completed.clone();
            // What cannot be read is reported when it is used.
            if types.insert(object).is_ok()
                && let Some(preference) = types.preference_spec()
                && fill_machine_from_preference(&mut filled, preference, scope.location).is_ok()
            {
                completed = filled;
            }
        }
        Ok(None) | Err(NamedTypeFailure::Unusable(_)) => {}
    }
    let machine = (completed != *machine).then_some(completed);
    Ok(TypeReviewDecision::Allowed { machine, warnings })
}

/// Reviews a create or an update of a pool: whether its template fits the instance type and the preference
/// that it names.
///
/// What cannot be read now is no reason to refuse the pool: it creates no machine before the controller has
/// read it.
///
/// # Errors
/// Objects were not read.
pub fn review_pool_template(
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
    reads: &AdmissionReads,
) -> Step<TypeReviewDecision, AdmissionRead> {
    let template = |pool: &Value| pool["spec"]["virtualMachineTemplate"].clone();
    let allowed = |warnings| Ok(TypeReviewDecision::Allowed { machine: None, warnings });
    let machine = template(new);
    if validation::bypasses_admission(new) || old.is_some_and(|old| template(old) == machine) {
        return allowed(Vec::new());
    }
    let scope = MatcherScope { namespace, location: MachineLocation::Pool };
    let ResolvedMachine { machine, types, .. } = match pins::resolve_machine(&machine, scope, reads) {
        Ok(resolved) => resolved,
        Err(ResolveError::Needs(needs)) => {
            return match why_unread(&needs, reads)? {
                TypeReadFailure::NotPermitted | TypeReadFailure::Foreign => allowed(Vec::new()),
                TypeReadFailure::Error(error) => {
                    allowed(vec![format!("the template was not compared with its types: {error}")])
                }
            };
        }
        Err(ResolveError::Unresolved(MatcherProblem { message, .. })) => {
            return allowed(vec![format!("{message}; until this is corrected, the pool creates no machine")]);
        }
    };
    match expand::check_expansion(&machine, &types, &InstanceSettings::default(), scope.location) {
        Ok(_) => allowed(Vec::new()),
        Err(error) => {
            Ok(TypeReviewDecision::Refused { causes: error.causes(scope.location), warnings: Vec::new() })
        }
    }
}

fn add_named_type(named: &mut NamedTypes, family: TypeFamily, object: InstanceTypeObject) {
    if let Err(error) = named.types.insert(object) {
        named.unusable.push((family, error.to_string()));
    }
}

/// Why an object was not found.
enum NamedTypeFailure {
    Needs(Needs<AdmissionRead>),
    Unusable(String),
}

/// The object that a matcher of a machine names; `None` if there is no matcher with a name.
fn find_named_type(
    machine: &Value,
    family: TypeFamily,
    scope: MatcherScope<'_>,
    reads: &AdmissionReads,
) -> Result<Option<InstanceTypeObject>, NamedTypeFailure> {
    // A matcher that cannot be read is refused without a look at its object.
    let matcher = TypeMatcher::of_machine(machine, family).ok().flatten();
    let Some(matcher) = matcher.filter(|matcher| !matcher.name.is_empty()) else { return Ok(None) };
    let needs = match pins::named_object(machine, &matcher, scope, family, reads) {
        Ok((object, _)) => return Ok(Some(object)),
        Err(ResolveError::Unresolved(problem)) => return Err(NamedTypeFailure::Unusable(problem.message)),
        Err(ResolveError::Needs(needs)) => needs,
    };
    Err(NamedTypeFailure::Unusable(match why_unread(&needs, reads).map_err(NamedTypeFailure::Needs)? {
        TypeReadFailure::NotPermitted | TypeReadFailure::Foreign => {
            "the webhook has no client certificate of the API server".to_owned()
        }
        TypeReadFailure::Error(error) => error,
    }))
}

/// The lookup of an object; `None` if it is in another namespace, so that the webhook does not read it.
fn lookup_of_reference(reference: &ReferencedObject) -> Option<ObjectLookup> {
    reference.cross_namespace.is_none().then(|| lookup_in_namespace(reference))
}

/// The lookup of an object of this name in the namespace of the reviewed object, or in the cluster.
fn lookup_in_namespace(reference: &ReferencedObject) -> ObjectLookup {
    let kind = InstanceTypeKind::of_object(reference.kind);
    let is_cluster = kind.is_some_and(InstanceTypeKind::is_cluster);
    let source = InferenceSourceKind::ALL.into_iter().find(|source| source.as_str() == reference.kind);
    let (subject, api_version, plural) =
        match (kind, source.map(|source| (source, pins::inference_resource(source)))) {
            (Some(kind), _) => (LookupSubject::Instancetype, API_VERSION, kind.plural()),
            (None, Some((InferenceSourceKind::Snapshot, InferenceResource { api_version, plural }))) => {
                (LookupSubject::Snapshot, api_version, plural)
            }
            (None, Some((_, InferenceResource { api_version, plural }))) => {
                (LookupSubject::Volume, api_version, plural)
            }
            (None, None) => (LookupSubject::Revision, "apps/v1", "controllerrevisions"),
        };
    ObjectLookup {
        subject,
        api_version,
        plural,
        namespace: if is_cluster { LookupNamespace::Cluster } else { LookupNamespace::Reviewed },
        name: Some(reference.name.clone()),
        fields: FIELDS,
        reveals: !is_cluster,
    }
}

#[cfg(test)]
mod tests;

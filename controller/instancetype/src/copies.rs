//! Copies of instance types and preferences for single machines, in a cluster without KubeVirt's own
//! controller.
//!
//! Each machine that names an instance type or a preference gets a copy when the controller first sees it,
//! before anything is started, and its status names the copy. What is started later uses the copy. A machine
//! of a pool that pins names the copies of its pool, and gets none of its own. Each of both is copied on its
//! own: if a machine cannot use its preference, it gets a copy of its instance type, so that it does not keep
//! the deletion of that from ending.

mod objects;

use kube::Resource as _;
use serde_json::{Map, Value, json};
use vmpool_decision::{Needs, Step};
use vmpool_engine::condition::ConditionReason;
use vmpool_engine::limits::{self, shorten_message};
use vmpool_platform::{FetchedObjects, LookupFailure, LookupReason, ReferencedObject, revision_at};

use crate::Malformed;
use crate::copy::{self, Acceptance, CopyOwner, CopyUpgrade, ExpectedCopy, InstanceTypeCopy};
use crate::defaults::InstanceDefaults;
use crate::expand::{self, ExpandError};
use crate::fields::MachineLocation;
use crate::metadata::DocumentMetadata;
use crate::model::{
    InstanceTypeAndPreference, InstanceTypeKind, InstanceTypeObject, TypeFamily, TypeMatcher,
};
use crate::pins::{self, FAMILIES, MatcherProblem, MatcherScope, ResolveError};
use crate::start::{Binding, InstanceSettings};
use crate::status_ref::{self, StatusRef, StatusRefPlan};
use crate::validation;

pub use crate::copy::StoredVersion;
pub use crate::pins::owners::{PlannedCopyComparison, compare_planned_copy, remove_machine_owner};

pub use objects::{
    ClusterInstancetype, ClusterPreference, Document, Instancetype, Machine, Pool, Preference, Revision,
};

/// The label by which copies are watched.
pub const LABEL: &str = copy::labels::KIND;

/// The condition of a machine that cannot be started.
const FAILURE: &str = "Failure";

/// What happens to machines that name an instance type or a preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyPolicy {
    /// They name it, and use a copy.
    #[default]
    Reference,
    /// It is written into each machine that has no copy yet.
    Expand,
    /// It is written into each machine.
    ExpandAll,
}

/// An event of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyEvent {
    /// Its reason.
    pub reason: &'static str,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// What happened.
    pub message: String,
}

/// A copy that the machine owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedCopy {
    /// The name of the ControllerRevision.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What the controller writes for a machine, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyPlan {
    /// The ControllerRevisions to create.
    pub creates: Vec<Value>,
    /// The JSON patch of the machine into which what its volumes name is written, or instance type and
    /// preference themselves. If there is one, there is nothing else: the next plan does the rest.
    pub spec: Option<Value>,
    /// The JSON patch of the status of the machine.
    pub status: Option<Value>,
    /// The copies that the machine does not use any more. They are deleted, unless other objects own or use
    /// them.
    pub deletes: Vec<OwnedCopy>,
    /// Events, after the writes.
    pub events: Vec<CopyEvent>,
    /// Whether the machine cannot get its copies now. The controller tries again with backoff.
    pub is_blocked: bool,
    /// Why it cannot.
    pub failure: Option<LookupFailure>,
    /// The ControllerRevision that the machine names and that does not exist. The controller tries again when
    /// it appears.
    pub awaits: Option<String>,
    /// The former versions of the copies that new ones replace.
    pub upgrades: Vec<StoredVersion>,
}

/// Plans the copies of a machine. `owned` are the copies that the machine owns. `now` is the time of a new
/// condition.
///
/// # Errors
/// Objects were not read.
pub fn plan_machine_copies(
    machine: &Value,
    owned: &[OwnedCopy],
    found: &FetchedObjects,
    policy: CopyPolicy,
    now: &str,
) -> Step<CopyPlan, ReferencedObject> {
    if validation::bypasses_admission(machine) {
        return Ok(CopyPlan::default());
    }
    let metadata = DocumentMetadata::of(machine);
    let scope = MatcherScope {
        namespace: metadata.namespace().unwrap_or_default(),
        location: MachineLocation::VirtualMachine,
    };
    let owner = CopyOwner::machine(metadata.name().unwrap_or_default(), metadata.uid().unwrap_or_default());
    let copies = CopyPlanner { machine, scope, owner, found };
    match copies.inference() {
        Ok(Some(inference)) => return Ok(inference),
        Ok(None) => {}
        Err(PlanStop::Needs(needs)) => return Err(needs),
        Err(PlanStop::Failed(failure)) => return Ok(plan_failed_machine(machine, failure, now)),
    }
    let planned = copies.references().and_then(|planned| Ok((copies.expansion(policy, &planned)?, planned)));
    match planned {
        Ok((Some(expansion), _)) => Ok(expansion),
        // Both are written into the machine at once, or none.
        Ok((None, PlannedCopies { failure: Some(failure), .. })) if policy != CopyPolicy::Reference => {
            Ok(plan_failed_machine(machine, failure, now))
        }
        Ok((None, planned)) => Ok(plan_resolved_machine(machine, owned, planned, now)),
        Err(PlanStop::Needs(needs)) => Err(needs),
        Err(PlanStop::Failed(failure)) => Ok(plan_failed_machine(machine, failure, now)),
    }
}

/// A copy that a machine owns, for [`plan_machine_copies`].
pub fn owned_copy(copy: &Revision) -> Option<OwnedCopy> {
    let metadata = copy.meta();
    Some(OwnedCopy { name: metadata.name.clone()?, uid: metadata.uid.clone()? })
}

/// Whether a machine has the condition that it cannot get a copy. It gets none until a user changes the
/// machine or the objects, which the condition may not show yet.
pub fn has_copy_failure(machine: &Value) -> bool {
    let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(is_copy_failure)
}

/// Whether a condition is that of this module.
fn is_copy_failure(condition: &Value) -> bool {
    condition["type"] == FAILURE
        && CopyFailureReason::ALL.iter().any(|reason| condition["reason"] == reason.as_str())
}

/// Where a planned copy is.
pub fn planned_copy_reference(namespace: &str, copy: &Value) -> ReferencedObject {
    revision_at(namespace, DocumentMetadata::of(copy).name().unwrap_or_default())
}

/// The kind of the object that a planned copy is of.
pub fn copied_type_kind(copy: &Value) -> Option<InstanceTypeKind> {
    InstanceTypeKind::of_object(copy["data"]["kind"].as_str()?)
}

/// The reason of the condition `Failure` of a machine that cannot get its copies, and of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyFailureReason {
    /// An object that the machine names cannot be found.
    FailedFind(TypeFamily),
    /// The template of a pool would have this reason.
    Unresolved(ConditionReason),
}

impl CopyFailureReason {
    /// All reasons. `FailedCreate` is none of them, but the reason of the program that starts machines: each
    /// would remove the condition of the other.
    const ALL: [Self; 5] = [
        Self::FailedFind(TypeFamily::Instancetype),
        Self::FailedFind(TypeFamily::Preference),
        Self::Unresolved(ConditionReason::RevisionMismatch),
        Self::Unresolved(ConditionReason::InstancetypeConflict),
        Self::Unresolved(ConditionReason::RequirementsNotMet),
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::FailedFind(TypeFamily::Instancetype) => "FailedFindInstancetype",
            Self::FailedFind(TypeFamily::Preference) => "FailedFindPreference",
            Self::Unresolved(reason) => reason.as_str(),
        }
    }

    /// The reason, for metrics.
    fn lookup(self) -> LookupReason {
        match self {
            Self::FailedFind(_) => LookupReason::NotFound,
            Self::Unresolved(reason) => pins::lookup_reason(reason),
        }
    }
}

/// Why a machine gets no copies now.
struct CopyFailure {
    /// The matcher that cannot be used.
    family: TypeFamily,
    /// The reason of the condition and of the event.
    reason: CopyFailureReason,
    message: String,
    /// The reason, for metrics.
    lookup: LookupReason,
    awaits: Option<String>,
}

impl CopyFailure {
    /// The message contains what a user wrote, whose length nothing limits.
    fn new(family: TypeFamily, reason: CopyFailureReason, message: String) -> Self {
        Self { family, reason, message: shorten_message(message), lookup: reason.lookup(), awaits: None }
    }
}

enum PlanStop {
    Needs(Needs<ReferencedObject>),
    Failed(CopyFailure),
}

/// What is planned of one matcher.
#[derive(Default)]
enum Part {
    /// The machine has none.
    #[default]
    Absent,
    /// The status records this.
    Recorded(StatusRef),
    /// It cannot be used now, so what the status records stays.
    Unusable,
}

/// The references of a machine, and the copies that they need.
#[derive(Default)]
struct PlannedCopies {
    parts: [Part; 2],
    /// The copies to create.
    creates: Vec<(TypeFamily, Value)>,
    /// Those of [`Self::creates`] with the content that the machine uses already. It is not compared with the
    /// machine again.
    already_used: Vec<TypeFamily>,
    /// Why a matcher cannot be used now; of the first one.
    failure: Option<CopyFailure>,
    events: Vec<(TypeFamily, CopyEvent)>,
    /// The copies that upgrades replace. The watch does not show those without labels.
    replaced: Vec<(TypeFamily, OwnedCopy)>,
    upgrades: Vec<(TypeFamily, StoredVersion)>,
    types: InstanceTypeAndPreference,
    /// The machine, with what was inferred.
    machine: Value,
}

/// A matcher of the machine that names an object, and what the status says of it.
struct MatchedReference<'a> {
    family: TypeFamily,
    matcher: &'a TypeMatcher,
    reference: StatusRef,
}

struct CopyPlanner<'a> {
    machine: &'a Value,
    scope: MatcherScope<'a>,
    owner: CopyOwner,
    found: &'a FetchedObjects,
}

impl CopyPlanner<'_> {
    fn references(&self) -> Result<PlannedCopies, PlanStop> {
        let mut planned = PlannedCopies { machine: self.machine.clone(), ..PlannedCopies::default() };
        for (index, family) in FAMILIES.into_iter().enumerate() {
            planned.parts[index] = match self.part(family, &mut planned) {
                Ok(part) => part,
                Err(PlanStop::Failed(failure)) => {
                    planned.failure.get_or_insert(failure);
                    Part::Unusable
                }
                Err(needs) => return Err(needs),
            };
        }
        self.check(&mut planned);
        Ok(planned)
    }

    /// The plan that writes into the machine what its volumes name; `None` if they name nothing, or it is
    /// written.
    ///
    /// The webhook does so if the API server authenticates itself, and leaves the volume in the machine
    /// otherwise. Programs that start machines compare the copy with the name in the machine.
    fn inference(&self) -> Result<Option<CopyPlan>, PlanStop> {
        let (mut completed, mut events) = (self.machine.clone(), Vec::new());
        for family in FAMILIES {
            let pointer = format!("/spec/{}", family.field());
            let before = completed.pointer(&pointer).cloned();
            match pins::infer_matcher(&mut completed, self.scope, family, self.found) {
                Ok(_) => {}
                Err(ResolveError::Needs(needs)) => return Err(PlanStop::Needs(needs)),
                // The references say so, and the other matcher is inferred on its own.
                Err(ResolveError::Unresolved(_)) => continue,
            }
            let after = completed.pointer(&pointer);
            if before.as_ref() == after {
                continue;
            }
            let (noun, field) = (family.noun(), family.field());
            let message = match after.and_then(|matcher| matcher["name"].as_str()) {
                Some(name) => {
                    format!("inferred {noun} {name} from the volume, and wrote it into spec.{field}")
                }
                None => format!(
                    "no {noun} was inferred, and spec.{field} was removed, because inferFromVolumeFailurePolicy is Ignore"
                ),
            };
            events.push(CopyEvent {
                reason: "Inferred",
                is_warning: false,
                message: shorten_message(message),
            });
        }
        Ok((!events.is_empty()).then(|| {
            let replace = json!({ "op": "replace", "path": "/spec", "value": completed["spec"] });
            CopyPlan {
                spec: Some(versioned_json_patch(self.machine, vec![replace])),
                events,
                ..CopyPlan::default()
            }
        }))
    }

    /// The reference of one matcher.
    fn part(&self, family: TypeFamily, planned: &mut PlannedCopies) -> Result<Part, PlanStop> {
        let of = |machine: &Value| {
            TypeMatcher::of_machine(machine, family)
                .map_err(|error| failed_find_stop(family, error.to_string()))
        };
        let malformed = |error: Malformed| revision_mismatch_stop(family, error.to_string());
        let status = StatusRef::of_machine(self.machine, family).map_err(malformed)?;
        // What was inferred is in the machine already, or a failure.
        pins::infer_matcher(&mut planned.machine, self.scope, family, self.found)
            .map_err(|open| to_plan_stop(family, open))?;
        let Some(matcher) = of(&planned.machine)? else { return Ok(Part::Absent) };
        self.reference(family, &matcher, status.as_ref(), planned).map(Part::Recorded)
    }

    /// Compares the machine with what it gets copies of. What it cannot use is not copied. A preference on
    /// its own conflicts with nothing, and an instance type is compared without a preference that is missing.
    fn check(&self, planned: &mut PlannedCopies) {
        let [instancetype, _] = &planned.parts;
        let is_new = |family: TypeFamily| !planned.already_used.contains(&family);
        let mut new = planned.creates.iter().filter(|(family, _)| is_new(*family));
        if new.next().is_none() || matches!(instancetype, Part::Unusable) {
            return;
        }
        let checked = expand::check_expansion(
            &planned.machine,
            &planned.types,
            &InstanceSettings::default(),
            self.scope.location,
        );
        let Err(error) = checked else { return };
        let failure = self.refused(&error);
        let refused = failure.family;
        let has = |family: TypeFamily| is_new(family) && planned.creates.iter().any(|(of, _)| *of == family);
        // If the machine has a copy of what is refused, it gets none of the other one, or the next pass would
        // not compare them.
        let is_refused = |family: &TypeFamily| is_new(*family) && (*family == refused || !has(refused));
        for family in FAMILIES.into_iter().filter(is_refused).collect::<Vec<_>>() {
            planned.creates.retain(|(of, _)| *of != family);
            planned.events.retain(|(of, _)| *of != family);
            planned.upgrades.retain(|(of, _)| *of != family);
            planned.replaced.retain(|(of, _)| *of != family);
            planned.parts[usize::from(family == TypeFamily::Preference)] = Part::Unusable;
        }
        planned.failure.get_or_insert(failure);
    }

    /// The plan that writes instance type and preference into the machine; `None` if the machine is to name
    /// them.
    ///
    /// A machine that names a ControllerRevision itself is left alone: all machines of a pool name those of
    /// the pool.
    fn expansion(&self, policy: CopyPolicy, planned: &PlannedCopies) -> Result<Option<CopyPlan>, PlanStop> {
        let matcher = |family| TypeMatcher::of_machine(&planned.machine, family).ok().flatten();
        let recorded = |family| StatusRef::of_machine(self.machine, family).ok().flatten();
        let matchers: Vec<TypeMatcher> = FAMILIES.into_iter().filter_map(matcher).collect();
        let has_copy = FAMILIES.into_iter().filter_map(recorded).any(|status| !status.revision.is_empty());
        let is_kept = match policy {
            CopyPolicy::Reference => true,
            CopyPolicy::Expand => has_copy,
            CopyPolicy::ExpandAll => false,
        };
        if is_kept
            || matchers.is_empty()
            || matchers.iter().any(|matcher| !matcher.revision_name.is_empty())
            || planned.failure.is_some()
        {
            return Ok(None);
        }
        let settings = InstanceSettings {
            interface: Some(Binding::Bridge),
            defaults: Some(InstanceDefaults::default()),
        };
        let expanded =
            expand::expand_machine(&planned.machine, &planned.types, &settings, self.scope.location);
        let expanded = expanded.map_err(|error| PlanStop::Failed(self.refused(&error)))?;
        let replace = json!({ "op": "replace", "path": "/spec", "value": expanded["spec"] });
        let message =
            "wrote the instance type and the preference into the machine, as the reference policy says"
                .to_owned();
        Ok(Some(CopyPlan {
            spec: Some(versioned_json_patch(self.machine, vec![replace])),
            events: vec![CopyEvent { reason: "Expanded", is_warning: false, message }],
            ..CopyPlan::default()
        }))
    }

    /// The failure if both objects exist, and cannot be applied to the machine.
    fn refused(&self, error: &ExpandError) -> CopyFailure {
        let family = match error {
            ExpandError::Requirements(_) => TypeFamily::Preference,
            _ => TypeFamily::Instancetype,
        };
        let reason = pins::expansion_problem(error, self.scope.location).reason;
        CopyFailure::new(family, CopyFailureReason::Unresolved(reason), error.to_string())
    }

    /// The reference of one matcher, which names an object.
    fn reference(
        &self,
        family: TypeFamily,
        matcher: &TypeMatcher,
        status: Option<&StatusRef>,
        planned: &mut PlannedCopies,
    ) -> Result<StatusRef, PlanStop> {
        let matched = |reference| MatchedReference { family, matcher, reference };
        match status_ref::plan_status_ref(family, matcher, status) {
            StatusRefPlan::NeedsCopy(reference) => self.copy_live_object(matched(reference), planned),
            StatusRefPlan::Complete(reference) => self.use_named_copy(matched(reference), planned),
        }
    }

    /// A copy of the object as it is now.
    fn copy_live_object(
        &self,
        matched: MatchedReference<'_>,
        planned: &mut PlannedCopies,
    ) -> Result<StatusRef, PlanStop> {
        let MatchedReference { family, matcher, reference } = matched;
        let object = self.live(family, matcher)?;
        let copy = self.new_machine_copy(family, &object)?;
        let reference = reference.with_revision(&copy.name);
        planned.create(family, object, &copy)?;
        Ok(reference)
    }

    /// The copy that the machine names already.
    fn use_named_copy(
        &self,
        matched: MatchedReference<'_>,
        planned: &mut PlannedCopies,
    ) -> Result<StatusRef, PlanStop> {
        let MatchedReference { family, matcher, reference } = matched;
        let revision = &reference.revision;
        let by_spec = !matcher.revision_name.is_empty();
        let place = revision_at(self.scope.namespace, revision);
        let Some(stored) = pins::find_read_object(&place, self.found).map_err(PlanStop::Needs)? else {
            if by_spec {
                let message =
                    format!("ControllerRevision {revision:?} does not exist; correct or remove revisionName");
                let awaits = (revision.len() <= limits::NAME).then(|| revision.clone());
                return Err(PlanStop::Failed(CopyFailure {
                    awaits,
                    ..CopyFailure::new(family, CopyFailureReason::FailedFind(family), message)
                }));
            }
            return self.restore_deleted_copy(MatchedReference { family, matcher, reference }, planned);
        };
        let mismatch = |message: String| revision_mismatch_stop(family, message);
        let kind = matcher.kind(family).map_err(|error| mismatch(error.to_string()))?;
        let undecoded = |message: String| {
            let reason = CopyFailureReason::Unresolved(ConditionReason::RevisionMismatch);
            let failure = CopyFailure::new(family, reason, message);
            PlanStop::Failed(CopyFailure { lookup: LookupReason::Decode, ..failure })
        };
        let copy = InstanceTypeCopy::read(stored).map_err(|error| undecoded(error.to_string()))?;
        let decoded =
            copy::decode_copy(&copy, kind, &matcher.name).map_err(|error| undecoded(error.to_string()))?;
        let (machine_uid, machine_name) = (&*self.owner.uid, &*self.owner.name);
        let by_status = status_ref::is_recorded(self.machine, family, revision)
            .map_err(|error| mismatch(error.to_string()))?;
        let wanted =
            ExpectedCopy { kind, name: &matcher.name, by_spec, by_status, machine_uid, machine_name };
        match copy::accept_copy(&copy, &decoded, &wanted).map_err(|error| mismatch(error.to_string()))? {
            Acceptance::Stale => {
                self.copy_live_object(MatchedReference { family, matcher, reference }, planned)
            }
            Acceptance::Use => {
                planned.add(family, decoded.object)?;
                Ok(reference)
            }
            Acceptance::Upgrade => {
                let upgrade = copy::plan_copy_upgrade(&copy, &decoded, &self.owner);
                let from = decoded.stored;
                planned.add(family, decoded.object)?;
                // The copy in a revisionName is the user's, and one that several machines use is its pool's.
                let CopyUpgrade::Replace(new) = upgrade else { return Ok(reference) };
                if by_spec {
                    return Ok(reference);
                }
                planned.already_used.push(family);
                if new.name == *revision {
                    // It lacks labels.
                    planned.creates.push((family, new.to_json()));
                    return Ok(reference);
                }
                let message =
                    format!("ControllerRevision {} replaces {revision}, which has an old version", new.name);
                let event = CopyEvent { reason: "RevisionUpgraded", is_warning: false, message };
                planned.events.push((family, event));
                planned.upgrades.push((family, from));
                if let Some(uid) = DocumentMetadata::of(stored).uid() {
                    planned
                        .replaced
                        .push((family, OwnedCopy { name: revision.clone(), uid: uid.to_owned() }));
                }
                let reference = reference.clone().with_revision(&new.name);
                planned.creates.push((family, new.to_json()));
                Ok(reference)
            }
        }
    }

    /// A copy that the status names and that is gone. It is made again if the object has not changed since.
    fn restore_deleted_copy(
        &self,
        matched: MatchedReference<'_>,
        planned: &mut PlannedCopies,
    ) -> Result<StatusRef, PlanStop> {
        let MatchedReference { family, matcher, reference } = matched;
        let mut object = self.live(family, matcher)?;
        let mut copy = self.new_machine_copy(family, &object)?;
        if copy.name != reference.revision
            && let Some(earlier) = object.before_deletion()
        {
            copy = self.new_machine_copy(family, &earlier)?;
            object = earlier;
        }
        if copy.name != reference.revision {
            let (revision, noun, field) = (&reference.revision, family.noun(), family.field());
            let message = format!(
                "ControllerRevision {revision:?} was deleted, and the {noun} has changed since, so it cannot be restored; \
                 remove spec.{field} and set it again to use the {noun} as it is now"
            );
            return Err(failed_find_stop(family, message));
        }
        planned.create(family, object, &copy)?;
        Ok(reference)
    }

    fn live(&self, family: TypeFamily, matcher: &TypeMatcher) -> Result<InstanceTypeObject, PlanStop> {
        pins::find_live_object(matcher, self.scope, family, self.found)
            .map_err(|open| to_plan_stop(family, open))
    }

    fn new_machine_copy(
        &self,
        family: TypeFamily,
        object: &InstanceTypeObject,
    ) -> Result<InstanceTypeCopy, PlanStop> {
        let name = &object.identity.name;
        if name.len() > validation::LONGEST_NAME {
            let most = validation::LONGEST_NAME;
            let message = format!("the name of {} {name:?} has more than {most} characters", object.kind);
            return Err(failed_find_stop(family, message));
        }
        InstanceTypeCopy::of(object, self.owner.clone(), self.scope.namespace)
            .map_err(|error| failed_find_stop(family, error.to_string()))
    }
}

impl PlannedCopies {
    fn add(&mut self, family: TypeFamily, object: InstanceTypeObject) -> Result<(), PlanStop> {
        self.types.insert(object).map_err(|error| failed_find_stop(family, error.to_string()))
    }

    /// Plans the creation of a copy.
    fn create(
        &mut self,
        family: TypeFamily,
        object: InstanceTypeObject,
        copy: &InstanceTypeCopy,
    ) -> Result<(), PlanStop> {
        self.add(family, object)?;
        self.events.push((family, copy_created_event(family, &copy.name)));
        self.creates.push((family, copy.to_json()));
        Ok(())
    }
}

fn failed_find_stop(family: TypeFamily, message: String) -> PlanStop {
    PlanStop::Failed(CopyFailure::new(family, CopyFailureReason::FailedFind(family), message))
}

fn revision_mismatch_stop(family: TypeFamily, message: String) -> PlanStop {
    let reason = CopyFailureReason::Unresolved(ConditionReason::RevisionMismatch);
    PlanStop::Failed(CopyFailure::new(family, reason, message))
}

fn to_plan_stop(family: TypeFamily, open: ResolveError) -> PlanStop {
    match open {
        ResolveError::Needs(needs) => PlanStop::Needs(needs),
        ResolveError::Unresolved(MatcherProblem { message, lookup, .. }) => PlanStop::Failed(CopyFailure {
            lookup,
            ..CopyFailure::new(family, CopyFailureReason::FailedFind(family), message)
        }),
    }
}

fn copy_created_event(family: TypeFamily, name: &str) -> CopyEvent {
    let reason = match family {
        TypeFamily::Instancetype => "InstancetypeStashed",
        TypeFamily::Preference => "PreferenceStashed",
    };
    let message = format!("created ControllerRevision {name} with a copy of the {}", family.noun());
    CopyEvent { reason, is_warning: false, message }
}

/// The plan of a machine whose matchers are known. It gets the copies of those that it can use.
fn plan_resolved_machine(
    machine: &Value,
    owned: &[OwnedCopy],
    planned: PlannedCopies,
    now: &str,
) -> CopyPlan {
    let PlannedCopies { parts, creates, failure, events, replaced, upgrades, .. } = planned;
    let recorded = |part: &Part| match part {
        Part::Recorded(reference) => Some(reference.revision.clone()),
        Part::Absent | Part::Unusable => None,
    };
    let used: Vec<String> = parts.iter().filter_map(recorded).collect();
    // The copy of a running instance stays until the instance is gone, and those of a machine that needs
    // others until it has them.
    let is_kept = machine.pointer("/status/created").and_then(Value::as_bool) == Some(true)
        || parts.iter().any(|part| matches!(part, Part::Unusable));
    let is_unused = |copy: &&OwnedCopy| !is_kept && !used.contains(&copy.name);
    let mut deletes: Vec<OwnedCopy> = owned.iter().filter(is_unused).cloned().collect();
    // A new copy has the same content, so a running instance does not need the one that it replaces.
    let replaced = replaced.into_iter().map(|(_, copy)| copy);
    deletes.extend(replaced.filter(|copy| !used.contains(&copy.name)));
    deletes.sort();
    deletes.dedup();
    let references = FAMILIES.into_iter().zip(parts).filter_map(|(family, part)| match part {
        Part::Absent => Some((family, None)),
        Part::Recorded(reference) => Some((family, Some(reference))),
        Part::Unusable => None,
    });
    // A status of the wrong type is replaced as a whole.
    let references = status_ref::status_refs_patch(machine, references).ok().flatten();
    let conditions = changed_conditions(machine, failure.as_ref(), now);
    let blocked = failure
        .map_or_else(CopyPlan::default, |failure| blocked_copy_plan(machine, failure, conditions.is_some()));
    let status = copy_status_patch(machine, references, conditions);
    let creates = creates.into_iter().map(|(_, copy)| copy).collect();
    let upgrades = upgrades.into_iter().map(|(_, from)| from).collect();
    let events = events.into_iter().map(|(_, event)| event).chain(blocked.events).collect();
    CopyPlan { creates, status, deletes, events, upgrades, ..blocked }
}

/// The plan of a machine that cannot get its copies now.
fn plan_failed_machine(machine: &Value, failure: CopyFailure, now: &str) -> CopyPlan {
    let conditions = changed_conditions(machine, Some(&failure), now);
    let blocked = blocked_copy_plan(machine, failure, conditions.is_some());
    CopyPlan { status: copy_status_patch(machine, None, conditions), ..blocked }
}

/// What a plan says about a failure. The event is that of a new condition.
fn blocked_copy_plan(machine: &Value, failure: CopyFailure, is_new: bool) -> CopyPlan {
    let CopyFailure { family, reason, message, lookup, awaits } = failure;
    let kind = pins::named_kind(machine, family);
    let event = CopyEvent { reason: reason.as_str(), is_warning: true, message };
    let events = is_new.then_some(event).into_iter().collect();
    CopyPlan {
        events,
        is_blocked: true,
        failure: Some(LookupFailure { reason: lookup, kind }),
        awaits,
        ..CopyPlan::default()
    }
}

/// The conditions with or without that of this module; `None` if they do not change.
fn changed_conditions(machine: &Value, failure: Option<&CopyFailure>, now: &str) -> Option<Value> {
    let stored = machine.pointer("/status/conditions").and_then(Value::as_array);
    let mut ours = stored.into_iter().flatten().filter(|condition| is_copy_failure(condition));
    match (ours.next(), failure) {
        (None, None) => return None,
        (Some(known), Some(CopyFailure { reason, message, .. }))
            if known["reason"] == reason.as_str() && known["message"] == **message =>
        {
            return None;
        }
        _ => {}
    }
    // One that another controller wrote stays.
    let others = stored.into_iter().flatten().filter(|condition| !is_copy_failure(condition));
    let mut conditions: Vec<Value> = others.cloned().collect();
    if let Some(CopyFailure { reason, message, .. }) = failure {
        conditions.push(json!({
            "type": FAILURE,
            "status": "True",
            "reason": reason.as_str(),
            "message": message,
            "lastTransitionTime": now,
        }));
    }
    Some(conditions.into())
}

/// The JSON patch of the status at the version that was read.
fn copy_status_patch(machine: &Value, references: Option<Value>, conditions: Option<Value>) -> Option<Value> {
    let mut operations = references.and_then(|patch| patch.as_array().cloned()).unwrap_or_default();
    let add = |path: &str, value: Value| json!({ "op": "add", "path": path, "value": value });
    if let Some(conditions) = conditions {
        // An `add` needs the parent, which the references have added.
        if operations.is_empty() && !machine["status"].is_object() {
            operations.push(add("/status", Map::new().into()));
        }
        operations.push(add("/status/conditions", conditions));
    }
    (!operations.is_empty()).then(|| versioned_json_patch(machine, operations))
}

/// The JSON patch with these operations, at the version of the machine that was read.
fn versioned_json_patch(machine: &Value, operations: Vec<Value>) -> Value {
    DocumentMetadata::of(machine).version_tests().into_iter().chain(operations).collect()
}

#[cfg(test)]
mod tests;

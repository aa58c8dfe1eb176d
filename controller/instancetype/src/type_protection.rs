//! The finalizer that keeps an instance type or a preference until each machine and each pool that names it
//! has a copy.
//!
//! A machine that is created before the deletion of its object gets a copy: the controller releases the
//! object only after a list that began after the deletion mark shows no machine without one, and makes copies
//! of objects that are being deleted.
//!
//! A machine in a namespace that is being deleted gets no copy any more. It does not keep the object either:
//! the namespace controller deletes the machine too, and a machine that is being deleted needs no copy.

use serde_json::{Value, json};
use vmpool_api::kubevirt::annotations::{FORCE_RELEASE, INSTANCETYPE_POLICY};
use vmpool_decision::Step;
use vmpool_engine::condition::ConditionType;
use vmpool_engine::limits;
use vmpool_platform::{Configuration, FetchedObjects, ReferencedObject, Resolution};

use crate::copies::CopyPlan;
use crate::fields::MachineLocation;
use crate::metadata::DocumentMetadata;
use crate::model::{InstanceTypeObject, TypeMatcher};
use crate::pins;
use crate::protection::{InstanceTypeReferrer, awaits_copy, blocks_deletion, may_infer_object};
use crate::status_ref::{self, StatusRef, StatusRefPlan};

pub use crate::copies::has_copy_failure;
pub use crate::model::InstanceTypeKind;

pub use vmpool_api::kubevirt::finalizers::INSTANCETYPE_PROTECTION as FINALIZER;

/// The most names in an event.
const NAMES: usize = 10;

/// The next step for an object.
#[derive(Clone, Debug, PartialEq)]
pub enum ProtectionStep {
    /// There is nothing to do.
    Nothing,
    /// Add the finalizer with this merge patch.
    Protect(Value),
    /// Look for machines and pools that need the object. If there are none, remove the finalizer.
    Examine,
    /// Remove the finalizer, because a user wants so.
    Force,
}

/// The next step for an object of the four kinds.
pub fn next_protection_step(object: &Value) -> ProtectionStep {
    let metadata = DocumentMetadata::of(object);
    match (metadata.is_deleted(), is_protected(object)) {
        (false, true) | (true, false) => ProtectionStep::Nothing,
        (false, false) => ProtectionStep::Protect(with_finalizers(
            object,
            &[finalizer_names(object), vec![FINALIZER]].concat(),
        )),
        (true, true) if metadata.annotation(FORCE_RELEASE) == Some("true") => ProtectionStep::Force,
        (true, true) => ProtectionStep::Examine,
    }
}

/// The merge patch that removes the finalizer.
pub fn finalizer_removal_merge_patch(object: &Value) -> Value {
    let mut kept = finalizer_names(object);
    kept.retain(|finalizer| *finalizer != FINALIZER);
    with_finalizers(object, &kept)
}

/// The JSON patch that removes the finalizer in any version of the object; `None` if it has none.
pub fn finalizer_removal_json_patch(finalizers: &[String]) -> Option<Value> {
    let index = finalizers.iter().position(|finalizer| finalizer == FINALIZER)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(json!([
        { "op": "test", "path": path, "value": FINALIZER },
        { "op": "remove", "path": path },
    ]))
}

fn is_protected(object: &Value) -> bool {
    finalizer_names(object).contains(&FINALIZER)
}

fn finalizer_names(object: &Value) -> Vec<&str> {
    DocumentMetadata::of(object).finalizers().collect()
}

/// The patch replaces the list, so it requires the version that was read.
fn with_finalizers(object: &Value, finalizers: &[&str]) -> Value {
    let metadata = &object["metadata"];
    json!({ "metadata": {
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "finalizers": finalizers,
    } })
}

/// An object that is being deleted, for [`ProtectedType::needed_by_machine`] and
/// [`ProtectedType::may_be_needed_by_pool`].
#[derive(Clone, Debug)]
pub struct ProtectedType(InstanceTypeObject);

impl ProtectedType {
    /// Reads an object of the four kinds.
    pub fn read(object: &Value) -> Option<Self> {
        InstanceTypeObject::read(object.clone()).ok().map(Self)
    }

    /// Whether a machine needs the object, because it names it and its status names no copy. `exists` returns
    /// whether a ControllerRevision of this name is in the namespace of the machine.
    ///
    /// A copy of an earlier object of the same name is a copy too: the machine never uses the new object.
    pub fn needed_by_machine(&self, machine: &Value, exists: impl Fn(&str) -> bool) -> bool {
        self.needed(machine, MachineLocation::VirtualMachine, self.has_existing_copy(machine, exists))
    }

    /// Whether a machine names only a volume, and the object can be the one that is inferred from it.
    pub fn may_be_inferred_by_machine(&self, machine: &Value) -> bool {
        may_infer_object(&type_user(machine, MachineLocation::VirtualMachine, false), &self.0)
            .unwrap_or(false)
    }

    /// Whether the plan of a machine makes a copy of the object, or writes it or its name into the machine.
    /// The plan decides whether the machine needs the object if [`has_copy_failure`],
    /// [`Self::may_be_inferred_by_machine`] or [`Self::records_copy`] is true: otherwise its user could keep
    /// an object of the cluster for ever.
    pub fn is_copied_by(&self, machine: &Value, plan: &CopyPlan) -> bool {
        if let Some(spec) = plan.spec.as_ref().and_then(spec_of) {
            let family = self.0.kind.family();
            let matcher = TypeMatcher::of_machine(&json!({ "spec": spec }), family).ok().flatten();
            return match matcher {
                Some(matcher) => {
                    matcher.name == self.0.identity.name && matcher.kind(family) == Ok(self.0.kind)
                }
                // It is written out, or the volume names none.
                None => !self.may_be_inferred_by_machine(machine),
            };
        }
        plan.creates.iter().any(|copy| self.is_data(&copy["data"]))
    }

    /// Whether this is the data of a copy of the object, or of another one of its name.
    fn is_data(&self, data: &Value) -> bool {
        data["kind"] == *self.0.kind.as_str()
            && DocumentMetadata::of(data).name() == Some(&*self.0.identity.name)
    }

    /// Whether a machine will use the object as it is when its copy is made, because its status names none
    /// yet.
    pub fn awaited_by_machine(&self, machine: &Value) -> bool {
        let has_copy = self.has_existing_copy(machine, |_| true);
        awaits_copy(&type_user(machine, MachineLocation::VirtualMachine, has_copy), &self.0).unwrap_or(false)
    }

    /// Whether a pool will use the object as it is when its copy is made. The status of the pool shows that
    /// it has none: the controller has not seen the pool, or cannot resolve its template.
    pub fn awaited_by_pool(&self, pool: &Value) -> bool {
        let is_unresolved = |condition: &Value| {
            condition["type"] == ConditionType::TemplateResolved.as_str() && condition["status"] == "False"
        };
        let mut conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
        let is_pinned = pool["status"]["labelSelector"].is_string() && !conditions.any(is_unresolved);
        pins::has_references_in(pool)
            && awaits_copy(&type_user(pool, MachineLocation::Pool, is_pinned), &self.0).unwrap_or(false)
    }

    fn has_existing_copy(&self, machine: &Value, exists: impl Fn(&str) -> bool) -> bool {
        self.recorded_copy(machine).is_some_and(|revision| exists(&revision))
    }

    /// Whether a machine names a copy that it uses instead of the object. The copy need not exist.
    pub fn records_copy(&self, machine: &Value) -> bool {
        self.recorded_copy(machine).is_some()
    }

    fn recorded_copy(&self, machine: &Value) -> Option<String> {
        let family = self.0.kind.family();
        let status = StatusRef::of_machine(machine, family).ok().flatten();
        let matcher = TypeMatcher::of_machine(machine, family).ok().flatten()?;
        match status_ref::plan_status_ref(family, &matcher, status.as_ref()) {
            StatusRefPlan::Complete(reference) => Some(reference.revision),
            StatusRefPlan::NeedsCopy(_) => None,
        }
    }

    /// Whether a pool may need the object, if the controller reads the spec of the pool: its template names
    /// it or a volume, and machines are to use a copy.
    pub fn may_be_needed_by_pool(&self, pool: &Value) -> bool {
        pins::has_references_in(pool) && self.needed(pool, MachineLocation::Pool, false)
    }

    /// Whether the content of a revision, as [`resolve_current_pins`] returns it, contains a copy of the
    /// object and can be stored.
    pub fn is_copied_in(&self, content: &Value) -> bool {
        self.is_data(&pins::copied_type_object(content, self.0.kind.family()))
            && serde_json::to_string(content).is_ok_and(|text| text.len() <= limits::REVISION)
    }

    /// Whether the content of a revision has what machines get from the matcher of its template that can name
    /// the object.
    pub fn is_pinned(&self, content: &Value) -> bool {
        pins::is_resolved(content, self.0.kind.family())
    }

    /// An object that cannot be read may be corrected, so it counts.
    fn needed(&self, object: &Value, location: MachineLocation, has_copy: bool) -> bool {
        blocks_deletion(&type_user(object, location, has_copy), &self.0).unwrap_or(true)
    }
}

/// The spec that a JSON patch writes into a machine.
fn spec_of(patch: &Value) -> Option<&Value> {
    patch
        .as_array()?
        .iter()
        .find(|operation| operation["path"] == "/spec")
        .map(|operation| &operation["value"])
}

/// Whether the status of a pool says that its template cannot be used, or its revision cannot be stored. It
/// may not show yet what a user has corrected.
pub fn is_failed_pool(pool: &Value) -> bool {
    let mut conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| {
        condition["type"] == ConditionType::TemplateResolved.as_str() && condition["status"] == "False"
            || condition["type"] == ConditionType::ReplicaFailure.as_str() && condition["status"] == "True"
    })
}

/// The content of the revision that the controller would store now for a pool, with copies of what its
/// template names. The content of the revision of a pool for which [`is_failed_pool`] is true decides whether
/// it needs an object.
///
/// # Errors
/// Objects were not read.
pub fn resolve_current_pins(
    pool: &Value,
    configuration: &Configuration,
    found: &FetchedObjects,
) -> Step<Resolution, ReferencedObject> {
    let metadata = DocumentMetadata::of(pool);
    let mut spec = pool["spec"].clone();
    let policy = metadata.annotation(INSTANCETYPE_POLICY).map(str::to_owned);
    pins::policy::add_annotated_policy(&mut spec, policy.as_ref());
    let namespace = metadata.namespace().unwrap_or_default();
    pins::resolve_pool_pins(&metadata.object_id(), namespace, &spec, configuration, found)
}

fn type_user(object: &Value, location: MachineLocation, has_copy: bool) -> InstanceTypeReferrer<'_> {
    let namespace = DocumentMetadata::of(object).namespace().unwrap_or_default();
    InstanceTypeReferrer { object, location, namespace, has_copy }
}

/// The warning about an edit of an object, which these machines and pools will use when their copies are
/// made; `None` if there are none. Names of other namespaces are not shown, because not all users may read
/// them.
pub fn edit_warning(kind: InstanceTypeKind, awaited_by: &[String]) -> Option<String> {
    let noun = kind.family().noun();
    let of = if kind.is_cluster() { String::new() } else { format!(": {}", abbreviate_names(awaited_by)) };
    (!awaited_by.is_empty()).then(|| {
        format!(
            "{} machines or pools have no copy of this {noun} yet, and will use it as it is now, if they fit{of}",
            awaited_by.len()
        )
    })
}

/// The message about the objects that keep another one from being deleted. `needed_by` are their kinds and
/// names. An object of the cluster, and the events about it, can be read by users of all namespaces, so their
/// message contains only a number.
pub fn blocked_deletion_message(kind: InstanceTypeKind, needed_by: &[String]) -> String {
    let (named, more) = if kind.is_cluster() {
        (format!("{} have none", needed_by.len()), "; the log of vmpool-controller names them")
    } else {
        (abbreviate_names(needed_by), "")
    };
    format!(
        "the object stays until each machine and each pool that names it has a copy: {named}{more}; delete these, let them \
         name another object, or set the annotation {FORCE_RELEASE} to \"true\""
    )
}

/// The first names, and the number of the others.
pub fn abbreviate_names(all: &[String]) -> String {
    let named = all.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMES) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests;

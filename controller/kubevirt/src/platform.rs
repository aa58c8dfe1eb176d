//! KubeVirt as a [`Platform`].

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use vmpool_api::OwnerIdentity;
use vmpool_api::kubevirt::annotations::{INSTANCETYPE_POLICY, MACHINES_OF, NAME_GENERATION};
use vmpool_api::kubevirt::labels::POOL_UID;
use vmpool_decision::Step;
use vmpool_engine::model::{
    DiskDraft, Draft, Instance, MachineReferences, PinReport, PublishedStatus, UsedCopy,
};
use vmpool_engine::revisions::{Fingerprint, RevisionId, TemplateParts};
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::scale_up::names::NameBlock;
use vmpool_engine::{ComputedStatus, Machine, ObjectId, ParsedPool, Uid};
use vmpool_instancetype::model::VERSION;
use vmpool_instancetype::pins::policy;
use vmpool_instancetype::{copy, pins};
use vmpool_platform::{
    ApiObject, Configuration, CopiedObject, CopyComparison, CopySourceVisitor, FetchedObjects, Finalizers,
    Instances, MachineStorage, NoDisks, OtherController, PatchBody, Platform, ReferencedObject, Resolution,
    RestartRequest, RevisionObjects, StatusFields, StorageMove, TemplateCopies, UncopiedObject, VolumeUse,
};

use super::annotated_names::add_annotated_names;
use super::coexistence::{self, PoolLoop};
use super::events::KubeVirtWording;
use super::machine::{self, RevisionTemplate};
use super::objects::{
    ClaimObject, DataVolumeObject, InstallationObject, InstanceObject, KubeVirtMachineObject,
    KubeVirtPoolObject,
};
use super::read::{self, read_pool_settings};
use super::release::{self, PatchTarget};
use super::restart::{self, GuestRestart};
use super::{
    facts, keys, moved_storage, publish, revision, standby, storage, storage_origin, template, update,
};

/// The field of the spec of a pool that contains the template of its machines.
const TEMPLATE: &str = "virtualMachineTemplate";

/// KubeVirt.
#[derive(Clone, Copy, Debug)]
pub struct KubeVirt;

impl Platform for KubeVirt {
    const NAME: &'static str = "kubevirt";
    const MACHINES_OF: &'static str = MACHINES_OF;
    /// References to types, which have conditions of their own.
    const COMPLETED_FIELDS: &'static [&'static str] = &["spec.instancetype", "spec.preference"];

    type Pool = KubeVirtPoolObject;
    type Machine = KubeVirtMachineObject;
    type Instances = Self;
    type Disks = NoDisks;
    type DiskSources = Self;
    type Storage = Self;
    type Revisions = Self;
    type TemplateCopies = Self;
    type OtherController = Self;
    type Finalizers = Self;
    type Wording = KubeVirtWording;

    fn read_pool(pool: &KubeVirtPoolObject) -> ParsedPool {
        facts::read_pool(pool)
    }
    fn read_machine(machine: &KubeVirtMachineObject) -> Machine {
        facts::read_machine(machine)
    }
    /// The whole spec of the pool, as KubeVirt stores it in a revision.
    fn template(pool: &KubeVirtPoolObject) -> Value {
        let mut spec = pool.spec();
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(pins::FIELD);
        }
        let annotations = pool.metadata.annotations.as_ref();
        policy::add_annotated_policy(&mut spec, annotations.and_then(|map| map.get(INSTANCETYPE_POLICY)));
        add_annotated_names(&mut spec, annotations.and_then(|map| map.get(NAME_GENERATION)));
        spec
    }
    /// Of the spec, only what machines are created from counts.
    fn canonical(spec: &Value) -> Value {
        let mut canonical = json!({ (TEMPLATE): template::canonical_template(&spec[TEMPLATE]) });
        if let Some(policy) = pins::canonical_policy(spec) {
            canonical[policy::FIELD] = policy.into();
        }
        canonical
    }
    /// Empty objects select something, for example the binding of an interface.
    fn fingerprint(spec: &Value) -> Fingerprint {
        Fingerprint::of_exact(&Self::canonical(spec))
    }
    fn machine(pool: &KubeVirtPoolObject, spec: &Value, draft: &Draft) -> Value {
        let id = read::read_object_id(&pool.metadata);
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        let mut machine = machine::machine_object(
            namespace,
            &id,
            revision_template(spec),
            draft.number,
            draft.revision.as_str(),
        );
        if let Some(moves) = moved_storage::recorded_moves(&pool.metadata).get(&draft.number) {
            moved_storage::apply_moves(&mut machine["spec"], moves);
        }
        if let Some(phase) = draft.standby {
            standby::mark_standby(&mut machine, phase);
        }
        machine
    }
    fn update(
        live: &Value,
        from: Option<&Value>,
        revision: &RevisionId,
        to: &Value,
        _: &[DiskDraft],
    ) -> Option<Value> {
        // Without an ordinal in its name, the machine would get the storage of the first one.
        let ordinal = live["metadata"]["name"].as_str().and_then(keys::parse_machine_ordinal)?;
        update::update_machine(
            live,
            from.map(revision_template),
            revision_template(to),
            ordinal,
            revision.as_str(),
        )
    }
    /// Machines that virt-controller created are like those of vmpool, so they are updated like these.
    fn adopt(live: &Value, revision: &RevisionId, to: &Value, disks: &[DiskDraft]) -> Option<Value> {
        Self::update(live, None, revision, to, disks)
    }
    fn activate(_: &KubeVirtPoolObject, live: &Value, _: &RevisionId, spec: &Value, at: &str) -> Value {
        standby::activate_standby(live, &spec[TEMPLATE], at)
    }
    fn stop_standby(live: &Value) -> Value {
        standby::stop_standby(live)
    }
    fn record_revision(_: &RevisionId) -> Value {
        json!({})
    }
    fn release(machine: &KubeVirtMachineObject) -> PatchBody {
        let metadata = &machine.metadata;
        let mut patch = release::release_machine(metadata, machine.finalizers);
        if let Some(Value::Array(operations)) = &mut patch {
            operations.extend(release::remove_step_marks(metadata));
        }
        PatchBody::Json(patch.unwrap_or_else(|| json!([])))
    }
    fn managed_labels(_: &KubeVirtPoolObject) -> Value {
        json!({})
    }
    fn name_block(_: NameBlock) -> Value {
        json!({})
    }
    fn removal_record(record: &RemovalRecord) -> Value {
        publish::removal_record(record)
    }
    fn removed_machines(removed: &RemovedMachines) -> Value {
        publish::removed_machines(removed)
    }
    fn status(pool: &KubeVirtPoolObject, status: &ComputedStatus, fields: StatusFields) -> Value {
        publish::status_object(pool, status, fields)
    }
    fn has_definition_of_vmpool(pool: &KubeVirtPoolObject) -> bool {
        publish::has_own_fields(pool)
    }
    fn remove_kstatus_conditions(pool: &KubeVirtPoolObject) -> Option<Value> {
        publish::remove_kstatus_conditions(pool)
    }
    fn published(pool: &KubeVirtPoolObject, status: &Value) -> PublishedStatus {
        publish::published_from_status(pool, status)
    }
}

impl Instances<KubeVirtMachineObject> for KubeVirt {
    type Instance = InstanceObject;

    fn read(instance: &InstanceObject) -> Instance {
        facts::read_instance(instance)
    }
    fn restart(machine: &KubeVirtMachineObject, instance: &InstanceObject) -> RestartRequest {
        match restart::restart_guest(machine, instance) {
            GuestRestart::DeleteInstance { .. } => RestartRequest::DeleteInstance,
            GuestRestart::Request(patch) => RestartRequest::PatchMachineStatus(patch),
            GuestRestart::InProgress => RestartRequest::InProgress,
            GuestRestart::NotRestarted => RestartRequest::Impossible,
        }
    }
    fn record_revision(instance: &InstanceObject, revision: &RevisionId) -> Option<Value> {
        restart::record_instance_revision(instance, revision.as_str())
    }
}

impl RevisionObjects<KubeVirtPoolObject> for KubeVirt {
    /// Its name is its identity. Pins, which the pool owns as well, have the label of copies.
    fn id(metadata: &ObjectMeta) -> Option<&str> {
        let is_pin = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(copy::labels::KIND));
        metadata.name.as_deref().filter(|_| !is_pin)
    }
    /// Those of virt-controller have no labels.
    fn selector(_: &KubeVirtPoolObject) -> Option<String> {
        None
    }
    fn names(pool: &ObjectId, generation: i64) -> Option<impl Iterator<Item = RevisionId>> {
        Some(revision::revision_names(pool, generation).map(|name| name.as_str().into()))
    }
    fn object_names(_: &ObjectId, id: &RevisionId) -> Vec<String> {
        vec![id.as_str().to_owned()]
    }
    /// The number is the generation of the pool.
    fn object(pool: &KubeVirtPoolObject, name: &str, _: &RevisionId, _: i64, spec: &Value) -> Value {
        let id = read::read_object_id(&pool.metadata);
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        revision::revision_object(namespace, &id, name, pool.metadata.generation.unwrap_or_default(), spec)
    }
    fn parts(spec: &Value) -> Option<TemplateParts> {
        let template = &spec[TEMPLATE];
        Some(match pins::comparable_template(spec) {
            Some(written) => template::template_parts(template, &written, &Value::Null),
            None => template::template_parts(template, template, &pins::effective_type_specs(spec)),
        })
    }
}

impl TemplateCopies<KubeVirtPoolObject, KubeVirtMachineObject> for KubeVirt {
    const LABELS: Option<&'static str> = Some(pins::LABELS);

    fn has_references(spec: &Value) -> bool {
        pins::has_references(spec)
    }
    fn write_out(spec: &mut Value) -> bool {
        pins::write_out(spec)
    }
    fn resolve(
        pool: &KubeVirtPoolObject,
        spec: &Value,
        configuration: &Configuration,
        found: &FetchedObjects,
    ) -> Step<Resolution, ReferencedObject> {
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        pins::resolve_pool_pins(&read::read_object_id(&pool.metadata), namespace, spec, configuration, found)
    }
    fn inherit_copies(spec: &Value, stored: &Value) -> Option<Value> {
        pins::inherit_copies(spec, stored)
    }
    fn lacks_copies(spec: &Value) -> bool {
        pins::lacks_copies(spec)
    }
    fn uncopied_objects(spec: &Value, namespace: &str) -> Vec<UncopiedObject> {
        pins::source::uncopied_objects(spec, namespace)
    }
    fn copy_objects(spec: &Value) -> Vec<Value> {
        pins::copy_objects(spec)
    }
    fn compare_copy(pool: &ObjectId, pin: &Value, live: &Value) -> CopyComparison {
        pins::compare_pinned_copy(pool, pin, live)
    }
    fn references(spec: &Value) -> Option<MachineReferences> {
        pins::revision_references(spec)
    }
    fn used_copies(spec: &Value) -> Vec<UsedCopy> {
        pins::used_copies(spec)
    }
    fn each_source(visitor: &mut impl CopySourceVisitor) {
        pins::source::each(visitor);
    }
    fn copied_objects(spec: &Value) -> Vec<CopiedObject> {
        pins::source::copied_objects(spec)
    }
    fn compare_with_original(copy: &CopiedObject, original: Option<&Value>) -> Option<PinReport> {
        pins::source::compare_with_original(copy, original)
    }
    fn is_copy_of_pool(metadata: &ObjectMeta, pool: &Uid) -> bool {
        let labels = metadata.labels.as_ref();
        labels.is_some_and(|labels| {
            labels.contains_key(copy::labels::KIND)
                && labels.get(POOL_UID).is_some_and(|uid| **uid == *pool.as_str())
        })
    }
    fn is_current_version(metadata: &ObjectMeta) -> bool {
        let version = metadata.labels.as_ref().and_then(|labels| labels.get(copy::labels::VERSION));
        version.is_some_and(|version| version == VERSION)
    }
    fn with_machine_owners(pin: &Value, machines: &[ObjectId]) -> Value {
        pins::owners::with_machine_owners(pin, machines)
    }
    fn copies_used_by(machine: &KubeVirtMachineObject) -> &[Arc<str>] {
        &machine.references.copies
    }
    fn add_machine_owner(live: &Value, machine: &ObjectId) -> Option<Value> {
        pins::owners::add_machine_owner(live, machine)
    }
    fn transfer_to_machines(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value> {
        pins::owners::transfer_to_machines(pin, machines)
    }
    fn add_machine_owners(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value> {
        pins::owners::add_machine_owners(pin, machines)
    }
}

impl Finalizers<KubeVirtPoolObject, KubeVirtMachineObject> for KubeVirt {
    fn add_to_pool(pool: &KubeVirtPoolObject) -> Option<Value> {
        let mut patch = release::add_finalizer(patch_target(&pool.metadata), pool.finalizers)?;
        if let Value::Array(operations) = &mut patch {
            operations.extend(release::record_machines_of(&pool.metadata));
        }
        Some(patch)
    }
    fn remove_from_pool(pool: &KubeVirtPoolObject) -> Option<Value> {
        release::remove_finalizer(patch_target(&pool.metadata).uid, pool.finalizers)
    }
    fn keeps_dependents(pool: &KubeVirtPoolObject) -> bool {
        pool.finalizers.orphans
    }
    fn add(machine: &KubeVirtMachineObject) -> Option<Value> {
        release::add_finalizer(patch_target(&machine.metadata), machine.finalizers)
    }
    fn remove(machine: &KubeVirtMachineObject) -> Option<Value> {
        let mut patch = release::remove_finalizer(patch_target(&machine.metadata).uid, machine.finalizers)?;
        // A machine can outlive its pool.
        if let Value::Array(operations) = &mut patch {
            operations.extend(release::remove_step_marks(&machine.metadata));
        }
        Some(patch)
    }
    fn end_deletion(machine: &KubeVirtMachineObject) -> Option<Value> {
        release::end_deletion(patch_target(&machine.metadata).uid, machine.finalizers)
    }
}

impl OtherController for KubeVirt {
    type Installation = InstallationObject;

    fn blocker(installations: &[InstallationObject]) -> Option<String> {
        match coexistence::pool_loop(installations) {
            PoolLoop::Off => None,
            PoolLoop::MayRun(why) => Some(why),
        }
    }
    fn configuration(installations: &[InstallationObject]) -> Configuration {
        coexistence::kubevirt_configuration(installations)
    }
    fn is_set_to_run(installations: &[InstallationObject]) -> bool {
        coexistence::is_set_to_run(installations)
    }
}

impl MachineStorage<KubeVirtMachineObject> for KubeVirt {
    const PRESERVED_LABEL: Option<&'static str> = Some(keys::PRESERVED_POOL);

    type Volume = DataVolumeObject;
    type Claim = ClaimObject;

    fn volumes(machine: &KubeVirtMachineObject) -> Vec<Arc<str>> {
        read::data_volume_names(machine)
    }
    fn claims(machine: &KubeVirtMachineObject) -> Vec<Arc<str>> {
        read::claim_names(machine)
    }
    fn new_volumes(spec: &Value, machine: &str) -> Vec<String> {
        // A machine without an ordinal is never updated.
        keys::parse_machine_ordinal(machine)
            .map_or_else(Vec::new, |ordinal| storage::new_data_volume_names(revision_template(spec), ordinal))
    }
    fn record_origin(live: &Value, from: &Value, to: &Value, revision: &RevisionId) -> Option<Value> {
        storage_origin::record_storage_revision(live, &from[TEMPLATE], &to[TEMPLATE], revision)
    }
    fn conflict<K: ApiObject>(
        object: &ObjectMeta,
        machine: &str,
        pool: &ObjectId,
        volume_use: VolumeUse,
    ) -> Option<String> {
        storage::storage_conflict(&K::kind(&()), object, machine, pool, volume_use)
    }
    fn preserve<K: ApiObject>(object: &K, machine: &ObjectId, pool: &ObjectId) -> Option<Value> {
        release::preserve_storage(object.meta(), machine, pool)
    }
    fn problem(volume: &DataVolumeObject) -> Option<String> {
        volume.problem.clone()
    }
    fn moves(template: &Value, machine: &KubeVirtMachineObject) -> Option<String> {
        let ordinal = keys::parse_machine_ordinal(machine.metadata.name.as_deref()?)?;
        moved_storage::find_moves(revision_template(template), ordinal, machine)
    }
    fn read_moves(text: &str) -> Vec<StorageMove> {
        moved_storage::read_moves(text)
    }
    fn record_moves(ordinal: u64, moves: Option<&str>) -> Value {
        moved_storage::record_moves(ordinal, moves)
    }
    fn preserved_for(object: &ObjectMeta) -> Option<&str> {
        let pool = object.labels.as_ref()?.get(keys::PRESERVED_POOL)?;
        OwnerIdentity::of_controller(object).is_none().then_some(pool)
    }
}

fn patch_target(metadata: &ObjectMeta) -> PatchTarget<'_> {
    PatchTarget {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        resource_version: metadata.resource_version.as_deref().unwrap_or_default(),
    }
}

/// The template in the spec of a pool, or in a revision.
fn revision_template(spec: &Value) -> RevisionTemplate<'_> {
    RevisionTemplate {
        content: &spec[TEMPLATE],
        names: read_pool_settings(spec).names,
        pins: &spec[pins::FIELD],
    }
}

#[cfg(test)]
mod tests;

//! KubeVirt as a [`Platform`].

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use vmpool_api::OwnerIdentity;
use vmpool_api::kubevirt::annotations::{INSTANCETYPE_POLICY, MACHINES_OF};
use vmpool_api::kubevirt::labels::POOL_UID;
use vmpool_engine::model::{DiskDraft, Draft, Instance, PinReport, Published, References, UsedCopy};
use vmpool_engine::names::NameBlock;
use vmpool_engine::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::revision::{Fingerprint, RevisionId, TemplateParts};
use vmpool_engine::{Machine, ObjectId, ParsedPool, Status, Uid};
use vmpool_instancetype::model::VERSION;
use vmpool_instancetype::stash;

use super::coexistence::{self, PoolLoop};
use super::events::Words;
use super::machine::{self, Template};
use super::objects::{
    ClaimObject, DataVolumeObject, InstallationObject, InstanceObject, MachineObject, PoolObject,
};
use super::pins::policy;
use super::read::{self, settings};
use super::release::{self, Target};
use super::restart::{self, Restart};
use super::{facts, keys, moved_storage, pins, publish, revision, storage, storage_origin, template, update};
use crate::{
    ApiObject, Configuration, Copied, Existing, Finalizers, Found, Instances, NoDisks, OtherController,
    PatchBody, Pins, Platform, Referent, Resolution, RestartRequest, Revisions, SourceVisitor, StatusFields,
    Storage, StorageMove, VolumeUse,
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
    const COMPLETED: &'static [&'static str] = &["spec.instancetype", "spec.preference"];

    type Pool = PoolObject;
    type Machine = MachineObject;
    type Instances = Self;
    type Disks = NoDisks;
    type Storage = Self;
    type Revisions = Self;
    type Pins = Self;
    type OtherController = Self;
    type Finalizers = Self;
    type Wording = Words;

    fn read_pool(pool: &PoolObject) -> ParsedPool {
        facts::pool(pool)
    }
    fn read_machine(machine: &MachineObject) -> Machine {
        facts::machine(machine)
    }
    /// The whole spec of the pool, as KubeVirt stores it in a revision.
    fn template(pool: &PoolObject) -> Value {
        let mut spec = pool.spec();
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(pins::FIELD);
        }
        let annotations = pool.metadata.annotations.as_ref();
        policy::complete(&mut spec, annotations.and_then(|map| map.get(INSTANCETYPE_POLICY)));
        spec
    }
    /// Of the spec, only what machines are created from counts.
    fn canonical(spec: &Value) -> Value {
        let mut canonical = json!({ (TEMPLATE): template::canonical(&spec[TEMPLATE]) });
        if let Some(policy) = pins::canonical_policy(spec) {
            canonical[policy::FIELD] = policy.into();
        }
        canonical
    }
    /// Empty objects select something, for example the binding of an interface.
    fn fingerprint(spec: &Value) -> Fingerprint {
        Fingerprint::of_exact(&Self::canonical(spec))
    }
    fn machine(pool: &PoolObject, spec: &Value, draft: &Draft) -> Value {
        let id = facts::id(&pool.metadata);
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        let mut machine = machine::machine(namespace, &id, of(spec), draft.number, draft.revision.as_str());
        if let Some(moves) = moved_storage::recorded_moves(&pool.metadata).get(&draft.number) {
            moved_storage::apply_moves(&mut machine["spec"], moves);
        }
        machine
    }
    fn update(
        live: &Value,
        from: Option<&Value>,
        (revision, to): (&RevisionId, &Value),
        _: &[DiskDraft],
    ) -> Option<Value> {
        // Without an ordinal in its name, the machine would get the storage of the first one.
        let ordinal = live["metadata"]["name"].as_str().and_then(keys::ordinal)?;
        update::update(live, from.map(of), of(to), ordinal, revision.as_str())
    }
    /// Machines that virt-controller created are like those of vmpool, so they are updated like these.
    fn adopt(live: &Value, to: (&RevisionId, &Value), disks: &[DiskDraft]) -> Option<Value> {
        Self::update(live, None, to, disks)
    }
    fn record_revision(_: &RevisionId) -> Value {
        json!({})
    }
    fn release(machine: &MachineObject) -> PatchBody {
        let metadata = &machine.metadata;
        let mut patch = release::release(metadata, machine.finalizers);
        if let Some(Value::Array(operations)) = &mut patch {
            operations.extend(release::without_mark(metadata));
        }
        PatchBody::Json(patch.unwrap_or_else(|| json!([])))
    }
    fn managed_labels(_: &PoolObject) -> Value {
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
    fn status(pool: &PoolObject, status: &Status, fields: StatusFields) -> Value {
        publish::status(pool, status, fields)
    }
    fn published(pool: &PoolObject, status: &Value) -> Published {
        publish::published(pool, status)
    }
}

impl Instances<MachineObject> for KubeVirt {
    type Instance = InstanceObject;

    fn read(instance: &InstanceObject) -> Instance {
        facts::instance(instance)
    }
    fn restart(machine: &MachineObject, instance: &InstanceObject) -> RestartRequest {
        let version = machine.metadata.resource_version.as_deref().unwrap_or_default();
        match restart::restart(&read::machine(machine), version, &read::instance(instance)) {
            Restart::DeleteInstance { .. } => RestartRequest::DeleteInstance,
            Restart::Request(patch) => RestartRequest::PatchMachineStatus(patch),
            Restart::InProgress => RestartRequest::InProgress,
            Restart::NotRestarted => RestartRequest::Impossible,
        }
    }
    fn record_revision(instance: &InstanceObject, revision: &RevisionId) -> Option<Value> {
        restart::label(&read::instance(instance), revision.as_str())
    }
}

impl Revisions<PoolObject> for KubeVirt {
    /// Its name is its identity. Pins, which the pool owns as well, have the label of copies.
    fn id(metadata: &ObjectMeta) -> Option<&str> {
        let is_pin = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(stash::labels::KIND));
        metadata.name.as_deref().filter(|_| !is_pin)
    }
    /// Those of virt-controller have no labels.
    fn selector(_: &PoolObject) -> Option<String> {
        None
    }
    fn names(pool: &ObjectId, generation: i64) -> Option<impl Iterator<Item = RevisionId>> {
        Some(revision::names(pool, generation).map(|name| name.as_str().into()))
    }
    fn object_names(_: &ObjectId, id: &RevisionId) -> Vec<String> {
        vec![id.as_str().to_owned()]
    }
    /// The number is the generation of the pool.
    fn object(pool: &PoolObject, name: &str, _: &RevisionId, _: i64, spec: &Value) -> Value {
        let id = facts::id(&pool.metadata);
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        revision::revision(namespace, &id, name, pool.metadata.generation.unwrap_or_default(), spec)
    }
    fn parts(spec: &Value) -> Option<TemplateParts> {
        let template = &spec[TEMPLATE];
        Some(match pins::compared(spec) {
            Some(written) => template::parts(template, &written, &Value::Null),
            None => template::parts(template, template, &pins::effective(spec)),
        })
    }
}

impl Pins<PoolObject, MachineObject> for KubeVirt {
    const LABELS: Option<&'static str> = Some(pins::LABELS);

    fn has_references(spec: &Value) -> bool {
        pins::has_references(spec)
    }
    fn write_out(spec: &mut Value) -> bool {
        pins::write_out(spec)
    }
    fn resolve(pool: &PoolObject, spec: &Value, configuration: &Configuration, found: &Found) -> Resolution {
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        pins::resolve(&facts::id(&pool.metadata), namespace, (spec, configuration), found)
    }
    fn inherit(spec: &Value, stored: &Value) -> Option<Value> {
        pins::inherit(spec, stored)
    }
    fn lacks_copies(spec: &Value) -> bool {
        pins::lacks_copies(spec)
    }
    fn uncopied(spec: &Value, namespace: &str) -> Vec<Referent> {
        pins::source::uncopied(spec, namespace)
    }
    fn objects(spec: &Value) -> Vec<Value> {
        pins::objects(spec)
    }
    fn existing(pool: &ObjectId, pin: &Value, live: &Value) -> Existing {
        pins::existing(pool, pin, live)
    }
    fn references(spec: &Value) -> Option<References> {
        pins::references_of(spec)
    }
    fn used_copies(spec: &Value) -> Vec<UsedCopy> {
        pins::used_copies(spec)
    }
    fn each_source(visitor: &mut impl SourceVisitor) {
        pins::source::each(visitor);
    }
    fn copied(spec: &Value) -> Vec<Copied> {
        pins::source::all(spec)
    }
    fn outdated(copy: &Copied, original: Option<&Value>) -> Option<PinReport> {
        pins::source::outdated(copy, original)
    }
    fn is_pin(metadata: &ObjectMeta, pool: &Uid) -> bool {
        let labels = metadata.labels.as_ref();
        labels.is_some_and(|labels| {
            labels.contains_key(stash::labels::KIND)
                && labels.get(POOL_UID).is_some_and(|uid| **uid == *pool.as_str())
        })
    }
    fn is_current_version(metadata: &ObjectMeta) -> bool {
        let version = metadata.labels.as_ref().and_then(|labels| labels.get(stash::labels::VERSION));
        version.is_some_and(|version| version == VERSION)
    }
    fn shared_with(pin: &Value, machines: &[ObjectId]) -> Value {
        pins::owners::shared_with(pin, machines)
    }
    fn used_by(machine: &MachineObject) -> &[Arc<str>] {
        &machine.references.copies
    }
    fn keep(live: &Value, machine: &ObjectId) -> Option<Value> {
        pins::owners::keep(live, machine)
    }
    fn release(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value> {
        pins::owners::release(pin, machines)
    }
    fn keep_for(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value> {
        pins::owners::keep_for(pin, machines)
    }
}

impl Finalizers<PoolObject, MachineObject> for KubeVirt {
    fn add_to_pool(pool: &PoolObject) -> Option<Value> {
        let mut patch = release::add_finalizer(target(&pool.metadata), pool.finalizers)?;
        if let Value::Array(operations) = &mut patch {
            operations.extend(release::record_machines_of(&pool.metadata));
        }
        Some(patch)
    }
    fn remove_from_pool(pool: &PoolObject) -> Option<Value> {
        release::remove_finalizer(target(&pool.metadata).uid, pool.finalizers)
    }
    fn keeps_dependents(pool: &PoolObject) -> bool {
        pool.finalizers.orphans
    }
    fn add(machine: &MachineObject) -> Option<Value> {
        release::add_finalizer(target(&machine.metadata), machine.finalizers)
    }
    fn remove(machine: &MachineObject) -> Option<Value> {
        let mut patch = release::remove_finalizer(target(&machine.metadata).uid, machine.finalizers)?;
        // A machine can outlive its pool.
        if let Value::Array(operations) = &mut patch {
            operations.extend(release::without_mark(&machine.metadata));
        }
        Some(patch)
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
        coexistence::configuration(installations)
    }
    fn is_set_to_run(installations: &[InstallationObject]) -> bool {
        coexistence::is_set_to_run(installations)
    }
}

impl Storage<MachineObject> for KubeVirt {
    const PRESERVED_LABEL: Option<&'static str> = Some(keys::PRESERVED_POOL);

    type Volume = DataVolumeObject;
    type Claim = ClaimObject;

    fn volumes(machine: &MachineObject) -> Vec<Arc<str>> {
        read::data_volumes(machine)
    }
    fn claims(machine: &MachineObject) -> Vec<Arc<str>> {
        read::claims(machine)
    }
    fn new_volumes(spec: &Value, machine: &str) -> Vec<String> {
        // A machine without an ordinal is never updated.
        keys::ordinal(machine).map_or_else(Vec::new, |ordinal| storage::data_volumes(of(spec), ordinal))
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
        storage::conflict(&K::kind(&()), object, machine, pool, volume_use)
    }
    fn preserve<K: ApiObject>(object: &K, machine: &ObjectId, pool: &ObjectId) -> Option<Value> {
        release::preserve(object.meta(), machine, pool)
    }
    fn problem(volume: &DataVolumeObject) -> Option<String> {
        volume.problem.clone()
    }
    fn moves(template: &Value, machine: &MachineObject) -> Option<String> {
        let ordinal = keys::ordinal(machine.metadata.name.as_deref()?)?;
        moved_storage::find_moves(of(template), ordinal, machine)
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

fn target(metadata: &ObjectMeta) -> Target<'_> {
    Target {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        resource_version: metadata.resource_version.as_deref().unwrap_or_default(),
    }
}

/// The template in the spec of a pool, or in a revision.
fn of(spec: &Value) -> Template<'_> {
    Template { content: &spec[TEMPLATE], names: settings(spec).names, pins: &spec[pins::FIELD] }
}

#[cfg(test)]
mod tests;

//! A second platform, similar to KubeVirt: machines are numbered from 0, report their readiness in a condition, and
//! contain the templates of their disks, so disks are not separate objects.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vmpool_engine::condition::{Condition, OWN};
use vmpool_engine::model::{
    Activity, DiskAnnotations, DiskDraft, Draft, Naming, ObjectId, Published, Rollout, ScaleDownPolicy, Uid,
};
use vmpool_engine::names::NameBlock;
use vmpool_engine::removal::RemovalRecord;
use vmpool_engine::revision::RevisionId;
use vmpool_engine::status::Summary;
use vmpool_engine::{Disk, Machine, Pool, Status};
use vmpool_platforms::merge::Schema;
use vmpool_platforms::{Attachment, Platform, controller_of, slim_metadata};

const API_VERSION: &str = "toy.vmpool.dev/v1";
const POOL_UID: &str = "toy.vmpool.dev/pool-uid";
const POOL: &str = "toy.vmpool.dev/pool";
const TARGETS: &str = "toy.vmpool.dev/scale-in-targets";
const REVISION: &str = "toy.vmpool.dev/pool-revision";
const WRITTEN: &str = "toy.vmpool.dev/written-revision";

/// The second platform.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toy;

/// The fields of a pool that are read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ToyPool {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: PoolSpec,
    #[serde(default)]
    status: PoolStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoolSpec {
    replicas: Option<usize>,
    #[serde(default)]
    scale_in_strategy: ScaleIn,
    #[serde(default)]
    template: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ScaleIn {
    unmanaged: Option<Value>,
    proactive: Proactive,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Proactive {
    sort_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PoolStatus {
    replicas: Option<usize>,
    ready_replicas: Option<usize>,
    label_selector: Option<String>,
    revision: Option<PoolRevision>,
    conditions: Vec<PoolCondition>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoolRevision {
    name: String,
    generation: i64,
    current: usize,
    awaiting_restart: usize,
}

/// A condition of this platform: only type and status are required, and it has no observed generation.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoolCondition {
    r#type: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    last_transition_time: Option<Timestamp>,
}

/// The fields of a machine that are read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ToyMachine {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: MachineStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MachineStatus {
    conditions: Vec<MachineCondition>,
}

#[derive(Clone, Debug, Deserialize)]
struct MachineCondition {
    r#type: String,
    status: String,
}

vmpool_platforms::api_object!(ToyPool, "toy.vmpool.dev", "v1", "ToyPool", "toypools");
vmpool_platforms::api_object!(ToyMachine, "toy.vmpool.dev", "v1", "ToyMachine", "toymachines");

impl Platform for Toy {
    const NAME: &'static str = "toy";
    const HAS_DISKS: bool = false;
    const HAS_ATTACHMENTS: bool = false;
    const REVISION_LABEL: &'static str = REVISION;

    type Pool = ToyPool;
    type Machine = ToyMachine;
    /// Not used.
    type Disk = ToyMachine;
    /// Not used.
    type Attachment = ToyMachine;

    fn read_pool(pool: &ToyPool) -> Pool {
        let mut validation_errors = Vec::new();
        let strategy = &pool.spec.scale_in_strategy;
        let policy = match strategy.proactive.sort_policy.as_deref() {
            _ if strategy.unmanaged.is_some() => ScaleDownPolicy::Explicit,
            None | Some("DescendingOrder") => ScaleDownPolicy::HighestOrdinalFirst,
            Some("AscendingOrder") => ScaleDownPolicy::LowestOrdinalFirst,
            Some("Newest") => ScaleDownPolicy::NewestFirst,
            Some("Oldest") => ScaleDownPolicy::OldestFirst,
            Some(other) => {
                validation_errors.push(format!("sortPolicy {other:?} is unknown, so nothing is removed"));
                ScaleDownPolicy::Explicit
            }
        };
        let id = id(&pool.metadata);
        let record = pool.annotations().get(TARGETS).map(String::as_str).unwrap_or_default();
        let record = RemovalRecord::parse(record).unwrap_or_else(|error| {
            validation_errors.push(error.to_string());
            RemovalRecord::default()
        });
        Pool {
            namespace: pool.namespace().unwrap_or_default().into(),
            generation: pool.metadata.generation.unwrap_or_default(),
            deleting: pool.metadata.deletion_timestamp.is_some(),
            // The default of KubeVirt, which differs from DVP.
            desired: pool.spec.replicas.unwrap_or(1),
            scale_down_policy: policy,
            naming: Naming::Ordinal,
            revision: RevisionId::of(&pool.spec.template),
            revision_stored: true,
            rollout: Rollout::default(),
            disks: Vec::new(),
            name_block: None,
            record,
            published: published(&pool.status, &id),
            validation_errors,
            invalid_settings: Vec::new(),
            id,
        }
    }

    fn read_machine(machine: &ToyMachine) -> Machine {
        let metadata = &machine.metadata;
        let label = |key: &str| metadata.labels.as_ref()?.get(key).map(String::as_str);
        let holds = |kind: &str| {
            machine
                .status
                .conditions
                .iter()
                .any(|condition| condition.r#type == kind && condition.status == "True")
        };
        Machine {
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            terminating: metadata.deletion_timestamp.is_some(),
            owner: controller_of(metadata).map(|owner| owner.uid),
            pool_uid_label: label(POOL_UID).map(Uid::from),
            pool_label: label(POOL).map(Into::into),
            revision: label(REVISION).map(RevisionId::from),
            written: machine.annotations().get(WRITTEN).map(|written| written.as_str().into()),
            evaluated: true,
            activity: if holds("Ready") { Activity::Running } else { Activity::NotRunning },
            restart_pending: holds("RestartRequired"),
            devices_ready: true,
            problem: None,
            ..Machine::blank(id(metadata))
        }
    }

    fn read_attachment(attachment: &ToyMachine) -> Attachment {
        Attachment { id: id(&attachment.metadata), disk: None }
    }

    fn read_disk(disk: &ToyMachine) -> Disk {
        let machine = Self::read_machine(disk);
        Disk {
            terminating: machine.terminating,
            owner: controller_of(&disk.metadata),
            pool_uid_label: machine.pool_uid_label,
            ..Disk::blank(machine.id)
        }
    }

    fn template(pool: &ToyPool) -> Value {
        pool.spec.template.clone()
    }

    fn canonical(template: &Value) -> Value {
        template.clone()
    }

    fn disk_templates(_: &Value) -> Vec<String> {
        Vec::new()
    }

    fn machine(pool: &ToyPool, template: &Value, draft: &Draft) -> Value {
        let mut labels =
            template.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
        labels.extend(managed(pool));
        labels.insert(REVISION.to_owned(), json!(draft.revision.as_str()));
        let mut annotations =
            template.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default();
        annotations.insert(WRITTEN.to_owned(), json!(draft.revision.as_str()));
        json!({
            "apiVersion": API_VERSION,
            "kind": "ToyMachine",
            "metadata": {
                "name": &*draft.name,
                "namespace": pool.namespace(),
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": API_VERSION,
                    "kind": "ToyPool",
                    "name": pool.name_any(),
                    "uid": pool.uid(),
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": numbered(template.get("spec").cloned().unwrap_or_default(), draft.number),
        })
    }

    fn update(
        live: &Value,
        from: Option<&Value>,
        (revision, to): (&RevisionId, &Value),
        _: &[DiskDraft],
    ) -> Option<Value> {
        let name = live["metadata"]["name"].as_str().unwrap_or_default();
        let number = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default();
        let shape = |template: &Value| {
            json!({
                "metadata": { "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"] },
                "spec": numbered(template["spec"].clone(), number),
            })
        };
        let mut wanted = shape(to);
        wanted["metadata"]["annotations"][WRITTEN] = json!(revision.as_str());
        Schema::default().patch(live, from.map(shape).as_ref(), &wanted)
    }

    fn adopt(live: &Value, (revision, _): (&RevisionId, &Value), _: &[DiskDraft]) -> Option<Value> {
        let wanted = json!({ "metadata": { "annotations": { WRITTEN: revision.as_str() } } });
        Schema::default().patch(live, None, &wanted)
    }

    fn record_revision(revision: &RevisionId) -> Value {
        json!({ "metadata": { "labels": { REVISION: revision.as_str() } } })
    }

    fn disk_annotations(_: &DiskAnnotations) -> Value {
        // There are no disk objects.
        json!({})
    }

    fn expand_disk(_: u64) -> Value {
        json!({})
    }

    fn transfer_disk(_: &ToyMachine, _: &ObjectId) -> Value {
        json!({})
    }

    fn disk(_: &ToyPool, _: &ObjectId, _: &DiskDraft) -> Option<Value> {
        None
    }

    fn managed_labels(pool: &ToyPool) -> Value {
        json!({ "metadata": { "labels": managed(pool) } })
    }

    fn remove_markers() -> Value {
        json!({ "metadata": {
            "labels": { POOL_UID: null, POOL: null, REVISION: null },
            "annotations": { WRITTEN: null },
        } })
    }

    fn detach(machine: &ToyMachine, _: usize, _: &str) -> Value {
        json!([{ "op": "test", "path": "/metadata/uid", "value": machine.uid() }])
    }

    fn repoint(machine: &ToyMachine, _: usize, _: &str, _: &DiskDraft) -> Value {
        // The machine has no disk objects to replace. The patch without effect still checks the UID.
        json!([{ "op": "test", "path": "/metadata/uid", "value": machine.uid() }])
    }

    fn name_block(_: NameBlock) -> Value {
        // Ordinals are derived from the existing names.
        json!({})
    }

    fn removal_record(record: &RemovalRecord) -> Value {
        let text = (!record.is_empty()).then(|| record.to_string());
        json!({ "metadata": { "annotations": { TARGETS: text } } })
    }

    fn status(pool: &ToyPool, status: &Status) -> Value {
        let summary = &status.summary;
        let conditions: Vec<Value> = status
            .conditions
            .iter()
            .map(|condition| {
                json!({
                    "type": condition.kind,
                    "status": condition.status,
                    "reason": condition.reason,
                    "message": condition.message,
                    "lastProbeTime": null,
                    "lastTransitionTime": condition.last_transition.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                })
            })
            .collect();
        json!({
            "replicas": summary.replicas,
            "readyReplicas": summary.ready,
            "labelSelector": selector(&pool.uid().unwrap_or_default()),
            "revision": {
                "name": summary.revision.as_str(),
                "generation": summary.observed_generation,
                "current": summary.updated,
                "awaitingRestart": summary.restart_pending,
            },
            "conditions": conditions,
        })
    }
}

/// Adds the machine's number to the names of disk templates, and to the volumes that refer to them.
fn numbered(mut spec: Value, number: u64) -> Value {
    let mut templates = Vec::new();
    for template in
        spec.pointer_mut("/dataVolumeTemplates").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let name = &mut template["metadata"]["name"];
        templates.push(name.clone());
        *name = json!(format!("{}-{number}", name.as_str().unwrap_or_default()));
    }
    for volume in spec.pointer_mut("/volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(name) = volume.pointer_mut("/dataVolume/name")
            && templates.contains(name)
        {
            *name = json!(format!("{}-{number}", name.as_str().unwrap_or_default()));
        }
    }
    spec
}

fn published(status: &PoolStatus, pool: &ObjectId) -> Published {
    let complete = status.label_selector.as_deref() == Some(&*selector(pool.uid.as_str()));
    let summary = || {
        let revision = status.revision.as_ref()?;
        Some(Summary {
            observed_generation: revision.generation,
            replicas: status.replicas?,
            ready: status.ready_replicas?,
            updated: revision.current,
            restart_pending: revision.awaiting_restart,
            revision: RevisionId::from(revision.name.as_str()),
        })
    };
    let generation = status.revision.as_ref().map(|revision| revision.generation);
    let conditions = status
        .conditions
        .iter()
        .map(|condition| Condition {
            kind: condition.r#type.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition: condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH),
            // The observed generation of the whole status applies to the conditions that the controller writes with it.
            observed_generation: generation.filter(|_| OWN.contains(&condition.r#type.as_str())),
        })
        .collect();
    let named =
        status.revision.as_ref().map(|known| (RevisionId::from(known.name.as_str()), known.generation));
    Published { conditions, summary: if complete { summary() } else { None }, desired_revision: named }
}

fn managed(pool: &ToyPool) -> Map<String, Value> {
    Map::from_iter([
        (POOL_UID.to_owned(), json!(pool.uid().unwrap_or_default())),
        (POOL.to_owned(), json!(pool.name_any())),
    ])
}

fn selector(pool_uid: &str) -> String {
    format!("{POOL_UID}={pool_uid}")
}

fn id(metadata: &ObjectMeta) -> ObjectId {
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

//! From DVP's objects to the engine's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_api::{annotations, labels};
use vmpool_engine::condition::Condition;
use vmpool_engine::model::{
    Activity, DiskRef, DiskTemplate, Lifetime, Naming, ObjectId, Published, Removal, Uid,
};
use vmpool_engine::revision::RevisionId;
use vmpool_engine::status::Summary;
use vmpool_engine::{Disk, Pool, Replica};

use super::objects::{DiskObject, MachineObject, MachineTemplate, PoolObject, PoolStatus};
use super::selector;
use crate::platform::controller_of;

/// The schema's defaults of the machine spec: a template that spells one out is the same as one that does not,
/// whether or not the cluster's CRD fills it in.
const DEFAULTS: [(&str, &str); 9] = [
    ("/liveMigrationPolicy", r#""PreferSafe""#),
    ("/runPolicy", r#""AlwaysOnUnlessStoppedManually""#),
    ("/osType", r#""Generic""#),
    ("/bootloader", r#""BIOS""#),
    ("/enableParavirtualization", "true"),
    ("/terminationGracePeriodSeconds", "60"),
    ("/disruptions/restartApprovalMode", r#""Manual""#),
    ("/provisioning/userDataRef/kind", r#""Secret""#),
    ("/provisioning/sysprepRef/kind", r#""Secret""#),
];

pub(super) fn pool(object: &PoolObject) -> Pool {
    let mut flaws = Vec::new();
    let id = id(&object.metadata);
    let spec = &object.spec;
    let removal = match spec.scale_down_policy.as_str() {
        "NewestFirst" => Removal::NewestFirst,
        "OldestFirst" => Removal::OldestFirst,
        "Explicit" => Removal::Explicit,
        other => {
            flaws.push(format!("scaleDownPolicy {other:?} is unknown, so nothing is removed"));
            Removal::Explicit
        }
    };
    // Without a count that can be read, the count that exists is the one that harms nobody.
    let desired = usize::try_from(spec.replicas.unwrap_or(0)).unwrap_or_else(|_| {
        flaws.push(format!("replicas {} is not a count", spec.replicas.unwrap_or(0)));
        0
    });
    let block = annotation(&object.metadata, annotations::NAMES).and_then(|text| {
        text.parse().inspect_err(|error| tracing::warn!(%error, "ignoring the block of names")).ok()
    });
    let disks = spec
        .virtual_disk_templates
        .iter()
        .map(|template| {
            let policy = template.reclaim.as_ref().and_then(|reclaim| reclaim.on_scale_down.as_deref());
            let lifetime = match policy {
                None | Some("Delete") => Lifetime::Machine,
                // A policy that we do not know must not cost anybody a disk.
                Some(_) => Lifetime::Pool,
            };
            DiskTemplate { name: template.name.as_str().into(), lifetime }
        })
        .collect();
    Pool {
        namespace: object.metadata.namespace.as_deref().unwrap_or_default().into(),
        generation: object.metadata.generation.unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        desired,
        removal: if flaws.is_empty() { removal } else { Removal::Explicit },
        naming: Naming::Scattered,
        revision: revision(&spec.virtual_machine_template),
        disks,
        block,
        published: published(&object.status, &id),
        flaws,
        id,
    }
}

fn revision(template: &MachineTemplate) -> RevisionId {
    let mut spec = template.spec.clone();
    for (path, default) in DEFAULTS {
        let default: Value = serde_json::from_str(default).expect("the table holds JSON");
        if let Some(value) = spec.pointer_mut(path)
            && *value == default
        {
            value.take();
        }
    }
    RevisionId::of(&serde_json::json!({ "metadata": template.metadata, "spec": spec }))
}

fn published(status: &PoolStatus, pool: &ObjectId) -> Published {
    let complete = status.selector.as_deref() == Some(selector(pool.uid.as_str()).as_str());
    let summary = || {
        Some(Summary {
            observed_generation: status.observed_generation?,
            replicas: status.replicas?,
            ready: status.ready_replicas?,
            updated: status.updated_replicas?,
            restart_pending: status.restart_pending_replicas?,
            revision: RevisionId::from(status.desired_template_hash.as_deref()?),
        })
    };
    let conditions = status
        .conditions
        .iter()
        .map(|condition| Condition {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition: condition.last_transition_time.0,
            observed_generation: condition.observed_generation,
        })
        .collect();
    Published { conditions, summary: if complete { summary() } else { None } }
}

pub(super) fn machine(object: &MachineObject) -> Replica {
    let metadata = &object.metadata;
    let filled = disk_map(metadata);
    let disks = object
        .spec
        .block_device_refs
        .iter()
        .enumerate()
        .filter(|(_, device)| device.kind == "VirtualDisk")
        .map(|(position, device)| DiskRef {
            template: filled
                .iter()
                .find(|(_, disk)| **disk == device.name)
                .map(|(template, _)| template.as_str().into()),
            disk: device.name.as_str().into(),
            position,
        })
        .collect();
    let restart_pending = object.status.conditions.iter().any(|condition| {
        condition.kind == "AwaitingRestartToApplyConfiguration" && condition.status == "True"
    });
    Replica {
        id: id(metadata),
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: controller_of(metadata).map(|owner| owner.uid),
        pool_uid_label: label(metadata, labels::POOL_UID).map(Uid::from),
        pool_label: label(metadata, labels::POOL).map(Arc::from),
        revision: label(metadata, labels::TEMPLATE_HASH).map(RevisionId::from),
        activity: match object.status.phase.as_str() {
            // The guest keeps running while it moves.
            "Running" | "Migrating" => Activity::Running,
            _ => Activity::NotRunning,
        },
        restart_pending,
        disks,
    }
}

/// Which disk fills which template, as the machine's own annotation says. One that cannot be read says nothing: then
/// the machine's disks are left as they are.
fn disk_map(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    annotation(metadata, annotations::DISKS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

pub(super) fn disk(object: &DiskObject) -> Disk {
    let metadata = &object.metadata;
    Disk {
        id: id(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: controller_of(metadata),
        pool_uid_label: label(metadata, labels::POOL_UID).map(Uid::from),
    }
}

fn id(metadata: &ObjectMeta) -> ObjectId {
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

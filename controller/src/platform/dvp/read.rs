//! From DVP's objects to the engine's words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_api::{annotations, labels};
use vmpool_engine::condition::Condition;
use vmpool_engine::model::{
    Activity, DiskRef, DiskTemplate, Lifetime, Naming, ObjectId, Published, Removal, Uid,
};
use vmpool_engine::removal::Record;
use vmpool_engine::revision::RevisionId;
use vmpool_engine::status::Summary;
use vmpool_engine::{Disk, Pool, Replica};

use super::objects::{DiskObject, MachineObject, MachineTemplate, PoolObject, PoolSpec, PoolStatus};
use super::selector;
use crate::events::shorten;
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
    let removal = match spec.scale_down_policy.as_deref() {
        Some("NewestFirst") => Removal::NewestFirst,
        Some("OldestFirst") => Removal::OldestFirst,
        Some("Explicit") => Removal::Explicit,
        Some(other) => {
            flaws.push(format!("scaleDownPolicy {other:?} is unknown, so nothing is removed"));
            Removal::Explicit
        }
        None => {
            flaws.push("scaleDownPolicy is missing, so nothing is removed".to_owned());
            Removal::Explicit
        }
    };
    // A count that cannot be read is a flaw, so the zero in its place removes nobody.
    let desired = match &spec.replicas {
        Value::Null => 0,
        count => count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_else(|| {
            flaws.push(format!("replicas {count} is not a count"));
            0
        }),
    };
    // Who was named cannot be told then, nor whom the count was lowered for: nobody may come or go for it.
    let record = annotation(&object.metadata, annotations::SCALE_DOWN_TARGETS).unwrap_or_default();
    let record = Record::parse(record).unwrap_or_else(|error| {
        flaws.push(format!(
            "annotation {}: {error}, so nobody is created or removed until it is put right",
            annotations::SCALE_DOWN_TARGETS
        ));
        Record::default()
    });
    flaws.extend(template_flaws(spec));
    // They become a message of the status, and quote what may be of any length.
    let flaws: Vec<String> = flaws.into_iter().map(shorten).collect();
    let block = annotation(&object.metadata, annotations::NAMES).and_then(|text| {
        text.parse().inspect_err(|error| tracing::warn!(%error, "ignoring the block of names")).ok()
    });
    let disks = spec
        .virtual_disk_templates
        .iter()
        .map(|template| {
            let policy = match &template.reclaim {
                Value::Object(reclaim) => reclaim.get("onScaleDown").unwrap_or(&Value::Null),
                other => other,
            };
            // A policy that we do not know must not cost anybody a disk.
            let lifetime =
                if policy.is_null() || policy == "Delete" { Lifetime::Machine } else { Lifetime::Pool };
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
        record,
        published: published(&object.status, &id),
        flaws,
        id,
    }
}

/// What no machine can be made of. A schema with the rules of ours lets none of it through.
fn template_flaws(spec: &PoolSpec) -> Vec<String> {
    let template = &spec.virtual_machine_template.spec;
    if !template.is_object() {
        return vec!["virtualMachineTemplate.spec is missing".to_owned()];
    }
    let mut flaws = Vec::new();
    if template["osType"] == "Legacy" {
        flaws.push("osType Legacy cannot be provisioned, so its machines would all be the same".to_owned());
    }
    let mut unused: BTreeSet<&str> = BTreeSet::new();
    for disk in &spec.virtual_disk_templates {
        if disk.name.is_empty() {
            flaws.push("a disk template has no name".to_owned());
        } else if !unused.insert(&disk.name) {
            flaws.push(format!("two disk templates are called {}", disk.name));
        }
    }
    let known = unused.clone();
    let devices = template["blockDeviceRefs"].as_array().into_iter().flatten();
    for device in devices.filter(|device| device["kind"] == "VirtualDisk") {
        let name = device["name"].as_str().unwrap_or_default();
        if !known.contains(name) {
            flaws.push(format!("VirtualDisk {name:?} of the machine template is no disk template"));
        } else if !unused.remove(name) {
            flaws.push(format!("the machine template names disk template {name} twice"));
        }
    }
    flaws.extend(unused.iter().map(|name| format!("the machine template does not use disk template {name}")));
    flaws
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
        // Nobody can have meant one without a type.
        .filter(|condition| !condition.kind.is_empty())
        .map(|condition| Condition {
            kind: condition.kind.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition: condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH),
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
        .filter(|(_, device)| device.kind == "VirtualDisk" && !device.name.is_empty())
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

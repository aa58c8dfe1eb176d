//! Pools.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use vmpool_api::{GoDuration, Quantity, annotations};
use vmpool_engine::condition::StatusCondition;
use vmpool_engine::draining;
use vmpool_engine::healing::setting::read_healing;
use vmpool_engine::image_refresh::read_image_refresh;
use vmpool_engine::limits;
use vmpool_engine::model::{ObjectId, PoolDiskTemplate, PublishedStatus, ScaleDownPolicy};
use vmpool_engine::progress::read_progress_deadline;
use vmpool_engine::protection;
use vmpool_engine::recycling::read_recycle;
use vmpool_engine::revisions::{Fingerprint, RevisionId};
use vmpool_engine::scale_down::removal::RemovalRecord;
use vmpool_engine::scale_up::class_slots::list_distinct_classes;
use vmpool_engine::scale_up::provisioning_limit::read_max_provisioning;
use vmpool_engine::standby::{StandbyCounts, StandbySettings, describe_standby_obstacle, read_standby};
use vmpool_engine::status::StatusSummary;
use vmpool_engine::{ParsedPool, Pool, PoolSpec};
use vmpool_platform::activity;
use vmpool_platform::copied_pool::hold_error;

use super::super::names::machine_label_selector;
use super::super::objects::{self, DvpPoolObject, DvpPoolSpec, DvpPoolStatus};
use super::super::standby;
use super::{annotation_value, rollout};

/// The policy. Without one that can be read, a scale-down deletes no machine.
fn read_policy(value: Option<&str>, invalid_settings: &mut Vec<String>) -> ScaleDownPolicy {
    let problem = match value {
        Some(value) => match ScaleDownPolicy::parse(value) {
            Some(policy) => return policy,
            None => format!("{:?} is unknown", limits::clip_name(value)),
        },
        None => "is missing".to_owned(),
    };
    invalid_settings.push(format!("scaleDownPolicy {problem}, so a scale-down deletes no machine"));
    ScaleDownPolicy::Explicit
}

pub(crate) fn read_pool(object: &DvpPoolObject) -> ParsedPool {
    let (mut validation_errors, mut invalid_settings) = (Vec::new(), Vec::new());
    let id = super::object_id(&object.metadata);
    let spec = &object.spec();
    let policy = read_policy(spec.scale_down_policy.as_deref(), &mut invalid_settings);
    // An unreadable count is a validation error, so the zero that replaces it deletes no machine.
    let desired = match &spec.replicas {
        Value::Null => 0,
        count => count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_else(|| {
            validation_errors.push(format!("replicas {count} is not a count"));
            0
        }),
    };
    // The targets are unknown, and so is the number by which `replicas` was lowered. The controller must not
    // create or delete machines.
    let record = annotation_value(&object.metadata, annotations::SCALE_DOWN_TARGETS).unwrap_or_default();
    let record = RemovalRecord::parse(record).unwrap_or_else(|error| {
        validation_errors.push(format!(
            "annotation {}: {error}, so no machine is created or removed until it is corrected",
            annotations::SCALE_DOWN_TARGETS
        ));
        RemovalRecord::default()
    });
    validation_errors.extend(hold_error(&object.metadata, annotations::MACHINES_OF, &id));
    match object.spec_error() {
        // This error comes first, because the user can correct it.
        Some(error) => validation_errors.insert(0, error),
        None => validation_errors.extend(template_errors(spec)),
    }
    let (rollout, revision) = rollout::read_rollout(object, spec, &mut invalid_settings);
    let disks = spec
        .virtual_disk_templates
        .iter()
        .map(|template| disk_template(template, &mut invalid_settings))
        .collect();
    let max_protection = protection::read_max_protection(
        &spec.max_protection,
        object.metadata.annotations.as_ref(),
        &mut invalid_settings,
    );
    let progress_deadline = read_progress_deadline(
        &spec.progress_deadline_seconds,
        object.metadata.annotations.as_ref(),
        &mut invalid_settings,
    );
    let max_provisioning = read_max_provisioning(
        &spec.max_provisioning,
        object.metadata.annotations.as_ref(),
        &mut invalid_settings,
    );
    let healing = read_healing(&spec.healing, object.metadata.annotations.as_ref(), &mut invalid_settings);
    let standby_settings = read_standby_setting(object, spec, &mut invalid_settings);
    let drain_timeout =
        draining::read_drain(&spec.drain, object.metadata.annotations.as_ref(), &mut invalid_settings);
    let image_refresh =
        read_image_refresh(&spec.image_refresh, object.metadata.annotations.as_ref(), &mut invalid_settings);
    let recycle = read_recycle(&spec.recycle, object.metadata.annotations.as_ref(), &mut invalid_settings);
    validation_errors.truncate(limits::VALIDATION_ERRORS);
    invalid_settings.truncate(limits::VALIDATION_ERRORS);
    // They become a message of the status and can quote long values.
    let validation_errors: Vec<String> = validation_errors.into_iter().map(limits::shorten_message).collect();
    let invalid_settings: Vec<String> = invalid_settings.into_iter().map(limits::shorten_message).collect();
    let name_block = annotation_value(&object.metadata, annotations::NAMES).and_then(|text| {
        text.parse().inspect_err(|error| tracing::warn!(%error, "ignoring the name block")).ok()
    });
    let spec = PoolSpec {
        generation: object.metadata.generation.unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        desired,
        scale_down_policy: if validation_errors.is_empty() { policy } else { ScaleDownPolicy::Explicit },
        max_protection,
        progress_deadline,
        max_provisioning,
        healing,
        standby: standby_settings,
        storage_classes: read_storage_classes(spec),
        drain_timeout,
        image_refresh,
        recycle,
        rollout,
        disks,
        name_block,
        record,
        writers: object.writers.clone(),
        published: published_status(&object.status, &id),
        validation_errors,
        invalid_settings,
        ..PoolSpec::new(id, object.metadata.namespace.as_deref().unwrap_or_default())
    };
    Pool { spec, revision }
}

/// The standby machines. A template that does not start by itself can have none.
fn read_standby_setting(
    object: &DvpPoolObject,
    spec: &DvpPoolSpec,
    invalid_settings: &mut Vec<String>,
) -> Option<StandbySettings> {
    let read = read_standby(&spec.standby, object.metadata.annotations.as_ref(), invalid_settings)?;
    let obstacle = standby::find_start_obstacle(&spec.virtual_machine_template.spec);
    match obstacle.filter(|_| read.replicas > 0) {
        Some(obstacle) => {
            invalid_settings.push(describe_standby_obstacle(obstacle));
            None
        }
        None => Some(read),
    }
}

/// For an unreadable setting, disks are kept: without ttl, or with all free disks kept.
fn disk_template(
    template: &objects::DvpDiskTemplate,
    invalid_settings: &mut Vec<String>,
) -> PoolDiskTemplate {
    let keep = match &template.reclaim["keep"] {
        Value::Null => 0,
        count => count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_else(|| {
            let name = &template.name;
            invalid_settings.push(format!(
                "reclaim.keep {count} of disk template {name} is not a count, so all are kept"
            ));
            usize::MAX
        }),
    };
    let ttl = match &template.reclaim["ttl"] {
        Value::Null => None,
        text => {
            let ttl = text.as_str().and_then(|text| GoDuration::parse_positive(text).ok()?.to_std());
            if ttl.is_none() {
                let name = &template.name;
                let what = format!("reclaim.ttl {text} of disk template {name} is not a duration");
                invalid_settings.push(format!("{what}, so none of its free disks is deleted"));
            }
            ttl
        }
    };
    let size = template.spec.pointer("/persistentVolumeClaim/size").and_then(|size| {
        let size: Quantity = serde_json::from_value(size.clone()).ok()?;
        size.bytes().ok()
    });
    let source = Some(Fingerprint::of(&template.spec["dataSource"]));
    PoolDiskTemplate {
        keep_free: keep,
        ttl,
        size,
        source,
        ..PoolDiskTemplate::new(&template.name, template.lifetime())
    }
}

/// The storage classes that the disk templates name.
fn read_storage_classes(spec: &DvpPoolSpec) -> Arc<[Arc<str>]> {
    let class = |template: &objects::DvpDiskTemplate| {
        let name = template.spec.pointer("/persistentVolumeClaim/storageClassName");
        limits::clip_name(name.and_then(Value::as_str).unwrap_or_default()).to_owned()
    };
    list_distinct_classes(spec.virtual_disk_templates.iter().map(class))
}

/// Errors of the templates that prevent the creation of machines. The schema of vmpool rejects all of them.
fn template_errors(spec: &DvpPoolSpec) -> Vec<String> {
    let template = &spec.virtual_machine_template.spec;
    if !template.is_object() {
        return vec!["virtualMachineTemplate.spec is missing".to_owned()];
    }
    let mut validation_errors = Vec::new();
    if template["osType"] == "Legacy" {
        validation_errors
            .push("osType Legacy cannot be provisioned, so its machines would all be the same".to_owned());
    }
    let mut unused: BTreeSet<&str> = BTreeSet::new();
    for disk in &spec.virtual_disk_templates {
        if disk.name.is_empty() {
            validation_errors.push("a disk template has no name".to_owned());
        } else if !unused.insert(&disk.name) {
            validation_errors.push(format!("two disk templates are called {}", disk.name));
        }
    }
    let known = unused.clone();
    let devices = template["blockDeviceRefs"].as_array().into_iter().flatten();
    for device in devices.filter(|device| device["kind"] == "VirtualDisk") {
        let name = device["name"].as_str().unwrap_or_default();
        if !known.contains(name) {
            validation_errors
                .push(format!("VirtualDisk {name:?} of the machine template is no disk template"));
        } else if !unused.remove(name) {
            validation_errors.push(format!("the machine template names disk template {name} twice"));
        }
    }
    validation_errors
        .extend(unused.iter().map(|name| format!("the machine template does not use disk template {name}")));
    validation_errors
}

/// What a status object shows.
pub(crate) fn published_in(pool: &DvpPoolObject, status: &Value) -> PublishedStatus {
    let status = serde_json::from_value(status.clone()).unwrap_or_default();
    published_status(&status, &super::object_id(&pool.metadata))
}

fn published_status(status: &DvpPoolStatus, pool: &ObjectId) -> PublishedStatus {
    let complete = status.selector.as_deref() == Some(machine_label_selector(pool.uid.as_str()).as_str());
    let summary = || {
        Some(StatusSummary {
            observed_generation: status.observed_generation?,
            replicas: status.replicas?,
            ready: status.ready_replicas?,
            available: status.ready_replicas?,
            updated: status.updated_replicas?,
            restart_pending: status.restart_pending_replicas?,
            draining: status.draining_replicas.unwrap_or_default(),
            image_outdated: status.image_outdated_replicas.unwrap_or_default(),
            next_number: status.next_machine_number,
            healed: 0,
            revision: RevisionId::from(status.desired_template_hash.as_deref()?),
            used_copies: Arc::default(),
            standby: StandbyCounts {
                total: status.standby_replicas.unwrap_or_default(),
                ready: status.ready_standby_replicas.unwrap_or_default(),
            },
        })
    };
    let conditions = status
        .conditions
        .iter()
        // A condition without a type is ignored.
        .filter(|condition| !condition.kind.is_empty())
        .map(|condition| StatusCondition {
            kind: condition.kind.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition: condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH),
            observed_generation: condition.observed_generation,
        })
        .collect();
    let desired_revision =
        || Some((RevisionId::from(status.desired_template_hash.as_deref()?), status.observed_generation?));
    PublishedStatus {
        conditions,
        summary: if complete { summary() } else { None },
        desired_revision: desired_revision(),
        activity: activity::read_activity_entries(&status.activity),
    }
}

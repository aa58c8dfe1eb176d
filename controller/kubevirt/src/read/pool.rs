//! Pools.

use std::sync::Arc;

use serde_json::Value;
use vmpool_api::kubevirt::values::StatePreservation;
use vmpool_engine::image_refresh::IMAGE_REFRESH_FIELD;
use vmpool_engine::limits;
use vmpool_engine::model::{DisruptionBudget, ObjectId, StorageTemplate};
use vmpool_engine::progress::PROGRESS_DEADLINE_FIELD;
use vmpool_engine::recycling::RECYCLE_FIELD;
use vmpool_engine::scale_up::class_slots::list_distinct_classes;
use vmpool_engine::scale_up::provisioning_limit::MAX_PROVISIONING_FIELD;
use vmpool_engine::standby::STANDBY_FIELD;
use vmpool_instancetype::pins::policy;

use super::super::keys::LABEL_VALUE;
use super::super::labels::CachedLabels;
use super::super::objects::{FinalizerSummary, KubeVirtPoolObject};
use super::super::selectors::LabelSelector;
use super::super::{history_limit, standby};
use super::strategy::{
    self, AutohealingSettings, Messages, NameGenerationSettings, ScaleIn, ScaleInMode, UpdateMode,
};

/// The facts of one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolFacts {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.generation`, which counts changes of the spec.
    pub generation: i64,
    /// Whether the API server has accepted its deletion.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: FinalizerSummary,
    /// The settings in its spec.
    pub settings: PoolSettings,
    /// Messages about fields that cannot be read and that the controller needs to create machines. If there
    /// are any, the settings let the controller delete and update no machine.
    pub validation_errors: Vec<String>,
    /// Messages about settings that cannot be read. The controller uses the safe value of each.
    pub invalid_settings: Vec<String>,
}

/// The settings in the spec of a pool, with the defaults of absent fields.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSettings {
    /// Desired number of machines.
    pub replicas: usize,
    /// Whether the controller leaves the machines as they are.
    pub paused: bool,
    /// How many machines may be unavailable at the same time because of restarts for a rollout.
    pub max_unavailable: DisruptionBudget,
    /// `spec.maxProtection`, raw: it is read together with the annotation.
    pub max_protection: Value,
    /// `spec.progressDeadlineSeconds`, raw: it is read together with the annotation.
    pub progress_deadline: Value,
    /// `spec.maxProvisioning`, raw: it is read together with the annotation.
    pub max_provisioning: Value,
    /// `spec.healing`, raw: it is read together with the annotation.
    pub healing: Value,
    /// `spec.standby`, raw: it is read together with the annotation.
    pub standby: Value,
    /// Why the template can have no standby machines.
    pub start_obstacle: Option<&'static str>,
    /// `spec.drain`, raw: it is read together with the annotation.
    pub drain: Value,
    /// `spec.imageRefresh`, raw: it is read together with the annotation.
    pub image_refresh: Value,
    /// `spec.recycle`, raw: it is read together with the annotation.
    pub recycle: Value,
    /// `spec.revisionHistoryLimit`, raw: it is read together with the annotation.
    pub history_limit: Value,
    /// How surplus machines are removed.
    pub scale_in: ScaleIn,
    /// How a changed template is applied to existing machines.
    pub update: UpdateMode,
    /// Which names in the template get the ordinal.
    pub names: NameGenerationSettings,
    /// The DataVolume templates.
    pub data_volume_templates: Vec<StorageTemplate>,
    /// The storage classes that they name.
    pub storage_classes: Arc<[Arc<str>]>,
    /// When machines that fail to start are replaced; `None` if they are not.
    pub autohealing: Option<AutohealingSettings>,
    /// Selects the machines of the pool. `None` if it cannot be read, or does not match the template; the
    /// pool then releases no machine because of its labels.
    pub selector: Option<LabelSelector>,
}

/// Translates a stored pool.
pub fn read_pool_facts(object: &KubeVirtPoolObject) -> PoolFacts {
    let metadata = &object.metadata;
    let id = super::read_object_id(metadata);
    let spec = object.spec();
    let mut validation_errors = Vec::new();
    let (mut settings, mut invalid_settings) = read_settings_with_errors(&spec, &mut validation_errors);
    if let Some(error) = object.spec_error() {
        // The fields that are missing are those that were not read.
        validation_errors = vec![error];
        // The strategy may ask to preserve the storage of machines that users delete.
        settings.scale_in.preservation = StatePreservation::Offline;
    } else {
        validation_errors.extend(spec_validation_errors(&id.name, &spec));
        if let Some(error) = selector_mismatch_error(&spec, settings.selector.as_ref()) {
            validation_errors.push(error);
            // Its machines have the labels of the template, so a mistake in the selector would release all of
            // them.
            settings.selector = None;
        }
    }
    if !validation_errors.is_empty() {
        settings.scale_in.mode = ScaleInMode::Unmanaged;
        settings.update = UpdateMode::Unmanaged;
    }
    validation_errors.truncate(limits::VALIDATION_ERRORS);
    invalid_settings.truncate(limits::VALIDATION_ERRORS);
    PoolFacts {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: object.finalizers,
        settings,
        validation_errors: validation_errors.into_iter().map(limits::shorten_message).collect(),
        invalid_settings,
        id,
    }
}

/// Reads the spec of a pool, or the data of a revision, which is the spec of its pool at that time.
pub fn read_pool_settings(spec: &Value) -> PoolSettings {
    read_settings_with_errors(spec, &mut Vec::new()).0
}

fn read_settings_with_errors(
    spec: &Value,
    validation_errors: &mut Vec<String>,
) -> (PoolSettings, Vec<String>) {
    let mut messages = Messages(Vec::new());
    let settings = PoolSettings {
        replicas: match &spec["replicas"] {
            Value::Null => 1,
            count => count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_else(|| {
                validation_errors.push(format!("replicas {count} is not a count"));
                0
            }),
        },
        paused: strategy::read_paused(&spec["paused"], &mut messages),
        max_unavailable: strategy::read_disruption_budget(&spec["maxUnavailable"], &mut messages),
        max_protection: spec["maxProtection"].clone(),
        progress_deadline: spec[PROGRESS_DEADLINE_FIELD].clone(),
        max_provisioning: spec[MAX_PROVISIONING_FIELD].clone(),
        healing: spec["healing"].clone(),
        standby: spec[STANDBY_FIELD].clone(),
        start_obstacle: standby::find_start_obstacle(&spec["virtualMachineTemplate"]),
        drain: spec["drain"].clone(),
        image_refresh: spec[IMAGE_REFRESH_FIELD].clone(),
        recycle: spec[RECYCLE_FIELD].clone(),
        history_limit: spec[history_limit::FIELD].clone(),
        scale_in: strategy::read_scale_in_strategy(&spec["scaleInStrategy"], &mut messages),
        update: strategy::read_update_strategy(&spec["updateStrategy"], &mut messages),
        names: strategy::read_name_generation(&spec["nameGeneration"], &mut messages),
        data_volume_templates: data_volume_templates(&spec["virtualMachineTemplate"]),
        storage_classes: read_storage_classes(&spec["virtualMachineTemplate"]),
        autohealing: strategy::read_autohealing(&spec["autohealing"], &mut messages),
        selector: LabelSelector::read(&spec["selector"])
            .map_err(|error| validation_errors.push(format!("selector: {error}")))
            .ok(),
    };
    messages.0.extend(policy::instancetype_policy_error(&spec[policy::FIELD], policy::FIELD));
    (settings, messages.0)
}

fn data_volume_templates(template: &Value) -> Vec<StorageTemplate> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let volumes = list(&template["spec"]["template"]["spec"]["volumes"]);
    let templates = list(&template["spec"]["dataVolumeTemplates"]);
    let name = |template: &Value| template["metadata"]["name"].as_str().map(Arc::from);
    let volume = |storage: &str| {
        let refers = |volume: &&Value| {
            let claim = &volume["persistentVolumeClaim"]["claimName"];
            [&volume["dataVolume"]["name"], claim].iter().any(|name| name.as_str() == Some(storage))
        };
        volumes.iter().find(refers)?["name"].as_str().map(Arc::from)
    };
    let template = |name: Arc<str>| StorageTemplate { volume: volume(&name), name };
    templates.iter().filter_map(name).map(template).collect()
}

/// The storage classes that the DataVolume templates name.
fn read_storage_classes(template: &Value) -> Arc<[Arc<str>]> {
    let templates = template["spec"]["dataVolumeTemplates"].as_array().into_iter().flatten();
    let class = |template: &Value| {
        let spec = &template["spec"];
        let names = ["storage", "pvc"].map(|kind| spec[kind]["storageClassName"].as_str());
        limits::clip_name(names.into_iter().flatten().next().unwrap_or_default()).to_owned()
    };
    list_distinct_classes(templates.map(class))
}

/// Errors of the spec that prevent the creation of machines. The admission rules and the schema reject all of
/// them.
fn spec_validation_errors(pool: &str, spec: &Value) -> Vec<String> {
    let mut flaws = Vec::new();
    if !spec["virtualMachineTemplate"]["spec"]["template"].is_object() {
        flaws.push("virtualMachineTemplate.spec.template is missing".to_owned());
    }
    if pool.len() + 2 > LABEL_VALUE {
        flaws.push(format!(
            "the name of the pool has {} bytes, and the names of its revisions, which add at least 2, have at most \
             {LABEL_VALUE}; create a pool with a shorter name",
            pool.len()
        ));
    }
    flaws
}

/// The error of a selector that does not match the labels of the template. The controller would create a
/// machine, release it at once, and create the next one, without end.
fn selector_mismatch_error(spec: &Value, selector: Option<&LabelSelector>) -> Option<String> {
    let labels = CachedLabels::from_json(&spec["virtualMachineTemplate"]["metadata"]["labels"]);
    let selector = selector.filter(|selector| labels.is_none_or(|labels| !selector.matches(&labels)))?;
    Some(format!(
        "selector {selector} does not match labels of virtualMachineTemplate.metadata, so the pool would release every \
         machine that it creates"
    ))
}

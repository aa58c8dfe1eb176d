//! Stored objects as the data model of the engine.

mod instance;
mod machine;

use std::collections::BTreeMap;

use vmpool_api::kubevirt::annotations;
use vmpool_api::kubevirt::values::{SortPolicy, StatePreservation};
use vmpool_engine::draining;
use vmpool_engine::healing::setting::read_healing;
use vmpool_engine::image_refresh::read_image_refresh;
use vmpool_engine::limits;
use vmpool_engine::model::{
    AutohealingPolicy, DisruptionBudget, Finalizer, MachineFilter, Membership, Naming, Preservation,
    RequestedRevision, Restarts, RolloutPolicy, ScaleDownPolicy, StatusContent,
};
use vmpool_engine::progress::read_progress_deadline;
use vmpool_engine::protection;
use vmpool_engine::recycling::read_recycle;
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::scale_up::provisioning_limit::read_max_provisioning;
use vmpool_engine::standby::{StandbySettings, describe_standby_obstacle, read_standby};
use vmpool_engine::{ParsedPool, Pool, PoolSpec};
use vmpool_instancetype::pins;
use vmpool_platform::copied_pool::hold_error;
use vmpool_platform::intern::intern_text;

use super::annotated_names::find_unknown_name;
use super::history_limit::read_history_limit;
use super::objects::KubeVirtPoolObject;
use super::read::{
    self, AutohealingSettings, MachineSelection, PoolFacts, PoolSettings, ScaleInMode, UpdateMode,
};
use super::selectors::MachineSelector;
use super::{moved_storage, publish};

pub(super) use instance::read_instance;
pub(super) use machine::read_machine;

/// A pool.
pub(super) fn read_pool(object: &KubeVirtPoolObject) -> ParsedPool {
    let PoolFacts {
        id,
        namespace,
        generation,
        deleting,
        finalizers,
        settings,
        validation_errors,
        invalid_settings,
    } = read::read_pool_facts(object);
    let (mut validation_errors, mut invalid_settings) = (validation_errors, invalid_settings);
    let annotations_of_pool = object.metadata.annotations.as_ref();
    let max_protection =
        protection::read_max_protection(&settings.max_protection, annotations_of_pool, &mut invalid_settings);
    let progress_deadline =
        read_progress_deadline(&settings.progress_deadline, annotations_of_pool, &mut invalid_settings);
    let max_provisioning =
        read_max_provisioning(&settings.max_provisioning, annotations_of_pool, &mut invalid_settings);
    let healing = read_healing(&settings.healing, annotations_of_pool, &mut invalid_settings);
    let standby = read_usable_standby(&settings, annotations_of_pool, &mut invalid_settings);
    let drain_timeout = draining::read_drain(&settings.drain, annotations_of_pool, &mut invalid_settings);
    let image_refresh =
        read_image_refresh(&settings.image_refresh, annotations_of_pool, &mut invalid_settings);
    let recycle = read_recycle(&settings.recycle, annotations_of_pool, &mut invalid_settings);
    let history = read_history_limit(&settings.history_limit, annotations_of_pool, &mut invalid_settings);
    invalid_settings.extend(find_unusable_annotations(annotations_of_pool));
    invalid_settings.truncate(limits::VALIDATION_ERRORS);
    let record = read_removal_record(object, &mut validation_errors);
    validation_errors.extend(hold_error(&object.metadata, annotations::MACHINES_OF, &id));
    let removed = annotations_of_pool.and_then(|map| map.get(annotations::REMOVED_MACHINES));
    let policy = annotations_of_pool.and_then(|map| map.get(annotations::INSTANCETYPE_POLICY));
    let PoolSettings {
        replicas,
        paused,
        max_unavailable,
        max_protection: _,
        progress_deadline: _,
        max_provisioning: _,
        healing: _,
        standby: _,
        start_obstacle: _,
        drain: _,
        image_refresh: _,
        recycle: _,
        history_limit: _,
        scale_in,
        update,
        names: _,
        data_volume_templates,
        storage_classes,
        autohealing,
        selector,
    } = settings;
    let (scale_down_policy, scale_down_selection) = match scale_in.mode {
        ScaleInMode::Proactive if validation_errors.is_empty() => order_and_selection(scale_in.selection),
        ScaleInMode::Opportunistic if validation_errors.is_empty() => {
            (ScaleDownPolicy::StoppedOnly, MachineFilter::default())
        }
        _ => (ScaleDownPolicy::Explicit, MachineFilter::default()),
    };
    let spec = PoolSpec {
        generation,
        deleting,
        desired: replicas,
        paused,
        scale_down_policy,
        scale_down_selection,
        preservation: match (scale_in.preservation, scale_in.mode) {
            (StatePreservation::Disabled, _) => Preservation::Never,
            (_, ScaleInMode::Opportunistic) => Preservation::Always,
            (_, ScaleInMode::Proactive | ScaleInMode::Unmanaged) => Preservation::UnlessChanged,
        },
        membership: Membership::Selector(selector.map(|selector| selector.to_engine()).unwrap_or_default()),
        finalizer: if finalizers.position.is_some() { Finalizer::Present } else { Finalizer::Missing },
        autohealing: autohealing.as_ref().map(autohealing_policy),
        healing,
        max_protection,
        progress_deadline,
        max_provisioning,
        standby,
        storage_classes,
        drain_timeout,
        image_refresh,
        recycle,
        naming: Naming::Ordinal,
        rollout: RolloutPolicy { history, ..rollout_policy(update, max_unavailable) },
        storage_templates: data_volume_templates,
        storage_moves: moved_storage::recorded_moves(&object.metadata),
        record,
        removed: removed.map(|text| RemovedMachines::parse(text)).unwrap_or_default(),
        writers: object.writers.clone(),
        published: publish::published_from_pool(object),
        status_content: StatusContent::FailureAndPause,
        validation_errors,
        invalid_settings,
        template_variant: policy.map(|policy| intern_text(limits::clip_name(policy))),
        ..PoolSpec::new(id, &namespace)
    };
    Pool { spec, revision: RequestedRevision::default() }
}

fn autohealing_policy(settings: &AutohealingSettings) -> AutohealingPolicy {
    AutohealingPolicy {
        failed_starts: u32::try_from(settings.threshold).unwrap_or(u32::MAX),
        after: settings.failing_time,
    }
}

/// The standby machines of the pool; `None`, with a message, if it can have none.
fn read_usable_standby(
    settings: &PoolSettings,
    annotations_of_pool: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Option<StandbySettings> {
    let standby = read_standby(&settings.standby, annotations_of_pool, invalid_settings);
    let preserves = settings.scale_in.preservation != StatePreservation::Disabled;
    let obstacle =
        preserves.then_some("state preservation binds disks to ordinals").or(settings.start_obstacle);
    let Some(obstacle) = obstacle.filter(|_| standby.is_some_and(|standby| standby.replicas > 0)) else {
        return standby;
    };
    invalid_settings.push(describe_standby_obstacle(obstacle));
    None
}

/// Messages about annotations whose text has no effect.
fn find_unusable_annotations(annotations_of_pool: Option<&BTreeMap<String, String>>) -> Vec<String> {
    let text_of = |name| annotations_of_pool.and_then(|map| map.get(name));
    let policy = text_of(annotations::INSTANCETYPE_POLICY).and_then(|policy| {
        pins::policy::instancetype_policy_error(
            &policy.as_str().into(),
            &format!("annotation {}", annotations::INSTANCETYPE_POLICY),
        )
    });
    let unknown = text_of(annotations::NAME_GENERATION).and_then(|text| find_unknown_name(text));
    let unknown = unknown.map(|name| {
        let name = limits::shorten_message(format!("{name:?}"));
        format!("annotation {}: {name} is no setting, so it has no effect", annotations::NAME_GENERATION)
    });
    policy.into_iter().chain(unknown).collect()
}

/// When the controller updates machines, and which component restarts them.
fn rollout_policy(update: UpdateMode, budget: DisruptionBudget) -> RolloutPolicy {
    let mut rollout = RolloutPolicy { budget, restarts: Restarts::ByUser, ..RolloutPolicy::default() };
    match update {
        UpdateMode::Unmanaged => rollout.disabled = true,
        UpdateMode::Opportunistic => {}
        UpdateMode::Proactive(policy) => {
            rollout.restarts = Restarts::ByController;
            rollout.disabled = policy.machines == MachineSelector::Nothing;
            let (order, selection) = order_and_selection(policy);
            (rollout.order, rollout.selection) = (Some(order), selection);
        }
    }
    rollout
}

/// The removal record. While it cannot be read, the pool is invalid.
fn read_removal_record(object: &KubeVirtPoolObject, validation_errors: &mut Vec<String>) -> RemovalRecord {
    let text = object.metadata.annotations.as_ref().and_then(|map| map.get(annotations::SCALE_IN_TARGETS));
    RemovalRecord::parse(text.map(String::as_str).unwrap_or_default()).unwrap_or_else(|error| {
        validation_errors.push(limits::shorten_message(format!(
            "annotation {}: {error}, so no machine is created or removed until it is corrected",
            annotations::SCALE_IN_TARGETS
        )));
        RemovalRecord::default()
    })
}

/// The order and the selection of a policy. A selection that cannot be read selects no machine.
fn order_and_selection(policy: MachineSelection) -> (ScaleDownPolicy, MachineFilter) {
    let order = match policy.order {
        SortPolicy::AscendingOrder => ScaleDownPolicy::LowestOrdinalFirst,
        SortPolicy::DescendingOrder => ScaleDownPolicy::HighestOrdinalFirst,
        SortPolicy::Newest => ScaleDownPolicy::NewestFirst,
        SortPolicy::Oldest => ScaleDownPolicy::OldestFirst,
        SortPolicy::Random => ScaleDownPolicy::Random,
    };
    let none = MachineFilter::default();
    match policy.machines {
        MachineSelector::All => (order, none),
        MachineSelector::Nothing => (ScaleDownPolicy::Explicit, none),
        MachineSelector::Matching { labels, nodes } => {
            (order, MachineFilter { labels: labels.to_engine(), nodes: nodes.to_engine() })
        }
    }
}

#[cfg(test)]
mod tests;

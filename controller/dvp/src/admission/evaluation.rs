//! The evaluation of a request: which rules apply to what it changes, in their order.

use serde_json::Value;
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::admission::count::{self, ReplicasTerms};
use vmpool_engine::admission::{
    AdmissionDecision, AdmissionVerdict, PoolRequest, RefusalCollector, Refusals, Warning, record,
};

use super::facts::{AdmissionSettings, ClusterCapabilities, DvpAdmissionFacts, NeededObjects};
use super::machine::AcceptedTemplate;
use super::view::{self, ReviewedPool};
use super::{class, devices, disks, machine, name, pinned, rollout, schema, size, sources};

/// The names of count and policy in messages.
pub const TERMS: ReplicasTerms =
    ReplicasTerms { policy: "spec.scaleDownPolicy", explicit: "scaleDownPolicy Explicit", absent: 0 };

/// A request that is valid by itself, and whose verdict depends on other objects.
struct PendingRequest<'a> {
    pool: ReviewedPool<'a>,
    template: Option<AcceptedTemplate<'a>>,
    changed: Vec<view::ReviewedDiskTemplate<'a>>,
    needs: NeededObjects,
}

/// The verdict about a request. `find` returns the facts of the objects that the rules need. It is called at
/// most once, and only if they need any.
///
/// # Errors
/// Those of `find`.
pub fn evaluate_request<N>(
    settings: &AdmissionSettings,
    request: PoolRequest<'_>,
    find: impl FnOnce(&NeededObjects) -> Result<DvpAdmissionFacts, N>,
) -> Result<AdmissionVerdict, N> {
    let mut warnings = Vec::new();
    let outcome = match evaluate_without_reads(settings, request, &mut warnings) {
        Ok(None) => AdmissionDecision::Allowed,
        Err(refusals) => AdmissionDecision::Refused(refusals),
        Ok(Some(pending)) => {
            let facts =
                if pending.needs.is_empty() { DvpAdmissionFacts::default() } else { find(&pending.needs)? };
            match pending.evaluate(settings.cluster, &facts, &mut warnings) {
                Ok(()) => AdmissionDecision::Allowed,
                Err(outcome) => *outcome,
            }
        }
    };
    Ok(AdmissionVerdict { outcome, warnings })
}

/// `None` if the request is allowed without further rules.
fn evaluate_without_reads<'a>(
    settings: &AdmissionSettings,
    request: PoolRequest<'a>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<PendingRequest<'a>>, Refusals> {
    let (old, new) = (request.old.map(ReviewedPool), ReviewedPool(request.new));
    let stored = |pool: ReviewedPool<'a>| pool.annotation(SCALE_DOWN_TARGETS);
    let before = old.map_or(&Value::Null, stored);
    record::check_removal_record(&settings.users, request.user, SCALE_DOWN_TARGETS, before, stored(new))?;
    if new.deleting() {
        return Ok(None);
    }
    let mut found = RefusalCollector::default();
    rollout::check_rollout_settings(old, new, &mut found, warnings);
    if old.is_some_and(|old| old.spec() == new.spec()) && !pinned::changes_pinned_revision(old, new) {
        found.end_group()?;
        return Ok(None);
    }
    for name in ["replicas", "scaleDownPolicy"] {
        let value = view::json_field(new.spec(), name);
        if old.is_none_or(|old| view::json_field(old.spec(), name) != value) {
            found.note(schema::spec_field(name, value));
        }
    }
    found.end_group()?;
    match old {
        None => {
            found.note(name::check_pool_name(new));
        }
        Some(old) => {
            let change = count::ReplicasChange {
                pool: new.name(),
                old: old.count(),
                new: new.count(),
                current: old.current_replicas(),
            };
            found.note(count::check_replicas_change(&TERMS, &settings.users, request.user, &change));
            count::warn_about_replicas_change(&TERMS, &change, warnings);
            disks::warn_removed_templates(old, new, warnings);
            rollout::warn_held_rollout(old, new, warnings);
        }
    }
    found.note(size::check_spec_size(old, new));
    found.end_group()?;
    let template = if old.is_none_or(|old| old.template() != new.template()) {
        found.note(machine::check_machine_template(settings.cluster, new.template(), warnings))
    } else {
        None
    };
    if old
        .is_none_or(|old| devices::device_and_template_names(old) != devices::device_and_template_names(new))
    {
        found.note(devices::check_attached(new));
        found.note(schema::disk_list(view::json_field(new.spec(), "virtualDiskTemplates")));
    }
    let mut changed = Vec::new();
    for disk in new.disks() {
        let before = old.and_then(|old| old.disk(disk.name));
        if before.is_none_or(|before| before.value != disk.value) {
            found.note(disks::check_disk_template(before, disk, warnings));
        }
        if before.is_none_or(|before| before.spec() != disk.spec()) {
            changed.push(disk);
        }
    }
    found.end_group()?;
    let mut needs = needed_objects(new, template.as_ref(), &changed);
    pinned::add_needed_revisions(old, new, &mut needs)?;
    Ok(Some(PendingRequest { pool: new, template, changed, needs }))
}

fn needed_objects(
    pool: ReviewedPool<'_>,
    template: Option<&AcceptedTemplate<'_>>,
    changed: &[view::ReviewedDiskTemplate<'_>],
) -> NeededObjects {
    let mut needs = NeededObjects::default();
    if let Some(template) = template {
        needs.class = Some(template.class());
        devices::add_needed_images(pool, &mut needs);
    }
    for disk in changed {
        sources::add_needed_sources(*disk, &mut needs);
    }
    needs
}

impl PendingRequest<'_> {
    fn evaluate(
        &self,
        cluster: ClusterCapabilities,
        facts: &DvpAdmissionFacts,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Box<AdmissionDecision>> {
        let Self { pool, template, changed, needs } = self;
        if let Some(template) = template {
            class::check_machine_class(template, cluster.in_place_resize, facts.class.as_ref(), warnings)?;
            devices::check_boot(*pool, facts)?;
            devices::check_images(*pool, facts, warnings);
        }
        for disk in changed {
            sources::check_source_objects(*disk, facts, warnings);
        }
        if needs.revisions.is_empty() { Ok(()) } else { pinned::check_pinned_revision(*pool, facts) }
    }
}

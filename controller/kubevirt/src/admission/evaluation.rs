//! The evaluation of a request: which rules apply to what it changes, in the order in which KubeVirt reports
//! them.

use std::ops::ControlFlow;

use serde_json::Value;
use vmpool_api::kubevirt::annotations::{INSTANCETYPE_POLICY, SCALE_IN_TARGETS};
use vmpool_engine::admission::count::{self, ReplicasChange, ReplicasState, ReplicasTerms};
use vmpool_engine::admission::{
    AdmissionDecision, AdmissionRead, AdmissionReads, AdmissionVerdict, PoolRequest, PrivilegedUsers, Step,
    record,
};
use vmpool_platform::value::json_field;

use super::findings::Findings;
use super::neighbors::{self, Compared};
use super::pool::{KubeVirtPoolView, MACHINE, is_same_value};
use super::rule::Rule;
use super::{
    decode, dry_run, existing_storage, known_fields, machine, name, selectors, settings, size, standby,
    volumes,
};

/// The names of count and policy in messages. No policy of KubeVirt restricts who may lower the count.
const TERMS: ReplicasTerms = ReplicasTerms { policy: "spec.scaleInStrategy", explicit: "", absent: 1 };

fn verdict_without_warnings(outcome: AdmissionDecision) -> AdmissionVerdict {
    AdmissionVerdict { outcome, warnings: Vec::new() }
}

/// The verdict about a request.
///
/// # Errors
/// The request is valid by itself, and its verdict depends on these objects, or on whether the API server
/// accepts a machine of the pool.
pub(super) fn evaluate_request(
    users: &PrivilegedUsers,
    request: PoolRequest<'_>,
    reads: &AdmissionReads,
) -> Step<AdmissionVerdict, AdmissionRead> {
    let findings = match evaluate_without_reads(users, request) {
        ControlFlow::Continue(findings) => findings,
        ControlFlow::Break(verdict) => return Ok(verdict),
    };
    if findings.rejects() {
        return Ok(findings.verdict());
    }
    add_findings_of_reads(request.old.map(KubeVirtPoolView), KubeVirtPoolView(request.new), findings, reads)
}

/// Adds the warnings that depend on other objects, and validates a machine of a new template.
fn add_findings_of_reads(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    mut findings: Findings,
    reads: &AdmissionReads,
) -> Step<AdmissionVerdict, AdmissionRead> {
    let compared = Compared::of(old, new);
    let (pools, storage) = (compared.lookup(), existing_storage::existing_storage_lookups(old, new));
    let found = reads.objects(pools.iter().chain(&storage))?;
    let (of_pools, of_storage) = found.split_at(usize::from(pools.is_some()));
    for pools in of_pools.iter().flatten() {
        neighbors::warn_about_other_pools(new, compared, pools, &mut findings);
    }
    existing_storage::warn_about_existing_storage(
        new,
        storage.iter().zip(of_storage.iter().copied()),
        &mut findings,
    );
    let template_changed = is_part_changed(old, new, "virtualMachineTemplate");
    if let Some(dry_run) = template_changed.then(|| dry_run::machine_dry_run(new)).flatten()
        && let Some(result) = reads.dry_run(dry_run)?
    {
        dry_run::check_dry_run_result(new, result, &mut findings);
    }
    Ok(findings.verdict())
}

/// Evaluates a request without other objects. `Break` is a verdict that does not depend on any.
fn evaluate_without_reads<'a>(
    users: &PrivilegedUsers,
    request: PoolRequest<'a>,
) -> ControlFlow<AdmissionVerdict, Findings> {
    let (old, new) = (request.old.map(KubeVirtPoolView), KubeVirtPoolView(request.new));
    let stored = |pool: KubeVirtPoolView<'a>| pool.annotation(SCALE_IN_TARGETS);
    let before = old.map_or(&Value::Null, stored);
    if let Err(refusal) =
        record::check_removal_record(users, request.user, SCALE_IN_TARGETS, before, stored(new))
    {
        return ControlFlow::Break(verdict_without_warnings(AdmissionDecision::Refused((*refusal).into())));
    }
    // Otherwise finalizers could not be removed from a pool that does not meet the rules.
    if new.deleting() {
        return ControlFlow::Break(verdict_without_warnings(AdmissionDecision::Allowed));
    }
    let mut findings = Findings::default();
    settings::check_annotated_settings(old, new, &mut findings);
    standby::check_standby(old, new, &mut findings);
    settings::check_history_limit(old, new, &mut findings);
    settings::check_annotated_names(old, new, &mut findings);
    let policies =
        |pool: KubeVirtPoolView<'a>| (pool.annotation(INSTANCETYPE_POLICY), pool.part("instancetypePolicy"));
    if old.is_none_or(|old| policies(old) != policies(new)) {
        settings::check_instancetype_policy(new, &mut findings);
        if let Some(old) = old {
            settings::refuse_policy_change(new, old, &mut findings);
        }
    }
    if old.is_some_and(|old| old.spec() == new.spec()) {
        return ControlFlow::Break(findings.verdict());
    }
    if is_part_changed(old, new, "virtualMachineTemplate")
        && !machine::has_required_templates(new, &mut findings)
    {
        return ControlFlow::Break(findings.verdict());
    }
    if let Some(error) = decode::first_decode_error(old, new).or_else(|| settings_error(old, new)) {
        return ControlFlow::Break(verdict_without_warnings(AdmissionDecision::Malformed(error)));
    }
    check_changed_parts(request.user, old, new, &mut findings);
    ControlFlow::Continue(findings)
}

fn is_part_changed(old: Option<KubeVirtPoolView<'_>>, new: KubeVirtPoolView<'_>, part: &str) -> bool {
    old.is_none_or(|old| !is_same_value(old.part(part), new.part(part)))
}

fn settings_error(old: Option<KubeVirtPoolView<'_>>, new: KubeVirtPoolView<'_>) -> Option<String> {
    if is_part_changed(old, new, "autohealing") { settings::autohealing_decode_error(new) } else { None }
}

fn check_changed_parts(
    user: &str,
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    let changed = |part: &str| is_part_changed(old, new, part);
    if old.is_none() {
        name::check_pool_name(new, findings);
    }
    if changed("virtualMachineTemplate") {
        size::check_spec_size(new, findings);
        machine::check_template_metadata(user, new, findings);
        volumes::check_disks_and_volumes(new, findings);
        volumes::check_data_volumes(new, findings);
        machine::check_run_settings(new, findings);
        known_fields::warn_about_template_fields(new, findings);
    }
    let selector_unchanged = old.is_some_and(|old| selectors::is_selector_unchanged(old, new));
    let labels = |pool: KubeVirtPoolView<'_>| (pool.labels().clone(), pool.inner_labels().clone());
    if !selector_unchanged || old.is_none_or(|old| labels(old) != labels(new)) {
        selectors::check_pool_selector(new, findings);
    }
    if changed("replicas") {
        settings::check_replicas(new, findings);
    }
    if changed("maxUnavailable") {
        settings::check_max_unavailable(new, findings);
    }
    for (name, rule) in
        [("updateStrategy", Rule::UpdateStrategies), ("scaleInStrategy", Rule::ScaleInStrategies)]
    {
        if changed(name) {
            settings::check_single_strategy(new, name, rule, findings);
            settings::check_strategy_values(new, name, findings);
            selectors::check_selection_policy(new, name, findings);
        }
    }
    if changed("autohealing") {
        settings::check_autohealing(new, findings);
    }
    if old.is_some() && !selector_unchanged {
        selectors::refuse_selector_change(new, findings);
    }
    settings::warn_about_unknown_fields(new, findings);
    if let Some(old) = old {
        let change = ReplicasChange {
            pool: new.name(),
            old: pool_replica_count(old),
            new: pool_replica_count(new),
            current: None,
        };
        count::warn_about_replicas_change(&TERMS, &change, &mut findings.warnings);
        warn_about_replaced_storage(old, new, findings);
        warn_about_migration(old, new, findings);
    }
}

fn pool_replica_count(pool: KubeVirtPoolView<'_>) -> ReplicasState<'_> {
    let replicas = pool.part("replicas");
    ReplicasState { replicas, desired: replicas.as_i64().unwrap_or(TERMS.absent), explicit: false }
}

/// The controller replaces a machine and its DataVolumes if their templates change, unless updates are not
/// proactive.
fn warn_about_replaced_storage(
    old: KubeVirtPoolView<'_>,
    new: KubeVirtPoolView<'_>,
    findings: &mut Findings,
) {
    let templates = |pool: KubeVirtPoolView<'_>| json_field(pool.machine(), "dataVolumeTemplates").clone();
    let strategy = new.part("updateStrategy");
    let waits = ["unmanaged", "opportunistic"].iter().any(|machine| !json_field(strategy, machine).is_null());
    if is_same_value(&templates(old), &templates(new)) || waits {
        return;
    }
    let preservation =
        json_field(json_field(new.part("scaleInStrategy"), "opportunistic"), "statePreservation");
    let preserves = matches!(preservation.as_str(), Some("Offline" | "Online"));
    let consequence = if preserves {
        "they change: the controller deletes each machine, preserves its DataVolumes and creates it again; delete preserved \
         DataVolumes that the machines must not use"
    } else {
        "they change: the controller deletes each machine with its DataVolumes and their data, and creates it again; to keep \
         existing machines, set updateStrategy to unmanaged first"
    };
    findings.warn(Rule::DataVolumesReplaced, format!("{MACHINE}.dataVolumeTemplates"), consequence);
}

/// KubeVirt migrates a volume of a machine if the machine gets another claim. A pool gives its machines new
/// storage in place of renamed DataVolumes, so nothing is migrated.
fn warn_about_migration(old: KubeVirtPoolView<'_>, new: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let names = |pool: KubeVirtPoolView<'_>| pool.data_volume_names().map(str::to_owned).collect::<Vec<_>>();
    let migrates = json_field(new.machine(), "updateVolumesStrategy") == "Migration";
    if !migrates || names(old).iter().all(|name| names(new).contains(name)) {
        return;
    }
    let detail = "Migration does not apply to renamed DataVolume templates: the storage of the machines is created again, \
                  without the present data; migrate the volumes of the machines instead";
    findings.warn(Rule::StorageNotMigrated, format!("{MACHINE}.updateVolumesStrategy"), detail);
}

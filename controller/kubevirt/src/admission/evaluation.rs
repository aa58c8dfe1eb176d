//! The evaluation of a request: which rules apply to what it changes, in the order in which KubeVirt reports
//! them.

use serde_json::Value;
use vmpool_api::kubevirt::annotations::{INSTANCETYPE_POLICY, SCALE_IN_TARGETS};
use vmpool_engine::admission::count::{self, ReplicasChange, ReplicasState, ReplicasTerms};
use vmpool_engine::admission::{
    AdmissionDecision, AdmissionVerdict, DryRun, DryRunResult, LookupResult, ObjectLookup, PoolRequest,
    PrivilegedUsers, record,
};
use vmpool_platform::value::json_field;

use super::findings::Findings;
use super::neighbors::{self, Compared};
use super::pool::{KubeVirtPoolView, MACHINE, is_same_value};
use super::rule::Rule;
use super::{
    decode, dry_run, existing_storage, known_fields, machine, name, selectors, settings, size, volumes,
};

/// The names of count and policy in messages. No policy of KubeVirt restricts who may lower the count.
const TERMS: ReplicasTerms = ReplicasTerms { policy: "spec.scaleInStrategy", explicit: "", absent: 1 };

/// A request that is valid by itself, and whose verdict depends on the other pools of the namespace, or on
/// whether the API server accepts a machine of the pool.
#[derive(Clone, Debug)]
pub(super) struct KubeVirtPendingRequest<'a> {
    pool: KubeVirtPoolView<'a>,
    compared: Compared,
    lookup: Option<ObjectLookup>,
    storage: Vec<ObjectLookup>,
    template_changed: bool,
    findings: Findings,
}

/// The result of evaluating a request without reads.
#[derive(Debug)]
pub(super) enum KubeVirtEvaluation<'a> {
    Decided(AdmissionVerdict),
    NeedsFacts(Box<KubeVirtPendingRequest<'a>>),
}

fn decided_evaluation(outcome: AdmissionDecision) -> KubeVirtEvaluation<'static> {
    KubeVirtEvaluation::Decided(AdmissionVerdict { outcome, warnings: Vec::new() })
}

/// Evaluates a request as far as possible without reads.
pub(super) fn evaluate_request<'a>(
    users: &PrivilegedUsers,
    request: PoolRequest<'a>,
) -> KubeVirtEvaluation<'a> {
    let (old, new) = (request.old.map(KubeVirtPoolView), KubeVirtPoolView(request.new));
    let stored = |pool: KubeVirtPoolView<'a>| pool.annotation(SCALE_IN_TARGETS);
    let before = old.map_or(&Value::Null, stored);
    if let Err(refusal) =
        record::check_removal_record(users, request.user, SCALE_IN_TARGETS, before, stored(new))
    {
        return decided_evaluation(AdmissionDecision::Refused((*refusal).into()));
    }
    // Otherwise finalizers could not be removed from a pool that does not meet the rules.
    if new.deleting() {
        return decided_evaluation(AdmissionDecision::Allowed);
    }
    let mut findings = Findings::default();
    settings::check_max_protection(old, new, &mut findings);
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
        return KubeVirtEvaluation::Decided(findings.verdict());
    }
    if is_part_changed(old, new, "virtualMachineTemplate")
        && !machine::has_required_templates(new, &mut findings)
    {
        return KubeVirtEvaluation::Decided(findings.verdict());
    }
    if let Some(error) = decode::first_decode_error(old, new).or_else(|| settings_error(old, new)) {
        return decided_evaluation(AdmissionDecision::Malformed(error));
    }
    check_changed_parts(request.user, old, new, &mut findings);
    let compared = Compared::of(old, new);
    let (lookup, template_changed) = (compared.lookup(), is_part_changed(old, new, "virtualMachineTemplate"));
    if findings.rejects() {
        return KubeVirtEvaluation::Decided(findings.verdict());
    }
    let storage = existing_storage::existing_storage_lookups(old, new);
    if lookup.is_none() && storage.is_empty() && !template_changed {
        return KubeVirtEvaluation::Decided(findings.verdict());
    }
    let pending = KubeVirtPendingRequest { pool: new, compared, lookup, storage, template_changed, findings };
    KubeVirtEvaluation::NeedsFacts(Box::new(pending))
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

impl KubeVirtPendingRequest<'_> {
    /// The list of all pools of the namespace, if something is to be compared with them, and the storage that
    /// new machines could adopt.
    pub(super) fn lookups(&self) -> Vec<ObjectLookup> {
        self.lookup.iter().chain(&self.storage).cloned().collect()
    }

    /// Adds what was read.
    pub(super) fn add(&mut self, results: &[LookupResult]) {
        let pools = results.iter().find(|(lookup, _)| self.lookup.as_ref() == Some(lookup));
        if let Some((_, Some(pools))) = pools {
            neighbors::warn_about_other_pools(self.pool, self.compared, pools, &mut self.findings);
        }
        existing_storage::warn_about_existing_storage(self.pool, results, &mut self.findings);
    }

    /// A machine that the API server is to validate.
    pub(super) fn dry_run(&self) -> Option<DryRun> {
        if self.template_changed { dry_run::machine_dry_run(self.pool) } else { None }
    }

    /// Adds the result of the validation.
    pub(super) fn add_dry_run(&mut self, result: &DryRunResult) {
        dry_run::check_dry_run_result(self.pool, result, &mut self.findings);
    }

    /// The verdict, given what was added.
    pub(super) fn verdict(self) -> AdmissionVerdict {
        self.findings.verdict()
    }
}

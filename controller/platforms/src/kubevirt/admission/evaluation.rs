//! The evaluation of a request: which rules apply to what it changes, in the order in which KubeVirt reports them.

use serde_json::Value;
use vmpool_api::kubevirt::annotations::{INSTANCETYPE_POLICY, SCALE_IN_TARGETS};
use vmpool_engine::admission::count::{self, Change, Count, Terms};
use vmpool_engine::admission::{
    DryRun, DryRunResult, Lookup, LookupResult, Outcome, Request, Users, Verdict, record,
};

use super::findings::Findings;
use super::neighbors::{self, Compared};
use super::pool::{MACHINE, Pool, same};
use super::rule::Rule;
use super::{decode, dry_run, existing_storage, machine, name, selectors, settings, size, volumes};
use crate::value::field;

/// The names of count and policy in messages. No policy of KubeVirt restricts who may lower the count.
const TERMS: Terms = Terms { policy: "spec.scaleInStrategy", explicit: "", absent: 1 };

/// A request that is valid by itself, and whose verdict depends on the other pools of the namespace, or on whether the API
/// server accepts a machine of the pool.
#[derive(Clone, Debug)]
pub(super) struct PendingRequest<'a> {
    pool: Pool<'a>,
    compared: Compared,
    lookup: Option<Lookup>,
    storage: Vec<Lookup>,
    template_changed: bool,
    findings: Findings,
}

/// The result of evaluating a request without reads.
#[derive(Debug)]
pub(super) enum Evaluation<'a> {
    Decided(Verdict),
    NeedsFacts(Box<PendingRequest<'a>>),
}

fn decided(outcome: Outcome) -> Evaluation<'static> {
    Evaluation::Decided(Verdict { outcome, warnings: Vec::new() })
}

/// Evaluates a request as far as possible without reads.
pub(super) fn begin<'a>(users: &Users, request: Request<'a>) -> Evaluation<'a> {
    let (old, new) = (request.old.map(Pool), Pool(request.new));
    let stored = |pool: Pool<'a>| pool.annotation(SCALE_IN_TARGETS);
    let before = old.map_or(&Value::Null, stored);
    if let Err(refusal) = record::check(users, request.user, SCALE_IN_TARGETS, before, stored(new)) {
        return decided(Outcome::Refused((*refusal).into()));
    }
    // Otherwise finalizers could not be removed from a pool that does not meet the rules.
    if new.deleting() {
        return decided(Outcome::Allowed);
    }
    let mut findings = Findings::default();
    settings::max_protection(old, new, &mut findings);
    let policies = |pool: Pool<'a>| (pool.annotation(INSTANCETYPE_POLICY), pool.part("instancetypePolicy"));
    if old.is_none_or(|old| policies(old) != policies(new)) {
        settings::policy(new, &mut findings);
        if let Some(old) = old {
            settings::changed_policy(new, old, &mut findings);
        }
    }
    if old.is_some_and(|old| old.spec() == new.spec()) {
        return Evaluation::Decided(findings.verdict());
    }
    if changed(old, new, "virtualMachineTemplate") && !machine::is_complete(new, &mut findings) {
        return Evaluation::Decided(findings.verdict());
    }
    if let Some(error) = decode::error_in(old, new).or_else(|| settings_error(old, new)) {
        return decided(Outcome::Malformed(error));
    }
    rules(request.user, old, new, &mut findings);
    let compared = Compared::of(old, new);
    let (lookup, template_changed) = (compared.lookup(), changed(old, new, "virtualMachineTemplate"));
    if findings.rejects() {
        return Evaluation::Decided(findings.verdict());
    }
    let storage = existing_storage::lookups(old, new);
    if lookup.is_none() && storage.is_empty() && !template_changed {
        return Evaluation::Decided(findings.verdict());
    }
    let pending = PendingRequest { pool: new, compared, lookup, storage, template_changed, findings };
    Evaluation::NeedsFacts(Box::new(pending))
}

fn changed(old: Option<Pool<'_>>, new: Pool<'_>, part: &str) -> bool {
    old.is_none_or(|old| !same(old.part(part), new.part(part)))
}

fn settings_error(old: Option<Pool<'_>>, new: Pool<'_>) -> Option<String> {
    if changed(old, new, "autohealing") { settings::undecodable(new) } else { None }
}

fn rules(user: &str, old: Option<Pool<'_>>, new: Pool<'_>, findings: &mut Findings) {
    let changed = |part: &str| changed(old, new, part);
    if old.is_none() {
        name::check(new, findings);
    }
    if changed("virtualMachineTemplate") {
        size::check(new, findings);
        machine::check(user, new, findings);
        volumes::check(new, findings);
        volumes::check_data_volumes(new, findings);
        machine::check_run(new, findings);
    }
    let selector_unchanged = old.is_some_and(|old| selectors::unchanged(old, new));
    let labels = |pool: Pool<'_>| (pool.labels().clone(), pool.inner_labels().clone());
    if !selector_unchanged || old.is_none_or(|old| labels(old) != labels(new)) {
        selectors::check(new, findings);
    }
    if changed("replicas") {
        settings::replicas(new, findings);
    }
    if changed("maxUnavailable") {
        settings::max_unavailable(new, findings);
    }
    for (name, rule) in
        [("updateStrategy", Rule::UpdateStrategies), ("scaleInStrategy", Rule::ScaleInStrategies)]
    {
        if changed(name) {
            settings::one_strategy(new, name, rule, findings);
            settings::words(new, name, findings);
            selectors::check_policy(new, name, findings);
        }
    }
    if changed("autohealing") {
        settings::autohealing(new, findings);
    }
    if old.is_some() && !selector_unchanged {
        selectors::refuse_change(new, findings);
    }
    settings::unknown_fields(new, findings);
    if let Some(old) = old {
        let change = Change { pool: new.name(), old: count(old), new: count(new), current: None };
        count::warn(&TERMS, &change, &mut findings.warnings);
        data_volumes_replaced(old, new, findings);
    }
}

fn count(pool: Pool<'_>) -> Count<'_> {
    let replicas = pool.part("replicas");
    Count { replicas, desired: replicas.as_i64().unwrap_or(TERMS.absent), explicit: false }
}

/// The controller replaces a machine and its DataVolumes if their templates change, unless updates are not proactive.
fn data_volumes_replaced(old: Pool<'_>, new: Pool<'_>, findings: &mut Findings) {
    let templates = |pool: Pool<'_>| field(pool.machine(), "dataVolumeTemplates").clone();
    let strategy = new.part("updateStrategy");
    let waits = ["unmanaged", "opportunistic"].iter().any(|member| !field(strategy, member).is_null());
    if same(&templates(old), &templates(new)) || waits {
        return;
    }
    let preservation = field(field(new.part("scaleInStrategy"), "opportunistic"), "statePreservation");
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

impl PendingRequest<'_> {
    /// The list of all pools of the namespace, if something is to be compared with them, and the storage that new machines could
    /// adopt.
    pub(super) fn lookups(&self) -> Vec<Lookup> {
        self.lookup.iter().chain(&self.storage).cloned().collect()
    }

    /// Adds what was read.
    pub(super) fn add(&mut self, results: &[LookupResult]) {
        let pools = results.iter().find(|(lookup, _)| self.lookup.as_ref() == Some(lookup));
        if let Some((_, Some(pools))) = pools {
            neighbors::check(self.pool, self.compared, pools, &mut self.findings);
        }
        existing_storage::check(self.pool, results, &mut self.findings);
    }

    /// A machine that the API server is to validate.
    pub(super) fn dry_run(&self) -> Option<DryRun> {
        if self.template_changed { dry_run::of(self.pool) } else { None }
    }

    /// Adds the result of the validation.
    pub(super) fn add_dry_run(&mut self, result: &DryRunResult) {
        dry_run::check(self.pool, result, &mut self.findings);
    }

    /// The verdict, given what was added.
    pub(super) fn verdict(self) -> Verdict {
        self.findings.verdict()
    }
}

//! Warnings about the other pools of the namespace. The names of DataVolumes do not contain the name of the
//! pool, so two pools can use the same DataVolume; and the selector of a pool can match the pods of another.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::kubevirt::POOL_API_VERSION;
use vmpool_engine::admission::{LookupNamespace, LookupOutcome, LookupSubject, ObjectLookup, shorten_text};
use vmpool_platform::value::{json_entries, json_field};

use super::findings::Findings;
use super::pool::{KubeVirtPoolView, MACHINE, to_label_map};
use super::rule::Rule;
use crate::selectors::LabelSelector;

/// The maximum number of other pools that a request warns about.
const MAX_POOLS: usize = 3;

/// What of a pool is compared with other pools.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) data_volumes: bool,
    pub(super) selectors: bool,
}

impl Compared {
    /// What the request changes.
    pub(super) fn of(old: Option<KubeVirtPoolView<'_>>, new: KubeVirtPoolView<'_>) -> Self {
        let names =
            |pool: KubeVirtPoolView<'_>| pool.data_volume_names().map(str::to_owned).collect::<BTreeSet<_>>();
        let mine = names(new);
        Self {
            data_volumes: !mine.is_empty() && old.is_none_or(|old| names(old) != mine),
            selectors: old.is_none_or(|old| old.inner_labels() != new.inner_labels()),
        }
    }

    /// The other pools are read if there is something to compare.
    pub(super) fn lookup(self) -> Option<ObjectLookup> {
        (self.data_volumes || self.selectors).then_some(ObjectLookup {
            subject: LookupSubject::Pool,
            api_version: POOL_API_VERSION,
            plural: "virtualmachinepools",
            namespace: LookupNamespace::Reviewed,
            name: None,
            fields: &["items"],
            // The warnings contain names of pools, which the user may have no permission to list.
            reveals: true,
        })
    }
}

/// Warns about other pools. `pools` is the list of all pools of the namespace.
pub(super) fn warn_about_other_pools(
    pool: KubeVirtPoolView<'_>,
    compared: Compared,
    pools: &LookupOutcome<Value>,
    findings: &mut Findings,
) {
    let templates = format!("{MACHINE}.dataVolumeTemplates");
    let pools = match pools {
        LookupOutcome::There(pools) => json_entries(json_field(pools, "items")),
        LookupOutcome::Absent => &[],
        LookupOutcome::Failed(reason) => {
            let rule = if compared.data_volumes { Rule::SharedDataVolumes } else { Rule::SharedMachines };
            let path = if compared.data_volumes { &*templates } else { "spec.selector" };
            let detail = format!("the other pools could not be read, so this is not checked: {reason}");
            return findings.warn(rule, path, detail);
        }
    };
    let mine: BTreeSet<&str> = pool.data_volume_names().collect();
    let others = || {
        pools.iter().map(KubeVirtPoolView).filter(|other| match (other.uid(), pool.uid()) {
            (Some(other), Some(uid)) => other != uid,
            _ => other.name() != pool.name(),
        })
    };
    if compared.data_volumes {
        let shared = others().filter_map(|other| {
            let name = other.data_volume_names().find(|name| mine.contains(name))?;
            Some((name, other.name()))
        });
        for (name, other) in shared.take(MAX_POOLS) {
            let (name, other) = (shorten_text(name, 40), shorten_text(other, 63));
            let detail = format!(
                "pool {other:?} has {name:?} too: machines of both pools would share DataVolume {name}-0 and so on; \
                 use another name"
            );
            findings.warn(Rule::SharedDataVolumes, &*templates, detail);
        }
    }
    if compared.selectors {
        let matches = |one: KubeVirtPoolView<'_>, other: KubeVirtPoolView<'_>| {
            LabelSelector::read(one.selector())
                .is_ok_and(|selector| selector.matches(&to_label_map(other.inner_labels())))
        };
        for other in others().filter(|other| matches(pool, *other) || matches(*other, pool)).take(MAX_POOLS) {
            let detail = format!(
                "it and the selector of pool {:?} match the same pods, so Services and autoscalers count pods of both; \
                 use labels that differ",
                shorten_text(other.name(), 63)
            );
            findings.warn(Rule::SharedMachines, "spec.selector", detail);
        }
    }
}

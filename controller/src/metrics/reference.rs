//! The page about metrics in the docs, generated from the registered metrics.

use vmpool_runtime::Env;
use vmpool_runtime::metrics::reference::{Section, tables};

use super::Metrics;

/// The text above the tables.
const HEAD: &str = "\
<!-- Generated from src/metrics of the programs, do not edit. Run `cargo xtask generate`. -->

# Metrics

Every program serves `/metrics` beside its probes, in the OpenMetrics text format, which Prometheus reads as it is: the
controller, whose metrics come first, [the webhook](#the-webhook) and [the API server](#the-api-server-for-removals). What is said
of [the process](#the-process) holds for each of them. A standby of the controller serves its metrics, too: there, whatever only a
leader knows is 0. Counters start at zero with the process, and go on when leadership changes.
[Operations](operations.md#metrics) says how to collect them and what is worth an alert.

No label names a pool, a machine or a namespace, so the number of time series does not grow with what the cluster holds;
it is some hundreds. Figures of single pools are in their status, where `kubectl` and autoscalers find them; an exporter of
custom resources, such as kube-state-metrics, makes time series of them where that is wanted.

Histograms come as `NAME_bucket`, `NAME_sum` and `NAME_count`.
";

/// The sections, each with the prefixes of its metrics.
const SECTIONS: &[Section] = &[
    ("Leadership", &["vmpool_leader", "vmpool_lease_"]),
    ("Pools and machines", &["vmpool_pools", "vmpool_members"]),
    ("Removal", &["vmpool_deletions_", "vmpool_removal_"]),
    ("Disks that outlive machines", &["vmpool_disk"]),
    ("Passes and their queue", &["vmpool_passes_", "vmpool_pass_", "vmpool_workqueue_"]),
    ("Requests and writes", &["vmpool_api_", "vmpool_writes_", "vmpool_failures_"]),
    ("Caches and the ledger of own writes", &["vmpool_cache_", "vmpool_watch_", "vmpool_ledger_"]),
    ("The process", &["vmpool_build_", "process_"]),
];

/// The first part of the page, with the metrics of the controller, as Markdown.
pub fn part() -> String {
    HEAD.to_owned() + &tables(SECTIONS, Metrics::new(&Env::system()).catalogue())
}

/// The title of the section that a metric belongs to.
#[cfg(test)]
pub(super) fn section(metric: &vmpool_runtime::metrics::Description) -> Option<&'static str> {
    vmpool_runtime::metrics::reference::section(SECTIONS, metric)
}

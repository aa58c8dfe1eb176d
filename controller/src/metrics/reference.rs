//! The reference page of metrics in the docs, generated from the registered metrics.

use vmpool_runtime::Env;
use vmpool_runtime::metrics::reference::{Section, metric_tables};

use super::ControllerMetrics;

/// The text above the tables.
const HEAD: &str = "\
<!-- Generated from src/metrics of the programs, do not edit. Run `cargo xtask generate`. -->

# Metrics

The controller, [the webhook](#the-webhook) and [the API server](#the-api-server-for-removals) serve `/metrics` on the
port of their probes, in the OpenMetrics text format, which Prometheus supports. The first tables are those of the
controller. [The metrics of the process](#the-process) exist in each program. [Operations](operations.md#metrics)
describes the collection and the alerts.

A standby replica of the controller also serves its metrics; those that only a leader can know are 0, or have no series.
Counters start at zero with the process. If the leadership changes, they keep their values, with one exception below.

The metrics `vmpool_pool_*` have the labels `namespace` and `pool`, and most have `platform`. Only the leader exports them, for the
first 1,000 pools by namespace and name (`--max-pool-series`). All other pools are summed in one series, in which these
labels are `(others)`; there, `vmpool_pool_blocked` is a number of pools. `vmpool_pool_pin_repairs_total` starts at zero with each
leader. Prometheus adds the namespace of the controller as
the label `namespace`. It renames the label of the metric to `exported_namespace`, unless `honor_labels` is set.

KubeVirt pools have metrics under [KubeVirt's names](#kubevirt-pools-under-kubevirts-names), too, with the labels `namespace` and
`name`, unless KubeVirt's observability controller exports them (`--kubevirt-metrics`). The limit above holds for them, without a
sum of the others. Their counters start at zero with each leader, and do not count machines that users or the API server for
removals delete.

The metrics of [disk images](disk-images.md) have series for each image, and those of wrappers for each namespace.
`vmpool_instancetype_deletion_blocked`, `vmpool_autoscaler_machines` and `vmpool_autoscaler_inactive` have some for each of the first
100 objects. Only the leader exports these. No other label depends on the contents of the cluster, so a controller has some hundreds of time series besides these.

A histogram has the series `NAME_bucket`, `NAME_sum` and `NAME_count`.
";

/// The sections, each with the prefixes of its metrics.
const SECTIONS: &[Section] = &[
    ("Leadership", &["vmpool_leader", "vmpool_lease_", "vmpool_platform_"]),
    ("Pools and machines", &["vmpool_pools", "vmpool_members", "vmpool_pool_"]),
    ("KubeVirt pools under KubeVirt's names", &["kubevirt_vmpool_"]),
    ("Removal", &["vmpool_deletions_", "vmpool_removal_"]),
    ("Draining", &["vmpool_drain_"]),
    ("Retained disks", &["vmpool_disk"]),
    ("Disk images", &["vmpool_vmdi_", "vmpool_wrapper_"]),
    ("Instance types", &["vmpool_instancetype_"]),
    ("Autoscalers", &["vmpool_autoscaler_"]),
    ("Passes and their queue", &["vmpool_passes_", "vmpool_pass_", "vmpool_workqueue_"]),
    ("Requests and writes", &["vmpool_api_", "vmpool_writes_", "vmpool_failures_", "vmpool_slow_"]),
    ("Caches and the ledger", &["vmpool_cache_", "vmpool_watch_", "vmpool_ledger_"]),
    ("The process", &["vmpool_build_", "process_"]),
];

/// The first part of the page, with the metrics of the controller, as Markdown.
pub fn controller_metrics_reference() -> String {
    HEAD.to_owned() + &metric_tables(SECTIONS, ControllerMetrics::new(&Env::system()).catalogue())
}

/// The title of the section that a metric belongs to.
#[cfg(test)]
pub(super) fn metric_section_title(metric: &vmpool_runtime::metrics::Description) -> Option<&'static str> {
    vmpool_runtime::metrics::reference::section_title(SECTIONS, metric)
}

//! Every figure: its name, unit and meaning. A test compares docs/benchmarks.md with these tables.

#[cfg(test)]
mod tests;

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FigureDescription {
    /// The name in the JSON file and in the table.
    pub(crate) key: &'static str,
    /// The unit; empty for a plain number.
    pub(crate) unit: &'static str,
    /// The meaning, as in the docs.
    pub(crate) meaning: &'static str,
}

const fn entry(key: &'static str, unit: &'static str, meaning: &'static str) -> FigureDescription {
    FigureDescription { key, unit, meaning }
}

/// Figures of one large pool.
const ONE: &[FigureDescription] = &[
    entry("machines", "", "Machines of the pool."),
    entry(
        "raw_seconds",
        "s",
        "The bare client: from its first request until the last object exists. The median of its runs with 8 or with 32 concurrent requests; the smaller median.",
    ),
    entry(
        "ours_seconds",
        "s",
        "The controller: from the scale request until the last object exists. The median of all rounds.",
    ),
    entry(
        "rate_ratio",
        "",
        "`raw_seconds / ours_seconds`: with 1, the controller is as fast as a program that only sends creates.",
    ),
    entry(
        "cost_ratio",
        "",
        "The same ratio for the processor time of all programs together. Other programs on the host hardly affect it.",
    ),
    entry(
        "foreign_share",
        "",
        "The average share of the processors that programs outside the benchmark used during the measurements. Above 0.05 the rates are not reliable.",
    ),
    entry(
        "objects_per_second",
        "1/s",
        "Machines and disks that the controller created per second of `ours_seconds`.",
    ),
    entry(
        "writes_per_machine",
        "",
        "Writes during the scale-up and until requests stop, including refused ones, without events and leases. The worst round.",
    ),
    entry("events_per_machine", "", "Writes of events during that time. The worst round."),
    entry(
        "cpu_seconds_per_1000",
        "s",
        "Processor time of the controller's process for the scale-up and until requests stop, per 1000 machines. The mean of all rounds.",
    ),
    entry(
        "rss_mib",
        "MiB",
        "Resident memory of the controller's process with all machines, after requests stop. The worst round.",
    ),
    entry("peak_rss_mib", "MiB", "Its maximum until then. The worst round."),
    entry(
        "settled_requests",
        "",
        "Requests for pools, revisions, machines, disks and events during SETTLE in the settled state, from all clients, without watches and leases.",
    ),
    entry(
        "scale_down_seconds",
        "s",
        "The controller: from the scale request to 0 until the last machine is deleted. The median of all rounds.",
    ),
    entry(
        "raw_scale_down_seconds",
        "s",
        "The bare client: from its first delete until the last machine is deleted. The median of its runs with 8 or with 32 concurrent requests; the smaller median.",
    ),
    entry(
        "disks_gone_seconds",
        "s",
        "Until the garbage collector has also deleted the last disk. The median of all rounds.",
    ),
    entry(
        "cold_start_seconds",
        "s",
        "From the start of a controller, with all machines but one, until the missing machine exists. The lease is free.",
    ),
    entry("cold_start_rss_mib", "MiB", "Resident memory of that controller after requests stop."),
    entry("cold_start_peak_rss_mib", "MiB", "Its maximum, which includes the first lists."),
    entry(
        "plan_ms_per_1000",
        "ms",
        "That controller's mean planning time over all its passes, per 1000 machines. It is constant if a pass is linear.",
    ),
    entry(
        "failover_seconds",
        "s",
        "From SIGKILL for the leader, with one missing machine, until the standby has created it.",
    ),
    entry("lease_seconds", "s", "Duration of a lease."),
    entry(
        "converged_seconds",
        "s",
        "With the simulator: from the scale request until the pool's status reports all machines as ready.",
    ),
    entry(
        "converged_cpu_seconds_per_1000",
        "s",
        "With the simulator: processor time of the controller's process from the scale request until requests stop, per 1000 machines.",
    ),
    entry(
        "converged_status_writes_per_machine",
        "",
        "With the simulator: writes of the pool's status during that time.",
    ),
    entry(
        "converged_rss_mib",
        "MiB",
        "Resident memory of that controller with all machines ready, after requests stop. With KubeVirt, machines then have instances.",
    ),
    entry("converged_peak_rss_mib", "MiB", "Its maximum until then."),
    entry(
        "converged_settled_requests",
        "",
        "`settled_requests` with the simulator, with all machines ready.",
    ),
];

/// Figures of many pools.
const MANY: &[FigureDescription] = &[
    entry("pools", "", "Pools."),
    entry("machines_per_pool", "", "Machines of each pool."),
    entry("fill_seconds", "s", "From the first pool's creation until all machines and disks exist."),
    entry("changes_per_second", "1/s", "Requested changes per second, over all pools."),
    entry("changes_shown", "", "Changes that appeared in the status of their pool."),
    entry(
        "p99_seconds",
        "s",
        "From sending a change until the watch of pools delivers a status with it: the 99th percentile.",
    ),
    entry("p50_seconds", "s", "The same: the median."),
    entry("max_seconds", "s", "The same: the maximum."),
    entry("machine_p99_seconds", "s", "`p99_seconds` of machines that start or stop."),
    entry("scale_p99_seconds", "s", "`p99_seconds` of scale requests."),
    entry("starved_pools", "", "Pools with a change that took more than 5 s or did not appear."),
    entry("too_many_requests", "", "Responses of the API server with status 429, to all clients."),
    entry(
        "refused_requests",
        "",
        "Other failed requests for pools, machines, disks and events, including conflicts.",
    ),
    entry("late_changes", "", "Changes that the benchmark sent too late because the host was busy."),
    entry(
        "controller_cpu_share",
        "cores",
        "Processor time of the controller's process, per second of changes.",
    ),
    entry("controller_rss_mib", "MiB", "Its resident memory at the end."),
    entry("controller_peak_rss_mib", "MiB", "Its maximum."),
    entry("status_writes", "", "Writes of the pools' statuses during that time."),
];

/// Figures of many disk images.
const IMAGES: &[FigureDescription] = &[
    entry("images", "", "Disk images."),
    entry("references_per_image", "", "Stopped machines that clone each image."),
    entry(
        "synced_seconds",
        "s",
        "With the simulator: from the first image's creation until all images are ready.",
    ),
    entry(
        "images_rss_mib",
        "MiB",
        "Resident memory of the controller's process with all images ready, and without references.",
    ),
    entry("reference_creates_seconds", "s", "Until the benchmark has created all machines."),
    entry(
        "counted_seconds",
        "s",
        "From the last machine's creation until the status of each image shows its count.",
    ),
    entry(
        "count_cpu_seconds_per_1000",
        "s",
        "Processor time of the controller's process per 1000 references, until requests stop.",
    ),
    entry(
        "status_writes_per_reference",
        "",
        "Writes of the images' statuses during that time, per reference.",
    ),
    entry("count_reads", "", "Reads and lists of kinds that can refer to an image, during that time."),
    entry(
        "images_referenced_rss_mib",
        "MiB",
        "Resident memory of the controller's process with all references.",
    ),
    entry("images_peak_rss_mib", "MiB", "Its maximum until then."),
    entry(
        "images_settled_requests",
        "",
        "Requests for images, their objects, machines and events during SETTLE in the settled state, from all clients, without watches and leases.",
    ),
    entry("lists_while_referenced", "", "Lists after the deletion of an image to which machines refer."),
    entry(
        "lists_of_deletion",
        "",
        "Requests of the lists after the last reference to it is gone: one for each of six kinds, and one for each further page of 500 objects.",
    ),
];

/// Figures of the life cycle.
const LIFE_CYCLE: &[FigureDescription] = &[
    entry(
        "standby_machines",
        "",
        "Standby machines that are activated, and machines that are created beside them: a tenth of MACHINES.",
    ),
    entry(
        "created_seconds",
        "s",
        "Without standby machines: from the scale request until the last object exists.",
    ),
    entry(
        "created_objects_per_second",
        "1/s",
        "Machines and disks that were created per second of `created_seconds`.",
    ),
    entry(
        "activated_seconds",
        "s",
        "With as many stopped standby machines: from the scale request until the last one is active.",
    ),
    entry(
        "activated_objects_per_second",
        "1/s",
        "Machines that were changed per second of `activated_seconds`.",
    ),
    entry(
        "writes_per_activation",
        "",
        "Writes of machines during that time and until requests stop, without creates.",
    ),
    entry("refreshed_machines", "", "Machines whose image changes."),
    entry(
        "refreshed_seconds",
        "s",
        "With the simulator: from the change of the image until all machines are ready with disks from its new content. It includes the minute for which the image must stay as it is.",
    ),
    entry(
        "refreshed_least_ready",
        "",
        "The least number of ready machines during that time, as a watch of machines shows it.",
    ),
    entry(
        "refreshed_cpu_seconds_per_1000",
        "s",
        "Processor time of the controller's process from the change of the image until requests stop, per 1000 machines.",
    ),
    entry("aged_machines", "", "Machines that get a lifetime: ten times MACHINES."),
    entry(
        "rest_cpu_share",
        "cores",
        "Processor time of the controller's process during SETTLE in the settled state, per second, without a lifetime.",
    ),
    entry("aged_rest_cpu_share", "cores", "The same with a lifetime of 168 hours."),
    entry("aged_settled_requests", "", "`settled_requests` with the lifetime."),
    entry("aged_rss_mib", "MiB", "Resident memory of the controller's process with the lifetime."),
];

/// The figures of all kinds of runs.
pub(crate) fn all_figures() -> impl Iterator<Item = &'static FigureDescription> {
    [ONE, MANY, IMAGES, LIFE_CYCLE].into_iter().flatten()
}

/// The figure with this name.
pub(crate) fn find_figure(key: &str) -> Option<&'static FigureDescription> {
    all_figures().find(|entry| entry.key == key)
}

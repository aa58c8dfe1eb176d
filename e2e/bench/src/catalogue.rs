//! Every figure: its name, unit and meaning. A test compares docs/benchmarks.md with these tables.

#[cfg(test)]
mod tests;

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name in the JSON file and in the table.
    pub(crate) key: &'static str,
    /// The unit; empty for a plain number.
    pub(crate) unit: &'static str,
    /// The meaning, as in the docs.
    pub(crate) meaning: &'static str,
}

const fn entry(key: &'static str, unit: &'static str, meaning: &'static str) -> Entry {
    Entry { key, unit, meaning }
}

/// Figures of one large pool.
pub(crate) const ONE: &[Entry] = &[
    entry("members", "", "Members of the pool."),
    entry(
        "raw_seconds",
        "s",
        "The bare client: from its first request until the last object exists. The median of its runs with 8 or with 32 in flight, whichever is less.",
    ),
    entry(
        "ours_seconds",
        "s",
        "The controller: from the scale request until the last object exists. The median of all rounds.",
    ),
    entry(
        "rate_ratio",
        "",
        "`raw_seconds / ours_seconds`: 1 means as fast as a program that only sends creates.",
    ),
    entry(
        "cost_ratio",
        "",
        "The same ratio of processor time, of all programs together. It hardly depends on what else the machine does.",
    ),
    entry(
        "foreign_share",
        "",
        "The share of the processors that programs outside the benchmark took while rates were measured, on average. Above 0.05 the rates say little.",
    ),
    entry(
        "objects_per_second",
        "1/s",
        "Machines and disks that the controller made per second of `ours_seconds`.",
    ),
    entry(
        "writes_per_member",
        "",
        "Writes that scaling up cost, events and leases apart, refused ones included, until nothing is asked for any more. The worst round.",
    ),
    entry("events_per_member", "", "Writes of events meanwhile. The worst round."),
    entry(
        "cpu_seconds_per_1000",
        "s",
        "Processor time of the controller's process for scaling up, until nothing is asked for any more, per 1000 members. The mean of all rounds.",
    ),
    entry(
        "rss_mib",
        "MiB",
        "Resident memory of the controller's process with all members, once nothing is asked for any more. The worst round.",
    ),
    entry("peak_rss_mib", "MiB", "The most it ever was until then. The worst round."),
    entry(
        "settled_requests",
        "",
        "Requests about pools, machines, disks and events during SETTLE in the settled state, from all clients; watches and leases apart.",
    ),
    entry(
        "scale_down_seconds",
        "s",
        "The controller: from the scale request to 0 until the last machine is gone. The median of all rounds.",
    ),
    entry(
        "raw_scale_down_seconds",
        "s",
        "The bare client: from its first delete until the last machine is gone. The median of its runs with 8 or with 32 in flight, whichever is less.",
    ),
    entry(
        "disks_gone_seconds",
        "s",
        "Until the last disk is gone, too, which is the garbage collector's work. The median of all rounds.",
    ),
    entry(
        "cold_start_seconds",
        "s",
        "From the start of a controller, with all members there and one more asked for, until that one exists. The lease is free.",
    ),
    entry(
        "cold_start_rss_mib",
        "MiB",
        "Resident memory of that controller, once nothing is asked for any more.",
    ),
    entry("cold_start_peak_rss_mib", "MiB", "The most it ever was: the first lists are in it."),
    entry(
        "plan_ms_per_1000",
        "ms",
        "That controller's mean time to plan, over all its passes, per 1000 members. Flat, if a pass is linear.",
    ),
    entry(
        "failover_seconds",
        "s",
        "From SIGKILL for the leader, with one more member asked for, until the standby has made it.",
    ),
    entry("lease_seconds", "s", "How long a lease lasts."),
    entry(
        "converged_seconds",
        "s",
        "With the simulator on: from the scale request until the pool's status shows all members ready.",
    ),
];

/// Figures of many pools.
pub(crate) const MANY: &[Entry] = &[
    entry("pools", "", "Pools."),
    entry("members_per_pool", "", "Members of each."),
    entry("fill_seconds", "s", "From the first pool's creation until all machines and disks exist."),
    entry("changes_per_second", "1/s", "Changes asked for per second, over all pools."),
    entry("changes_shown", "", "Changes that have shown in their pool's status."),
    entry(
        "p99_seconds",
        "s",
        "From sending a change until the watch of pools brings a status with it: at most that for 99 of 100.",
    ),
    entry("p50_seconds", "s", "The same for half of them."),
    entry("max_seconds", "s", "The same for all of them."),
    entry("machine_p99_seconds", "s", "`p99_seconds` of machines that started or stopped."),
    entry("scale_p99_seconds", "s", "`p99_seconds` of scale requests."),
    entry("starved_pools", "", "Pools with a change that took more than 5 s, or never showed."),
    entry("too_many_requests", "", "Answers 429 of the API server, to all clients."),
    entry(
        "refused_requests",
        "",
        "Other failures of requests about pools, machines, disks and events, conflicts included.",
    ),
    entry(
        "late_changes",
        "",
        "Changes that the benchmark itself began late, because the machine was too busy.",
    ),
    entry(
        "controller_cpu_share",
        "cores",
        "Processor time of the controller's process, per second of changes.",
    ),
    entry("controller_rss_mib", "MiB", "Its resident memory at the end."),
    entry("controller_peak_rss_mib", "MiB", "The most it ever was."),
    entry("status_writes", "", "Writes of pools' statuses meanwhile."),
];

/// The figure with this name.
pub(crate) fn find(key: &str) -> Option<&'static Entry> {
    ONE.iter().chain(MANY).find(|entry| entry.key == key)
}

//! The figures of one large pool.

use serde_json::json;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::{RequestCounts, RequestKey};
use vmpool_test_cluster::usage::MemoryUsage;

use crate::bare::{Run, WIDTHS};
use crate::lab::{is_write_of_controller, of_pools};
use crate::load::CpuLoad;
use crate::options::BenchOptions;
use crate::report::{BenchReport, Limit, as_f64, count_as_f64, request_count_lines};

/// Scale-up by the controller from 0 to all machines.
#[derive(Debug)]
pub(super) struct Up {
    /// From the scale request until the last object is observed.
    pub(super) seconds: f64,
    /// CPU usage during that time.
    pub(super) load: CpuLoad,
    /// The controller's CPU time until the last object is observed.
    pub(super) cpu_seconds: f64,
    /// The controller's CPU time until no requests arrive.
    pub(super) cpu_seconds_until_quiet: f64,
    /// All requests during that time.
    pub(super) requests: RequestCounts,
    /// The controller's memory once no requests arrive.
    pub(super) memory: MemoryUsage,
}

/// Scale-down by the controller to 0.
#[derive(Debug)]
pub(super) struct Down {
    /// From the scale request until the last machine is observed as deleted.
    pub(super) seconds: f64,
    /// The same for the last disk, which the garbage collector deletes.
    pub(super) disks_seconds: f64,
}

/// Adds all figures to the report.
pub(super) fn add_pool_figures(
    options: &BenchOptions,
    raw: &[Run],
    ups: &[Up],
    downs: &[Down],
    report: &mut BenchReport,
) {
    let machine_count = as_f64(options.machine_count());
    let small = options.machine_count() <= 1000;
    // The load of the host varies between runs. Medians are used, because a minimum would favor the side with
    // more runs.
    let best = |value: fn(&Run) -> f64| {
        let of_width = |width| median(raw.iter().filter(|run| run.width == width).map(value));
        least(WIDTHS.into_iter().map(of_width))
    };
    let raw_seconds = best(|run| run.create_seconds);
    let ours_seconds = median(ups.iter().map(|up| up.seconds));
    let mean = |value: fn(&Up) -> f64| ups.iter().map(value).sum::<f64>() / as_f64(ups.len());
    let worst = |value: fn(&Up) -> f64| ups.iter().map(value).fold(0.0, f64::max);
    let bar = |limit| Some(limit);

    report.add("raw_seconds", raw_seconds);
    report.add("ours_seconds", ours_seconds);
    // Machines of KubeVirt have no disks of the controller, so that each of them costs one request.
    let (ratio, ratio_goal, cpu, cpu_goal) = match options.platform() {
        TestedPlatform::Dvp => (if small { 0.85 } else { 0.8 }, 0.95, 1.2, 1.0),
        TestedPlatform::KubeVirt => {
            (if small { 0.9 } else { 0.85 }, if small { 0.95 } else { 0.9 }, 0.7, 0.5)
        }
    };
    let ratios = [ratio, ratio_goal].map(|ratio| bar(Limit::AtLeast(ratio)));
    report.demand("rate_ratio", raw_seconds / ours_seconds, ratios[0], ratios[1]);
    report.add("objects_per_second", machine_count * as_f64(1 + created_disks(options)) / ours_seconds);

    let loads = || raw.iter().map(|run| &run.load).chain(ups.iter().map(|up| &up.load));
    let raw_cost = best(|run| run.load.seconds());
    report.add("cost_ratio", raw_cost / median(ups.iter().map(|up| up.load.seconds())));
    let foreign = loads().map(|load| load.foreign).sum::<f64>() / as_f64(loads().count());
    report.add("foreign_share", foreign);
    let most = |wanted: fn(&RequestKey) -> bool| {
        ups.iter().map(|up| up.requests.only(wanted).total()).max().unwrap_or_default()
    };

    let writes = most(is_write_of_controller);
    let allowed = Limit::AtMost(as_f64(1 + created_disks(options)) + 0.05);
    report.demand("writes_per_machine", count_as_f64(writes) / machine_count, bar(allowed), bar(allowed));
    let events = most(|key| key.is_write() && key.resource == "events");
    report.add("events_per_machine", count_as_f64(events) / machine_count);
    let used = mean(|up| up.cpu_seconds_until_quiet) * 1000.0 / machine_count;
    report.demand("cpu_seconds_per_1000", used, bar(Limit::AtMost(cpu)), bar(Limit::AtMost(cpu_goal)));
    let (rss_bar, rss_goal) = match options.machine_count() {
        ..=1_000 => (bar(Limit::AtMost(32.0)), bar(Limit::AtMost(20.0))),
        1_001..=10_000 => (bar(Limit::AtMost(96.0)), bar(Limit::AtMost(64.0))),
        _ => (None, None),
    };
    report.demand("rss_mib", worst(|up| up.memory.now), rss_bar, rss_goal);
    report.add("peak_rss_mib", worst(|up| up.memory.peak));
    report.add("scale_down_seconds", median(downs.iter().map(|down| down.seconds)));
    report.add("raw_scale_down_seconds", best(|run| run.delete_seconds));
    report.add("disks_gone_seconds", median(downs.iter().map(|down| down.disks_seconds)));

    let raw: Vec<_> = raw
        .iter()
        .map(|run| {
            json!({
                "in_flight": run.width, "seconds": run.create_seconds,
                "delete_seconds": run.delete_seconds, "load": run.load.to_json(),
            })
        })
        .collect();
    report.detail("raw", json!(raw));
    let ours: Vec<_> = ups
        .iter()
        .map(|up| {
            json!({
                "seconds": up.seconds, "load": up.load.to_json(), "cpu_seconds": up.cpu_seconds,
                "cpu_seconds_until_quiet": up.cpu_seconds_until_quiet, "rss_mib": up.memory.now,
                "peak_rss_mib": up.memory.peak, "requests": request_count_lines(&up.requests.only(of_pools)),
            })
        })
        .collect();
    report.detail("ours", json!(ours));
}

/// The disks of each machine that the controller creates.
fn created_disks(options: &BenchOptions) -> usize {
    match options.platform() {
        TestedPlatform::Dvp => options.disks(),
        TestedPlatform::KubeVirt => 0,
    }
}

/// The median; infinity for an empty list.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match (values.len() / 2, values.len() % 2) {
        (0, 0) => f64::INFINITY,
        (middle, 0) => f64::midpoint(values[middle - 1], values[middle]),
        (middle, _) => values[middle],
    }
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::median;

    #[rstest]
    #[case::one(&[2.0], 2.0)]
    #[case::odd(&[9.0, 1.0, 3.0], 3.0)]
    #[case::even(&[4.0, 1.0, 9.0, 2.0], 3.0)]
    #[case::none(&[], f64::INFINITY)]
    fn the_median_is_computed(#[case] values: &[f64], #[case] expected: f64) {
        assert_eq!(median(values.iter().copied()).total_cmp(&expected), std::cmp::Ordering::Equal);
    }
}

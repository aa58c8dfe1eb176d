//! Metrics that the operating system reports about this process. On systems other than Linux they stay zero.

use prometheus_client::metrics::gauge::Gauge;

use super::registry::FloatCounter;
use crate::metric_table;

metric_table!(
    /// Memory, processor time, open descriptors and tasks of this process.
    ///
    /// The names of the first three are those of all Prometheus client libraries, so that common dashboards
    /// show them. The number of tasks is the only metric that shows a leak of tasks.
    #[derive(Clone, Debug)]
    pub struct ProcessMetrics {
        /// Processor time of this process, user and system.
        cpu: FloatCounter = "process_cpu_seconds_total" in "seconds";
        /// Resident memory of this process.
        resident: Gauge = "process_resident_memory_bytes" in "bytes";
        /// Open files, sockets and other descriptors of this process.
        descriptors: Gauge = "process_open_fds" in "descriptors";
        /// Asynchronous tasks of this process that have not ended. In an idle process the number does not
        /// grow over time.
        tasks: Gauge = "process_tasks" in "tasks";
    }
);

impl ProcessMetrics {
    /// Reads the current values. Call it before the metrics are encoded, on the runtime whose tasks are
    /// counted.
    pub fn refresh(&self) {
        if let Some(bytes) = read_proc_file("/proc/self/statm").as_deref().and_then(resident_pages) {
            let bytes = bytes.saturating_mul(rustix::param::page_size() as u64);
            self.resident.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        if let Some(ticks) = read_proc_file("/proc/self/stat").as_deref().and_then(cpu_ticks) {
            #[expect(
                clippy::cast_precision_loss,
                reason = "ticks of hundredths stay below 2^53 for a million years"
            )]
            let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
            self.cpu.inner().store(seconds.to_bits(), std::sync::atomic::Ordering::Relaxed);
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            // One of the descriptors is the directory that is being read.
            self.descriptors.set(i64::try_from(open.count()).unwrap_or(i64::MAX) - 1);
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tasks.set(i64::try_from(runtime.metrics().num_alive_tasks()).unwrap_or(i64::MAX));
        }
    }
}

fn read_proc_file(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The second number of `statm`.
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// `utime` and `stime` of `stat`, the 14th and 15th fields. The second field is the program's name in
/// parentheses. It may contain any character, including spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricsRegistry;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 31 5 6 20 0 1 0 99 1000 200";
        assert_eq!(cpu_ticks(stat), Some(281));
        assert_eq!(cpu_ticks("nonsense"), None);
    }

    #[test]
    fn resident_memory_is_the_second_number() {
        assert_eq!(resident_pages("5000 1234 300 1 0 2 0\n"), Some(1234));
        assert_eq!(resident_pages("5000"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_memory_and_time() {
        let process = ProcessMetrics::new(&mut MetricsRegistry::new());
        let busy: u64 = (0..20_000_000_u64).fold(1, |sum, i| std::hint::black_box(sum ^ i));
        std::hint::black_box(busy);
        process.refresh();
        assert!(process.resident.get() > 100_000, "{}", process.resident.get());
        assert!(process.cpu.get() > 0.0);
        assert_eq!(process.tasks.get(), 0, "this test has no runtime");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn open_files_and_waiting_tasks_are_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let process = ProcessMetrics::new(&mut MetricsRegistry::new());
        runtime.block_on(async {
            // Other tests open and close a few files at the same time.
            const MANY: i64 = 500;
            process.refresh();
            let (descriptors, tasks) = (process.descriptors.get(), process.tasks.get());
            let files: Vec<_> = (0..MANY).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
            let waits = runtime.spawn(std::future::pending::<()>());
            process.refresh();
            assert!(process.descriptors.get() > descriptors + MANY / 2, "{descriptors} before");
            assert_eq!(process.tasks.get(), tasks + 1);
            drop(files);
            waits.abort();
            assert!(waits.await.is_err());
            process.refresh();
            assert!(process.descriptors.get() < descriptors + MANY / 2, "{descriptors} before");
            assert_eq!(process.tasks.get(), tasks);
        });
    }
}

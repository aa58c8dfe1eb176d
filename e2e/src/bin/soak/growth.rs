//! Resource usage of the project's programs, and whether it grows.

use std::fmt;

use anyhow::Context;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::programs::{Component, RestartableProgram};
use vmpool_test_cluster::usage;

use crate::fault::NEVER_KILLED_INDEX;

#[cfg(test)]
mod tests;

/// Allowed growth of memory between two samples with equal load, in MiB. Allocators keep a varying amount.
const MIB: f64 = 6.0;

/// Allowed relative growth of memory, if that is more.
const SHARE: f64 = 0.2;

/// Allowed growth of descriptors and tasks: a burst of writes leaves idle connections open.
const COUNT: u64 = 24;

/// Allowed growth of threads: a runtime starts threads when it needs them, and keeps them for a while.
const THREADS: u64 = 4;

/// Resource usage of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// The process id, which shows restarts.
    pub(crate) pid: u32,
    /// Resident memory.
    pub(crate) mib: f64,
    /// Open files, sockets and similar.
    pub(crate) descriptors: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Running asynchronous tasks according to the metrics; `None` if the program does not export them.
    pub(crate) tasks: Option<u64>,
}

/// Usage of the programs that run during the whole soak test, by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UsageSample(pub(crate) Vec<(String, Usage)>);

impl UsageSample {
    /// Samples the programs of a world.
    pub(crate) async fn take(world: &ScenarioWorld) -> anyhow::Result<Self> {
        let installation = world.installation();
        let controllers = world.controllers();
        let controller = controllers.get(NEVER_KILLED_INDEX).context("the soak has controllers")?;
        let mut programs: Vec<(&str, &RestartableProgram)> = vec![("controller", controller)];
        for component in Component::ALL {
            programs.push((
                component.name(),
                &installation.guard()?.service(component)?.replicas()[NEVER_KILLED_INDEX],
            ));
        }
        programs.push(("simulator", installation.simulator()));
        let mut sample = Vec::new();
        for (name, program) in programs {
            sample.push((name.trim_start_matches("vmpool-").to_owned(), used(program).await?));
        }
        Ok(Self(sample))
    }

    /// The minimum usage of each program in the first third of the samples, and in the last third. The
    /// minimum excludes connections and memory that a burst happened to leave. `None` without samples.
    pub(crate) fn ends(samples: &[Self]) -> Option<(Self, Self)> {
        let third = samples.len().div_ceil(3);
        Some((Self::least(samples.get(..third)?)?, Self::least(samples.get(samples.len() - third..)?)?))
    }

    fn least(samples: &[Self]) -> Option<Self> {
        let (first, others) = samples.split_first()?;
        let mut least = first.clone();
        for (place, (_, usage)) in least.0.iter_mut().enumerate() {
            for (_, other) in others.iter().filter_map(|sample| sample.0.get(place)) {
                usage.mib = usage.mib.min(other.mib);
                usage.descriptors = usage.descriptors.min(other.descriptors);
                usage.threads = usage.threads.min(other.threads);
                usage.tasks = usage.tasks.min(other.tasks);
                // If the program has restarted in between, the process id of the last sample shows it.
                usage.pid = other.pid;
            }
        }
        Some(least)
    }

    /// Growth since an earlier sample beyond the allowed variation, one line each.
    pub(crate) fn growth_since(&self, earlier: &Self) -> Vec<String> {
        let mut grown = Vec::new();
        for ((name, now), (_, then)) in self.0.iter().zip(&earlier.0) {
            if now.pid != then.pid {
                grown.push(format!("{name} has restarted"));
                continue;
            }
            let most = then.mib + MIB.max(then.mib * SHARE);
            if now.mib > most {
                grown.push(format!("memory of {name} grew from {:.1} to {:.1} MiB", then.mib, now.mib));
            }
            let counts = [
                ("descriptors", Some(then.descriptors), Some(now.descriptors), COUNT),
                ("threads", Some(then.threads), Some(now.threads), THREADS),
                ("tasks", then.tasks, now.tasks, COUNT),
            ];
            for (what, then, now, more) in counts {
                if let (Some(then), Some(now)) = (then, now)
                    && now > then + more
                {
                    grown.push(format!("{what} of {name} grew from {then} to {now}"));
                }
            }
        }
        grown
    }

    /// The differences from an earlier sample, as text.
    pub(crate) fn compared_to(&self, earlier: &Self) -> String {
        let pair = |((name, now), (_, then)): (&(String, Usage), &(String, Usage))| {
            let tasks = |usage: &Usage| usage.tasks.map_or_else(|| "-".to_owned(), |tasks| tasks.to_string());
            format!(
                "{name} RSS {:.1} -> {:.1} MiB, descriptors {} -> {}, threads {} -> {}, tasks {} -> {}",
                then.mib,
                now.mib,
                then.descriptors,
                now.descriptors,
                then.threads,
                now.threads,
                tasks(then),
                tasks(now),
            )
        };
        self.0.iter().zip(&earlier.0).map(pair).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for UsageSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |(name, usage): &(String, Usage)| {
            let tasks = usage.tasks.map_or_else(String::new, |tasks| format!("/{tasks}"));
            format!("{name} {:.1} MiB {}/{}{tasks}", usage.mib, usage.descriptors, usage.threads)
        };
        f.write_str(&self.0.iter().map(line).collect::<Vec<_>>().join(", "))
    }
}

async fn used(program: &RestartableProgram) -> anyhow::Result<Usage> {
    let pid = program.pid().context("a program that is never killed has exited")?;
    let (_, page) = program.probe("/metrics").await;
    Ok(Usage {
        pid,
        mib: usage::resident_memory(pid)?.now,
        descriptors: usage::open_descriptor_count(pid)?,
        threads: usage::thread_count(pid)?,
        tasks: tasks(&page),
    })
}

/// The number of tasks in a metrics page.
fn tasks(page: &str) -> Option<u64> {
    page.lines().find_map(|line| line.strip_prefix("process_tasks "))?.trim().parse().ok()
}

//! Measures the time until all machines are ready, with the platform simulator.

use std::time::Instant;

use anyhow::{Context, bail};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use vmpool_installation::programs::Simulator;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::RequestKey;
use vmpool_test_cluster::usage;

use crate::lab::{Lab, POOL, controller_process_id, seconds_between};
use crate::options::BenchOptions;
use crate::report::{BenchReport, Limit, as_f64, count_as_f64, request_count_lines};
use crate::settled;
use crate::tally::step_timeout;

const NAMESPACE: &str = "converge";

/// Interval of progress lines, in ready machines.
const PROGRESS: i64 = 1000;

/// Measures in a new namespace with a new controller.
pub(crate) async fn measure_convergence(
    lab: &Lab,
    options: &BenchOptions,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let machine_count = options.machine_count();
    lab.step(&format!("with the simulator on, 0 -> {machine_count} ready"));
    let platform = format!("--platform={}", options.platform());
    let simulator = Simulator::start_with(lab.cluster(), &[&platform]).await?;
    lab.namespace(NAMESPACE).await?;
    let controller = lab.controller(NAMESPACE, "first").await?;
    lab.pool(NAMESPACE, POOL, 0).await?;
    let requests = lab.quiet().await?;
    let pid = controller_process_id(&controller)?;
    let (cpu, begin) = (usage::cpu_seconds(pid)?, Instant::now());
    lab.scale(NAMESPACE, POOL, machine_count).await?;
    let deadline = step_timeout(machine_count);
    let ready = tokio::time::timeout(deadline, until_ready(lab, machine_count));
    let converged = Lab::with_log(&controller, async {
        ready.await.with_context(|| format!("not all {machine_count} ready after {deadline:?}"))?
    })
    .await?;
    simulator.check()?;
    let seconds = seconds_between(begin, converged);
    Lab::note(&format!("all ready after {seconds:.2} s"));
    report.add("converged_seconds", seconds);

    let requests = lab.quiet().await?.since(&requests);
    let (cpu, memory) = (usage::cpu_seconds(pid)? - cpu, usage::resident_memory(pid)?);
    let statuses = requests.only(|key| key.is_write() && is_pool_status(key)).total();
    report.add("converged_cpu_seconds_per_1000", cpu * 1000.0 / as_f64(machine_count));
    report.add("converged_status_writes_per_machine", count_as_f64(statuses) / as_f64(machine_count));
    report.demand("converged_rss_mib", memory.now, rss_limit(options), None);
    report.add("converged_peak_rss_mib", memory.peak);
    let settled = settled::count_settled_requests(lab, options).await?;
    let nothing = Some(Limit::AtMost(0.0));
    report.demand("converged_settled_requests", count_as_f64(settled.total()), nothing, nothing);
    report.detail("converged_settled_requests", json!(request_count_lines(&settled)));
    Ok(())
}

/// The limit of the memory for machines with their instances, which exist on KubeVirt only.
fn rss_limit(options: &BenchOptions) -> Option<Limit> {
    match (options.platform(), options.machine_count()) {
        (TestedPlatform::KubeVirt, ..=1_000) => Some(Limit::AtMost(36.0)),
        (TestedPlatform::KubeVirt, ..=10_000) => Some(Limit::AtMost(160.0)),
        _ => None,
    }
}

fn is_pool_status(key: &RequestKey) -> bool {
    key.resource == TestedKind::Pool.plural() && key.subresource == "status"
}

/// Waits until the pool's status reports all machines as ready.
async fn until_ready(lab: &Lab, machine_count: usize) -> anyhow::Result<Instant> {
    let machine_count = i64::try_from(machine_count)?;
    let pools = watcher(lab.pools(NAMESPACE), watcher::Config::default()).default_backoff();
    let mut pools = std::pin::pin!(pools.applied_objects());
    let mut told = 0;
    while let Some(pool) = pools.next().await {
        let pool = match pool {
            Ok(pool) => JsonObject::try_from(pool)?,
            Err(error) => {
                tracing::warn!(%error, "the watch of pools failed");
                continue;
            }
        };
        let ready = pool.number("/status/readyReplicas").unwrap_or_default();
        if ready == machine_count {
            return Ok(Instant::now());
        }
        if ready >= told + PROGRESS {
            Lab::note(&format!("{ready} of {machine_count} ready"));
            told = ready;
        }
    }
    bail!("the watch of pools ended")
}

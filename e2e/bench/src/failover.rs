//! Measures the time until the first write of a controller: after its start, and after the leader was killed.

use std::time::Instant;

use anyhow::{Context, bail};
use vmpool_installation::programs::{ControllerOptions, ControllerProgram};
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::usage;

use crate::lab::{Lab, POOL, controller_process_id, seconds_between};
use crate::report::{BenchReport, Limit, as_f64};
use crate::tally::step_timeout;

/// Maximum time beyond the lease duration until the new leader's first write.
const BEYOND_LEASE_SECONDS: f64 = 2.0;

/// Maximum planning time per 1000 machines. If it depends on the size, a pass is not linear.
const PLAN_MS_PER_1000: f64 = 2.0;

/// Measures both on a settled pool of this size. Returns the controller that leads at the end.
pub(crate) async fn measure_failover(
    lab: &Lab,
    first: ControllerProgram,
    namespace: &str,
    machine_count: usize,
    report: &mut BenchReport,
) -> anyhow::Result<ControllerProgram> {
    let mut machines = lab.tally(TestedKind::Machine, namespace).await?;

    lab.step(&format!("a cold start with {machine_count} machines"));
    first.stop().await?;
    lab.scale(namespace, POOL, machine_count + 1).await?;
    let begin = Instant::now();
    first.restart().await?;
    let seen = Lab::with_log(&first, machines.reach(machine_count + 1)).await?;
    let cold_start = seconds_between(begin, seen);
    lab.quiet().await?;
    let memory = usage::resident_memory(controller_process_id(&first)?)?;
    let plan = plan_seconds(&first.probe("/metrics").await.1)?;
    Lab::note(&format!(
        "first write {cold_start:.2} s after the start; RSS {:.1} MiB, peak {:.1} MiB; a pass plans for {:.1} ms",
        memory.now,
        memory.peak,
        plan * 1000.0,
    ));
    report.add("cold_start_seconds", cold_start);
    report.add("cold_start_rss_mib", memory.now);
    report.add("cold_start_peak_rss_mib", memory.peak);
    let flat = Some(Limit::AtMost(PLAN_MS_PER_1000));
    report.demand("plan_ms_per_1000", plan * 1000.0 * 1000.0 / as_f64(machine_count), None, flat);

    lab.step("a standby takes over from a killed leader");
    let second = lab.controller(namespace, "second").await?;
    until_ready(&second).await?;
    let begin = Instant::now();
    first.kill();
    lab.scale(namespace, POOL, machine_count + 2).await?;
    let seen = Lab::with_log(&second, machines.reach(machine_count + 2)).await?;
    let failover = seconds_between(begin, seen);
    let lease = ControllerOptions::new(namespace, "").lease_duration.as_secs_f64();
    Lab::note(&format!(
        "first write of the standby {failover:.2} s after the kill; the lease lasts {lease} s"
    ));
    let limit = Some(Limit::AtMost(lease + BEYOND_LEASE_SECONDS));
    report.demand("failover_seconds", failover, limit, limit);
    report.add("lease_seconds", lease);

    lab.scale(namespace, POOL, machine_count).await?;
    machines.reach(machine_count).await?;
    lab.quiet().await?;
    Ok(second)
}

/// Waits until the standby is ready, which it is once it has read the lease.
async fn until_ready(standby: &ControllerProgram) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let (code, body) = standby.probe("/readyz").await;
        if code == 200 {
            return Ok(());
        }
        if begin.elapsed() > step_timeout(0) {
            bail!("the standby does not become ready: {code} {body}");
        }
        if let Some(status) = standby.exit_status() {
            return Err(anyhow::anyhow!("{status}")).context("the standby exited");
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Mean planning time of a controller's passes, from its metrics. Observing and applying are excluded,
/// because they contain requests to the API server.
fn plan_seconds(metrics: &str) -> anyhow::Result<f64> {
    let value = |part: &str| -> anyhow::Result<f64> {
        let name = format!("vmpool_pass_stage_duration_seconds_{part}{{stage=\"plan\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        Ok(line.with_context(|| format!("no metric {name}"))?.parse()?)
    };
    Ok(value("sum")? / value("count")?)
}

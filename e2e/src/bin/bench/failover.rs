//! How soon a controller acts that was just started, and one whose predecessor was just killed.

use std::time::Instant;

use anyhow::{Context, bail};
use vmpool_e2e::object::Kind;
use vmpool_e2e::programs::{Controller, ControllerOptions};

use crate::lab::{Lab, POOL, patience, seconds};
use crate::one::pid;
use crate::report::{Limit, Report};
use crate::usage;

/// What may pass beyond the lease until the next leader's first write.
const BEYOND_LEASE_SECONDS: f64 = 2.0;

/// Measures both on a settled pool of so many members, and returns the controller that leads then.
pub(crate) async fn measure(
    lab: &Lab,
    first: Controller,
    namespace: &str,
    members: usize,
    report: &mut Report,
) -> anyhow::Result<Controller> {
    let mut machines = lab.tally(Kind::Machine, namespace).await?;

    lab.step(&format!("a cold start at {members} members"));
    first.stop().await?;
    lab.scale(namespace, POOL, members + 1).await?;
    let begin = Instant::now();
    first.restart().await?;
    let seen = Lab::with_log(&first, machines.reach(members + 1)).await?;
    let cold_start = seconds(begin, seen);
    lab.quiet().await?;
    let memory = usage::memory(pid(&first)?)?;
    Lab::note(&format!(
        "first write {cold_start:.2} s after the start; RSS {:.1} MiB, peak {:.1} MiB",
        memory.now, memory.peak
    ));
    report.add("cold_start_seconds", cold_start, "s");
    report.add("cold_start_rss_mib", memory.now, "MiB");
    report.add("cold_start_peak_rss_mib", memory.peak, "MiB");

    lab.step("a standby takes over from a killed leader");
    let second = lab.controller(namespace, "second").await?;
    until_ready(&second).await?;
    let begin = Instant::now();
    first.kill();
    lab.scale(namespace, POOL, members + 2).await?;
    let seen = Lab::with_log(&second, machines.reach(members + 2)).await?;
    let failover = seconds(begin, seen);
    let lease = ControllerOptions::new(namespace, "").lease_duration.as_secs_f64();
    Lab::note(&format!(
        "first write of the standby {failover:.2} s after the kill; the lease lasts {lease} s"
    ));
    let limit = Some(Limit::AtMost(lease + BEYOND_LEASE_SECONDS));
    report.demand("failover_seconds", failover, "s", limit, limit);
    report.add("lease_seconds", lease, "s");

    lab.scale(namespace, POOL, members).await?;
    machines.reach(members).await?;
    lab.quiet().await?;
    Ok(second)
}

/// A standby is ready once it has seen the lease.
async fn until_ready(standby: &Controller) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let (code, body) = standby.probe("/readyz").await;
        if code == 200 {
            return Ok(());
        }
        if begin.elapsed() > patience(0) {
            bail!("the standby does not get ready: {code} {body}");
        }
        if let Some(status) = standby.exit_status() {
            return Err(anyhow::anyhow!("{status}")).context("the standby ended");
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

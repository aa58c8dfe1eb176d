//! Measures the time until all machines are ready, with the platform simulator.

use std::time::Instant;

use anyhow::{Context, bail};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use vmpool_installation::programs::Simulator;
use vmpool_invariants::object::{Kind, Object};
use vmpool_invariants::platform::PlatformName;
use vmpool_test_cluster::control_plane::RequestKey;
use vmpool_test_cluster::usage;

use crate::lab::{Lab, POOL, pid, seconds};
use crate::options::Options;
use crate::report::{Limit, Report, as_f64, lines, whole};
use crate::settled;
use crate::tally::patience;

const NAMESPACE: &str = "converge";

/// Interval of progress lines, in ready machines.
const PROGRESS: i64 = 1000;

/// Measures in a new namespace with a new controller.
pub(crate) async fn measure(lab: &Lab, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let members = options.members();
    lab.step(&format!("with the simulator on, 0 -> {members} ready"));
    let platform = format!("--platform={}", options.platform());
    let simulator = Simulator::start_with(lab.cluster(), &[&platform]).await?;
    lab.namespace(NAMESPACE).await?;
    let controller = lab.controller(NAMESPACE, "first").await?;
    lab.pool(NAMESPACE, POOL, 0).await?;
    let requests = lab.quiet().await?;
    let pid = pid(&controller)?;
    let (cpu, begin) = (usage::cpu(pid)?, Instant::now());
    lab.scale(NAMESPACE, POOL, members).await?;
    let deadline = patience(members);
    let ready = tokio::time::timeout(deadline, until_ready(lab, members));
    let converged = Lab::with_log(&controller, async {
        ready.await.with_context(|| format!("not all {members} ready after {deadline:?}"))?
    })
    .await?;
    simulator.check()?;
    let seconds = seconds(begin, converged);
    Lab::note(&format!("all ready after {seconds:.2} s"));
    report.add("converged_seconds", seconds);

    let requests = lab.quiet().await?.since(&requests);
    let (cpu, memory) = (usage::cpu(pid)? - cpu, usage::memory(pid)?);
    let statuses = requests.only(|key| key.is_write() && is_pool_status(key)).total();
    report.add("converged_cpu_seconds_per_1000", cpu * 1000.0 / as_f64(members));
    report.add("converged_status_writes_per_member", whole(statuses) / as_f64(members));
    report.demand("converged_rss_mib", memory.now, rss_limit(options), None);
    report.add("converged_peak_rss_mib", memory.peak);
    let settled = settled::requests(lab, options).await?;
    let nothing = Some(Limit::AtMost(0.0));
    report.demand("converged_settled_requests", whole(settled.total()), nothing, nothing);
    report.detail("converged_settled_requests", json!(lines(&settled)));
    Ok(())
}

/// The limit of the memory for machines with their instances, which exist on KubeVirt only.
fn rss_limit(options: &Options) -> Option<Limit> {
    match (options.platform(), options.members()) {
        (PlatformName::KubeVirt, ..=1_000) => Some(Limit::AtMost(36.0)),
        (PlatformName::KubeVirt, ..=10_000) => Some(Limit::AtMost(160.0)),
        _ => None,
    }
}

fn is_pool_status(key: &RequestKey) -> bool {
    key.resource == Kind::Pool.plural() && key.subresource == "status"
}

/// Waits until the pool's status reports all machines as ready.
async fn until_ready(lab: &Lab, members: usize) -> anyhow::Result<Instant> {
    let members = i64::try_from(members)?;
    let pools = watcher(lab.pools(NAMESPACE), watcher::Config::default()).default_backoff();
    let mut pools = std::pin::pin!(pools.applied_objects());
    let mut told = 0;
    while let Some(pool) = pools.next().await {
        let pool = match pool {
            Ok(pool) => Object::try_from(pool)?,
            Err(error) => {
                tracing::warn!(%error, "the watch of pools failed");
                continue;
            }
        };
        let ready = pool.number("/status/readyReplicas").unwrap_or_default();
        if ready == members {
            return Ok(Instant::now());
        }
        if ready >= told + PROGRESS {
            Lab::note(&format!("{ready} of {members} ready"));
            told = ready;
        }
    }
    bail!("the watch of pools ended")
}

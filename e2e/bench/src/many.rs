//! Many pools with changes at a steady rate: how soon does each change show in its pool's status?

mod change;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use vmpool_api::labels;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_test_cluster::control_plane::RequestCounts;
use vmpool_test_cluster::usage;

use self::change::{ChangeSequence, ChangingPool, Tracking};
use crate::lab::{Lab, controller_process_id, is_write_of_controller, of_pools, seconds_between};
use crate::options::BenchOptions;
use crate::report::{BenchReport, Limit, as_f64, count_as_f64, request_count_lines};
use crate::tracker::{STARVED, Tracked, duration_quantile};

const NAMESPACE: &str = "many";

/// Number of concurrent creates.
const CREATES: usize = 8;

/// Interval of progress lines.
const PROGRESS: Duration = Duration::from_secs(15);

/// Fills the pools, makes the changes, and reports the figures.
pub(crate) async fn measure_many_pools(
    lab: &Lab,
    pools: usize,
    options: &BenchOptions,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let machine_count = options.machine_count();
    report.add("pools", as_f64(pools));
    report.add("machines_per_pool", as_f64(machine_count));
    lab.step(&format!("filling {pools} pools of {machine_count} machines"));
    lab.namespace(NAMESPACE).await?;
    let controller = lab.controller(NAMESPACE, "first").await?;
    let filled = Lab::with_log(&controller, fill(lab, pools, machine_count)).await?;
    report.add("fill_seconds", filled);
    let requests = lab.quiet().await?;
    Lab::note(&format!("all exist after {filled:.2} s"));

    let targets = targets(lab).await?;
    let tracking: Tracking = Arc::default();
    tracking.lock().extend(targets.iter().map(|target| (target.pool.clone(), Tracked::default())));
    let _watch = AbortOnDropHandle::new(tokio::spawn(follow(lab_pools(lab), tracking.clone())));
    lab.step(&format!("{} changes a second for {:?}", options.rate, options.duration));
    let pid = controller_process_id(&controller)?;
    let (cpu, begin) = (usage::cpu_seconds(pid)?, Instant::now());
    let changes = ChangeSequence::new(lab, NAMESPACE, targets, tracking.clone());
    let late = Lab::with_log(&controller, drive(changes, options, &tracking)).await?;
    drain(&tracking).await;
    let cpu_share = (usage::cpu_seconds(pid)? - cpu) / begin.elapsed().as_secs_f64();
    let requests = lab.cluster().metrics().await?.since(&requests);
    let memory = usage::resident_memory(pid)?;

    latencies(&tracking.lock(), options, report)?;
    refusals(&requests, report);
    report.add("late_changes", count_as_f64(late));
    report.add("controller_cpu_share", cpu_share);
    report.add("controller_rss_mib", memory.now);
    report.add("controller_peak_rss_mib", memory.peak);
    let statuses = requests.only(|key| {
        is_write_of_controller(key)
            && key.resource == TestedKind::Pool.plural()
            && key.subresource == "status"
    });
    report.add("status_writes", count_as_f64(statuses.total()));
    report.detail("requests", json!(request_count_lines(&requests.only(of_pools))));
    controller.stop().await?;
    Ok(())
}

/// Creates the pools, and returns the time until all machines and disks existed.
async fn fill(lab: &Lab, pools: usize, machine_count: usize) -> anyhow::Result<f64> {
    let (mut last, objects) = lab.tally_of_last(NAMESPACE, pools * machine_count).await?;
    let begin = Instant::now();
    futures::stream::iter(0..pools)
        .map(|number| async move { lab.pool(NAMESPACE, &format!("pool-{number}"), machine_count).await.map(drop) })
        .buffer_unordered(CREATES)
        .try_collect::<()>()
        .await?;
    Ok(seconds_between(begin, last.reach(objects).await?))
}

/// The pools and their machines.
async fn targets(lab: &Lab) -> anyhow::Result<Vec<ChangingPool>> {
    let list = ListParams::default();
    let pools = lab.pools(NAMESPACE).list(&list).await.context("listing the pools")?;
    let machines = TestedKind::Machine.api(lab.cluster().admin(), NAMESPACE);
    let machines = machines.list_metadata(&list).await.context("listing the machines")?;
    let mut by_pool: HashMap<String, Vec<String>> = HashMap::new();
    for machine in machines.items {
        let uid = machine.metadata.labels.unwrap_or_default().remove(labels::POOL_UID).unwrap_or_default();
        by_pool.entry(uid).or_default().extend(machine.metadata.name);
    }
    let target = |pool: kube::api::DynamicObject| {
        let machines = by_pool.remove(&pool.metadata.uid?)?;
        Some(ChangingPool::new(pool.metadata.name?, machines))
    };
    let targets: Vec<ChangingPool> = pools.items.into_iter().filter_map(target).collect();
    if targets.is_empty() {
        bail!("no pool has machines");
    }
    Ok(targets)
}

fn lab_pools(lab: &Lab) -> kube::Api<kube::api::DynamicObject> {
    lab.pools(NAMESPACE)
}

/// Passes the statuses of the pools to the trackers.
async fn follow(pools: kube::Api<kube::api::DynamicObject>, tracking: Tracking) {
    let pools = watcher(pools, watcher::Config::default()).default_backoff();
    let mut pools = std::pin::pin!(pools.applied_objects());
    while let Some(pool) = pools.next().await {
        match pool.map(JsonObject::try_from) {
            Ok(Ok(pool)) => {
                let number = |path| pool.number(path).unwrap_or_default();
                let (ready, generation) =
                    (number("/status/readyReplicas"), number("/status/observedGeneration"));
                if let Some(tracked) = tracking.lock().get_mut(pool.name()) {
                    tracked.seen(Instant::now(), ready, generation);
                }
            }
            Ok(Err(error)) => tracing::warn!(%error, "a pool cannot be read"),
            Err(error) => tracing::warn!(%error, "the watch of pools failed"),
        }
    }
}

/// Makes the changes. Returns how many started late because this program or the API server was too slow.
async fn drive(
    mut changes: ChangeSequence,
    options: &BenchOptions,
    tracking: &Tracking,
) -> anyhow::Result<u64> {
    let period = Duration::from_secs(1) / options.rate;
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(period);
    let (mut told, mut made, mut late) = (begin, 0_usize, 0);
    let mut running = JoinSet::new();
    while begin.elapsed() < options.duration {
        let due = ticks.tick().await;
        late += u64::from(due.elapsed() > period);
        running.spawn(changes.next());
        made += 1;
        while let Some(done) = running.try_join_next() {
            done.context("a change")??;
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            let tracking = tracking.lock();
            let pending: usize = tracking.values().map(Tracked::pending).sum();
            let worst = tracking.values().map(Tracked::worst).max().unwrap_or_default();
            Lab::note(&format!("{made} changes, {pending} not in a status yet, slowest {worst:.2?}"));
        }
    }
    while let Some(done) = running.join_next().await {
        done.context("a change")??;
    }
    Ok(late)
}

/// Waits for the last changes, up to the limit for any change.
async fn drain(tracking: &Tracking) {
    let begin = Instant::now();
    while begin.elapsed() < STARVED && tracking.lock().values().any(|pool| pool.pending() > 0) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn latencies(
    tracking: &HashMap<String, Tracked>,
    options: &BenchOptions,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let of = |delays: fn(&Tracked) -> &[Duration]| -> Vec<Duration> {
        tracking.values().flat_map(delays).copied().collect()
    };
    let (mut machines, mut scales) = (of(Tracked::ready_delays), of(Tracked::scale_delays));
    let mut all = [machines.as_slice(), &scales].concat();
    if all.is_empty() {
        bail!("no status shows a change");
    }
    report.add("changes_per_second", f64::from(options.rate));
    report.add("changes_shown", as_f64(all.len()));
    let second = Some(Limit::AtMost(1.0));
    report.demand("p99_seconds", duration_quantile(&mut all, 0.99).as_secs_f64(), second, None);
    report.add("p50_seconds", duration_quantile(&mut all, 0.5).as_secs_f64());
    report.add("max_seconds", duration_quantile(&mut all, 1.0).as_secs_f64());
    report.add("machine_p99_seconds", duration_quantile(&mut machines, 0.99).as_secs_f64());
    report.add("scale_p99_seconds", duration_quantile(&mut scales, 0.99).as_secs_f64());
    let starved = tracking.values().filter(|pool| pool.is_starved()).count();
    let nothing = Some(Limit::AtMost(0.0));
    report.demand("starved_pools", as_f64(starved), nothing, nothing);
    Ok(())
}

fn refusals(requests: &RequestCounts, report: &mut BenchReport) {
    let nothing = Some(Limit::AtMost(0.0));
    let too_many = requests.only(|key| key.code == 429).total();
    report.demand("too_many_requests", count_as_f64(too_many), nothing, nothing);
    let refused = requests.only(|key| of_pools(key) && !key.is_success()).total();
    report.add("refused_requests", count_as_f64(refused));
}

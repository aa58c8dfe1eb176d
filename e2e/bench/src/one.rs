//! One large pool: alternates the bare client and the controller.

mod figures;

use std::time::Instant;

use serde_json::json;
use vmpool_controller::platform::Platform;
use vmpool_installation::programs::ControllerProgram;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::usage;

use crate::bare::BareClient;
use crate::lab::{Lab, POOL, controller_process_id, seconds_between};
use crate::load::CpuSnapshot;
use crate::options::BenchOptions;
use crate::report::{BenchReport, Limit, as_f64, count_as_f64, request_count_lines};
use crate::{converge, failover, settled};
use figures::{Down, Up};

/// Runs all measurements and reports the figures.
pub(crate) async fn measure_one_pool<P: Platform>(
    lab: &Lab,
    options: &BenchOptions,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let (machine_count, rounds) = (options.machine_count(), options.rounds());
    report.add("machines", as_f64(machine_count));
    report.detail("disks", json!(options.disks()));
    lab.step("warming up the bare client");
    let mut bare = BareClient::<P>::start(lab, "bare").await?;
    let (mut raw, mut ups, mut downs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        lab.step(&format!(
            "round {round} of {rounds}: the bare client creates and deletes {machine_count} machines"
        ));
        raw.extend(bare.measure(lab, machine_count).await?);

        let namespace = format!("round-{round}");
        lab.step(&format!("round {round} of {rounds}: the controller, 0 -> {machine_count}"));
        let mut controller = lab.warm_controller(&namespace).await?;
        ups.push(Lab::with_log(&controller, up(lab, &controller, &namespace, machine_count)).await?);
        if round == rounds {
            lab.step(&format!("watching the settled state for {:?}", options.settle));
            let requests = settled::count_settled_requests(lab, options).await?;
            let nothing = Some(Limit::AtMost(0.0));
            report.demand("settled_requests", count_as_f64(requests.total()), nothing, nothing);
            report.detail("settled_requests", json!(request_count_lines(&requests)));
            if options.failover {
                controller =
                    failover::measure_failover(lab, controller, &namespace, machine_count, report).await?;
            }
        }
        lab.step(&format!("round {round} of {rounds}: the controller, {machine_count} -> 0"));
        downs.push(Lab::with_log(&controller, down(lab, &namespace, machine_count)).await?);
        controller.stop().await?;
    }
    // The bare client runs again after the controller, so that a drift of the host's load affects both sides.
    lab.step(&format!("the bare client creates and deletes {machine_count} machines"));
    raw.extend(bare.measure(lab, machine_count).await?);
    figures::add_pool_figures(options, &raw, &ups, &downs, report);
    if !options.skip_convergence {
        converge::measure_convergence(lab, options, report).await?;
    }
    Ok(())
}

async fn up(
    lab: &Lab,
    controller: &ControllerProgram,
    namespace: &str,
    machine_count: usize,
) -> anyhow::Result<Up> {
    lab.pool(namespace, POOL, 0).await?;
    let (mut last, objects) = lab.tally_of_last(namespace, machine_count).await?;
    let requests = lab.quiet().await?;
    let pid = controller_process_id(controller)?;
    let (cpu, before) = (usage::cpu_seconds(pid)?, CpuSnapshot::now()?);

    let begin = Instant::now();
    lab.scale(namespace, POOL, machine_count).await?;
    let end = last.reach(objects).await?;

    let load = CpuSnapshot::now()?.since(&before);
    let cpu_seconds = usage::cpu_seconds(pid)? - cpu;
    let requests = lab.quiet().await?.since(&requests);
    let up = Up {
        seconds: seconds_between(begin, end),
        load,
        cpu_seconds,
        cpu_seconds_until_quiet: usage::cpu_seconds(pid)? - cpu,
        requests,
        memory: usage::resident_memory(pid)?,
    };
    Lab::note(&format!(
        "all exist after {:.2} s ({}); the controller: CPU {:.2} s, {:.2} s until quiet, RSS {:.1} MiB, peak {:.1} MiB",
        up.seconds, up.load, up.cpu_seconds, up.cpu_seconds_until_quiet, up.memory.now, up.memory.peak,
    ));
    Ok(up)
}

async fn down(lab: &Lab, namespace: &str, machine_count: usize) -> anyhow::Result<Down> {
    let mut machines = lab.tally(TestedKind::Machine, namespace).await?;
    let mut disks = lab.tally(TestedKind::Disk, namespace).await?;
    machines.reach(machine_count).await?;
    let begin = Instant::now();
    lab.scale(namespace, POOL, 0).await?;
    let machines = seconds_between(begin, machines.reach(0).await?);
    let down = Down { seconds: machines, disks_seconds: seconds_between(begin, disks.reach(0).await?) };
    lab.quiet().await?;
    Lab::note(&format!(
        "machines gone after {:.2} s, disks (garbage collector) after {:.2} s",
        down.seconds, down.disks_seconds
    ));
    Ok(down)
}

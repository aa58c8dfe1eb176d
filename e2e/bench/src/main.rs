//! The benchmark. `bench --help` lists its options, docs/benchmarks.md its figures.

mod bare;
mod catalogue;
mod converge;
mod failover;
mod images;
mod lab;
mod life_cycle;
mod load;
mod manifest;
mod many;
mod one;
mod options;
mod report;
mod settled;
mod tally;
mod tracker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;
use vmpool_controller::platform::{Dvp, KubeVirt};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::target_directory;

use crate::lab::Lab;
use crate::options::BenchOptions;
use crate::report::BenchReport;

#[tokio::main]
async fn main() -> ExitCode {
    let options = BenchOptions::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr).init();
    let mut report = BenchReport::default();
    let measured = tokio::select! {
        measured = bench(&options, &mut report) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    print!("\n{report}");
    match measured.and_then(|()| write(&options, &report)) {
        Ok(file) => println!("\nwritten to {}", file.display()),
        Err(error) => {
            eprintln!("bench: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    if options.check && report.missed() > 0 {
        eprintln!("bench: {} figures miss their first bar", report.missed());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn bench(options: &BenchOptions, report: &mut BenchReport) -> anyhow::Result<()> {
    let is_kubevirt = options.platform() == TestedPlatform::KubeVirt;
    anyhow::ensure!(
        !is_kubevirt || options.pools.is_none(),
        "many pools are measured with PLATFORM=dvp only"
    );
    anyhow::ensure!(!is_kubevirt || !options.life_cycle, "the life cycle is measured with PLATFORM=dvp only");
    anyhow::ensure!(is_kubevirt || !options.types, "instance types are measured with PLATFORM=kubevirt only");
    let lab = Lab::start(options).await?;
    let measured = match (options.images, options.pools) {
        (Some(count), _) => images::measure_disk_images(&lab, count, options, report).await,
        (None, None) if options.life_cycle => life_cycle::measure_life_cycle(&lab, options, report).await,
        (None, None) if is_kubevirt => one::measure_one_pool::<KubeVirt>(&lab, options, report).await,
        (None, None) => one::measure_one_pool::<Dvp>(&lab, options, report).await,
        (None, Some(pools)) => many::measure_many_pools(&lab, pools, options, report).await,
    };
    if measured.is_err() {
        lab.keep_logs();
    }
    let stopped = lab.stop().await;
    measured.and(stopped)
}

fn write(options: &BenchOptions, report: &BenchReport) -> anyhow::Result<PathBuf> {
    let directory = target_directory().join("bench");
    let file = directory.join(options.file());
    let text = serde_json::to_string_pretty(&report.to_json())?;
    std::fs::create_dir_all(&directory)
        .and_then(|()| std::fs::write(&file, text + "\n"))
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

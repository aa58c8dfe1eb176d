//! The soak test: minutes or days of random operations and faults on a real control plane. `soak --help` lists its
//! options, docs/reliability.md describes it.
//!
//! ```text
//! warm-up ─► storm ─► quiet point ─► storm ─► quiet point ─► ... ─► the pools are deleted, the controllers exit
//!                     everything settles, resource usage is sampled
//! ```

mod design;
mod dvp;
mod fault;
mod growth;
mod kubevirt;
mod operation;
mod options;
mod platform;
mod quiet;
mod storm;
mod tally;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use vmpool_e2e::harness::start_with_both_platforms;
use vmpool_e2e::world::World;
use vmpool_installation::installation::{GuardOptions, Installation};
use vmpool_installation::programs::ControllerOptions;
use vmpool_invariants::platform::PlatformName;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::error::chain;

use crate::growth::Sample;
use crate::options::Options;
use crate::storm::{Storm, violations};
use crate::tally::Tally;

/// Duration of a storm between two quiet points.
const STORM: Duration = Duration::from_secs(45);

/// Number of quiet points before the samples that are compared. What grows with the first work of a process, such as
/// connection pools, has grown by then.
const WARM_UP: usize = 2;

/// The result of a run.
#[derive(Default)]
struct Outcome {
    violations: Vec<String>,
    samples: Vec<Sample>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,kube_client=off,kube_runtime=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr).init();
    let soaked = tokio::select! {
        soaked = soak(&options) => soaked,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    match soaked {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Runs the soak test, and returns whether it passed.
async fn soak(options: &Options) -> anyhow::Result<bool> {
    let seed = options.seed();
    let mut tally = Tally::new(seed)?;
    let path = tally.path().display().to_string();
    tally.show(format_args!("seed {seed}, log in {path}"));
    let platform = options.platform();
    let installation = match platform {
        PlatformName::Dvp => Installation::start("soak", Some(GuardOptions::default())).await?,
        PlatformName::KubeVirt => start_with_both_platforms("soak", GuardOptions::default()).await?,
    };
    let installation = Arc::new(installation);
    let world = World::start_on(platform, "soak", installation.clone(), 0).await?;
    for identity in ["steady", "mortal"] {
        world.add_controller_with(controller(&world, identity)).await?;
    }
    let random = SeededRandom::new(seed);
    let mut outcome = Outcome::default();
    let ran = run(&world, &random, options, &mut tally, &mut outcome).await;
    if let Err(error) = &ran {
        outcome.violations.push(format!("the soak test could not continue: {}", chain(error.as_ref())));
    }
    if !outcome.violations.is_empty() {
        world.cluster().keep_directory();
        println!("{}", world.report());
    }
    let well = conclude(&tally, &outcome);
    drop(world);
    if let Ok(installation) = Arc::try_unwrap(installation) {
        installation.stop().await?;
    }
    Ok(well)
}

/// A controller with a short lease, so that the leader changes often.
fn controller(world: &World, identity: &str) -> ControllerOptions {
    let mut options = ControllerOptions {
        lease_duration: Duration::from_secs(6),
        renew_interval: Duration::from_millis(1500),
        ..ControllerOptions::new(world.namespace(), identity)
    };
    options.extra.push("--request-deadline=2s".to_owned());
    options
}

async fn run(
    world: &World,
    random: &SeededRandom,
    options: &Options,
    tally: &mut Tally,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut storm = Storm::new(world, random);
    loop {
        let calm = quiet::calm(world, random, tally).await?;
        outcome.violations.extend(calm);
        if let Err(error) = world.check().await {
            outcome.violations.extend(violations(error)?);
        }
        if !outcome.violations.is_empty() {
            return Ok(());
        }
        let sample = Sample::take(world).await?;
        let so_far = tally.to_string();
        tally.show(format_args!("quiet after {so_far}; {sample}"));
        outcome.samples.push(sample);
        world.forget();
        let enough = outcome.samples.len() > WARM_UP + 1;
        if tally.elapsed() > options.duration() && enough {
            break;
        }
        if let Err(error) = storm.rage(STORM, tally).await {
            outcome.violations.extend(violations(error)?);
            return Ok(());
        }
    }
    let ended = async {
        world.clear().await?;
        world.stop_controllers().await
    };
    if let Err(error) = ended.await {
        outcome.violations.extend(violations(error)?);
    }
    Ok(())
}

/// Prints the result, and returns whether the test passed.
fn conclude(tally: &Tally, outcome: &Outcome) -> bool {
    let mut wrong = outcome.violations.clone();
    let mut used = "no samples".to_owned();
    if let Some((first, last)) = outcome.samples.get(WARM_UP..).and_then(Sample::ends) {
        used = last.compared_to(&first);
        wrong.extend(last.growth_since(&first));
    }
    let (all, done) = tally.operations();
    // A soak test whose operations mostly failed proves nothing.
    if all == 0 || done * 2 < all || tally.faults() == 0 {
        wrong.push(format!("too few operations succeeded: {tally}"));
    }
    for line in &wrong {
        println!("violation: {line}");
    }
    println!(
        "soak: {all} operations, {} faults, {} violations, in {:.0?}; {used}",
        tally.faults(),
        wrong.len(),
        tally.elapsed()
    );
    wrong.is_empty()
}

//! The soak test: minutes or days of random operations and faults on a real control plane. `soak --help`
//! lists its options, docs/reliability.md describes it.
//!
//! ```text
//! warm-up ─► storm ─► quiet point ─► storm ─► quiet point ─► ... ─► the pools are deleted, the controllers exit
//!                     everything settles, resource usage is sampled
//! ```

mod design;
mod dvp;
mod fault;
mod fault_period;
mod growth;
mod kubevirt;
mod operation;
mod options;
mod platform;
mod quiet;
mod tally;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use vmpool_e2e::harness::start_with_both_platforms;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::installation::{ClusterInstallation, GuardOptions};
use vmpool_installation::programs::ControllerOptions;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::error::error_with_causes;

use crate::fault_period::{FaultPeriod, violations_from_error};
use crate::growth::UsageSample;
use crate::options::SoakOptions;
use crate::tally::SoakTally;

/// Duration of a storm between two quiet points.
const STORM: Duration = Duration::from_secs(45);

/// Number of quiet points before the samples that are compared. What grows with the first work of a process,
/// such as connection pools, has grown by then.
const WARM_UP: usize = 2;

/// The result of a run.
#[derive(Default)]
struct Outcome {
    violations: Vec<String>,
    samples: Vec<UsageSample>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = SoakOptions::parse();
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
            eprintln!("soak: {}", error_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Runs the soak test, and returns whether it passed.
async fn soak(options: &SoakOptions) -> anyhow::Result<bool> {
    let seed = options.seed();
    let mut tally = SoakTally::new(seed)?;
    let path = tally.path().display().to_string();
    tally.show(format_args!("seed {seed}, log in {path}"));
    let platform = options.platform();
    let installation = match platform {
        TestedPlatform::Dvp => ClusterInstallation::start("soak", Some(GuardOptions::default())).await?,
        TestedPlatform::KubeVirt => start_with_both_platforms("soak", GuardOptions::default()).await?,
    };
    let installation = Arc::new(installation);
    let world = ScenarioWorld::start_on(platform, "soak", installation.clone(), 0).await?;
    for identity in ["steady", "mortal"] {
        world.add_controller_with(controller(&world, identity)).await?;
    }
    let random = SeededRandom::new(seed);
    let mut outcome = Outcome::default();
    let ran = run(&world, &random, options, &mut tally, &mut outcome).await;
    if let Err(error) = &ran {
        outcome
            .violations
            .push(format!("the soak test could not continue: {}", error_with_causes(error.as_ref())));
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
fn controller(world: &ScenarioWorld, identity: &str) -> ControllerOptions {
    let mut options = ControllerOptions {
        lease_duration: Duration::from_secs(6),
        renew_interval: Duration::from_millis(1500),
        ..ControllerOptions::new(world.namespace(), identity)
    };
    options.extra.push("--request-deadline=2s".to_owned());
    options
}

async fn run(
    world: &ScenarioWorld,
    random: &SeededRandom,
    options: &SoakOptions,
    tally: &mut SoakTally,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut storm = FaultPeriod::new(world, random);
    loop {
        let calm = quiet::settle_pools(world, random, tally).await?;
        outcome.violations.extend(calm);
        if let Err(error) = world.check().await {
            outcome.violations.extend(violations_from_error(error)?);
        }
        if !outcome.violations.is_empty() {
            return Ok(());
        }
        let sample = UsageSample::take(world).await?;
        let so_far = tally.to_string();
        tally.show(format_args!("quiet after {so_far}; {sample}"));
        outcome.samples.push(sample);
        world.forget();
        let enough = outcome.samples.len() > WARM_UP + 1;
        if tally.elapsed() > options.duration() && enough {
            break;
        }
        if let Err(error) = storm.run_and_repair(STORM, tally).await {
            outcome.violations.extend(violations_from_error(error)?);
            return Ok(());
        }
    }
    let ended = async {
        world.clear().await?;
        world.stop_controllers().await
    };
    if let Err(error) = ended.await {
        outcome.violations.extend(violations_from_error(error)?);
    }
    Ok(())
}

/// Prints the result, and returns whether the test passed.
fn conclude(tally: &SoakTally, outcome: &Outcome) -> bool {
    let mut wrong = outcome.violations.clone();
    let mut used = "no samples".to_owned();
    if let Some((first, last)) = outcome.samples.get(WARM_UP..).and_then(UsageSample::ends) {
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

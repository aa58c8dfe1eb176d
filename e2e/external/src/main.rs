//! Runs the core scenarios on an external cluster: `make e2e` with `E2E_CLUSTER` set to kind, k3s or current.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use vmpool_e2e::scenario::run_scenario_on_cluster;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_e2e::{harness, smoke};
use vmpool_external_cluster::{Environment, ExternalCluster, Provider};
use vmpool_test_cluster::access::Access;

fn main() -> ExitCode {
    match harness::block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", vmpool_test_cluster::error::error_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let name = std::env::var("E2E_CLUSTER").context("set E2E_CLUSTER to kind, k3s or current")?;
    let provider = Provider::named(&name)?;
    println!("==> A cluster: {name}");
    let cluster = ExternalCluster::start(provider, &Environment::of_process()).await?;
    let result = tokio::select! {
        result = run_scenarios(cluster.access()) => result,
        _interrupted = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    println!("==> Cleanup");
    let stopped = cluster.stop().await;
    result?;
    Ok(stopped?)
}

/// Runs all scenarios one after another, so that every failure is reported.
async fn run_scenarios(access: &Access) -> Result<()> {
    let passed = [
        run_scenario("a pool converges", access, async |world| Ok(smoke::a_pool_converges(world).await?))
            .await,
        run_scenario("an Explicit pool is kept", access, async |world| {
            Ok(smoke::explicit_is_kept(world).await?)
        })
        .await,
        run_scenario("targeted removal removes the named machines", access, async |world| {
            Ok(smoke::targeted_removal(world).await?)
        })
        .await,
    ];
    let failed = passed.iter().filter(|passed| !**passed).count();
    ensure!(failed == 0, "{failed} scenarios failed");
    Ok(())
}

/// Runs one scenario, and returns whether it passed.
async fn run_scenario(
    name: &str,
    access: &Access,
    scenario: impl AsyncFnOnce(&ScenarioWorld) -> Result<()>,
) -> bool {
    match run_scenario_on_cluster(name, access, scenario).await {
        Ok(()) => println!("ok      {name}"),
        Err(report) => {
            println!("FAILED  {name}\n{report}");
            return false;
        }
    }
    true
}

//! Runs the core scenarios on an existing cluster: `make e2e` with `E2E_CLUSTER` set to kind, k3s or current.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use vmpool_e2e::harness;
use vmpool_e2e::provider::{Foreign, Provider, Surroundings};
use vmpool_e2e::scenario::visit;
use vmpool_e2e::smoke;
use vmpool_e2e::world::World;
use vmpool_test_cluster::access::Access;

fn main() -> ExitCode {
    match harness::block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", vmpool_test_cluster::error::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let name = std::env::var("E2E_CLUSTER").context("set E2E_CLUSTER to kind, k3s or current")?;
    let provider = Provider::named(&name)?;
    println!("==> A cluster: {name}");
    let foreign = Foreign::start(provider, &Surroundings::here()).await?;
    let told = tokio::select! {
        told = tell(foreign.access()) => told,
        _interrupted = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    println!("==> Tidying up");
    let stopped = foreign.stop().await;
    told?;
    Ok(stopped?)
}

/// Runs all scenarios one after another, so that every failure is reported.
async fn tell(access: &Access) -> Result<()> {
    let told = [
        report("a pool converges", access, async |world| Ok(smoke::a_pool_converges(world).await?)).await,
        report("an Explicit pool is kept", access, async |world| Ok(smoke::explicit_is_kept(world).await?))
            .await,
        report("named machines leave", access, async |world| Ok(smoke::targeted_removal(world).await?)).await,
    ];
    let failed = told.iter().filter(|well| !**well).count();
    ensure!(failed == 0, "{failed} scenarios failed");
    Ok(())
}

/// Runs one scenario, and returns whether it passed.
async fn report(name: &str, access: &Access, story: impl AsyncFnOnce(&World) -> Result<()>) -> bool {
    match visit(name, access, story).await {
        Ok(()) => println!("ok      {name}"),
        Err(report) => {
            println!("FAILED  {name}\n{report}");
            return false;
        }
    }
    true
}

//! Pools of both platforms in one namespace and one controller, and the definitions of one platform that come
//! and go.

use anyhow::{Result, ensure};
use serde_json::Value;
use vmpool_e2e::harness;
use vmpool_e2e::scenario::LIMIT;
use vmpool_e2e::world::condition::{
    has_machine, live_machine_count, negate_condition, pool_exists, ready_replicas,
};
use vmpool_e2e::world::{PoolDeletion, PoolHandle, SETTLE, ScenarioWorld};
use vmpool_installation::installation::{ClusterInstallation, cluster_options, kubevirt_definitions};
use vmpool_installation::programs::{Chart, ControllerOptions, Simulator};
use vmpool_invariants::object::object_uids;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::{ControlPlane, apply_manifests, read_yaml_documents};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::error_with_causes;

use std::sync::Arc;

use crate::on;

/// Checks that only the named machine of the pool is removed, and counted.
async fn remove_one(pool: &PoolHandle<'_>) -> Result<()> {
    let before = pool.machines().await?;
    let target = &before[1];
    pool.remove(std::slice::from_ref(target)).await?;
    let left = before.len() - 1;
    let ready = ready_replicas(i64::try_from(left)?);
    pool.until(negate_condition(has_machine(target)).and(live_machine_count(left)).and(ready)).await?;
    let after = object_uids(&pool.machines().await?);
    let expected: Vec<String> = object_uids(&before).into_iter().filter(|uid| *uid != target.uid()).collect();
    ensure!(after == expected, "other machines of {} were removed", pool.name());
    Ok(())
}

#[test]
fn pools_of_both_platforms_with_one_name_do_not_affect_each_other() {
    on(TestedPlatform::KubeVirt, "pools of both platforms with one name", async |world| {
        // Given a pool of each platform with the same name in one namespace, and one controller,
        let other = world.beside(TestedPlatform::Dvp).await?;
        let (kubevirt, dvp) =
            tokio::try_join!(world.pool("web").replicas(2).ready(), other.pool("web").replicas(2).ready())?;
        // when both are scaled, then each gets its number.
        kubevirt.scale(4).await?;
        dvp.scale(3).await?;
        kubevirt.until(ready_replicas(4)).await?;
        dvp.until(ready_replicas(3)).await?;
        // A targeted removal in the API group of one platform removes no machine of the other.
        remove_one(&kubevirt).await?;
        dvp.holds(ready_replicas(3), SETTLE).await?;
        remove_one(&dvp).await?;
        kubevirt.holds(ready_replicas(3), SETTLE).await?;
        // When the template of one changes, then the machines of the other stay as they are.
        let versions = async |world: &ScenarioWorld, pool: &PoolHandle<'_>| -> Result<Vec<Value>> {
            let machines = pool.machines().await?;
            ensure!(!machines.is_empty(), "{} has no machines", world.platform());
            Ok(machines.iter().map(|machine| machine.at("/metadata/generation").clone()).collect())
        };
        let before = versions(&other, &dvp).await?;
        kubevirt.change_memory("1Gi").await?;
        world.settles().await?;
        ensure!(versions(&other, &dvp).await? == before, "machines of the other platform were changed");
        for machine in kubevirt.machines().await? {
            ensure!(machine.memory() == "1Gi", "{machine:?}");
        }
        let before = versions(world, &kubevirt).await?;
        dvp.change_memory("1Gi").await?;
        other.settles().await?;
        ensure!(versions(world, &kubevirt).await? == before, "machines of the other platform were changed");
        // When one is deleted, then the other stays.
        kubevirt.delete(PoolDeletion::Background).await?;
        kubevirt.until(negate_condition(pool_exists()).and(live_machine_count(0))).await?;
        dvp.holds(ready_replicas(2), SETTLE).await?;
        other.settles().await?;
        dvp.delete(PoolDeletion::Background).await?;
        dvp.leaves_nothing().await?;
        Ok(())
    });
}

/// The definition of KubeVirt pools.
const DEFINITION: &str = "virtualmachinepools.pool.kubevirt.io";

async fn until_pool_of_kubevirt(world: &ScenarioWorld, machines: usize) -> Result<()> {
    let beside = world.beside(TestedPlatform::KubeVirt).await?;
    let pool = beside.pool("web").replicas(i64::try_from(machines)?).ready().await?;
    pool.holds(ready_replicas(i64::try_from(machines)?), SETTLE).await?;
    Ok(())
}

async fn definitions_come_and_go() -> Result<()> {
    // Given a cluster with the definitions of one platform, and a controller that finds the platforms,
    let cluster = Arc::new(ControlPlane::start(cluster_options("definitions")).await?);
    let chart = Chart::render(&["platforms.kubevirt.enabled=true".to_owned()]).await?;
    let installation = Arc::new(ClusterInstallation::of(&chart, cluster.clone()).await?);
    let world =
        ScenarioWorld::start("definitions of a platform come and go", installation.clone(), 0).await?;
    let mut options = ControllerOptions::new(world.namespace(), "both");
    options.extra.push("--platforms=auto".to_owned());
    let controller = world.add_controller_with(options).await?;
    let dvp = world.pool("web").replicas(2).ready().await?;
    // when the definitions of the other platform are installed, then its pools are reconciled,
    let install = async || -> Result<()> {
        let mut definitions = Vec::new();
        for folder in kubevirt_definitions() {
            definitions.extend(read_yaml_documents(&folder)?);
        }
        Ok(apply_manifests(&cluster.admin(), &definitions, None).await?)
    };
    install().await?;
    let namespace = format!("--namespace={}", world.namespace());
    let _simulator = Simulator::start_with(&cluster, &["--platform=kubevirt", &namespace]).await?;
    until_pool_of_kubevirt(&world, 2).await?;
    dvp.scale(3).await?;
    dvp.until(ready_replicas(3)).await?;
    // and when the definition of pools is deleted with all pools, then the first platform goes on.
    cluster.kubectl(&["delete", "crd", DEFINITION, "--timeout=60s"]).await?;
    dvp.scale(1).await?;
    dvp.until(ready_replicas(1).and(live_machine_count(1))).await?;
    let (code, page) = controller.probe("/readyz").await;
    ensure!(code == 200, "{code} {page}");
    // When the definition is there again, then its pools are reconciled again.
    install().await?;
    until_pool_of_kubevirt(&world, 1).await?;
    dvp.scale(2).await?;
    dvp.until(ready_replicas(2)).await?;
    world.settles().await?;
    controller.check()?;
    world.stop_controllers().await?;
    drop(installation);
    Ok(())
}

#[test]
fn the_definitions_of_one_platform_come_and_go_while_the_other_is_reconciled() {
    let outcome = harness::block_on(async { Deadline::after(LIMIT).within(definitions_come_and_go()).await });
    let late = |elapsed| Err(anyhow::anyhow!("it has not completed after {elapsed}"));
    if let Err(error) = outcome.unwrap_or_else(late) {
        panic!("{}", error_with_causes(error.as_ref()));
    }
}

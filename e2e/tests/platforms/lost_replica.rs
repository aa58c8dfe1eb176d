//! A replica of the aggregated API that exits in the middle of claims.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use futures::future::join_all;
use kube::Client;
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::condition::{PoolPredicate, ready_replicas};
use vmpool_e2e::world::{DEADLINE, PoolHandle, ScenarioWorld};
use vmpool_installation::programs::Component;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::deadline::Deadline;

use crate::alone_on;
use crate::protected::{claim_of, claimer, uid_in};

const CALLERS: usize = 20;

/// Repeats a claim with its id until it succeeds, each time at another replica. Returns the UID of the
/// machine, and whether a response was lost.
async fn persistent(pool: &PoolHandle<'_>, replicas: &[Client], number: usize) -> Result<(String, bool)> {
    let deadline = Deadline::after(DEADLINE);
    let mut lost = false;
    for attempt in 0.. {
        let client = &replicas[(number + attempt) % replicas.len()];
        let claim = pool.claim(&format!("job-{number}")).with("waitSeconds", json!(10));
        let answer = claim.by(client).send_unchecked().await;
        match answer.code {
            200 | 201 => return Ok((uid_in(&answer)?, lost)),
            // The connection broke, or the replica is being stopped.
            0 | 500.. => lost = true,
            409 if answer.reason() == "NoMachineAvailable" => {}
            _ => anyhow::bail!("job-{number}: {answer}"),
        }
        ensure!(!deadline.is_over(), "job-{number} has no machine: {answer}");
        let_time_pass(std::time::Duration::from_millis(100)).await;
    }
    unreachable!("the loop has no end")
}

/// The number of machines that have a claim.
fn claimed(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("at least {count} claimed machines"), move |view| {
        view.live().filter(|machine| claim_of(machine).is_some()).count() >= count
    })
}

async fn kill_in_the_middle(world: &ScenarioWorld, pool: &PoolHandle<'_>) -> Result<()> {
    pool.sees(claimed(1)).await?;
    let service = world.installation().guard()?.service(Component::Apiserver)?;
    service.kill(0);
    // Half of the callers still wait for a machine, some of them at the replica that is gone.
    pool.scale(i64::try_from(CALLERS)?).await?;
    service.restart(0).await?;
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_killed_replica_loses_no_claim(#[case] platform: TestedPlatform) {
    alone_on(platform, "a killed replica loses no claim", async |world| {
        let pool = world.pool("web").replicas(10).ready().await?;
        world.user_with("jo", claimer(platform)).await?;
        let replicas = [world.client_of_replica("jo", 0)?, world.client_of_replica("jo", 1)?];
        let callers = join_all((0..CALLERS).map(|number| persistent(&pool, &replicas, number)));
        let (answers, killed) = tokio::join!(callers, kill_in_the_middle(world, &pool));
        killed?;
        let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
        ensure!(answers.iter().any(|(_, lost)| *lost), "the replica was not killed in the middle");

        // Each caller has a machine of its own, and no further one has its claim.
        pool.until(ready_replicas(i64::try_from(CALLERS)?)).await?;
        let uids: BTreeSet<&String> = answers.iter().map(|(uid, _)| uid).collect();
        ensure!(uids.len() == CALLERS, "{answers:#?}");
        let machines = pool.machines().await?;
        let claims: BTreeMap<&str, Option<String>> =
            machines.iter().map(|machine| (machine.uid(), claim_of(machine))).collect();
        for (number, (uid, _)) in answers.iter().enumerate() {
            let id = format!("job-{number}");
            ensure!(claims[uid.as_str()] == Some(id.clone()), "{id} lost its claim: {claims:#?}");
            let held = claims.values().filter(|claim| claim.as_ref() == Some(&id)).count();
            ensure!(held == 1, "{id} has {held} machines: {claims:#?}");
        }
        Ok(())
    });
}

//! Claims: two callers never get one machine, and an id stays with its user and its machine.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use futures::future::join_all;
use http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_e2e::world::{SETTLE, ScenarioWorld};
use vmpool_engine::protection::{BY, CLAIM, UNTIL};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{claim_of, claimer, ends_in, expect, machine, protect, uid_in};

/// The claims that each machine ever had.
pub(crate) fn claims_ever(world: &ScenarioWorld, pool: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut found: Vec<(String, BTreeSet<String>)> = Vec::new();
    world.recorder().history().replay(|_, change| {
        let object = &change.object;
        if change.kind != TestedKind::Machine || object.owner_uid() != pool {
            return;
        }
        let Some(claim) = claim_of(object) else { return };
        match found.iter_mut().find(|(uid, _)| uid == object.uid()) {
            Some((_, ids)) => drop(ids.insert(claim)),
            None => found.push((object.uid().to_owned(), BTreeSet::from([claim]))),
        }
    });
    found
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn fifty_parallel_callers_over_two_replicas_get_different_machines(#[case] platform: TestedPlatform) {
    const CALLERS: usize = 50;
    const MACHINES: usize = 30;
    on(platform, "fifty parallel callers get different machines", async |world| {
        let pool = world.pool("web").replicas(30).ready().await?;
        world.user_with("jo", claimer(platform)).await?;
        let replicas = [world.client_of_replica("jo", 0)?, world.client_of_replica("jo", 1)?];
        let callers = (0..CALLERS).map(|number| {
            let client = &replicas[number % replicas.len()];
            pool.claim(&format!("job-{number}")).by(client).send_unchecked()
        });
        let answers = join_all(callers).await;
        world.check().await?;

        let mut claimed = BTreeSet::new();
        for (number, answer) in answers.iter().enumerate() {
            if answer.code == 201 {
                let uid = uid_in(answer)?;
                let machine = machine(&pool, &uid).await?;
                ensure!(claim_of(&machine).as_deref() == Some(&*format!("job-{number}")), "{machine:?}");
                ensure!(machine.annotation(BY) == Some(&*world.user_name("jo")), "{machine:?}");
                ensure!(claimed.insert(uid), "two callers have one machine: {answer}");
            } else {
                expect(answer, StatusCode::CONFLICT, "NoMachineAvailable", &[])?;
                let retry = answer.body["details"]["retryAfterSeconds"].as_u64();
                ensure!(retry.is_some_and(|seconds| seconds > 0), "{answer}");
            }
        }
        ensure!(claimed.len() == MACHINES, "{} machines are claimed", claimed.len());
        // No machine ever had the claim of another caller, not even for a moment.
        for (uid, ids) in claims_ever(world, pool.uid()) {
            ensure!(ids.len() == 1, "machine {uid} had the claims {ids:?}");
        }
        Ok(())
    });
}

/// The address of the guest.
pub(crate) const ADDRESS: &str = "10.66.10.4";

/// Lets the platform publish this address of a guest: in the machine, or in its instance.
pub(crate) async fn publish_address(world: &ScenarioWorld, name: &str) -> Result<()> {
    let (machines, shown, path) = match world.platform() {
        TestedPlatform::Dvp => {
            let machines = "virtualmachines.virtualization.deckhouse.io";
            (machines, machines, "{.status.ipAddress}")
        }
        TestedPlatform::KubeVirt => (
            "virtualmachines.kubevirt.io",
            "virtualmachineinstances.kubevirt.io",
            "{.status.interfaces[0].ipAddress}",
        ),
    };
    let knob = format!("simulator.vmpool.dev/address={ADDRESS}");
    world.kubectl(&["annotate", machines, name, &knob, "--overwrite"]).await?;
    let published = format!("--for=jsonpath={path}={ADDRESS}");
    world.kubectl(&["wait", shown, name, &published, "--timeout=60s"]).await?;
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn an_id_belongs_to_its_user_and_its_machine(#[case] platform: TestedPlatform) {
    on(platform, "an id belongs to its user and its machine", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let (jo, al) = (
            world.user_with("jo", claimer(platform)).await?,
            world.user_with("al", claimer(platform)).await?,
        );
        let view = world.user("vera", &["vmpool-viewer"]).await?;
        expect(
            &pool.claim("a").by(&view).send().await?,
            StatusCode::FORBIDDEN,
            "Forbidden",
            &["virtualmachinepools/claim"],
        )?;

        // A dry run writes nothing. The first claim is new, and the same id finds it again.
        let dry = pool.claim("a").with("dryRun", json!(["All"])).by(&jo).send().await?;
        ensure!(dry.is_success(), "{dry}");
        ensure!(pool.machines().await?.iter().all(|machine| machine.annotation(CLAIM).is_none()), "{dry}");
        let first = pool.claim("a").with("reason", json!("a job")).by(&jo).send().await?;
        ensure!(first.code == 201, "{first}");
        let uid = uid_in(&first)?;
        publish_address(world, machine(&pool, &uid).await?.name()).await?;
        let longer = pool.claim("a").with("durationSeconds", json!(7200)).by(&jo).send().await?;
        ensure!(longer.code == 200 && uid_in(&longer)? == uid, "{longer}");
        ensure!(longer.body["machine"]["addresses"] == json!([ADDRESS]), "{longer}");
        let until = machine(&pool, &uid).await?.annotation(UNTIL).map(str::to_owned);
        ensure!(until.as_deref() == longer.body["expiresAt"].as_str(), "{longer}");
        ensure!(until.as_deref() > first.body["expiresAt"].as_str(), "{first} {longer}");

        // Another user cannot use the id, and a claim can name the only machine that is accepted.
        expect(&pool.claim("a").by(&al).send().await?, StatusCode::CONFLICT, "ClaimHeld", &[])?;
        let name = machine(&pool, &uid).await?.name().to_owned();
        let taken = pool.claim("b").with("machine", json!(name)).by(&al).send().await?;
        expect(&taken, StatusCode::CONFLICT, "NoMachineAvailable", &[])?;

        // A renewal never takes a machine: not with a new id, although one is free,
        let never = pool.claim("b").with("renew", json!(true)).by(&al).send().await?;
        expect(&never, StatusCode::NOT_FOUND, "ClaimLost", &[])?;
        let second = pool.claim("b").by(&al).send().await?;
        ensure!(second.code == 201 && uid_in(&second)? != uid, "{second}");
        // and not when the claim has ended and another user has the machine.
        protect(world, &machine(&pool, &uid).await?, &ends_in(-1)).await?;
        let taken = pool.claim("c").by(&al).send().await?;
        ensure!(taken.code == 201 && uid_in(&taken)? == uid, "{taken}");
        let renewal = pool.claim("a").with("renew", json!(true)).by(&jo).send().await?;
        expect(&renewal, StatusCode::NOT_FOUND, "ClaimLost", &[])?;

        // The longest protection of the pool limits claims.
        let long = pool.claim("b").with("durationSeconds", json!(24 * 3600 + 1)).by(&al).send().await?;
        expect(&long, StatusCode::BAD_REQUEST, "BadRequest", &["at most 86400"])?;
        let absent = world.pool("none").replicas(0).create().await?;
        absent.delete(vmpool_e2e::world::PoolDeletion::Background).await?;
        absent.leaves_nothing().await?;
        expect(&absent.claim("a").by(&jo).send().await?, StatusCode::NOT_FOUND, "NotFound", &["none"])?;
        pool.holds(ready_replicas(2), SETTLE).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_waiting_claim_gets_the_next_machine(#[case] platform: TestedPlatform) {
    on(platform, "a waiting claim gets the next machine", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let first = pool.claim("a").send().await?;
        let waiting = pool.claim("b").with("waitSeconds", json!(25)).send_unchecked();
        let more = async {
            // So long, the claim waits.
            let_time_pass(SETTLE).await;
            pool.scale(2).await
        };
        let (second, scaled): (_, Result<(), _>) = tokio::join!(waiting, more);
        scaled?;
        world.check().await?;
        ensure!(second.code == 201 && uid_in(&second)? != uid_in(&first)?, "{second}");
        ensure!(second.body["expiresAt"] != Value::Null, "{second}");
        Ok(())
    });
}

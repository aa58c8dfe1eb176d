//! Releases of claimed machines.

use anyhow::{Result, ensure};
use http::StatusCode;
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::condition::{has_machine, live_machine_count, negate_condition, ready_replicas};
use vmpool_e2e::world::{PoolHandle, SETTLE};
use vmpool_engine::protection::{BY, CLAIM, REASON, UNTIL};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{claimer, expect, machine, uid_in};

async fn replicas(pool: &PoolHandle<'_>) -> Result<Option<i64>> {
    Ok(pool.get().await?.number("/spec/replicas"))
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_released_machine_stays_is_removed_or_is_replaced(#[case] platform: TestedPlatform) {
    on(platform, "a released machine stays, is removed or is replaced", async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        let jo = world.user_with("jo", claimer(platform)).await?;
        let al = world.user_with("al", claimer(platform)).await?;
        let claim = async |id: &str| {
            let claim = pool.claim(id).with("reason", json!("a job")).with("waitSeconds", json!(25)).by(&jo);
            let answer = claim.send().await?;
            ensure!(answer.code == 201, "{answer}");
            machine(&pool, &uid_in(&answer)?).await
        };
        let not_found = |answer: &vmpool_e2e::world::AggregatedApiResponse| {
            expect(answer, StatusCode::NOT_FOUND, "ClaimNotFound", &[])
        };

        // Keep: the machine stays without the annotations, and can be claimed again.
        let kept = claim("keep").await?;
        let other = pool.release("keep", kept.uid(), "Keep").by(&al).send().await?;
        expect(&other, StatusCode::FORBIDDEN, "Forbidden", &["claimed by another user"])?;
        not_found(&pool.release("other-id", kept.uid(), "Keep").by(&jo).send().await?)?;
        let dry = pool.release("keep", kept.uid(), "Remove").with("dryRun", json!(["All"])).by(&jo);
        let dry = dry.send().await?;
        ensure!(dry.code == 200, "{dry}");
        ensure!(machine(&pool, kept.uid()).await?.annotation(CLAIM).is_some() && !kept.is_terminating());
        let answer = pool.release("keep", kept.uid(), "Keep").by(&jo).send().await?;
        ensure!(answer.code == 200 && answer.body["then"] == "Keep", "{answer}");
        ensure!(answer.body["replicas"] == 3 && answer.body["machine"]["uid"] == kept.uid(), "{answer}");
        let now = machine(&pool, kept.uid()).await?;
        ensure!([UNTIL, BY, REASON, CLAIM].iter().all(|key| now.annotation(key).is_none()), "{now:?}");
        not_found(&pool.release("keep", kept.uid(), "Keep").by(&jo).send().await?)?;
        ensure!(claim("again").await?.uid() == kept.uid(), "the oldest free machine is claimed first");
        pool.holds(ready_replicas(3), SETTLE).await?;

        // Remove: the machine is gone, and so is one replica.
        let removed = claim("remove").await?;
        let answer = pool.release("remove", removed.uid(), "Remove").by(&jo).send().await?;
        ensure!(answer.code == 200 && answer.body["replicas"] == 2, "{answer}");
        pool.until(negate_condition(has_machine(&removed)).and(ready_replicas(2))).await?;
        ensure!(replicas(&pool).await? == Some(2));
        not_found(&pool.release("remove", removed.uid(), "Remove").by(&jo).send().await?)?;
        ensure!(replicas(&pool).await? == Some(2), "a repeated release removes nothing more");

        // Replace: another machine takes its place.
        let replaced = claim("replace").await?;
        let answer = pool.release("replace", replaced.uid(), "Replace").by(&jo).send().await?;
        ensure!(answer.code == 200 && answer.body["replicas"] == 2, "{answer}");
        pool.until(
            negate_condition(has_machine(&replaced)).and(ready_replicas(2)).and(live_machine_count(2)),
        )
        .await?;
        ensure!(replicas(&pool).await? == Some(2));
        not_found(&pool.release("replace", replaced.uid(), "Replace").by(&jo).send().await?)?;
        // The machine of the other claim was not touched, and the new one is free.
        ensure!(machine(&pool, kept.uid()).await?.annotation(CLAIM).is_some());
        claim("next").await?;
        // The status may not show the new machine yet.
        pool.until(ready_replicas(2)).await?;
        pool.holds(ready_replicas(2), SETTLE).await?;
        Ok(())
    });
}

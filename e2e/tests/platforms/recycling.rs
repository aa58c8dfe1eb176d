//! Recycling: machines that other machines replace.

use anyhow::ensure;
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::condition::{has_machine, negate_condition, ready_replicas};
use vmpool_engine::recycling::{CLAIMS, RECYCLE, REQUEST};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{annotate, blocked, from_now, machine, not_blocked, protect, uid_in, unprotect};

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_machine_is_replaced_on_request_after_its_protection(#[case] platform: TestedPlatform) {
    on(platform, "a machine is replaced on request", async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        let machines = pool.machines().await?;
        let (old, protected) = (&machines[0], &machines[1]);
        protect(world, protected, &from_now(3600)).await?;
        annotate(world, protected, REQUEST, json!(from_now(1))).await?;
        pool.until(blocked(&[protected.name(), "the replacement waits"])).await?;
        annotate(world, old, REQUEST, json!(from_now(1))).await?;
        pool.until(negate_condition(has_machine(old)).and(ready_replicas(3))).await?;
        ensure!(pool.machines().await?.iter().any(|machine| machine.uid() == protected.uid()));
        unprotect(world, protected).await?;
        pool.until(negate_condition(has_machine(protected)).and(ready_replicas(3)).and(not_blocked()))
            .await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_machine_is_replaced_after_its_last_claim(#[case] platform: TestedPlatform) {
    on(platform, "a machine is replaced after its last claim", async |world| {
        let once =
            json!({ "metadata": { "annotations": { RECYCLE: json!({ "maxClaims": 1 }).to_string() } } });
        let pool = world.pool("web").replicas(2).with(&once).ready().await?;
        let used = machine(&pool, &uid_in(&pool.claim("a").send().await?)?).await?;
        ensure!(used.annotation(CLAIMS) == Some("1"), "{used:?}");
        let released = pool.release("a", used.uid(), "Keep").send().await?;
        ensure!(released.code == 200, "{released}");
        pool.until(negate_condition(has_machine(&used)).and(ready_replicas(2))).await?;
        Ok(())
    });
}

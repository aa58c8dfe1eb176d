//! Autohealing of protected machines, which only pools of KubeVirt have.

use anyhow::ensure;
use serde_json::json;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{has_machine, negate_condition, pool_exists, ready_replicas};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{annotate, blocked, exactly, from_now, not_blocked, protect, unprotect};

#[test]
fn autohealing_does_not_replace_a_protected_machine() {
    on(TestedPlatform::KubeVirt, "autohealing does not replace a protected machine", async |world| {
        let healing = json!({ "spec": { "autohealing": { "startUpFailureThreshold": 1 } } });
        let pool = world.pool("web").replicas(2).with(&healing).ready().await?;
        let machines = pool.machines().await?;
        let (other, protected) = (&machines[0], &machines[1]);
        protect(world, protected, &from_now(3600)).await?;
        // When the guest ends and the next start fails, then the machine stays, and the pool says why.
        annotate(world, protected, "simulator.vmpool.dev/fail-start", json!("1")).await?;
        world.kubectl(&["delete", "virtualmachineinstances.kubevirt.io", protected.name()]).await?;
        pool.until(blocked(&[protected.name(), "not replaced"])).await?;
        pool.holds(exactly(&[other, protected]).and(pool_exists()), SETTLE).await?;
        // When the protection is taken off, then it is replaced.
        unprotect(world, protected).await?;
        pool.until(negate_condition(has_machine(protected)).and(ready_replicas(2)).and(not_blocked()))
            .await?;
        ensure!(pool.machines().await?.iter().any(|machine| machine.uid() == other.uid()));
        Ok(())
    });
}

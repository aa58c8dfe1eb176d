//! Who scaled a pool: the activity of the pool, and the annotations of the audit log.

use anyhow::ensure;
use rstest::rstest;
use serde_json::Value;
use vmpool_e2e::world::condition::{PoolPredicate, machine_count, ready_replicas};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;

/// The annotation that the chart's policy adds to a request.
const SCALED: &str = "vmpool-scale/scaled";

/// The last change of the number of machines led to this number, and this client made it.
fn last_scale(to: &'static str, actor: Option<&'static str>) -> PoolPredicate {
    PoolPredicate::new(format!("a scale to {to} by {actor:?} in the activity"), move |view| {
        let entries = view.pool().and_then(|pool| pool.at("/status/activity").as_array());
        let mut scales = entries.into_iter().flatten().filter(|entry| entry["reason"] == "Scaled");
        scales
            .next_back()
            .is_some_and(|entry| entry["to"] == to && entry.get("actor").and_then(Value::as_str) == actor)
    })
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_audit_log_has_the_counts_also_when_the_activity_has_no_actor(#[case] platform: TestedPlatform) {
    on(platform, "the audit log says who scaled, and by how much", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        pool.scale(2).await?;
        pool.until(ready_replicas(2).and(last_scale("2", Some("kubectl")))).await?;
        // The API server drops the field manager of a scale to 0, and records none for later ones.
        pool.scale(0).await?;
        pool.until(machine_count(0).and(last_scale("0", None))).await?;
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(last_scale("1", None))).await?;

        let audit = world.audit()?;
        let scales: Vec<_> = audit.iter().filter(|entry| entry.subresource == "scale").collect();
        let noted = || scales.iter().filter_map(|entry| Some((entry, entry.notes.get(SCALED)?)));
        let counts: Vec<&str> = noted().map(|(_, counts)| counts.as_str()).collect();
        ensure!(counts == ["from 1 to 2", "from 2 to 0", "from 0 to 1"], "{scales:?}");
        ensure!(noted().all(|(entry, _)| !entry.user.is_empty() && entry.is_success()), "{scales:?}");
        // On DVP, the webhook reviews scale-downs, and says the same.
        let by_webhook =
            scales.iter().filter(|entry| entry.notes.contains_key("scale.webhook.vmpool.dev/scaled"));
        let expected = usize::from(platform == TestedPlatform::Dvp);
        ensure!(by_webhook.count() == expected, "{scales:?}");
        Ok(())
    });
}

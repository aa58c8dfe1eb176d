//! Settings of the rollout in annotations.

use anyhow::ensure;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{machine_count, no_condition, pool_condition, pool_event};
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::error::error_with_causes;

/// Annotations, without their prefix, and invalid values.
const INVALID: [(&str, &str); 4] = [
    ("rollout-paused", "yes"),
    ("rollout-max-unavailable", "0%"),
    ("rollout-revision", "The_Last"),
    ("revision-history-limit", "ten"),
];

fn key(name: &str) -> String {
    format!("{}{name}", vmpool_api::PREFIX)
}

#[test]
fn an_update_to_an_invalid_annotation_is_refused() {
    define_scenario("an update to an invalid annotation is refused").guarded().run(async |world| {
        // Given a pool with the webhook of the chart,
        let pool = world.pool("annotated").replicas(1).ready().await?;
        for (name, value) in INVALID {
            // when a user changes only an annotation, to an invalid value,
            let patch = Patch::Merge(json!({ "metadata": { "annotations": { key(name): value } } }));
            let patched =
                world.api(TestedKind::Pool).patch(pool.name(), &PatchParams::default(), &patch).await;
            // then the webhook refuses it,
            let Err(error) = patched else { anyhow::bail!("{name}: {value} was accepted") };
            let text = error_with_causes(&error);
            ensure!(text.contains(name) && text.contains("rule W18"), "{text}");
        }
        // and accepts other annotations.
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/note": "yes" } } }));
        world.api(TestedKind::Pool).patch(pool.name(), &PatchParams::default(), &patch).await?;
        anyhow::Ok(())
    });
}

#[test]
fn a_pool_with_invalid_settings_is_scaled() {
    define_scenario("a pool with invalid settings is scaled").run(async |world| {
        // Given a pool with invalid annotations on a cluster without the webhook,
        let pool = world.pool("annotated").replicas(1).ready().await?;
        let annotations = |set: bool| {
            let value = |value: &str| if set { json!(value) } else { json!(null) };
            let annotations: serde_json::Map<_, _> =
                INVALID.iter().map(|(name, invalid)| (key(name), value(invalid))).collect();
            json!({ "metadata": { "annotations": annotations } })
        };
        world.patch(TestedKind::Pool, pool.name(), &annotations(true)).await?;
        // when it is scaled, then it gets its machines, and a condition reports the invalid settings.
        pool.scale(3).await?;
        pool.until(
            machine_count(3)
                .and(pool_condition("InvalidSettings", "True", "UnreadableSettings"))
                .and(pool_event("InvalidSettings")),
        )
        .await?;
        world.patch(TestedKind::Pool, pool.name(), &annotations(false)).await?;
        pool.until(no_condition("InvalidSettings")).await?;
        anyhow::Ok(())
    });
}

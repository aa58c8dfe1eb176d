//! Settings of the rollout that stand in annotations.

use anyhow::ensure;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{condition, event, members, no_condition};
use vmpool_invariants::object::Kind;
use vmpool_test_cluster::error::chain;

/// Annotations, without their prefix, and values that cannot be read.
const ODD: [(&str, &str); 4] = [
    ("rollout-paused", "yes"),
    ("rollout-max-unavailable", "0%"),
    ("rollout-revision", "The_Last"),
    ("revision-history-limit", "ten"),
];

fn key(name: &str) -> String {
    format!("{}{name}", vmpool_api::PREFIX)
}

#[test]
fn an_update_of_one_annotation_that_cannot_be_read_is_refused() {
    scenario("an update of one annotation that cannot be read is refused").guarded().run(async |world| {
        // Given a pool with the webhook of the chart,
        let pool = world.pool("annotated").replicas(1).ready().await?;
        for (name, value) in ODD {
            // when a user changes nothing but an annotation, to a value that cannot be read,
            let patch = Patch::Merge(json!({ "metadata": { "annotations": { key(name): value } } }));
            let patched = world.api(Kind::Pool).patch(pool.name(), &PatchParams::default(), &patch).await;
            // then the webhook refuses it,
            let Err(error) = patched else { anyhow::bail!("{name}: {value} was accepted") };
            let text = chain(&error);
            ensure!(text.contains(name) && text.contains("rule W18"), "{text}");
        }
        // and other annotations are none of its business.
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/note": "yes" } } }));
        world.api(Kind::Pool).patch(pool.name(), &PatchParams::default(), &patch).await?;
        anyhow::Ok(())
    });
}

#[test]
fn a_pool_with_settings_that_cannot_be_read_is_scaled() {
    scenario("a pool with settings that cannot be read is scaled").run(async |world| {
        // Given a pool on a cluster without the webhook, with annotations that cannot be read,
        let pool = world.pool("annotated").replicas(1).ready().await?;
        let annotations = |set: bool| {
            let value = |value: &str| if set { json!(value) } else { json!(null) };
            let annotations: serde_json::Map<_, _> =
                ODD.iter().map(|(name, odd)| (key(name), value(odd))).collect();
            json!({ "metadata": { "annotations": annotations } })
        };
        world.patch(Kind::Pool, pool.name(), &annotations(true)).await?;
        // when it is scaled, then it has its machines, and says what cannot be read.
        pool.scale(3).await?;
        pool.until(
            members(3)
                .and(condition("InvalidSettings", "True", "UnreadableSettings"))
                .and(event("InvalidSettings")),
        )
        .await?;
        world.patch(Kind::Pool, pool.name(), &annotations(false)).await?;
        pool.until(no_condition("InvalidSettings")).await?;
        anyhow::Ok(())
    });
}

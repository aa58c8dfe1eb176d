//! Core scenarios that work on any cluster with the chart installed and use only its API.
//!
//! The node cluster's tests run them, and so does `make e2e` on external clusters.

use serde_json::json;
use vmpool_invariants::object::JsonObject;
use vmpool_test_cluster::error::{Error, Result, error_with_causes};

use crate::world::condition::{
    disk_count, has_machine, live_machine_count, negate_condition, ready_replicas,
};
use crate::world::{PoolHandle, PoolScaleDownPolicy, SUBRESOURCES, ScenarioWorld};

/// The controller creates a pool's machines and disks, follows `kubectl scale` up and down, and replaces a
/// deleted machine.
///
/// # Errors
/// The first expectation that is not met.
pub async fn a_pool_converges(world: &ScenarioWorld) -> Result<()> {
    let pool = world.pool("web").disk("root").disk("data").replicas(3).ready().await?;
    pool.until(disk_count(6)).await?;
    pool.scale(5).await?;
    pool.until(ready_replicas(5).and(disk_count(10))).await?;
    pool.scale(2).await?;
    pool.until(ready_replicas(2)).await?;
    let machine = pool.machine(0).await?;
    world.delete(&machine).await?;
    pool.until(negate_condition(has_machine(&machine)).and(ready_replicas(2))).await
}

/// An Explicit pool cannot be scaled down through its replicas: the API server reaches the webhook through
/// its Service.
///
/// # Errors
/// The first expectation that is not met.
pub async fn explicit_is_kept(world: &ScenarioWorld) -> Result<()> {
    let pool = world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
    let attempts = [
        ("kubectl scale", pool.scale(1).await),
        ("a patch of the scale", pool.scale_by_api(0).await),
        ("an edit", pool.edit(&json!({ "spec": { "replicas": 1 } })).await),
    ];
    for (request, attempt) in attempts {
        match attempt {
            Ok(()) => {
                return Err(Error::Unexpected {
                    what: format!("{request} cannot scale an Explicit pool down"),
                    last: "the request was accepted".to_owned(),
                });
            }
            Err(error) => {
                let message = error_with_causes(&error);
                expect(message.contains("Explicit") && message.contains("scaledownwith"), || {
                    format!("the refusal of {request} explains what to do, unlike: {message}")
                })?;
            }
        }
    }
    // Scale-up is allowed.
    pool.scale(3).await?;
    pool.until(ready_replicas(3)).await?;
    pool.holds(live_machine_count(3), crate::world::SETTLE).await
}

/// A targeted removal removes only its targets, through `kubectl create --raw` and a client's POST: the API
/// server reaches the aggregated API through its Service.
///
/// # Errors
/// The first expectation that is not met.
pub async fn targeted_removal(world: &ScenarioWorld) -> Result<()> {
    let pool = world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(3).ready().await?;
    let machines = pool.machines().await?;
    remove_by_kubectl(world, &pool, &machines[1]).await?;
    pool.until(ready_replicas(2)).await?;
    pool.remove(&machines[..1]).await?;
    pool.until(ready_replicas(1)).await?;
    let left = pool.machines().await?;
    expect(left.len() == 1 && left[0].uid() == machines[2].uid(), || {
        format!("only {} is left, but found {left:?}", machines[2].name())
    })
}

/// Uses the command from the docs.
async fn remove_by_kubectl(world: &ScenarioWorld, pool: &PoolHandle<'_>, machine: &JsonObject) -> Result<()> {
    let path = format!(
        "/apis/{SUBRESOURCES}/namespaces/{}/virtualmachinepools/{}/scaledownwith",
        world.namespace(),
        pool.name()
    );
    let body = world.access().home.join(format!("{}.json", world.namespace()));
    let text = json!({ "targets": [machine.name()] }).to_string();
    std::fs::write(&body, text).map_err(Error::file("writing", &body))?;
    let uid = machine.uid().to_owned();
    world.user_actions().request_removal(std::slice::from_ref(&uid));
    let answer = world
        .kubectl(&["create", &format!("--raw={path}"), &format!("--filename={}", body.display())])
        .await?;
    world.user_actions().completed_removals.insert(uid, machine.name().to_owned());
    expect(answer.contains(r#""status":"Success""#), || {
        format!("the response is a success, but was {answer}")
    })?;
    world.check().await
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Unexpected { what: what(), last: "see above".to_owned() }) }
}

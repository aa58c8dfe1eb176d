//! Clients that act between the decision of an autoscaler and its write.

use super::*;
use crate::testing::{Fate, Verb};

/// The scales that the controller requested: the version that each requires, and its replicas.
fn scale_requests(world: &LeaderWorld) -> Vec<(String, u64)> {
    let writes = world.take_writes().into_iter().filter(|call| call.subresource == "scale");
    let request = |body: &Value| {
        let version = body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        (version, body["spec"]["replicas"].as_u64().unwrap())
    };
    writes.map(|call| request(&call.body)).collect()
}

#[tokio::test]
async fn machines_that_are_claimed_before_the_live_read_are_not_lowered_away() {
    let world = world(3, json!({ "free": 1 })).await;
    let until = timestamp_text(time_after(world.env.now(), Duration::from_mins(30)));
    let (server, machines, mut waits) = (world.server.clone(), machine_names(&world.machines()), true);
    world.server.take_log();
    world.server.intercept(move |call| {
        if call.is(Verb::List, "virtualmachines") && std::mem::take(&mut waits) {
            for machine in &machines {
                server.edit(MACHINES, machine, |machine| {
                    machine["metadata"]["annotations"][UNTIL] = json!(until);
                });
            }
        }
        Fate::Serve
    });
    world.advance(2 * Duration::from_mins(1)).await;
    let replicas: Vec<u64> = scale_requests(&world).into_iter().map(|(_, replicas)| replicas).collect();
    assert_eq!(replicas, [4], "three busy machines and a free one");
}

#[tokio::test]
async fn a_number_that_a_user_sets_before_the_write_is_not_overwritten() {
    let world = world(3, json!({ "free": 1 })).await;
    let (server, mut waits) = (world.server.clone(), true);
    world.server.take_log();
    world.server.intercept(move |call| {
        if call.subresource == "scale" && std::mem::take(&mut waits) {
            server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(7));
        }
        Fate::Serve
    });
    world.advance(2 * Duration::from_mins(1)).await;
    let requests = scale_requests(&world);
    assert_eq!(requests.len(), 2, "the first one is refused: {requests:?}");
    assert_ne!(requests[0].0, requests[1].0, "the second one is decided at the version of the user");
    assert_eq!(world.replicas(), 1);
}

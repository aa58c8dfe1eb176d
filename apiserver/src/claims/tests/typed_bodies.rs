//! The types that clients use for the bodies of claims and releases.

use std::time::Duration;

use vmpool_api::subresources::{
    ClaimResponse, DVP, MachineClaim, MachineRelease, ReleaseAction, ReleaseResponse,
};

use super::*;

#[tokio::test]
async fn the_types_of_clients_are_the_bodies_of_claim_and_release() {
    let world = running(1, 2);
    let process = world.process(1);
    let request = MachineClaim::new("job-1", Duration::from_mins(10))
        .api_version(DVP.api_version())
        .reason("a build")
        .wait(Duration::ZERO)
        .machine("web-1");
    let answer = claim(&world, &process, serde_json::to_value(&request).unwrap()).await;
    assert_eq!(answer.code.as_u16(), 201, "{}", answer.body);
    let claimed: ClaimResponse = serde_json::from_value(answer.body.clone()).unwrap();
    assert_eq!(serde_json::to_value(&claimed).unwrap(), answer.body, "the type has all fields");
    assert_eq!((&*claimed.id, &*claimed.machine.name), ("job-1", "web-1"));
    assert_eq!(claimed.machine.addresses, ["10.0.0.1"]);

    let request = claimed.release(ReleaseAction::Keep).api_version(DVP.api_version());
    let answer = release(&world, &process, serde_json::to_value(&request).unwrap()).await;
    assert_eq!(answer.code.as_u16(), 200, "{}", answer.body);
    let released: ReleaseResponse = serde_json::from_value(answer.body.clone()).unwrap();
    assert_eq!(serde_json::to_value(&released).unwrap(), answer.body, "the type has all fields");
    assert_eq!((&*released.machine.name, &*released.then, released.replicas), ("web-1", "Keep", 2));
}

#[tokio::test]
async fn dry_runs_and_renewals_of_typed_clients_claim_nothing() {
    let world = running(1, 1);
    let process = world.process(1);
    let request = MachineClaim::new("job-1", Duration::from_mins(10));
    let dry_run = serde_json::to_value(request.clone().dry_run()).unwrap();
    assert_eq!(machine(&claim(&world, &process, dry_run).await), "web-0");
    let renewal = serde_json::to_value(request.renew()).unwrap();
    assert_refused(&claim(&world, &process, renewal).await, 404, "ClaimLost");
    let unknown = MachineRelease::new("job-1", "no-such-uid", ReleaseAction::Replace).dry_run();
    let answer = release(&world, &process, serde_json::to_value(&unknown).unwrap()).await;
    assert_refused(&answer, 404, "ClaimNotFound");
    let written =
        world.server.store(|store| store.machine("web-0").unwrap()["metadata"]["annotations"].clone());
    assert!(written[CLAIM].is_null(), "{written}");
}

//! Machines that the platform does not start, and blocked steps, in conditions and events.

use serde_json::{Value, json};

use super::SECOND;
use crate::testing::{LeaderWorld, machine_names, pool_manifest};

const MISSING: &str = "VirtualMachineClass \"large\" not found";

/// The platform reports that the class of all machines is missing.
fn miss_class(world: &LeaderWorld) {
    for name in machine_names(&world.machines()) {
        world.server.edit("virtualmachines", &name, |machine| {
            let generation = machine["metadata"]["generation"].clone();
            let condition =
                json!({ "type": "VirtualMachineClassReady", "status": "False", "reason": "NotFound", "message": MISSING });
            machine["status"] =
                json!({ "phase": "Pending", "observedGeneration": generation, "conditions": [condition] });
        });
    }
}

fn warnings(world: &LeaderWorld, reason: &str) -> Vec<String> {
    let events = world.server.all("events").into_iter().filter(|event| event["reason"] == reason);
    events.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

fn message(world: &LeaderWorld, condition: &str) -> String {
    let condition: Value = world.condition(condition).expect("it is present");
    condition["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_missing_class_is_reported_once_in_condition_and_event() {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool_manifest("web", 2));
    world.lead();
    world.calm().await;
    miss_class(&world);
    world.advance(SECOND * 9).await;
    assert_eq!(message(&world, "Available"), "0 of 2 machines are ready");
    assert_eq!(warnings(&world, "MachineNotStarted"), [""; 0]);
    world.advance(SECOND * 3).await;
    let first = &machine_names(&world.machines())[0];
    let expected = format!("machine {first} is not ready: {MISSING}");
    assert_eq!(
        message(&world, "Available"),
        format!("0 of 2 machines are ready; {expected}; 1 more machine is not ready")
    );
    assert_eq!(warnings(&world, "MachineNotStarted"), std::slice::from_ref(&expected));
    // A new leader reports the same, and does not repeat the event.
    world.kill_leader().await;
    world.lead();
    world.advance(SECOND * 30).await;
    assert!(message(&world, "Available").contains(&expected));
    assert_eq!(warnings(&world, "MachineNotStarted").len(), 1);
    // When the class exists, the machines start.
    world.run_machines();
    world.calm().await;
    assert_eq!(message(&world, "Available"), "2 of 2 machines are ready");
}

#[tokio::test]
async fn the_message_of_a_pool_in_backoff_is_written_once() {
    use crate::testing::{Fate, Refusal, Verb};
    let mut world = LeaderWorld::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "exceeded quota: machines"));
        }
        Fate::Serve
    });
    world.server.create("virtualmachinepools", pool_manifest("web", 2));
    world.lead();
    world.calm().await;
    assert_eq!(
        message(&world, "Progressing"),
        "creating machines: 0 of 2 exist; creating machines is in backoff after a failure"
    );
    world.take_writes();
    world.advance(SECOND * 120).await;
    let writes = world.take_writes();
    assert!(writes.iter().all(|call| call.subresource != "status"), "{writes:?}");
}

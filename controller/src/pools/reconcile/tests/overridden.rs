//! Admission policies that give other values to fields of the template.

use serde_json::{Value, json};

use super::kubevirt::lead;
use super::rollouts::{MACHINES, POOLS, edit, roll, synced};
use super::{SECOND, count_patches};
use crate::testing::{Call, LeaderWorld, Verb, pool_manifest};

const GRACE: &str = "terminationGracePeriodSeconds";

/// A pool of five machines whose grace period a policy sets to 30 seconds.
async fn pool_with_forced_field() -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.server.mutate(|call: &Call, object: &mut Value| {
        if call.is(Verb::Create, MACHINES) {
            object["spec"][GRACE] = json!(30);
            object["spec"]["nodeSelector"] = json!({ "pool": "gpu" });
        }
    });
    let mut wanted = pool_manifest("web", 5);
    wanted["spec"]["virtualMachineTemplate"]["spec"][GRACE] = json!(10);
    world.server.create(POOLS, wanted);
    world.lead();
    world.calm().await;
    world.run_machines();
    world.calm().await;
    world.take_writes();
    world
}

#[tokio::test]
async fn a_pool_whose_policy_forces_a_field_is_not_synced() {
    let mut world = pool_with_forced_field().await;
    assert_eq!(synced(&world), ("False".into(), "FieldsOverridden".into()));
    let found = world.condition("TemplateOverridden").unwrap();
    let message = found["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("5 machines") && message.contains("in spec.terminationGracePeriodSeconds:"),
        "{message}"
    );
    assert!(!message.contains("nodeSelector"), "the template does not set it: {message}");
    assert_eq!(
        (world.status()["readyReplicas"].clone(), world.status()["updatedReplicas"].clone()),
        (json!(5), json!(0))
    );
    assert_eq!(world.condition("Ready").unwrap()["status"], "False");

    world.kill_leader().await;
    world.lead();
    world.advance(SECOND * 30).await;
    assert_eq!(world.take_writes().len(), 0, "a new leader shows what the former one found");
}

#[tokio::test]
async fn a_template_with_the_forced_value_is_in_effect() {
    let world = pool_with_forced_field().await;
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["spec"][GRACE] = json!(30));
    roll(&world, 1).await;
    assert_eq!(synced(&world), ("True".into(), "PoolSynced".into()));
    assert_eq!(world.condition("TemplateOverridden"), None);
    assert_eq!(world.status()["updatedReplicas"], 5);
}

/// An update writes all fields of the template that the machine does not have.
#[tokio::test]
async fn a_template_without_the_policy_is_in_effect_after_an_update() {
    let world = pool_with_forced_field().await;
    world.server.remove_policy();
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["spec"]["memory"]["size"] = json!("4Gi"));
    roll(&world, 1).await;
    assert_eq!(synced(&world), ("True".into(), "PoolSynced".into()));
    assert!(world.machines().iter().all(|machine| machine["spec"][GRACE] == 10));
}

#[tokio::test]
async fn a_kubevirt_pool_names_the_fields_that_a_policy_forces() {
    let mut world = LeaderWorld::new();
    world.server.mutate(|call: &Call, object: &mut Value| {
        if call.is(Verb::Create, MACHINES) {
            object["spec"]["template"]["metadata"]["labels"]["farm"] = json!("platform");
        }
    });
    lead(&mut world, 2);
    world.calm().await;
    let pool = world.server.get("virtualmachinepools.pool.kubevirt.io", "web").unwrap();
    let conditions = pool["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == "TemplateOverridden").unwrap();
    let message = found["message"].as_str().unwrap();
    assert!(message.contains("in spec.template.metadata.labels[farm]:"), "{message}");
    assert_eq!(pool["status"]["updatedReplicas"], 0);
    world.take_writes();
    world.advance(SECOND * 60).await;
    assert_eq!(count_patches(&world.take_writes(), MACHINES), 0);
}

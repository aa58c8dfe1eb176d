use serde_json::{Value, json};
use vmpool_engine::plan::{DeleteReason, PoolAction};
use vmpool_platforms::Dvp;

use super::*;
use crate::testing::{Fate, LeaderWorld, Refusal, machine_names};

/// The preview for `web` after this change of the stored object.
async fn preview_with(world: &LeaderWorld, change: impl FnOnce(&mut Value)) -> Preview {
    let mut pool = world.server.get("virtualmachinepools", "web").unwrap();
    change(&mut pool);
    let pool = serde_json::from_value(pool).unwrap();
    preview_pool::<Dvp>(&world.env, world.server.client(), pool).await.unwrap()
}

fn names(plan: &Plan, wanted: impl Fn(&PoolAction) -> bool) -> Vec<String> {
    plan.actions.iter().filter(|action| wanted(action)).map(|action| action.object().to_string()).collect()
}

fn is_surplus(action: &PoolAction) -> bool {
    matches!(action, PoolAction::Delete { reason: DeleteReason::Surplus { .. }, .. })
}

#[tokio::test]
async fn a_preview_of_a_scale_down_names_the_machines_that_the_controller_then_deletes() {
    let world = LeaderWorld::with_pool(5).await;
    let preview = preview_with(&world, |pool| pool["spec"]["replicas"] = json!(3)).await;
    let deleted = names(&preview.next, is_surplus);
    assert_eq!(deleted.len(), 2);
    assert_eq!(preview.machines.len(), 5);
    assert_eq!(preview.disks.len(), 5);
    assert!(world.take_writes().is_empty(), "a preview only reads");

    world.scale(3);
    world.calm().await;
    let left = machine_names(&world.machines());
    assert_eq!(left.len(), 3);
    assert!(deleted.iter().all(|name| !left.contains(name)), "{deleted:?} {left:?}");
}

#[tokio::test]
async fn a_preview_of_a_rollout_lists_the_first_step_and_all_later_ones() {
    let world = LeaderWorld::with_pool(4).await;
    let preview = preview_with(&world, |pool| {
        pool["metadata"]["generation"] = json!(2);
        pool["spec"]["virtualMachineTemplate"]["spec"]["memory"]["size"] = json!("1Gi");
    })
    .await;
    let is_update = |action: &PoolAction| matches!(action, PoolAction::Update { .. });
    let (next, all) = (names(&preview.next, is_update), names(&preview.later, is_update));
    assert_eq!(next.len(), 1, "the budget is a quarter");
    assert_eq!(all.len(), 4);
    assert_eq!(all[0], next[0]);
    assert!(world.take_writes().is_empty(), "a preview only reads");
}

#[tokio::test]
async fn a_preview_of_a_settled_pool_is_empty() {
    let world = LeaderWorld::with_pool(2).await;
    let preview = preview_with(&world, |_| {}).await;
    assert_eq!(preview.next.actions, []);
    assert_eq!(preview.status.summary.ready, 2);
}

#[tokio::test]
async fn a_preview_without_the_right_to_list_says_which_kind_it_was() {
    let world = LeaderWorld::with_pool(1).await;
    world.server.intercept(|call| {
        let denied = call.resource.starts_with("virtualdisks");
        if denied { Fate::Refuse(Refusal::new(403, "Forbidden", "no right to list")) } else { Fate::Serve }
    });
    let pool = world.server.get("virtualmachinepools", "web").unwrap();
    let pool = serde_json::from_value(pool).unwrap();
    let error = preview_pool::<Dvp>(&world.env, world.server.client(), pool).await.unwrap_err();
    assert_eq!(error.to_string(), "reading VirtualDisk (all)");
}

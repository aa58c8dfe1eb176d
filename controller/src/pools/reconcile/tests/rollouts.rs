//! Rollouts of a changed template.

use serde_json::{Value, json};

use super::{SECOND, count, count_patches, is_patch};
use crate::testing::{Call, Fate, LeaderWorld, MERGE_PATCH, Refusal, Verb, machine_names};

pub(super) const PREFIX: &str = "vmpool.virtualization.deckhouse.io";
pub(super) const POOLS: &str = "virtualmachinepools";
pub(super) const MACHINES: &str = "virtualmachines";
pub(super) const REVISIONS: &str = "controllerrevisions";

/// A user changes the memory of the machines, which takes effect after the platform has evaluated it.
pub(super) fn resize(world: &LeaderWorld, size: &str) {
    edit(world, |pool| pool["spec"]["virtualMachineTemplate"]["spec"]["memory"]["size"] = json!(size));
}

pub(super) fn edit(world: &LeaderWorld, change: impl FnOnce(&mut Value)) {
    world.server.edit(POOLS, "web", change);
}

fn size(machine: &Value) -> &str {
    machine["spec"]["memory"]["size"].as_str().unwrap()
}

fn with_size(world: &LeaderWorld, wanted: &str) -> usize {
    world.machines().iter().filter(|machine| size(machine) == wanted).count()
}

pub(super) fn label(machine: &Value) -> &str {
    machine["metadata"]["labels"][format!("{PREFIX}/template-hash")].as_str().unwrap()
}

fn written(machine: &Value) -> &str {
    machine["metadata"]["annotations"][format!("{PREFIX}/patched-template-hash")].as_str().unwrap()
}

/// The revision in the status of the pool.
pub(super) fn shown(world: &LeaderWorld) -> String {
    world.status()["desiredTemplateHash"].as_str().unwrap().to_owned()
}

/// The number of machines whose spec the platform has not evaluated.
fn unevaluated(world: &LeaderWorld) -> usize {
    let looked =
        |machine: &Value| machine["status"]["observedGeneration"] == machine["metadata"]["generation"];
    world.machines().iter().filter(|machine| !looked(machine)).count()
}

pub(super) fn synced(world: &LeaderWorld) -> (String, String) {
    let synced = world.condition("Synced").unwrap();
    (synced["status"].as_str().unwrap().to_owned(), synced["reason"].as_str().unwrap().to_owned())
}

fn events<'a>(world: &LeaderWorld, reason: &'a str) -> impl Iterator<Item = Value> + use<'a> {
    world.server.all("events").into_iter().filter(move |event| event["reason"] == reason)
}

/// Writes apart from those of the status.
fn work(world: &LeaderWorld) -> Vec<Call> {
    world.take_writes().into_iter().filter(|call| call.subresource.is_empty()).collect()
}

/// The operations of a JSON patch with this name.
fn operations<'a>(call: &'a Call, name: &'a str) -> impl Iterator<Item = &'a str> {
    let all = call.body.as_array().into_iter().flatten();
    all.filter(move |operation| operation["op"] == name).map(|operation| operation["path"].as_str().unwrap())
}

/// Whether a patch of a machine requires its spec and its metadata as they were read, and not its version.
fn tests_spec_and_metadata(call: &Call) -> bool {
    let tests: Vec<&str> = operations(call, "test").collect();
    ["uid", "generation", "labels", "annotations", "ownerReferences"]
        .iter()
        .all(|field| tests.contains(&&*format!("/metadata/{field}")))
        && !tests.contains(&"/metadata/resourceVersion")
}

/// Whether a patch changes the spec of a machine.
fn changes_spec(call: &Call) -> bool {
    ["add", "remove"].iter().any(|name| operations(call, name).any(|path| path.starts_with("/spec")))
}

/// Runs the platform until nothing is left to do, and checks that at most `budget` machines change at a time.
pub(super) async fn roll(world: &LeaderWorld, budget: usize) {
    for _ in 0..100 {
        world.calm().await;
        let changed = unevaluated(world);
        assert!(changed <= budget, "{changed} machines are changed at a time");
        if changed == 0 {
            return;
        }
        world.run_machines();
    }
    panic!("the rollout does not end");
}

#[tokio::test]
async fn a_change_reaches_every_machine_within_the_budget_for_two_writes_each() {
    let world = LeaderWorld::with_pool(8).await;
    let before = shown(&world);
    resize(&world, "1Gi");
    world.calm().await;
    assert_eq!(with_size(&world, "1Gi"), 2, "a quarter, until the platform has evaluated the change");
    assert_eq!(synced(&world), ("False".into(), "RolloutInProgress".into()));
    roll(&world, 2).await;
    assert_eq!(with_size(&world, "1Gi"), 8);
    let after = shown(&world);
    assert_ne!(before, after);
    assert!(world.machines().iter().all(|machine| label(machine) == after && written(machine) == after));
    assert_eq!(synced(&world), ("True".into(), "PoolSynced".into()));
    assert_eq!(world.status()["updatedReplicas"], 8);

    let writes = work(&world);
    assert_eq!(count(&writes, Verb::Create, REVISIONS), 1);
    assert_eq!(count_patches(&writes, MACHINES), 16);
    assert_eq!(writes.len(), 17, "{writes:?}");
    assert!(
        writes.iter().filter(|call| call.resource == MACHINES).all(tests_spec_and_metadata),
        "{writes:?}"
    );
    assert!(events(&world, "TemplateApplied").count() > 0);
    world.advance(SECOND * 660).await;
    assert!(world.server.take_log().is_empty(), "then nothing is left to do");
}

#[tokio::test]
async fn a_change_without_a_restart_costs_one_write_per_machine_and_no_budget() {
    let world = LeaderWorld::with_pool(8).await;
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["metadata"]["labels"]["tier"] = json!("one"));
    world.calm().await;
    let revision = shown(&world);
    for machine in world.machines() {
        assert_eq!((&machine["metadata"]["labels"]["tier"], label(&machine)), (&json!("one"), &*revision));
    }
    assert_eq!(count_patches(&work(&world), MACHINES), 8);
    assert_eq!(synced(&world).0, "True");
}

#[tokio::test]
async fn fields_of_other_clients_on_a_machine_stay() {
    let world = LeaderWorld::with_pool(1).await;
    let name = machine_names(&world.machines()).remove(0);
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["spec"]["runPolicy"] = json!("AlwaysOn"));
    roll(&world, 1).await;
    world.server.edit(MACHINES, &name, |machine| {
        machine["metadata"]["labels"]["theirs"] = json!("stays");
        machine["spec"]["nodeSelector"] = json!({ "zone": "a" });
        let devices = machine["spec"]["blockDeviceRefs"].as_array_mut().unwrap();
        devices.push(json!({ "kind": "VirtualDisk", "name": "by-hand" }));
    });
    world.run_machines();
    edit(&world, |pool| {
        let template = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
        template.as_object_mut().unwrap().remove("runPolicy");
        template["cpu"]["cores"] = json!(2);
    });
    roll(&world, 1).await;
    let machine = world.server.get(MACHINES, &name).unwrap();
    assert_eq!(machine["spec"]["cpu"]["cores"], 2);
    let default = "AlwaysOnUnlessStoppedManually";
    assert_eq!(machine["spec"]["runPolicy"], default, "fields that only the former template set are removed");
    assert_eq!(machine["metadata"]["labels"]["theirs"], "stays");
    assert_eq!(machine["spec"]["nodeSelector"], json!({ "zone": "a" }));
    assert_eq!(machine["spec"]["blockDeviceRefs"][1]["name"], "by-hand");
}

#[tokio::test]
async fn a_concurrent_write_of_another_client_is_not_lost() {
    let world = LeaderWorld::with_pool(1).await;
    let name = machine_names(&world.machines()).remove(0);
    let (server, mut once) = (world.server.clone(), true);
    world.server.intercept(move |call| {
        if is_patch(call, MACHINES) && std::mem::take(&mut once) {
            server.edit(MACHINES, &call.name, |machine| {
                machine["spec"]["nodeSelector"] = json!({ "zone": "a" });
            });
        }
        Fate::Serve
    });
    resize(&world, "1Gi");
    roll(&world, 1).await;
    let machine = world.server.get(MACHINES, &name).unwrap();
    assert_eq!((size(&machine), &machine["spec"]["nodeSelector"]), ("1Gi", &json!({ "zone": "a" })));
    assert_eq!(world.condition("ReplicaFailure"), None);
    assert_eq!(synced(&world).0, "True");
}

/// The controller of the platform writes the status of a machine often.
#[tokio::test]
async fn a_write_of_the_status_of_a_machine_conflicts_with_no_patch() {
    let world = LeaderWorld::with_pool(4).await;
    let (server, mut writes) = (world.server.clone(), 0);
    world.server.intercept(move |call| {
        if is_patch(call, MACHINES) {
            writes += 1;
            server.edit(MACHINES, &call.name, |machine| {
                machine["status"]["ipAddress"] = json!(writes.to_string());
            });
        }
        Fate::Serve
    });
    resize(&world, "1Gi");
    roll(&world, 1).await;
    assert_eq!((with_size(&world, "1Gi"), synced(&world).0), (4, "True".into()));
    let patches = work(&world).into_iter().filter(|call| is_patch(call, MACHINES)).collect::<Vec<_>>();
    assert_eq!(patches.len(), 8, "an update and its record: {patches:?}");
}

/// A stopped machine uses no budget, and may have been started since.
#[tokio::test]
async fn a_patch_of_a_machine_that_does_not_run_requires_its_version() {
    let world = LeaderWorld::with_pool(1).await;
    let name = machine_names(&world.machines()).remove(0);
    world.server.edit(MACHINES, &name, |machine| machine["status"]["phase"] = json!("Stopped"));
    world.calm().await;
    world.take_writes();
    resize(&world, "1Gi");
    world.calm().await;
    let writes = work(&world);
    let update = writes.iter().find(|call| call.is(MERGE_PATCH, MACHINES)).expect("it is updated");
    assert!(update.body["metadata"]["resourceVersion"].is_string(), "{update:?}");
}

#[tokio::test]
async fn the_label_follows_the_restart_and_approvals_use_no_budget() {
    let world = LeaderWorld::with_pool(8).await;
    let before = shown(&world);
    resize(&world, "1Gi");
    let pending = |machine: &mut Value| {
        machine["status"]["observedGeneration"] = machine["metadata"]["generation"].clone();
        let waits = size(machine) == "1Gi";
        machine["status"]["conditions"] = if waits {
            json!([{ "type": "AwaitingRestartToApplyConfiguration", "status": "True", "reason": "ChangesPendingRestart" }])
        } else {
            json!([])
        };
    };
    for _ in 0..8 {
        world.calm().await;
        assert!(unevaluated(&world) <= 2);
        for name in machine_names(&world.machines()) {
            world.server.edit(MACHINES, &name, pending);
        }
    }
    assert_eq!(with_size(&world, "1Gi"), 8, "each machine waits for an approval, and none restarts");
    assert!(world.machines().iter().all(|machine| label(machine) == before));
    assert_eq!(synced(&world), ("False".into(), "RestartPendingApproval".into()));
    assert_eq!(
        (&world.status()["restartPendingReplicas"], &world.status()["updatedReplicas"]),
        (&json!(8), &json!(0))
    );

    let restarted = machine_names(&world.machines()).remove(3);
    world.server.edit(MACHINES, &restarted, |machine| machine["status"]["conditions"] = json!([]));
    world.calm().await;
    assert_eq!(world.status()["updatedReplicas"], 1);
    assert_eq!(label(&world.server.get(MACHINES, &restarted).unwrap()), shown(&world));
}

#[tokio::test]
async fn a_paused_rollout_goes_no_further_and_new_machines_get_the_new_template() {
    let world = LeaderWorld::with_pool(4).await;
    edit(&world, |pool| pool["metadata"]["annotations"][format!("{PREFIX}/rollout-paused")] = json!("true"));
    resize(&world, "1Gi");
    world.calm().await;
    assert_eq!(with_size(&world, "1Gi"), 0);
    world.scale(5);
    world.calm().await;
    assert_eq!(with_size(&world, "1Gi"), 1);
    edit(&world, |pool| pool["metadata"]["annotations"] = json!({ format!("{PREFIX}/names"): "0-64" }));
    world.run_machines();
    roll(&world, 1).await;
    assert_eq!(with_size(&world, "1Gi"), 5);
}

#[tokio::test]
async fn a_pool_goes_back_to_a_revision_by_its_name_and_makes_its_machines_from_it() {
    let world = LeaderWorld::with_pool(4).await;
    let (old, small) = (shown(&world), size(&world.machines()[0]).to_owned());
    resize(&world, "1Gi");
    roll(&world, 1).await;
    let new = shown(&world);
    edit(&world, |pool| pool["spec"]["rollout"] = json!({ "revision": old }));
    roll(&world, 1).await;
    assert_eq!((shown(&world), with_size(&world, &small)), (old.clone(), 4));
    world.scale(5);
    world.calm().await;
    assert_eq!(with_size(&world, &small), 5, "a new machine is made from it as well");
    assert!(world.machines().iter().all(|machine| label(machine) == old));
    world.run_machines();
    world.calm().await;

    edit(&world, |pool| drop(pool["spec"].as_object_mut().unwrap().remove("rollout")));
    roll(&world, 1).await;
    assert_eq!((shown(&world), with_size(&world, "1Gi")), (new, 5), "the template in the spec counts again");
    assert_eq!(world.server.all(REVISIONS).len(), 2, "each content is stored once");
}

#[tokio::test]
async fn an_unknown_revision_holds_the_rollout_and_the_count_is_kept() {
    let world = LeaderWorld::with_pool(3).await;
    edit(&world, |pool| pool["spec"]["rollout"] = json!({ "revision": "00000000deadbeef" }));
    resize(&world, "1Gi");
    world.scale(1);
    world.calm().await;
    world.server.collect_garbage();
    assert_eq!(world.machines().len(), 1);
    world.scale(5);
    world.calm().await;
    assert_eq!((world.machines().len(), with_size(&world, "1Gi")), (5, 0));
    let condition = world.condition("InvalidSettings").unwrap();
    assert!(condition["message"].as_str().unwrap().contains("00000000deadbeef"), "{condition}");
    world.run_machines();
    edit(&world, |pool| pool["spec"]["rollout"] = json!({}));
    roll(&world, 1).await;
    assert_eq!((world.condition("InvalidSettings"), with_size(&world, "1Gi")), (None, 5));
}

#[tokio::test]
async fn a_rejected_template_stops_the_rollout_until_a_machine_accepts_it() {
    let world = LeaderWorld::with_pool(20).await;
    world.server.intercept(|call| {
        if is_patch(call, MACHINES) && changes_spec(call) {
            return Fate::Refuse(Refusal::new(422, "Invalid", "no such memory"));
        }
        Fate::Serve
    });
    resize(&world, "1Gi");
    world.advance(SECOND * 120).await;
    let tried: std::collections::BTreeSet<String> =
        work(&world).into_iter().filter(|call| is_patch(call, MACHINES)).map(|call| call.name).collect();
    assert!((2..=5).contains(&tried.len()), "at most the budget was tried: {tried:?}");
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "FailedTemplateUpdate");
    assert!(failure["message"].as_str().unwrap().contains("no such memory"));
    assert!(events(&world, "FailedTemplateUpdate").count() > 0);
    assert_eq!(world.status()["readyReplicas"], 20);

    world.server.behave();
    world.advance(SECOND * 60).await;
    world.run_machines();
    roll(&world, 5).await;
    assert_eq!(with_size(&world, "1Gi"), 20);
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_new_leader_continues_an_interrupted_rollout() {
    for killed_after in 1..6 {
        let mut world = LeaderWorld::with_pool(4).await;
        resize(&world, "1Gi");
        let (mut left, server) = (killed_after, world.server.clone());
        world.server.intercept(move |call| {
            if call.is_write() && call.resource != "events" && call.subresource.is_empty() {
                left -= 1;
            }
            if left < 0 { Fate::Unreachable } else { Fate::Serve }
        });
        world.calm().await;
        world.run_machines();
        world.calm().await;
        world.kill_leader().await;
        server.behave();
        world.server.take_log();
        world.lead();
        roll(&world, 1).await;
        assert_eq!(
            (with_size(&world, "1Gi"), world.server.all(REVISIONS).len()),
            (4, 2),
            "after {killed_after}"
        );
        assert_eq!(synced(&world).0, "True");
        let name = machine_names(&world.machines()).remove(0);
        assert_eq!(written(&world.server.get(MACHINES, &name).unwrap()), shown(&world));
    }
}

#[tokio::test]
async fn a_lost_response_to_an_update_is_resolved_by_a_read() {
    let world = LeaderWorld::with_pool(2).await;
    let mut lost = 1;
    world.server.intercept(move |call| {
        if is_patch(call, MACHINES) && lost > 0 {
            lost -= 1;
            return Fate::ResponseLost;
        }
        Fate::Serve
    });
    resize(&world, "1Gi");
    world.advance(SECOND * 90).await;
    world.run_machines();
    world.advance(SECOND * 90).await;
    world.run_machines();
    roll(&world, 1).await;
    assert_eq!(with_size(&world, "1Gi"), 2);
    let generations: Vec<_> =
        world.machines().iter().map(|machine| machine["metadata"]["generation"].clone()).collect();
    assert_eq!(generations, [2, 2], "each was changed once");
}

#[tokio::test]
async fn with_a_crd_that_prunes_fields_annotations_are_used() {
    let world = LeaderWorld::with_pool(4).await;
    let old = shown(&world);
    resize(&world, "1Gi");
    edit(&world, |pool| {
        pool["metadata"]["annotations"][format!("{PREFIX}/rollout-max-unavailable")] = json!("100%");
    });
    world.calm().await;
    assert_eq!(with_size(&world, "1Gi"), 4);
    world.run_machines();
    roll(&world, 4).await;
    edit(&world, |pool| pool["metadata"]["annotations"][format!("{PREFIX}/rollout-revision")] = json!(old));
    roll(&world, 4).await;
    assert_eq!((with_size(&world, "512Mi"), shown(&world)), (4, old));
}

#[tokio::test]
async fn a_machine_that_was_chosen_as_not_running_is_not_updated_if_it_runs() {
    let world = LeaderWorld::with_pool(2).await;
    let names = machine_names(&world.machines());
    for name in &names {
        world.server.edit(MACHINES, name, |machine| machine["status"]["phase"] = json!("Degraded"));
    }
    world.calm().await;
    let (server, mut waiting) = (world.server.clone(), Some(names[0].clone()));
    world.server.intercept(move |call| {
        if let Some(name) = waiting.take_if(|name| call.is(Verb::Get, MACHINES) && call.name == *name) {
            server.edit(MACHINES, &name, |machine| machine["status"]["phase"] = json!("Running"));
        }
        Fate::Serve
    });
    resize(&world, "1Gi");
    world.calm().await;
    let sizes = |world: &LeaderWorld| -> Vec<String> {
        world.machines().iter().map(|machine| size(machine).to_owned()).collect()
    };
    assert_eq!(sizes(&world), ["512Mi", "1Gi"], "the other machine is unavailable and uses the whole budget");
    world.server.edit(MACHINES, &names[1], |machine| machine["status"]["phase"] = json!("Running"));
    world.run_machines();
    world.calm().await;
    assert_eq!(sizes(&world), ["1Gi", "1Gi"]);
}

/// The budget counts disruptions, and a label disrupts nothing.
#[tokio::test]
async fn a_changed_label_reaches_all_machines_at_once() {
    let world = LeaderWorld::with_pool(8).await;
    // The budget is 2.
    for name in &machine_names(&world.machines())[..3] {
        world.server.edit(MACHINES, name, |machine| machine["status"]["phase"] = json!("Starting"));
    }
    edit(&world, |pool| {
        pool["spec"]["virtualMachineTemplate"]["metadata"]["labels"] = json!({ "team": "b" });
    });
    world.calm().await;
    let labels = world
        .machines()
        .iter()
        .map(|machine| machine["metadata"]["labels"]["team"].clone())
        .collect::<Vec<_>>();
    assert!(labels.iter().all(|label| label == "b"), "{labels:?}");
    assert_eq!(unevaluated(&world), 0, "the specs are unchanged");
    let writes = work(&world);
    assert_eq!(count_patches(&writes, MACHINES), 8, "one write of each machine records the revision, too");
}

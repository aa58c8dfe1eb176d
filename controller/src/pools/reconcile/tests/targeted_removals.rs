//! Targeted removals: another client writes the removal record on the pool, and the leader executes it.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::ObjectId;
use vmpool_engine::scale_down::removal::{RESERVATION_AGE, RemovalRecord};

use super::{SECOND, count};
use crate::testing::{Call, Fate, LeaderWorld, MERGE_PATCH, Refusal, Verb, machine_names, pool_manifest};

const POOLS: &str = "virtualmachinepools";
const MACHINES: &str = "virtualmachines";

fn record_of(pool: &Value) -> RemovalRecord {
    let text = pool["metadata"]["annotations"][SCALE_DOWN_TARGETS].as_str().unwrap_or_default();
    RemovalRecord::parse(text).unwrap()
}

fn record(world: &LeaderWorld) -> RemovalRecord {
    record_of(&world.server.get(POOLS, "web").unwrap())
}

/// Edits the removal record like a client of targeted removals.
fn write(world: &LeaderWorld, edit: impl FnOnce(&mut RemovalRecord) -> usize) {
    world.server.edit(POOLS, "web", |pool| {
        let mut record = record_of(pool);
        let fewer = edit(&mut record);
        pool["metadata"]["annotations"][SCALE_DOWN_TARGETS] = json!(record.to_string());
        pool["spec"]["replicas"] = json!(pool["spec"]["replicas"].as_u64().unwrap() - fewer as u64);
    });
}

pub(super) fn reserve(world: &LeaderWorld, request: &str, names: &[&str]) {
    reserve_for(world, "", request, names);
}

fn reserve_for(world: &LeaderWorld, user: &str, request: &str, names: &[&str]) {
    let uid = |name: &str| world.server.get(MACHINES, name).unwrap()["metadata"]["uid"].clone();
    let targets: Vec<ObjectId> =
        names.iter().map(|name| ObjectId::new(name, uid(name).as_str().unwrap())).collect();
    write(world, |record| {
        record.reserve_for(user, request, &targets).unwrap();
        0
    });
}

pub(super) fn accept(world: &LeaderWorld, request: &str) {
    write(world, |record| record.accept(request));
}

async fn explicit(replicas: usize) -> LeaderWorld {
    let world = LeaderWorld::with_pool(replicas).await;
    world.server.edit(POOLS, "web", |pool| pool["spec"]["scaleDownPolicy"] = json!("Explicit"));
    world.calm().await;
    world.take_writes();
    world
}

fn pool_writes(calls: &[Call]) -> usize {
    count(calls, MERGE_PATCH, POOLS)
}

pub(super) fn event_notes(world: &LeaderWorld, reason: &str) -> Vec<String> {
    let events = world.server.all("events");
    let events = events.iter().filter(|event| event["reason"] == reason);
    events.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_removal_is_completed_after_its_client_exits() {
    let world = explicit(4).await;
    let names = machine_names(&world.machines());
    reserve(&world, "r", &[&names[1]]);
    world.calm().await;
    assert_eq!(world.take_writes().len(), 0, "a reservation costs the controller nothing");
    accept(&world, "r");
    world.calm().await;

    assert_eq!(machine_names(&world.machines()), [&*names[0], &*names[2], &*names[3]]);
    let log = world.server.take_log();
    let writes: Vec<Call> =
        log.iter().filter(|call| call.is_write() && call.resource != "events").cloned().collect();
    assert_eq!(count(&writes, Verb::Delete, MACHINES), 1);
    assert_eq!(pool_writes(&writes), 1, "the entry is removed");
    assert!(record(&world).is_empty());
    // A hook that is set meanwhile must not be overlooked.
    let delete = writes.iter().find(|call| call.verb == Verb::Delete).unwrap();
    assert!(delete.body["preconditions"]["uid"].is_string(), "{}", delete.body);
    assert!(delete.body["preconditions"]["resourceVersion"].is_string(), "{}", delete.body);
    // The pool is read live before the delete, and the machine before its entry is removed.
    let at = |verb, resource| log.iter().position(|call| call.is(verb, resource)).unwrap();
    assert!(at(Verb::Get, POOLS) < at(Verb::Delete, MACHINES));
    assert!(at(Verb::Get, MACHINES) < at(MERGE_PATCH, POOLS));
    assert!(
        event_notes(&world, "SuccessfulDelete").iter().any(|note| note.contains("in a targeted removal"))
    );
    let page = world.metrics.page();
    for series in [
        r#"vmpool_deletions_total{reason="named"} 1"#,
        r#"vmpool_deletions_total{reason="surplus"} 0"#,
        r#"vmpool_removal_targets_settled_total{outcome="removed"} 1"#,
        r#"vmpool_removal_targets{state="accepted"} 0"#,
    ] {
        assert!(page.contains(series), "no {series} in\n{page}");
    }

    world.advance(Duration::from_mins(11)).await;
    assert_eq!(world.take_writes().iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
}

/// Each target causes one event when its machine is gone, regardless of the client and the number of deletes.
#[tokio::test]
async fn each_removal_causes_one_event_with_its_user() {
    let world = explicit(5).await;
    let names = machine_names(&world.machines());
    reserve_for(&world, "jane", "r1", &[&names[0], &names[1]]);
    reserve_for(&world, "evil\nuser", "r2", &[&names[2]]);
    reserve(&world, "r3", &[&names[3]]);
    for request in ["r1", "r2", "r3"] {
        accept(&world, request);
    }
    // The client that requested the removal deletes one machine before the controller does, and another
    // machine terminates slowly.
    world.server.delete(MACHINES, &names[0]);
    world.server.edit(MACHINES, &names[1], |machine| machine["metadata"]["finalizers"] = json!(["a/b"]));
    world.calm().await;
    assert_eq!(event_notes(&world, "SuccessfulDelete"), [""; 0], "one machine still exists");
    world.server.edit(MACHINES, &names[1], |machine| machine["metadata"]["finalizers"] = json!([]));
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(machine_names(&world.machines()), [&*names[4]]);
    let mut notes = event_notes(&world, "SuccessfulDelete");
    notes.sort();
    let mut expected = [
        format!("removed machine {} as requested by \"jane\"", names[0]),
        format!("removed machine {} as requested by \"jane\"", names[1]),
        format!("removed machine {} as requested by \"evil\\nuser\"", names[2]),
        format!("removed machine {} in a targeted removal", names[3]),
    ];
    expected.sort();
    assert_eq!(notes, expected);
    assert!(record(&world).is_empty());
}

#[tokio::test]
async fn a_large_removal_causes_ten_events_and_one_summary() {
    let world = explicit(14).await;
    let names = machine_names(&world.machines());
    let named: Vec<&str> = names.iter().take(12).map(String::as_str).collect();
    reserve_for(&world, "jane", "r", &named);
    accept(&world, "r");
    world.calm().await;
    let notes = event_notes(&world, "SuccessfulDelete");
    assert_eq!(notes.len(), 11, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("\"jane\"")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("and 2 more, the first: ")), "{notes:?}");
}

#[tokio::test]
async fn a_released_target_causes_no_event() {
    let world = explicit(2).await;
    let name = machine_names(&world.machines()).remove(0);
    world.server.intercept(|call| if call.verb == Verb::Delete { Fate::Unreachable } else { Fate::Serve });
    reserve_for(&world, "jane", "r", &[&name]);
    accept(&world, "r");
    world.server.edit(MACHINES, &name, |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.advance(Duration::from_mins(1)).await;
    assert!(record(&world).is_empty() && world.server.get(MACHINES, &name).is_some());
    assert_eq!(event_notes(&world, "SuccessfulDelete"), [""; 0]);
}

#[tokio::test]
async fn a_successor_finishes_a_removal_that_was_accepted() {
    let mut world = explicit(3).await;
    let names = machine_names(&world.machines());
    world.kill_leader().await;
    reserve(&world, "r", &[&names[0], &names[2]]);
    accept(&world, "r");
    world.lead();
    world.calm().await;
    assert_eq!(machine_names(&world.machines()), [&*names[1]]);
    assert!(record(&world).is_empty());
}

/// A client repeats its request if the response was lost. Another machine with the name would be removed.
#[tokio::test]
async fn the_name_of_a_target_does_not_return_with_a_new_leader() {
    let mut world = explicit(4).await;
    let names = machine_names(&world.machines());
    // The largest number, which no other machine shows.
    world.kill_leader().await;
    world.lead();
    world.calm().await;
    for name in &names {
        reserve(&world, "r", &[name]);
    }
    accept(&world, "r");
    world.advance(Duration::from_mins(2)).await;
    assert_eq!(machine_names(&world.machines()), [""; 0]);
    assert!(record(&world).is_empty());
    // The definition of the reference does not keep the number in the status.
    world.server.edit(POOLS, "web", |pool| pool["status"]["nextMachineNumber"] = Value::Null);
    world.kill_leader().await;
    world.lead();
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(4));
    world.calm().await;
    let machines = machine_names(&world.machines());
    assert_eq!(machines.len(), 4);
    assert!(machines.iter().all(|name| !names.contains(name)), "{names:?}, and then {machines:?}");
}

#[tokio::test]
async fn the_name_of_a_deleted_machine_does_not_return_with_a_new_leader() {
    let mut world = LeaderWorld::with_pool(3).await;
    let names = machine_names(&world.machines());
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(0));
    world.calm().await;
    world.kill_leader().await;
    world.lead();
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(3));
    world.calm().await;
    let machines = machine_names(&world.machines());
    assert_eq!(machines.len(), 3);
    assert!(machines.iter().all(|name| !names.contains(name)), "{names:?}, and then {machines:?}");
}

#[tokio::test]
async fn no_other_machine_is_deleted_with_another_policy() {
    let world = LeaderWorld::with_pool(4).await;
    let names = machine_names(&world.machines());
    reserve(&world, "r", &[&names[1]]);
    accept(&world, "r");
    // The client that requested the removal deletes the machine before the controller does, and the machine
    // is gone at once.
    world.server.delete(MACHINES, &names[1]);
    world.calm().await;
    assert_eq!(machine_names(&world.machines()), [&*names[0], &*names[2], &*names[3]]);
    assert_eq!(count(&world.take_writes(), Verb::Delete, MACHINES), 0);
    assert!(record(&world).is_empty());
}

#[tokio::test]
async fn a_terminating_target_is_not_deleted_again_and_not_replaced() {
    let world = explicit(2).await;
    let names = machine_names(&world.machines());
    let finalizers = |finalizers: Value| {
        world.server.edit(MACHINES, &names[0], |machine| machine["metadata"]["finalizers"] = finalizers);
    };
    finalizers(json!(["vm-cleanup"]));
    world.server.delete(MACHINES, &names[0]);
    reserve(&world, "r", &[&names[0]]);
    accept(&world, "r");
    world.calm().await;
    assert_eq!(record(&world).accepted().count(), 1, "it is still there");
    let page = world.metrics.page();
    assert!(page.contains(r#"vmpool_removal_targets{state="accepted"} 1"#), "{page}");
    finalizers(json!([]));
    world.calm().await;
    assert_eq!(machine_names(&world.machines()), [&*names[1]]);
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Delete, MACHINES) + count(&writes, Verb::Create, MACHINES), 0);
    assert!(record(&world).is_empty());
}

#[tokio::test]
async fn a_reserved_machine_that_vanishes_is_replaced_only_when_the_reservation_is_dropped() {
    let world = explicit(3).await;
    let names = machine_names(&world.machines());
    reserve(&world, "r", &[&names[0]]);
    world.calm().await;
    world.server.delete(MACHINES, &names[0]);
    world.advance(RESERVATION_AGE.saturating_sub(10 * SECOND)).await;
    assert_eq!(world.machines().len(), 2);
    assert_eq!(record(&world).reserved().count(), 1);
    let page = world.metrics.page();
    assert!(page.contains(r#"vmpool_removal_targets{state="reserved"} 1"#), "{page}");
    assert_eq!(event_notes(&world, "ReservationExpired").len(), 0);

    world.advance(20 * SECOND).await;
    assert_eq!(world.machines().len(), 3);
    assert!(record(&world).is_empty());
    let writes = world.take_writes();
    assert_eq!((pool_writes(&writes), count(&writes, Verb::Create, MACHINES)), (1, 1));
    let notes = event_notes(&world, "ReservationExpired");
    assert!(notes.len() == 1 && notes[0].contains(&names[0]), "{notes:?}");
    let page = world.metrics.page();
    assert!(page.contains("vmpool_removal_targets_settled_total{outcome=\"expired\"} 1"), "{page}");
}

#[tokio::test]
async fn reservations_last_for_the_configured_timeout() {
    let mut world = LeaderWorld::new();
    world.settings.reservation_timeout = 3 * SECOND;
    world.server.create(POOLS, pool_manifest("web", 2));
    world.lead();
    world.calm().await;
    reserve(&world, "r", &[&machine_names(&world.machines())[0]]);
    world.advance(2 * SECOND).await;
    assert_eq!(record(&world).reserved().count(), 1);
    world.advance(2 * SECOND).await;
    assert!(record(&world).is_empty());
}

#[tokio::test]
async fn a_reservation_that_is_accepted_while_it_is_dropped_stays_accepted() {
    let world = explicit(3).await;
    let names = machine_names(&world.machines());
    reserve(&world, "r", &[&names[0]]);
    let server = world.server.clone();
    let mut once = true;
    // The change happens after the pool was read and before it is written.
    world.server.intercept(move |call| {
        if call.is(MERGE_PATCH, POOLS) && std::mem::take(&mut once) {
            server.edit(POOLS, "web", |pool| {
                let mut record = record_of(pool);
                assert_eq!(record.accept("r"), 1);
                pool["metadata"]["annotations"][SCALE_DOWN_TARGETS] = json!(record.to_string());
                pool["spec"]["replicas"] = json!(2);
            });
        }
        Fate::Serve
    });
    world.advance(RESERVATION_AGE + 10 * SECOND).await;
    assert_eq!(machine_names(&world.machines()), [&*names[1], &*names[2]]);
    assert!(record(&world).is_empty());
    assert_eq!(event_notes(&world, "ReservationExpired").len(), 0);
}

#[tokio::test]
async fn an_entry_stays_while_a_live_read_finds_its_machine() {
    let world = explicit(2).await;
    world.server.hold(MACHINES);
    // A machine that no watch has shown, as a delayed create of a predecessor may leave it.
    let mut late = world.machines().remove(0);
    late["metadata"]["name"] = json!("web-late");
    world.server.create(MACHINES, late);
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(3));
    reserve(&world, "r", &["web-late"]);
    accept(&world, "r");
    world.calm().await;
    assert!(world.server.get(MACHINES, "web-late").is_none(), "it was found, and deleted");
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert!(record(&world).is_empty());
}

#[tokio::test]
async fn an_unreadable_record_blocks_creates_and_deletes_and_is_reported() {
    let world = LeaderWorld::with_pool(3).await;
    world.server.edit(POOLS, "web", |pool| {
        pool["metadata"]["annotations"][SCALE_DOWN_TARGETS] = json!(r#"[{"name":"web-a"}]"#);
    });
    for replicas in [1, 5] {
        world.scale(replicas);
        world.calm().await;
        let writes = world.take_writes();
        assert!(writes.iter().all(|call| call.subresource == "status"), "{writes:?}");
        let failure = world.condition("ReplicaFailure").unwrap();
        let message = failure["message"].as_str().unwrap();
        assert!(message.contains(SCALE_DOWN_TARGETS) && message.contains("missing field `uid`"), "{message}");
    }
    world.server.edit(POOLS, "web", |pool| {
        pool["metadata"]["annotations"].as_object_mut().unwrap().remove(SCALE_DOWN_TARGETS);
    });
    world.calm().await;
    assert_eq!(world.machines().len(), 5);
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_rejected_write_of_the_record_is_reported_and_delays_no_other() {
    let world = explicit(3).await;
    let names = machine_names(&world.machines());
    world.server.intercept(|call| {
        if call.is(MERGE_PATCH, POOLS) {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "the record is not yours"));
        }
        Fate::Serve
    });
    reserve(&world, "r", &[&names[0]]);
    accept(&world, "r");
    world.calm().await;
    world.scale(3);
    world.advance(20 * SECOND).await;
    assert_eq!(world.machines().len(), 3, "it was deleted, and another one was created");
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "FailedRepair");
    assert!(failure["message"].as_str().unwrap().contains("the record is not yours"), "{failure}");
    let tries = pool_writes(&world.take_writes());
    assert!((2..15).contains(&tries), "{tries} tries");
    world.server.behave();
    world.advance(Duration::from_mins(1)).await;
    assert!(record(&world).is_empty());
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_large_removal_costs_few_writes_on_the_pool() {
    let mut world = LeaderWorld::new();
    world.server.create(POOLS, pool_manifest("web", 300));
    world.lead();
    world.calm().await;
    let names = machine_names(&world.machines());
    let finalizers = |name: &str, finalizers: Value| {
        world.server.edit(MACHINES, name, |machine| machine["metadata"]["finalizers"] = finalizers);
    };
    for name in &names {
        finalizers(name, json!(["vm-cleanup"]));
    }
    world.calm().await;
    reserve(&world, "r", &names.iter().map(String::as_str).collect::<Vec<_>>());
    accept(&world, "r");
    world.calm().await;
    world.server.take_log();
    for names in names.chunks(10) {
        for name in names {
            finalizers(name, json!([]));
        }
        world.advance(SECOND / 2).await;
    }
    world.calm().await;
    assert!(world.machines().is_empty() && record(&world).is_empty());
    let writes = world.take_writes();
    assert_eq!(pool_writes(&writes), 3);
    assert_eq!(count(&writes, Verb::Create, MACHINES), 0);
}

/// The machine that `web` deletes for a smaller count, found by refusing the delete once.
async fn victim(world: &LeaderWorld) -> String {
    world.server.intercept(|call| match call.verb {
        Verb::Delete => Fate::Refuse(Refusal::new(403, "Forbidden", "not yet")),
        _ => Fate::Serve,
    });
    world.scale(2);
    world.advance(SECOND / 5).await;
    let victim = world.take_writes().iter().find(|call| call.verb == Verb::Delete).unwrap().name.clone();
    world.scale(3);
    world.server.behave();
    world.calm().await;
    world.take_writes();
    victim
}

#[tokio::test]
async fn an_unseen_released_machine_is_not_deleted_as_surplus() {
    let world = LeaderWorld::with_pool(3).await;
    let victim = victim(&world).await;
    world.server.hold(MACHINES);
    world.server.edit(MACHINES, &victim, |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.scale(2);
    world.calm().await;
    assert_eq!(world.machines().len(), 3, "the released machine remains, and the pool has two others");
    assert_eq!(count(&world.take_writes(), Verb::Delete, MACHINES), 0);
}

#[tokio::test]
async fn a_machine_released_after_the_live_count_is_not_deleted_as_surplus() {
    let world = LeaderWorld::with_pool(3).await;
    let victim = victim(&world).await;
    let (server, released) = (world.server.clone(), victim.clone());
    world.server.hold(MACHINES);
    world.server.intercept(move |call| {
        if call.verb == Verb::Delete {
            server.edit(MACHINES, &released, |machine| machine["metadata"]["ownerReferences"] = json!([]));
        }
        Fate::Serve
    });
    world.scale(2);
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    let writes = world.take_writes();
    let deletes: Vec<&Call> = writes.iter().filter(|call| call.verb == Verb::Delete).collect();
    assert_eq!(deletes.len(), 1, "{writes:?}");
    assert!(deletes[0].body["preconditions"]["resourceVersion"].is_string(), "{}", deletes[0].body);
}

#[tokio::test]
async fn a_machine_that_another_client_deleted_counts_for_the_surplus() {
    let world = LeaderWorld::with_pool(3).await;
    let victim = victim(&world).await;
    let other = machine_names(&world.machines()).into_iter().find(|name| *name != victim).unwrap();
    world.server.hold(MACHINES);
    world.server.delete(MACHINES, &other);
    let mut unread = 1;
    world.server.intercept(move |call| {
        if call.is(Verb::List, MACHINES) && unread > 0 {
            unread -= 1;
            return Fate::Refuse(Refusal::new(503, "ServiceUnavailable", "not now"));
        }
        Fate::Serve
    });
    world.scale(2);
    world.calm().await;
    assert_eq!(count(&world.take_writes(), Verb::Delete, MACHINES), 0, "two machines are left");
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert!(world.server.get(MACHINES, &victim).is_some());
    assert_eq!(count(&world.take_writes(), Verb::Create, MACHINES), 0);
}

#[tokio::test]
async fn a_changed_surplus_machine_is_deleted_at_its_new_version() {
    let world = LeaderWorld::with_pool(3).await;
    let victim = victim(&world).await;
    world.server.hold(MACHINES);
    world.server.edit(MACHINES, &victim, |machine| machine["status"]["phase"] = json!("Stopped"));
    world.scale(2);
    world.calm().await;
    assert!(world.server.get(MACHINES, &victim).is_none(), "the pass does not wait for the watch");
    assert_eq!(world.machines().len(), 2);
    assert_eq!(count(&world.take_writes(), Verb::Delete, MACHINES), 2);
}

/// The number of lists of machines, and the number of deleted machines.
fn counted_and_deleted(world: &LeaderWorld) -> (usize, usize) {
    let log = world.server.take_log();
    (count(&log, Verb::List, MACHINES), count(&log, Verb::Delete, MACHINES))
}

#[tokio::test]
async fn machines_are_counted_live_unless_the_watch_has_shown_the_last_deletions() {
    const SOON: Duration = Duration::from_millis(300);
    let world = LeaderWorld::with_pool(6).await;
    for name in machine_names(&world.machines()) {
        world
            .server
            .edit(MACHINES, &name, |machine| machine["metadata"]["finalizers"] = json!(["vm-cleanup"]));
    }
    world.calm().await;
    let shrink = async |replicas| {
        world.server.take_log();
        world.scale(replicas);
        world.advance(SOON).await;
        counted_and_deleted(&world)
    };
    assert_eq!(shrink(5).await, (1, 1));
    assert_eq!(shrink(4).await, (0, 1), "the watch has shown the first deletion");
    world.advance(Duration::from_secs(2)).await;
    assert_eq!(shrink(3).await, (1, 1), "the last evidence is too old");
    world.server.hold(MACHINES);
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(shrink(2).await, (1, 1));
    assert_eq!(shrink(1).await, (1, 1), "the watch has not shown the previous deletion");
    assert_eq!(shrink(0).await, (0, 1), "no machine stays");
}

//! Claims with lost responses, other writers and killed processes.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::protection::{CLAIM, UNTIL};

use super::{assert_refused, body, claim, claimed, machine, release, running, send};
use crate::testing::{ApiServerWorld, MERGE_PATCH, RequestFault, Verb};

#[tokio::test]
async fn a_lost_response_does_not_take_a_second_machine() {
    for fault in [RequestFault::ResponseLost, RequestFault::Unreachable] {
        let world = running(1, 3);
        let mut fault = Some(fault);
        world.server.intercept(move |call, _| {
            let is_claim = call.is(MERGE_PATCH, "virtualmachines");
            fault.take_if(|_| is_claim).unwrap_or(RequestFault::None)
        });
        let answer = claim(&world, &world.process(1), body("job-1")).await;
        assert_eq!((answer.code.as_u16(), machine(&answer)), (201, "web-0".to_owned()));
        assert_eq!(claimed(&world), ["web-0"]);
    }
}

/// Webhooks of other owners that do not answer: two of ten seconds in a row, and one of thirty.
#[tokio::test]
async fn a_claim_outlasts_slow_webhooks() {
    for seconds in [20, 30] {
        let world = running(1, 3);
        world.server.intercept(move |call, _| {
            let is_claim = call.is(MERGE_PATCH, "virtualmachines");
            if is_claim { RequestFault::Slow(Duration::from_secs(seconds)) } else { RequestFault::None }
        });
        let answer = claim(&world, &world.process(1), body("job-1")).await;
        assert_eq!((answer.code.as_u16(), machine(&answer)), (201, "web-0".to_owned()));
        assert_eq!(claimed(&world), ["web-0"]);
    }
}

#[tokio::test]
async fn a_machine_that_changes_is_left_to_the_other_client() {
    let world = running(1, 3);
    let mut once = true;
    world.server.intercept(move |call, store| {
        if call.is(MERGE_PATCH, "virtualmachines") && std::mem::take(&mut once) {
            store.edit_machine("web-0", |machine| machine["metadata"]["labels"]["edited"] = json!("yes"));
        }
        RequestFault::None
    });
    assert_eq!(machine(&claim(&world, &world.process(1), body("job-1")).await), "web-1");
}

#[tokio::test]
async fn a_claim_of_a_killed_process_is_found_by_its_id() {
    for fault in [RequestFault::KilledBefore, RequestFault::KilledAfter] {
        let world = running(1, 3);
        let process = world.process(1);
        let mut fault = Some(fault);
        world.server.intercept(move |call, _| {
            let is_claim = call.is(MERGE_PATCH, "virtualmachines");
            fault.take_if(|_| is_claim).unwrap_or(RequestFault::None)
        });
        let victim = process.clone();
        world.server.on_kill(move || victim.kill());
        let request = body("job-1");
        let lost = world.through(send(&process, "alice", "claim", &request)).await;
        assert!(lost.is_none(), "the process was killed");
        world.server.clear_faults();
        let again = claim(&world, &world.process(2), body("job-1")).await;
        assert_eq!((machine(&again), claimed(&world)), ("web-0".to_owned(), vec!["web-0".to_owned()]));
    }
}

/// Another client changes `web-0` before each of this number of patches of the machine.
fn change_before_patches(world: &ApiServerWorld, patches: usize) {
    let mut left = patches;
    world.server.intercept(move |call, store| {
        if call.is(MERGE_PATCH, "virtualmachines") && left > 0 {
            left -= 1;
            store.edit_machine("web-0", |machine| {
                machine["metadata"]["labels"]["edit"] = json!(left.to_string());
            });
        }
        RequestFault::None
    });
}

#[rstest]
#[case::renewal(json!({ "id": "job-1", "durationSeconds": 600, "renew": true }))]
#[case::repeated_claim(body("job-1"))]
#[tokio::test]
async fn a_claim_of_a_machine_that_other_clients_keep_changing_is_renewed(#[case] request: Value) {
    let world = running(1, 3);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    change_before_patches(&world, 30);
    let answer = claim(&world, &process, request).await;
    assert_eq!((answer.code.as_u16(), claimed(&world)), (200, vec!["web-0".to_owned()]), "{}", answer.body);
    assert_eq!(machine(&answer), "web-0");
}

/// Another client ends the protection between the read and the write of the renewal.
#[tokio::test]
async fn a_claim_that_ends_during_its_renewal_is_lost() {
    let world = running(1, 3);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    let mut once = true;
    world.server.intercept(move |call, store| {
        if call.is(MERGE_PATCH, "virtualmachines") && std::mem::take(&mut once) {
            store.edit_machine("web-0", |machine| {
                machine["metadata"]["annotations"][UNTIL] = json!("2026-01-01T00:00:00Z");
            });
        }
        RequestFault::None
    });
    let renewal = json!({ "id": "job-1", "durationSeconds": 600, "renew": true });
    assert_refused(&claim(&world, &process, renewal).await, 404, "ClaimLost");
}

#[rstest]
#[case::renewal(json!({ "id": "job-1", "durationSeconds": 600, "renew": true }))]
#[case::repeated_claim(body("job-1"))]
#[tokio::test]
async fn a_claim_that_cannot_be_renewed_until_the_deadline_is_kept_and_not_lost(#[case] request: Value) {
    let world = running(1, 3);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    change_before_patches(&world, usize::MAX);
    assert_refused(&claim(&world, &process, request).await, 504, "Timeout");
    assert_eq!(claimed(&world), ["web-0"]);
}

#[tokio::test]
async fn a_claim_that_is_not_renewed_yet_delays_other_claims_only_shortly() {
    let world = running(1, 3);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    change_before_patches(&world, usize::MAX);
    let start = world.env.uptime();
    let (first, second) = (body("job-1"), body("job-2"));
    let calls = async {
        let renewal = send(&process, "alice", "claim", &first);
        let other = async {
            let answer = send(&process, "bob", "claim", &second).await.unwrap();
            (machine(&answer), world.env.uptime().saturating_sub(start))
        };
        futures::future::join(renewal, other).await
    };
    let (_, (other, waited)) = world.through(calls).await;
    assert_eq!(other, "web-1");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

#[rstest]
#[case::keep("Keep")]
#[case::replace("Replace")]
#[tokio::test]
async fn a_release_of_a_machine_that_other_clients_keep_changing_succeeds(#[case] then: &str) {
    let world = running(1, 3);
    let process = world.process(1);
    let uid = claim(&world, &process, body("job-1")).await.body["machine"]["uid"].clone();
    let mut left = 30;
    world.server.intercept(move |call, store| {
        let is_write = call.is(MERGE_PATCH, "virtualmachines") || call.is(Verb::Delete, "virtualmachines");
        if is_write && left > 0 {
            left -= 1;
            store.edit_machine("web-0", |machine| {
                machine["metadata"]["labels"]["edit"] = json!(left.to_string());
            });
        }
        RequestFault::None
    });
    let request = json!({ "id": "job-1", "machineUID": uid, "then": then });
    let answer = release(&world, &process, request).await;
    assert_eq!(answer.code.as_u16(), 200, "{}", answer.body);
    world.server.store(|store| {
        let is_held = store.machine("web-0").is_some_and(|machine| {
            let metadata = &machine["metadata"];
            metadata["annotations"][CLAIM].is_string() && metadata["deletionTimestamp"].is_null()
        });
        assert!(!is_held, "the claim holds after its release");
    });
}

#[tokio::test]
async fn of_several_claims_with_one_id_one_stays() {
    let world = running(1, 3);
    let process = world.process(1);
    let first = claim(&world, &process, body("job-1")).await;
    let annotations =
        world.server.store(|store| store.machine("web-0").unwrap()["metadata"]["annotations"].clone());
    world.server.store(|store| {
        store.edit_machine("web-1", |machine| machine["metadata"]["annotations"] = annotations);
    });
    assert_eq!(claimed(&world).len(), 2);
    let smallest = world.server.store(|store| {
        let uid = |name: &str| store.machine(name).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        ["web-0", "web-1"].into_iter().min_by_key(|name| uid(name)).unwrap().to_owned()
    });
    let again = claim(&world, &process, body("job-1")).await;
    assert_eq!((machine(&again), claimed(&world)), (smallest.clone(), vec![smallest]), "{}", first.body);
}

#[tokio::test]
async fn a_pool_that_is_gone_or_being_deleted_has_no_claims() {
    let world = running(1, 1);
    world.server.store(crate::testing::FaultyServerStore::delete_pool);
    assert_refused(&claim(&world, &world.process(1), body("job-1")).await, 404, "NotFound");
}

/// A random event at a request.
#[derive(Clone, Copy, Debug)]
enum Event {
    None,
    Lost,
    Unreachable,
    Touch(usize),
    Kill,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => Just(Event::None),
        2 => Just(Event::Lost),
        2 => Just(Event::Unreachable),
        3 => (0..6_usize).prop_map(Event::Touch),
        1 => Just(Event::Kill),
    ];
    prop::collection::vec(event, 0..80)
}

/// Each machine has at most one claim by construction. So each confirmed claim must be the only one of its
/// id, and no two callers may have been told the same machine.
fn check(world: &ApiServerWorld, told: &[(String, String)]) {
    let machines: BTreeSet<&String> = told.iter().map(|(_, machine)| machine).collect();
    assert_eq!(machines.len(), told.len(), "two callers got one machine: {told:?}");
    world.server.store(|store| {
        for (id, name) in told {
            let machine = store.machine(name).unwrap();
            let claim = machine["metadata"]["annotations"][CLAIM].as_str().unwrap_or_default();
            assert!(claim.contains(&format!("\"{id}\"")), "{name} was told to {id} and has claim {claim:?}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_two_callers_get_one_machine_whatever_fails(events in events(), callers in 1..8_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = running(1, 6);
            let processes = [world.process(1), world.process(2)];
            let mut events = events.into_iter();
            let victim = processes[0].clone();
            world.server.on_kill(move || victim.kill());
            world.server.intercept(move |_, store| match events.next().unwrap_or(Event::None) {
                Event::None => RequestFault::None,
                Event::Lost => RequestFault::ResponseLost,
                Event::Unreachable => RequestFault::Unreachable,
                Event::Touch(which) => {
                    let name = format!("web-{which}");
                    store.edit_machine(&name, |machine| machine["metadata"]["labels"]["touched"] = json!("x"));
                    RequestFault::None
                }
                Event::Kill => RequestFault::KilledAfter,
            });
            let requests: Vec<_> = (0..callers).map(|number| body(&format!("job-{number}"))).collect();
            let calls = requests.iter().enumerate().map(|(number, body)| {
                send(&processes[number % 2], "alice", "claim", body)
            });
            let answers = world.through(join_all(calls)).await;
            world.server.clear_faults();
            let told = |answers: &[Option<crate::testing::TestResponse>]| -> Vec<(String, String)> {
                let named = answers.iter().enumerate().filter_map(|(number, answer)| {
                    let answer = answer.as_ref().filter(|answer| answer.code.as_u16() < 300)?;
                    Some((format!("job-{number}"), machine(answer)))
                });
                named.collect()
            };
            check(&world, &told(&answers));
            // All callers repeat their requests to a new process, and those who had a machine keep it.
            let process = world.process(3);
            let calls = requests.iter().map(|body| send(&process, "alice", "claim", body));
            let again = world.through(join_all(calls)).await;
            let (first, second) = (told(&answers), told(&again));
            check(&world, &second);
            for known in &first {
                assert!(second.contains(known), "{known:?} was lost: {second:?}");
            }
            assert_eq!(second.len(), callers.min(6), "every free machine is given out");
        });
    }
}

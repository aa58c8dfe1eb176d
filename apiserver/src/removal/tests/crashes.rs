//! The process is killed at each of its requests, responses are lost, and requests arrive late. Afterwards
//! the removal is applied exactly once or not at all.

use std::time::Duration;

use crate::testing::{ApiServerProcess, ApiServerWorld, RequestFault, TestResponse, Verb, results_of};

const TARGETS: [&str; 2] = ["web-0", "web-2"];

/// The behavior of the platform and the controller during a fault.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    /// A delete request removes a machine immediately.
    vanishing: bool,
    /// The controller runs a pass before every request.
    busy: bool,
}

const CONDITIONS: [Conditions; 4] = [
    Conditions { vanishing: false, busy: false },
    Conditions { vanishing: false, busy: true },
    Conditions { vanishing: true, busy: false },
    Conditions { vanishing: true, busy: true },
];

fn world(conditions: Conditions) -> ApiServerWorld {
    let world = ApiServerWorld::new(1);
    world.server.store(|store| {
        store.vanishing = conditions.vanishing;
        store.create_pool("web", 5);
    });
    world
}

/// Injects a fault into request number `n`. Authorization is not counted.
fn inject(
    world: &ApiServerWorld,
    conditions: Conditions,
    n: usize,
    fault: impl FnOnce() -> RequestFault + Send + 'static,
) {
    let env = world.env.clone();
    let (mut count, mut fault) = (0, Some(fault));
    world.server.intercept(move |call, store| {
        if conditions.busy {
            store.reconcile(env.uptime());
        }
        if call.verb == Verb::Create {
            return RequestFault::None;
        }
        count += 1;
        match fault.take_if(|_| count == n + 1) {
            Some(fault) => fault(),
            None => RequestFault::None,
        }
    });
}

/// Sends a removal to a process that is killed before or after its request number `n`, if it sends that many.
async fn killed(
    world: &ApiServerWorld,
    conditions: Conditions,
    n: usize,
    after: bool,
) -> Option<TestResponse> {
    let process = world.process(100 + n as u64);
    let victim = process.clone();
    world.server.on_kill(move || victim.kill());
    inject(
        world,
        conditions,
        n,
        move || if after { RequestFault::KilledAfter } else { RequestFault::KilledBefore },
    );
    let answer = world.through(process.remove(&TARGETS)).await;
    process.kill();
    answer
}

async fn repeat(world: &ApiServerWorld, seed: u64) -> TestResponse {
    world.server.clear_faults();
    world.through(world.process(seed).remove(&TARGETS)).await.unwrap()
}

fn assert_applied_once(world: &ApiServerWorld, what: &str) {
    world.server.store(|store| {
        assert_eq!(store.replicas(), 3, "{what}");
        assert_eq!(store.names(), ["web-1", "web-3", "web-4"], "{what}");
        assert!(store.victims.is_empty(), "{what}: other machines were deleted: {:?}", store.victims);
        assert!(store.created.is_empty(), "{what}: machines were replaced: {:?}", store.created);
    });
}

/// The requests for two targets without faults: pool and machines, reservation, machines, acceptance,
/// deletes.
const REQUESTS: usize = 9;

#[tokio::test]
async fn a_process_exit_at_any_step_leaves_all_or_nothing_applied() {
    let (mut all, mut nothing) = (0, 0);
    for conditions in CONDITIONS {
        for n in 0..REQUESTS {
            for after in [false, true] {
                let world = world(conditions);
                let what =
                    format!("{conditions:?}, killed {} request {n}", if after { "after" } else { "before" });
                let answer = killed(&world, conditions, n, after).await;
                assert!(answer.is_none(), "{what}: not killed");
                world.server.clear_faults();
                world.settle().await;
                if world.server.store(|store| store.replicas()) == 5 {
                    nothing += 1;
                    world.server.store(|store| {
                        assert_eq!(store.names().len(), 5, "{what}");
                        assert!(store.created.is_empty() && store.victims.is_empty(), "{what}");
                    });
                } else {
                    all += 1;
                    assert_applied_once(&world, &what);
                }
            }
        }
    }
    assert!(all > 8 && nothing > 8, "both results occur: {all} and {nothing}");
}

#[tokio::test]
async fn a_request_that_is_repeated_after_a_crash_is_applied_exactly_once() {
    for conditions in CONDITIONS {
        for n in 0..REQUESTS {
            for after in [false, true] {
                for at_once in [true, false] {
                    let world = world(conditions);
                    let what = format!("{conditions:?}, {n}, after: {after}, repeated at once: {at_once}");
                    killed(&world, conditions, n, after).await;
                    if !at_once {
                        world.server.clear_faults();
                        world.settle().await;
                    }
                    let answer = repeat(&world, 7).await;
                    // The controller may have removed the entries from the record.
                    let gone = answer.code == 400 && (conditions.busy || !at_once);
                    assert!(answer.code == 201 || gone, "{what}: {}", answer.body);
                    world.settle().await;
                    assert_applied_once(&world, &what);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_second_crash_does_not_change_the_result() {
    for conditions in CONDITIONS {
        for first in 0..REQUESTS {
            for second in 0..REQUESTS {
                let world = world(conditions);
                let what = format!("{conditions:?}, {first}, {second}");
                killed(&world, conditions, first, first % 2 == 0).await;
                killed(&world, conditions, second, second % 3 == 0).await;
                let answer = repeat(&world, 7).await;
                assert!([201, 400].contains(&answer.code.as_u16()), "{what}: {}", answer.body);
                world.settle().await;
                assert_applied_once(&world, &what);
            }
        }
    }
}

#[tokio::test]
async fn unconfirmed_and_late_requests_are_applied_exactly_once() {
    type Make = fn() -> RequestFault;
    let faults: [(&str, Make); 6] = [
        ("response lost", || RequestFault::ResponseLost),
        ("unreachable", || RequestFault::Unreachable),
        ("refused with 503", || RequestFault::Refuse(503, "ServiceUnavailable")),
        ("refused with 429", || RequestFault::Refuse(429, "TooManyRequests")),
        ("late by 3 ms", || RequestFault::Late(Duration::from_millis(3))),
        ("late by 9 ms", || RequestFault::Late(Duration::from_millis(9))),
    ];
    for conditions in CONDITIONS {
        for n in 0..REQUESTS {
            for (name, fault) in faults {
                let world = world(conditions);
                let what = format!("{conditions:?}, request {n} {name}");
                inject(&world, conditions, n, fault);
                let answer = world.through(world.process(3).remove(&TARGETS)).await.unwrap();
                assert_eq!(answer.code, 201, "{what}: {}", answer.body);
                assert_eq!(results_of(&answer).len(), 2, "{what}");
                world.settle().await;
                assert_applied_once(&world, &what);
            }
        }
    }
}

#[tokio::test]
async fn a_removal_that_has_started_continues_if_the_caller_disconnects() {
    let world = ApiServerWorld::with_pool(1, 5);
    let process: ApiServerProcess = world.process(1);
    let call = process.remove(&TARGETS);
    // The first two reads are in flight.
    let impatient = world.env.timeout(Duration::from_millis(4), call);
    assert!(world.through(impatient).await.is_err());
    world.settle().await;
    assert_applied_once(&world, "disconnected");
}

#[tokio::test]
async fn a_queued_request_is_dropped_if_the_caller_disconnects() {
    let world = ApiServerWorld::with_pool(1, 5);
    let process = world.process(1);
    let patient = process.remove(&["web-1"]);
    // The first batch runs from the second to the eighth millisecond.
    let impatient = async {
        world.env.sleep(Duration::from_millis(4)).await;
        world.env.timeout(Duration::from_millis(2), process.remove(&TARGETS)).await
    };
    let (patient, impatient) = world.through(async { futures::join!(patient, impatient) }).await;
    assert_eq!(patient.unwrap().code, 201);
    assert!(impatient.is_err());
    world.settle().await;
    world.server.store(|store| assert_eq!(store.names(), ["web-0", "web-2", "web-3", "web-4"]));
}

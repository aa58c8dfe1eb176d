//! The process dies around every request that it sends, answers get lost, requests arrive late: in the end the removal
//! was done once, or not at all.

use std::time::Duration;

use crate::testing::{Answer, Fault, Process, Verb, World, body_of};

const TARGETS: [&str; 2] = ["web-0", "web-2"];

/// How the world is while the process is in trouble.
#[derive(Clone, Copy, Debug)]
struct Weather {
    /// Machines go at once.
    vanishing: bool,
    /// The controller makes a pass before every request.
    busy: bool,
}

const WEATHERS: [Weather; 4] = [
    Weather { vanishing: false, busy: false },
    Weather { vanishing: false, busy: true },
    Weather { vanishing: true, busy: false },
    Weather { vanishing: true, busy: true },
];

fn world(weather: Weather) -> World {
    let world = World::new(1);
    world.server.store(|store| {
        store.vanishing = weather.vanishing;
        store.create_pool("web", 5);
    });
    world
}

/// Lets `fault` happen to request number `n`, authorization apart.
fn at(world: &World, weather: Weather, n: usize, fault: impl FnOnce() -> Fault + Send + 'static) {
    let env = world.env.clone();
    let (mut count, mut fault) = (0, Some(fault));
    world.server.intercept(move |call, store| {
        if weather.busy {
            store.reconcile(env.uptime());
        }
        if call.verb == Verb::Create {
            return Fault::None;
        }
        count += 1;
        match fault.take_if(|_| count == n + 1) {
            Some(fault) => fault(),
            None => Fault::None,
        }
    });
}

/// A process asks, and is killed around request number `n`, if it gets that far.
async fn killed(world: &World, weather: Weather, n: usize, after: bool) -> Option<Answer> {
    let process = world.process(100 + n as u64);
    let victim = process.clone();
    world.server.on_kill(move || victim.kill());
    at(world, weather, n, move || if after { Fault::KilledAfter } else { Fault::KilledBefore });
    let answer = world.through(process.remove(&TARGETS)).await;
    process.kill();
    answer
}

async fn repeat(world: &World, seed: u64) -> Answer {
    world.server.behave();
    world.through(world.process(seed).remove(&TARGETS)).await.unwrap()
}

fn done_once(world: &World, what: &str) {
    world.server.store(|store| {
        assert_eq!(store.replicas(), 3, "{what}");
        assert_eq!(store.names(), ["web-1", "web-3", "web-4"], "{what}");
        assert!(store.victims.is_empty(), "{what}: somebody else left: {:?}", store.victims);
        assert!(store.created.is_empty(), "{what}: somebody was replaced: {:?}", store.created);
    });
}

/// Requests of an untroubled removal of two machines: pool and machines, reservation, machines, acceptance, deletes.
const REQUESTS: usize = 9;

#[tokio::test]
async fn whoever_dies_leaves_all_or_nothing_behind() {
    let (mut all, mut nothing) = (0, 0);
    for weather in WEATHERS {
        for n in 0..REQUESTS {
            for after in [false, true] {
                let world = world(weather);
                let what =
                    format!("{weather:?}, killed {} request {n}", if after { "after" } else { "before" });
                let answer = killed(&world, weather, n, after).await;
                assert!(answer.is_none(), "{what}: not killed");
                world.server.behave();
                world.settle().await;
                if world.server.store(|store| store.replicas()) == 5 {
                    nothing += 1;
                    world.server.store(|store| {
                        assert_eq!(store.names().len(), 5, "{what}");
                        assert!(store.created.is_empty() && store.victims.is_empty(), "{what}");
                    });
                } else {
                    all += 1;
                    done_once(&world, &what);
                }
            }
        }
    }
    assert!(all > 8 && nothing > 8, "both ends happen: {all} and {nothing}");
}

#[tokio::test]
async fn who_repeats_its_request_after_a_crash_gets_it_exactly_once() {
    for weather in WEATHERS {
        for n in 0..REQUESTS {
            for after in [false, true] {
                for at_once in [true, false] {
                    let world = world(weather);
                    let what = format!("{weather:?}, {n}, after: {after}, repeated at once: {at_once}");
                    killed(&world, weather, n, after).await;
                    if !at_once {
                        world.server.behave();
                        world.settle().await;
                    }
                    let answer = repeat(&world, 7).await;
                    // The controller may have cleaned up already.
                    let gone = answer.code == 400 && (weather.busy || !at_once);
                    assert!(answer.code == 201 || gone, "{what}: {}", answer.body);
                    world.settle().await;
                    done_once(&world, &what);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_second_crash_changes_nothing_about_that() {
    for weather in WEATHERS {
        for first in 0..REQUESTS {
            for second in 0..REQUESTS {
                let world = world(weather);
                let what = format!("{weather:?}, {first}, {second}");
                killed(&world, weather, first, first % 2 == 0).await;
                killed(&world, weather, second, second % 3 == 0).await;
                let answer = repeat(&world, 7).await;
                assert!([201, 400].contains(&answer.code.as_u16()), "{what}: {}", answer.body);
                world.settle().await;
                done_once(&world, &what);
            }
        }
    }
}

#[tokio::test]
async fn lost_answers_and_late_requests_are_found_out() {
    type Make = fn() -> Fault;
    let faults: [(&str, Make); 6] = [
        ("answer lost", || Fault::AnswerLost),
        ("unreachable", || Fault::Unreachable),
        ("refused with 503", || Fault::Refuse(503, "ServiceUnavailable")),
        ("refused with 429", || Fault::Refuse(429, "TooManyRequests")),
        ("late by 3 ms", || Fault::Late(Duration::from_millis(3))),
        ("late by 9 ms", || Fault::Late(Duration::from_millis(9))),
    ];
    for weather in WEATHERS {
        for n in 0..REQUESTS {
            for (name, fault) in faults {
                let world = world(weather);
                let what = format!("{weather:?}, request {n} {name}");
                at(&world, weather, n, fault);
                let answer = world.through(world.process(3).remove(&TARGETS)).await.unwrap();
                assert_eq!(answer.code, 201, "{what}: {}", answer.body);
                assert_eq!(body_of(&answer).len(), 2, "{what}");
                world.settle().await;
                done_once(&world, &what);
            }
        }
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_stops_nothing_that_has_begun() {
    let world = World::with_pool(1, 5);
    let process: Process = world.process(1);
    let call = process.remove(&TARGETS);
    // The two reads are under way.
    let hasty = world.env.timeout(Duration::from_millis(4), call);
    assert!(world.through(hasty).await.is_err());
    world.settle().await;
    done_once(&world, "hung up");
}

#[tokio::test]
async fn whoever_hangs_up_while_waiting_for_its_turn_has_asked_for_nothing() {
    let world = World::with_pool(1, 5);
    let process = world.process(1);
    let patient = process.remove(&["web-1"]);
    // The first turn is from the second millisecond to the eighth.
    let hasty = async {
        world.env.sleep(Duration::from_millis(4)).await;
        world.env.timeout(Duration::from_millis(2), process.remove(&TARGETS)).await
    };
    let (patient, hasty) = world.through(async { futures::join!(patient, hasty) }).await;
    assert_eq!(patient.unwrap().code, 201);
    assert!(hasty.is_err());
    world.settle().await;
    world.server.store(|store| assert_eq!(store.names(), ["web-0", "web-2", "web-3", "web-4"]));
}

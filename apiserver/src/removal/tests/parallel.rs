//! Concurrent callers in several processes, with a running controller: every machine is counted once.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use proptest::prelude::*;

use crate::testing::{ApiServerWorld, MERGE_PATCH, RequestFault};

#[tokio::test]
async fn fifty_concurrent_callers_of_one_pool_succeed_within_two_seconds() {
    for processes in [1, 2, 5] {
        let world = ApiServerWorld::with_pool(1, 60);
        let processes: Vec<_> = (0..processes).map(|seed| world.process(seed)).collect();
        let env = world.env.clone();
        let mut requests = 0;
        // The controller runs a pass, which changes the pool, at every fifth request.
        world.server.intercept(move |_, store| {
            requests += 1;
            if requests % 5 == 0 {
                store.reconcile(env.uptime());
            }
            RequestFault::None
        });
        let start = world.env.uptime();
        let names: Vec<String> = (0..50).map(|index| format!("web-{index}")).collect();
        let calls = names.iter().enumerate().map(|(index, name)| {
            let process = &processes[index % processes.len()];
            async move { process.remove(&[name]).await.unwrap() }
        });
        for answer in world.through(join_all(calls)).await {
            assert_eq!(answer.code, 201, "{}", answer.body);
        }
        let took = world.since(start);
        let writes = world.server.take_log().iter().filter(|call| call.verb == MERGE_PATCH).count();
        println!("{} processes: {took:?}, {writes} writes to the pool", processes.len());
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(writes < 100, "{writes} writes to the pool");
        world.server.clear_faults();
        world.settle().await;
        world.server.store(|store| {
            assert_eq!((store.replicas(), store.names().len()), (10, 10));
            assert!(store.created.is_empty() && store.victims.is_empty());
        });
    }
}

/// A caller: its process, the delay of its request in milliseconds, and its targets.
#[derive(Clone, Debug)]
struct Caller {
    process: usize,
    delay: u64,
    targets: BTreeSet<usize>,
}

const MACHINES: usize = 8;

fn callers() -> impl Strategy<Value = Vec<Caller>> {
    let targets = prop::collection::btree_set(0..MACHINES, 1..4);
    let caller = (0..3_usize, 0..40_u64, targets).prop_map(|(process, delay, targets)| Caller {
        process,
        delay,
        targets,
    });
    prop::collection::vec(caller, 1..8)
}

/// A random event at a request.
#[derive(Clone, Copy, Debug)]
enum Event {
    None,
    Reconcile,
    Lost,
    Late,
    Unreachable,
    Kill,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => Just(Event::None),
        3 => Just(Event::Reconcile),
        1 => Just(Event::Lost),
        1 => Just(Event::Late),
        1 => Just(Event::Unreachable),
    ];
    // In some cases the first process is killed once.
    (prop::collection::vec(event, 40), prop::option::of(0..60_usize)).prop_map(|(mut events, kill)| {
        if let Some(kill) = kill.filter(|kill| *kill < events.len()) {
            events[kill] = Event::Kill;
        }
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_concurrent_request_is_applied_completely_or_not_at_all(
        callers in callers(),
        events in events(),
        vanishing in any::<bool>(),
        seed in 0..1_000_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(callers, events, vanishing, seed))?;
    }
}

async fn run(
    callers: Vec<Caller>,
    events: Vec<Event>,
    vanishing: bool,
    seed: u64,
) -> Result<(), TestCaseError> {
    let world = ApiServerWorld::new(seed);
    world.server.store(|store| {
        store.vanishing = vanishing;
        store.create_pool("web", MACHINES);
    });
    let processes: Vec<_> = (0..3).map(|index| world.process(seed * 3 + index)).collect();
    let victim = processes[0].clone();
    let env = world.env.clone();
    let mut events = events.into_iter();
    world.server.intercept(move |_, store| match events.next().unwrap_or(Event::None) {
        Event::None => RequestFault::None,
        Event::Reconcile => {
            store.reconcile(env.uptime());
            RequestFault::None
        }
        Event::Lost => RequestFault::ResponseLost,
        Event::Late => RequestFault::Late(Duration::from_millis(7)),
        Event::Unreachable => RequestFault::Unreachable,
        Event::Kill => {
            victim.kill();
            RequestFault::None
        }
    });
    let calls = callers.iter().map(|caller| {
        let process = processes[caller.process].clone();
        let env = world.env.clone();
        async move {
            env.sleep(Duration::from_millis(caller.delay)).await;
            let names: Vec<String> = caller.targets.iter().map(|index| format!("web-{index}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            process.remove(&names).await.map(|answer| answer.code.as_u16())
        }
    });
    let codes = world.through(join_all(calls)).await;
    world.server.clear_faults();
    world.settle().await;

    let (replicas, names, created, victims) = world.server.store(|store| {
        let names: BTreeSet<String> = store.names().into_iter().collect();
        (store.replicas(), names, store.created.clone(), store.victims.clone())
    });
    prop_assert!(created.is_empty(), "replaced: {:?}", created);
    prop_assert!(victims.is_empty(), "deleted without a request: {:?}", victims);
    let gone: BTreeSet<usize> =
        (0..MACHINES).filter(|index| !names.contains(&format!("web-{index}"))).collect();
    prop_assert_eq!(usize::try_from(replicas).unwrap(), MACHINES - gone.len());
    // Each request is applied completely or not at all. Without a response, both are possible.
    let mut explained = BTreeSet::new();
    for (caller, code) in callers.iter().zip(&codes) {
        match code {
            Some(201) => {
                prop_assert!(caller.targets.is_subset(&gone), "{:?} was applied partly", caller);
                explained.extend(caller.targets.iter().copied());
            }
            // Unconfirmed, or the process was killed.
            None | Some(500) if caller.targets.is_subset(&gone) => {
                explained.extend(caller.targets.iter().copied());
            }
            None | Some(400 | 409 | 500) => {}
            Some(code) => prop_assert!(false, "{:?} got {}", caller, code),
        }
    }
    prop_assert_eq!(gone, explained);
    Ok(())
}

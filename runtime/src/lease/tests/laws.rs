//! With any faults, at most one fence is valid, and after the last fault one process leads.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use proptest::prelude::*;

use super::server::LinkFault;
use super::world::LeaseWorld;
use super::{FAILOVER, LEASE};

const PROCESSES: usize = 3;

#[derive(Debug, Clone)]
enum Event {
    Pass { millis: u64 },
    Break { place: usize, fault: LinkFault },
    Pause { place: usize },
    Resume { place: usize },
    Resign { place: usize },
    StepWall { place: usize, seconds: i64 },
    Restart { place: usize },
    Delete,
    Overwrite(Overwrite),
}

#[derive(Debug, Clone, Copy)]
enum Overwrite {
    Clear,
    Intrude,
    Shorten,
    Touch,
}

impl Overwrite {
    fn apply(self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_default();
        match self {
            Self::Clear => spec.holder_identity = None,
            Self::Intrude => spec.holder_identity = Some("intruder".to_owned()),
            Self::Shorten => spec.lease_duration_seconds = Some(1),
            Self::Touch => {}
        }
    }
}

fn fault() -> impl Strategy<Value = LinkFault> {
    prop_oneof![
        Just(LinkFault::None),
        Just(LinkFault::Refused),
        Just(LinkFault::Lost),
        Just(LinkFault::AnswerLost),
        (1_u64..20_000).prop_map(|millis| LinkFault::Late(Duration::from_millis(millis))),
        (1_u64..3_000).prop_map(|millis| LinkFault::AnswerLate(Duration::from_millis(millis))),
    ]
}

/// Events of machines, networks and processes.
fn ordinary() -> impl Strategy<Value = Event> {
    let place = 0..PROCESSES;
    prop_oneof![
        6 => (1_u64..8_000).prop_map(|millis| Event::Pass { millis }),
        3 => (place.clone(), fault()).prop_map(|(place, fault)| Event::Break { place, fault }),
        1 => place.clone().prop_map(|place| Event::Pause { place }),
        2 => place.clone().prop_map(|place| Event::Resume { place }),
        1 => place.clone().prop_map(|place| Event::Resign { place }),
        1 => (place, -40_i64..40).prop_map(|(place, seconds)| Event::StepWall { place, seconds }),
    ]
}

/// Events that include exits and restarts of processes.
fn with_restarts() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![8 => ordinary(), 1 => (0..PROCESSES).prop_map(|place| Event::Restart { place })];
    prop::collection::vec(event, 1..60)
}

/// Events that include writes of other clients to the Lease.
fn with_foreign_writes() -> impl Strategy<Value = Vec<Event>> {
    let overwrite = prop_oneof![
        Just(Overwrite::Clear),
        Just(Overwrite::Intrude),
        Just(Overwrite::Shorten),
        Just(Overwrite::Touch)
    ];
    let event =
        prop_oneof![8 => ordinary(), 1 => Just(Event::Delete), 1 => overwrite.prop_map(Event::Overwrite)];
    prop::collection::vec(event, 1..60)
}

fn run(seed: u64, events: &[Event]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut world = LeaseWorld::new(seed);
        for _ in 0..PROCESSES {
            world.start();
        }
        world.seconds(3).await;
        for event in events {
            apply(&mut world, event).await;
            world.check();
        }
        for process in &world.processes {
            process.fault(LinkFault::None);
            process.resume();
        }
        // Late requests may still arrive before the state settles.
        world.pass(Duration::from_secs(20) + LEASE).await;
        world.until_led(LEASE + FAILOVER).await;
    });
}

async fn apply(world: &mut LeaseWorld, event: &Event) {
    match *event {
        Event::Pass { millis } => world.pass(Duration::from_millis(millis)).await,
        Event::Break { place, fault } => world.processes[place].fault(fault),
        Event::Pause { place } => world.processes[place].pause(),
        Event::Resume { place } => world.processes[place].resume(),
        Event::Resign { place } => world.processes[place].resign(),
        Event::StepWall { place, seconds } => {
            world.processes[place].clock.step_wall(SignedDuration::from_secs(seconds));
        }
        Event::Restart { place } => world.restart(place),
        Event::Delete => world.server.delete(),
        Event::Overwrite(overwrite) => world.server.overwrite(|lease| overwrite.apply(lease)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn at_most_one_fence_is_valid_through_faults_and_restarts(seed in 0_u64..1000, events in with_restarts()) {
        run(seed, &events);
    }

    #[test]
    fn at_most_one_fence_is_valid_with_writes_of_other_clients(seed in 0_u64..1000, events in with_foreign_writes()) {
        run(seed, &events);
    }
}

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures::FutureExt as _;

use super::{ActiveRequest, ConnectionSlot, ConnectionSlots, IDLE, RequestSlots};
use crate::env::Env;
use crate::testing::{ManualClock, env};

fn client(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

struct World {
    clock: ManualClock,
    env: Env,
    slots: ConnectionSlots,
}

impl World {
    fn new(connections: usize, per_client: usize) -> Self {
        let clock = ManualClock::new();
        let env = env(&clock, 0);
        Self { slots: ConnectionSlots::new(connections, per_client, env.clone()), clock, env }
    }

    /// Acquires a slot for a client. `None` if it is refused.
    fn acquire(&self, last: u8) -> Option<ConnectionSlot> {
        self.slots.acquire(client(last)).now_or_never().expect("a slot is free")
    }
}

#[tokio::test]
async fn one_client_cannot_use_all_slots() {
    let world = World::new(4, 2);
    let (first, _second) = (world.acquire(1).unwrap(), world.acquire(1).unwrap());
    assert!(world.acquire(1).is_none(), "the third connection of one client");
    let _other = world.acquire(2).unwrap();
    drop(first);
    let _again = world.acquire(1).unwrap();
    let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
    assert!(world.slots.acquire(mapped).await.is_none(), "the same client with a mapped IPv6 address");
    assert!(world.slots.acquire(IpAddr::V6(Ipv6Addr::LOCALHOST)).await.is_some());
}

#[tokio::test]
async fn the_longest_idle_connection_of_the_largest_client_is_evicted() {
    let world = World::new(4, 3);
    let active = world.acquire(1).unwrap();
    let _request = ActiveRequest::new(&active.activity, &world.env);
    let oldest = world.acquire(1).unwrap();
    world.clock.advance(Duration::from_secs(1)).await;
    let (young, modest) = (world.acquire(1).unwrap(), world.acquire(2).unwrap());
    let evicted = || [&active, &oldest, &young, &modest].map(|slot| slot.evicted.is_cancelled());
    let mut waiting = std::pin::pin!(world.slots.acquire(client(3)));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(evicted(), [false; 4], "no connection is idle yet");
    for _ in 0..=IDLE.as_secs() {
        world.clock.advance(Duration::from_secs(1)).await;
        assert!(waiting.as_mut().now_or_never().is_none());
        if oldest.evicted.is_cancelled() {
            break;
        }
    }
    assert_eq!(evicted(), [false, true, false, false]);
    drop(oldest);
    assert!(waiting.await.is_some(), "the slot is free");
}

#[tokio::test]
async fn an_idle_connection_of_a_client_at_its_limit_is_evicted() {
    let world = World::new(4, 1);
    let idle = world.acquire(1).unwrap();
    assert!(world.acquire(1).is_none());
    assert!(!idle.evicted.is_cancelled());
    world.clock.advance(IDLE).await;
    assert!(world.acquire(1).is_none());
    assert!(idle.evicted.is_cancelled());
}

#[test]
fn one_client_may_use_half_of_the_request_slots() {
    let slots = RequestSlots::new(4);
    let first = (slots.acquire(client(1)).unwrap(), slots.acquire(client(1)).unwrap());
    assert!(slots.acquire(client(1)).is_none());
    let _second = (slots.acquire(client(2)).unwrap(), slots.acquire(client(2)).unwrap());
    assert!(slots.acquire(client(3)).is_none(), "no slot is free");
    drop(first);
    assert!(slots.acquire(client(3)).is_some());
    assert_eq!(slots.in_flight.lock().len(), 1, "clients without requests are removed");
}

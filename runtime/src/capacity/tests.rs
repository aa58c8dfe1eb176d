use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::FutureExt as _;

use super::activity::SLOW;
use super::connections::IDLE;
use super::{ActiveRequest, ConnectionSlot, ConnectionSlots, RequestSlots};
use crate::env::Env;
use crate::testing::{ManualClock, test_env};

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
        let env = test_env(&clock, 0);
        Self { slots: ConnectionSlots::new(connections, per_client, env.clone()), clock, env }
    }

    /// Acquires a slot for a client. `None` if it is refused.
    fn acquire(&self, last: u8) -> Option<ConnectionSlot> {
        self.slots.acquire(client(last)).now_or_never().expect("a slot is free")
    }

    /// A slot of a client that has completed a request.
    fn proven(&self, last: u8) -> ConnectionSlot {
        let slot = self.acquire(last).unwrap();
        ActiveRequest::new(&slot.activity, &self.env).arrive();
        slot
    }

    fn busy(&self, slot: &ConnectionSlot) -> ActiveRequest {
        let request = ActiveRequest::new(&slot.activity, &self.env);
        request.arrive();
        request
    }
}

fn evicted<const N: usize>(slots: [&ConnectionSlot; N]) -> [bool; N] {
    slots.map(|slot| slot.eviction.is_ordered())
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
async fn a_further_connection_takes_the_slot_of_the_slowest_client() {
    let world = World::new(4, 3);
    let busy = world.acquire(1).unwrap();
    let _request = world.busy(&busy);
    let oldest = world.acquire(1).unwrap();
    world.clock.advance(SLOW).await;
    let (young, proven) = (world.acquire(1).unwrap(), world.proven(2));
    world.clock.advance(IDLE).await;
    let further = world.acquire(3).unwrap();
    assert_eq!(evicted([&busy, &oldest, &young, &proven]), [false, true, false, false]);
    assert!(oldest.eviction.is_cut(), "it has sent nothing");
    drop(oldest);
    world.acquire(4).unwrap();
    assert_eq!(evicted([&busy, &young, &proven, &further]), [false, true, false, false]);
}

#[tokio::test]
async fn of_young_connections_the_client_with_the_most_loses_one() {
    let world = World::new(4, 3);
    let modest = world.acquire(2).unwrap();
    let [first, second] = [world.acquire(1).unwrap(), world.acquire(1).unwrap()];
    world.acquire(3).unwrap();
    let _fourth = world.acquire(3).unwrap();
    assert_eq!(evicted([&modest, &first, &second]).map(usize::from).iter().sum::<usize>(), 1);
    assert!(!modest.eviction.is_ordered());
}

#[tokio::test]
async fn a_client_that_owes_a_body_loses_its_slot_first_and_a_verified_one_last() {
    let world = World::new(3, 3);
    let verified = world.acquire(1).unwrap();
    verified.activity.verify();
    world.clock.advance(IDLE).await;
    let (proven, owing) = (world.proven(2), world.proven(3));
    world.clock.advance(SLOW).await;
    let _body = ActiveRequest::new(&owing.activity, &world.env);
    world.clock.advance(SLOW).await;
    // The client has lost what it had proven, although the other one is idle for a longer time.
    let fourth = world.proven(4);
    assert_eq!(evicted([&verified, &proven, &owing]), [false, false, true]);
    assert!(owing.eviction.is_cut());
    drop(owing);
    let fifth = world.proven(5);
    assert_eq!(evicted([&verified, &proven, &fourth]), [false, true, false]);
    assert!(!proven.eviction.is_cut());
    drop(proven);
    let requests = [world.busy(&fourth), world.busy(&fifth)];
    let _sixth = world.acquire(6).unwrap();
    assert_eq!(evicted([&verified, &fourth, &fifth]), [true, false, false]);
    drop(requests);
}

#[tokio::test]
async fn idle_clients_do_not_displace_one_that_has_just_connected() {
    let world = World::new(8, 8);
    let idle: Vec<_> = (0..7).map(|_| world.proven(1)).collect();
    let fresh = world.acquire(2).unwrap();
    let _further = world.proven(3);
    assert!(!fresh.eviction.is_ordered());
    assert_eq!(idle.iter().filter(|slot| slot.eviction.is_ordered()).count(), 1);
}

#[tokio::test]
async fn many_connections_that_are_closing_are_cut() {
    let world = World::new(4, 8);
    let idle: Vec<_> = (0..4).map(|_| world.proven(1)).collect();
    let first: Vec<_> = (0..2).map(|_| world.proven(2)).collect();
    let closing = || idle.iter().filter(|slot| slot.eviction.is_ordered());
    assert_eq!((closing().count(), closing().filter(|slot| slot.eviction.is_cut()).count()), (2, 0));
    assert!(world.slots.acquire(client(3)).now_or_never().is_none(), "the memory of the two is still in use");
    assert_eq!(closing().filter(|slot| slot.eviction.is_cut()).count(), 2);
    drop(first);
}

#[tokio::test]
async fn a_quarter_is_kept_for_clients_that_have_completed_a_request() {
    let world = World::new(8, 8);
    let unproven: Vec<_> = (0..6).map(|_| world.acquire(1).unwrap()).collect();
    assert!(unproven.iter().all(|slot| !slot.eviction.is_ordered()));
    let _seventh = world.acquire(2).unwrap();
    assert_eq!(unproven.iter().filter(|slot| slot.eviction.is_ordered()).count(), 1);
}

#[tokio::test]
async fn a_further_connection_waits_while_all_are_busy() {
    let world = World::new(2, 2);
    let [one, two] = [world.acquire(1).unwrap(), world.acquire(2).unwrap()];
    let requests = [world.busy(&one), world.busy(&two)];
    let mut further = std::pin::pin!(world.slots.acquire(client(3)));
    assert!(further.as_mut().now_or_never().is_none());
    world.clock.advance(IDLE).await;
    assert!(further.as_mut().now_or_never().is_none());
    assert_eq!(evicted([&one, &two]), [false, false]);
    drop(requests);
    drop(one);
    assert!(further.await.is_some(), "a slot is free");
}

#[tokio::test]
async fn a_client_at_its_limit_loses_a_slow_connection_or_an_idle_one() {
    let world = World::new(4, 1);
    let slow = world.acquire(1).unwrap();
    assert!(world.acquire(1).is_none());
    assert!(!slow.eviction.is_ordered());
    world.clock.advance(SLOW).await;
    let idle = world.proven(1);
    assert!(slow.eviction.is_ordered());
    drop(slow);
    world.clock.advance(SLOW).await;
    assert!(world.acquire(1).is_none(), "not idle for long");
    world.clock.advance(IDLE).await;
    assert!(world.acquire(1).is_some());
    assert!(idle.eviction.is_ordered() && !idle.eviction.is_cut());
}

#[tokio::test]
async fn one_client_may_use_half_of_the_request_slots() {
    let world = World::new(1, 1);
    let slots = RequestSlots::new(4);
    let acquire = |last| {
        let slot = slots.acquire(client(last), &world.env)?;
        slot.arrive();
        Some(slot)
    };
    let first = (acquire(1).unwrap(), acquire(1).unwrap());
    assert!(acquire(1).is_none());
    let _second = (acquire(2).unwrap(), acquire(2).unwrap());
    assert!(acquire(3).is_none(), "no slot is free");
    drop(first);
    assert!(acquire(3).is_some());
    assert_eq!(slots.len(), 2, "requests that have ended are removed");
}

#[tokio::test]
async fn a_further_request_takes_the_slot_of_the_body_that_is_outstanding_for_the_longest_time() {
    let world = World::new(1, 1);
    let slots = RequestSlots::new(4);
    let acquire = |last| slots.acquire(client(last), &world.env);
    let arrived = acquire(1).unwrap();
    arrived.arrive();
    let outstanding = [acquire(1).unwrap(), acquire(2).unwrap(), acquire(2).unwrap()];
    let is_evicted = || outstanding.each_ref().map(|slot| slot.evicted.is_cancelled());
    assert!(acquire(1).is_none(), "the client uses half, and is not slow yet");
    let third = acquire(3).unwrap();
    assert_eq!(is_evicted(), [true, false, false]);
    assert!(!arrived.evicted.is_cancelled());
    world.clock.advance(SLOW).await;
    assert!(acquire(2).is_some(), "in place of an own slow one");
    assert_eq!(is_evicted(), [true, true, false]);
    assert!(!third.evicted.is_cancelled());
}

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures::FutureExt as _;

use super::{Busy, IDLE, Place, Room, Turns};
use crate::env::Env;
use crate::testing::{ManualClock, env};

fn client(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

struct World {
    clock: ManualClock,
    env: Env,
    room: Room,
}

impl World {
    fn new(connections: usize, share: usize) -> Self {
        let clock = ManualClock::new();
        let env = env(&clock, 0);
        Self { room: Room::new(connections, share, env.clone()), clock, env }
    }

    /// A connection of a client, nothing if it is refused.
    fn enter(&self, last: u8) -> Option<Place> {
        self.room.enter(client(last)).now_or_never().expect("there is a place")
    }
}

#[tokio::test]
async fn one_client_has_its_share_and_leaves_the_rest_to_others() {
    let world = World::new(4, 2);
    let (first, _second) = (world.enter(1).unwrap(), world.enter(1).unwrap());
    assert!(world.enter(1).is_none(), "the third of one client");
    let _other = world.enter(2).unwrap();
    drop(first);
    let _again = world.enter(1).unwrap();
    let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
    assert!(world.room.enter(mapped).await.is_none(), "the same client in IPv6's words");
    assert!(world.room.enter(IpAddr::V6(Ipv6Addr::LOCALHOST)).await.is_some());
}

#[tokio::test]
async fn when_all_places_are_taken_the_longest_idle_connection_of_the_greediest_client_makes_room() {
    let world = World::new(4, 3);
    let busy = world.enter(1).unwrap();
    let _request = Busy::new(&busy.activity, &world.env);
    let oldest = world.enter(1).unwrap();
    world.clock.advance(Duration::from_secs(1)).await;
    let (young, modest) = (world.enter(1).unwrap(), world.enter(2).unwrap());
    let evicted = || [&busy, &oldest, &young, &modest].map(|place| place.evicted.is_cancelled());
    let mut waiting = std::pin::pin!(world.room.enter(client(3)));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(evicted(), [false; 4], "no connection has been idle for long");
    for _ in 0..=IDLE.as_secs() {
        world.clock.advance(Duration::from_secs(1)).await;
        assert!(waiting.as_mut().now_or_never().is_none());
        if oldest.evicted.is_cancelled() {
            break;
        }
    }
    assert_eq!(evicted(), [false, true, false, false]);
    drop(oldest);
    assert!(waiting.await.is_some(), "its place is free");
}

#[tokio::test]
async fn a_client_with_its_share_gives_up_what_it_does_not_use() {
    let world = World::new(4, 1);
    let idle = world.enter(1).unwrap();
    assert!(world.enter(1).is_none());
    assert!(!idle.evicted.is_cancelled());
    world.clock.advance(IDLE).await;
    assert!(world.enter(1).is_none());
    assert!(idle.evicted.is_cancelled());
}

#[test]
fn one_client_has_half_of_the_requests() {
    let turns = Turns::new(4);
    let first = (turns.take(client(1)).unwrap(), turns.take(client(1)).unwrap());
    assert!(turns.take(client(1)).is_none());
    let _second = (turns.take(client(2)).unwrap(), turns.take(client(2)).unwrap());
    assert!(turns.take(client(3)).is_none(), "there are no more");
    drop(first);
    assert!(turns.take(client(3)).is_some());
    assert_eq!(turns.taken.lock().len(), 1, "clients without a request are forgotten");
}

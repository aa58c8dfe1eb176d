use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::FutureExt as _;
use vmpool_runtime::testing::{ManualClock, test_env};

use super::{INTERVAL, MemoryLimit, MemoryPermit, PATIENCE, UNIT};

fn client(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn memory(units: usize) -> (MemoryLimit, ManualClock) {
    let clock = ManualClock::new();
    (MemoryLimit::new(units * UNIT, test_env(&clock, 0)), clock)
}

/// The permit of a client that does not wait. `None` if it would.
fn now(memory: &MemoryLimit, last: u8, bytes: usize) -> Option<MemoryPermit> {
    memory.acquire(client(last), bytes).now_or_never()
}

#[test]
fn one_client_may_use_half_and_another_client_the_rest() {
    let (memory, _) = memory(10);
    let first = now(&memory, 1, 5 * UNIT).expect("half is available");
    assert!(now(&memory, 1, 1).is_none(), "the client has reached its limit");
    let second = now(&memory, 2, 5 * UNIT).expect("the other half is left for another client");
    assert!(now(&memory, 3, 1).is_none(), "all memory is in use");
    drop(first);
    assert!(now(&memory, 3, 5 * UNIT).is_some());
    drop(second);
    assert_eq!(memory.clients(), 0);
}

#[test]
fn unused_memory_is_returned_early() {
    let (memory, _) = memory(10);
    let mut permit = now(&memory, 1, 5 * UNIT).unwrap();
    permit.shrink(1);
    assert!(now(&memory, 1, 4 * UNIT).is_some());
    assert!(now(&memory, 1, 5 * UNIT).is_none(), "one unit is still in use");
}

#[test]
fn larger_requests_count_as_the_limit_of_a_client() {
    let (memory, _) = memory(10);
    assert!(now(&memory, 1, 100 * UNIT).is_some());
}

#[test]
fn idle_clients_are_removed() {
    let (memory, _) = memory(10);
    for last in 0..=255 {
        drop(now(&memory, last, 1).unwrap());
    }
    assert_eq!(memory.clients(), 0);
}

#[tokio::test]
async fn the_client_that_uses_the_least_is_next() {
    let (memory, _) = memory(10);
    let (first, second) = (now(&memory, 1, 5 * UNIT).unwrap(), now(&memory, 2, 5 * UNIT).unwrap());
    let mut more = Box::pin(memory.acquire(client(2), 3 * UNIT));
    let mut large = Box::pin(memory.acquire(client(3), 5 * UNIT));
    let mut small = Box::pin(memory.acquire(client(4), UNIT));
    assert!(more.as_mut().now_or_never().is_none());
    assert!(large.as_mut().now_or_never().is_none());
    assert!(small.as_mut().now_or_never().is_none());
    drop(first);
    let _small = small.as_mut().now_or_never().expect("the smallest of those that use none");
    assert!(large.as_mut().now_or_never().is_none(), "it does not fit");
    assert!(now(&memory, 4, UNIT).is_none(), "a client that uses some does not overtake it");
    drop(second);
    assert!(large.as_mut().now_or_never().is_some());
    assert!(more.as_mut().now_or_never().is_some());
}

#[tokio::test]
async fn a_body_that_does_not_arrive_loses_its_memory_to_one_that_waits() {
    let (memory, clock) = memory(10);
    let body = |last, units| memory.acquire_for_body(client(last), units * UNIT).now_or_never().unwrap();
    let [arrived, stalled, other] = [body(1, 4), body(2, 4), body(3, 2)];
    arrived.arrive();
    clock.advance(PATIENCE.saturating_sub(Duration::from_millis(1))).await;
    let mut waiting = Box::pin(memory.acquire_for_body(client(4), UNIT));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(!stalled.evicted.is_cancelled());
    clock.advance(INTERVAL).await;
    assert!(waiting.as_mut().now_or_never().is_none());
    let evicted = [&arrived, &stalled, &other].map(|permit| permit.evicted.is_cancelled());
    assert_eq!(evicted, [false, true, false], "the oldest that has not arrived, and no more than needed");
    drop(stalled);
    assert!(waiting.as_mut().now_or_never().is_some());
}

#[tokio::test]
async fn nothing_is_evicted_while_there_is_memory() {
    let (memory, clock) = memory(10);
    let stalled = memory.acquire_for_body(client(1), UNIT).now_or_never().unwrap();
    clock.advance(PATIENCE * 10).await;
    assert!(now(&memory, 2, UNIT).is_some());
    let mut own = Box::pin(memory.acquire(client(1), 5 * UNIT));
    assert!(own.as_mut().now_or_never().is_none());
    clock.advance(PATIENCE * 10).await;
    assert!(own.as_mut().now_or_never().is_none());
    assert!(!stalled.evicted.is_cancelled());
}

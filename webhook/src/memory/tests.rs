use std::net::{IpAddr, Ipv4Addr};

use futures::FutureExt as _;

use super::{MemoryLimit, UNIT};

fn client(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

#[test]
fn one_client_may_use_half_and_another_client_the_rest() {
    let memory = MemoryLimit::new(10 * UNIT);
    let first = memory.acquire(client(1), 5 * UNIT).now_or_never().expect("half is available");
    assert!(memory.acquire(client(1), 1).now_or_never().is_none(), "the client has reached its limit");
    let second = memory
        .acquire(client(2), 5 * UNIT)
        .now_or_never()
        .expect("the other half is left for another client");
    assert!(memory.acquire(client(3), 1).now_or_never().is_none(), "all memory is in use");
    drop(first);
    assert!(memory.acquire(client(3), 5 * UNIT).now_or_never().is_some());
    drop(second);
    assert!(memory.clients.lock().len() <= 3);
}

#[test]
fn unused_memory_is_returned_early() {
    let memory = MemoryLimit::new(10 * UNIT);
    let mut permit = memory.acquire(client(1), 5 * UNIT).now_or_never().unwrap();
    permit.shrink(1);
    assert!(memory.acquire(client(1), 4 * UNIT).now_or_never().is_some());
    assert!(memory.acquire(client(1), 5 * UNIT).now_or_never().is_none(), "one unit is still in use");
}

#[test]
fn larger_requests_count_as_the_limit_of_a_client() {
    let memory = MemoryLimit::new(10 * UNIT);
    assert!(memory.acquire(client(1), 100 * UNIT).now_or_never().is_some());
}

#[test]
fn idle_clients_are_removed() {
    let memory = MemoryLimit::new(10 * UNIT);
    for last in 0..=255 {
        drop(memory.acquire(client(last), 1).now_or_never().unwrap());
    }
    assert!(memory.clients.lock().len() <= 1);
}

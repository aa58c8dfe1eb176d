use std::net::{IpAddr, Ipv4Addr};

use futures::FutureExt as _;

use super::{Memory, UNIT};

fn client(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

#[test]
fn one_client_gets_half_and_another_the_rest() {
    let memory = Memory::new(10 * UNIT);
    let first = memory.take(client(1), 5 * UNIT).now_or_never().expect("half is there");
    assert!(memory.take(client(1), 1).now_or_never().is_none(), "the client has its share");
    let second =
        memory.take(client(2), 5 * UNIT).now_or_never().expect("the other half is for another client");
    assert!(memory.take(client(3), 1).now_or_never().is_none(), "nothing is left");
    drop(first);
    assert!(memory.take(client(3), 5 * UNIT).now_or_never().is_some());
    drop(second);
    assert!(memory.shares.lock().len() <= 3);
}

#[test]
fn what_is_not_used_is_returned_early() {
    let memory = Memory::new(10 * UNIT);
    let mut taken = memory.take(client(1), 5 * UNIT).now_or_never().unwrap();
    taken.shrink(1);
    assert!(memory.take(client(1), 4 * UNIT).now_or_never().is_some());
    assert!(memory.take(client(1), 5 * UNIT).now_or_never().is_none(), "one unit is still in use");
}

#[test]
fn more_than_a_share_is_a_share() {
    let memory = Memory::new(10 * UNIT);
    assert!(memory.take(client(1), 100 * UNIT).now_or_never().is_some());
}

#[test]
fn clients_that_are_gone_are_forgotten() {
    let memory = Memory::new(10 * UNIT);
    for last in 0..=255 {
        drop(memory.take(client(last), 1).now_or_never().unwrap());
    }
    assert!(memory.shares.lock().len() <= 1);
}

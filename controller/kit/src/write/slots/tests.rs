use futures::FutureExt;
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;

const LIMIT: usize = 8;

fn slots(clock: &ManualClock) -> WriteSlots {
    WriteSlots::new(test_env(clock, 0), LIMIT)
}

/// The slots that this many new writes get at once.
fn acquired(slots: &WriteSlots, lane: &str, count: usize) -> Vec<WriteSlot> {
    (0..count).filter_map(|_| slots.acquire(lane).now_or_never()).collect()
}

/// As many slow writes of a collection as it can have.
fn slow(slots: &WriteSlots, lane: &str) -> Vec<WriteSlot> {
    let mut held = acquired(slots, lane, 1);
    held.iter_mut().for_each(WriteSlot::record_slow);
    held.extend(acquired(slots, lane, LIMIT));
    held
}

#[test]
fn ordinary_writes_of_one_collection_use_all_slots() {
    let slots = slots(&ManualClock::new());
    assert_eq!(slots.available_slots("a"), usize::MAX);
    let held = acquired(&slots, "a", LIMIT + 3);
    assert_eq!(held.len(), LIMIT);
    assert!(held.iter().all(|slot| !slot.is_slow()));
    drop(held);
    assert_eq!(acquired(&slots, "a", LIMIT + 3).len(), LIMIT, "all slots are free again");
}

#[test]
fn slow_writes_of_a_collection_hold_no_ordinary_slot() {
    let slots = slots(&ManualClock::new());
    let mut held = acquired(&slots, "slow", LIMIT);
    assert_eq!(acquired(&slots, "other", 1).len(), 0, "before the writes are slow");
    held.iter_mut().for_each(WriteSlot::record_slow);
    assert_eq!(acquired(&slots, "other", LIMIT).len(), LIMIT);
    assert_eq!(slots.available_slots("slow"), 0);
}

#[test]
fn a_slow_collection_gets_a_part_of_the_slow_slots() {
    let slots = slots(&ManualClock::new());
    let held = slow(&slots, "a");
    assert_eq!((held.len(), slots.available_slots("a")), (LIMIT / PARTS, 0));
    assert_eq!(slow(&slots, "b").len(), LIMIT / PARTS, "another slow one gets a part, too");
    drop(held);
    assert_eq!(slots.available_slots("a"), LIMIT / PARTS);
    let next = acquired(&slots, "a", 1);
    assert!(next[0].is_slow(), "the next write may take long, too");
}

#[tokio::test]
async fn a_collection_is_ordinary_again_after_ten_minutes() {
    let clock = ManualClock::new();
    let slots = slots(&clock);
    drop(slow(&slots, "a"));
    clock.advance(SLOW_MEMORY).await;
    let held = acquired(&slots, "a", LIMIT);
    assert_eq!(held.len(), LIMIT);
    assert!(held.iter().all(|slot| !slot.is_slow()));
    drop(held);
    assert!(slots.state.lock().lanes.is_empty(), "idle collections are forgotten");
}

#[test]
fn the_number_of_slow_writes_is_limited() {
    let slots = slots(&ManualClock::new());
    let held: Vec<Vec<WriteSlot>> = (0..10).map(|number| slow(&slots, &format!("{number}"))).collect();
    let used = slots.state.lock().used;
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), used.total());
    assert_eq!(used.slow, LIMIT, "{used:?}");
    assert!(used.ordinary <= LIMIT, "{used:?}");
}

#[test]
fn waiting_collections_get_slots_in_turn() {
    let slots = slots(&ManualClock::new());
    let mut held = acquired(&slots, "a", LIMIT);
    let mut waiting: Vec<_> =
        ["a", "a", "a", "b", "a"].into_iter().map(|lane| Box::pin(slots.acquire(lane))).collect();
    let mut granted = Vec::new();
    for place in &mut waiting {
        assert!(place.as_mut().now_or_never().is_none());
    }
    let mut order = Vec::new();
    for _ in 0..3 {
        held.pop();
        for (number, place) in waiting.iter_mut().enumerate() {
            if order.contains(&number) {
                continue;
            }
            if let Some(slot) = place.as_mut().now_or_never() {
                order.push(number);
                granted.push(slot);
            }
        }
    }
    assert_eq!(order, [0, 3, 1], "the other collection does not wait for all of the first one");
}

#[test]
fn a_dropped_write_gives_its_slot_to_the_next_one() {
    let slots = slots(&ManualClock::new());
    let mut held = acquired(&slots, "a", LIMIT);
    let mut first = Box::pin(slots.acquire("a"));
    let mut second = Box::pin(slots.acquire("a"));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    // The first one gets the slot, and is dropped before it uses it.
    held.pop();
    drop(first);
    assert!(second.as_mut().now_or_never().is_some());
    // One that waits is dropped.
    let mut third = Box::pin(slots.acquire("a"));
    let mut fourth = Box::pin(slots.acquire("a"));
    assert_eq!(held.len(), LIMIT - 1);
    let filled = acquired(&slots, "a", 1);
    assert!(third.as_mut().now_or_never().is_none() && fourth.as_mut().now_or_never().is_none());
    drop(third);
    drop(filled);
    assert!(fourth.as_mut().now_or_never().is_some());
}

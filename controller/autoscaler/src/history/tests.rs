use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{DesiredHistory, Moment};

fn moment(seconds: u64) -> Moment {
    let now = Timestamp::from_second(1_800_000_000 + i64::try_from(seconds).unwrap()).unwrap();
    Moment { now, uptime: Duration::from_secs(seconds) }
}

const DELAY: Duration = Duration::from_mins(5);

#[test]
fn a_new_history_permits_nothing_before_the_delay_has_passed() {
    let mut history = DesiredHistory::begin(moment(0));
    history.record(moment(0), 5);
    history.record(moment(299), 2);
    assert_eq!(history.highest(DELAY), None);
    assert_eq!(history.next_change(DELAY), Some(Duration::from_secs(1)));
    history.record(moment(300), 2);
    assert_eq!(history.highest(DELAY), Some(5));
}

#[test]
fn a_number_counts_until_the_delay_after_its_end() {
    let mut history = DesiredHistory::begin(moment(0));
    history.record(moment(0), 5);
    history.record(moment(1000), 2);
    history.record(moment(1299), 2);
    assert_eq!(history.highest(DELAY), Some(5));
    assert_eq!(history.next_change(DELAY), Some(Duration::from_secs(1)));
    history.record(moment(1300), 2);
    assert_eq!(history.highest(DELAY), Some(2));
    assert_eq!(history.next_change(DELAY), None);
}

#[test]
fn a_jump_of_the_wall_clock_begins_the_delay_again() {
    let mut history = DesiredHistory::begin(moment(0));
    history.record(moment(0), 5);
    let jumped = Moment { uptime: Duration::from_secs(400), ..moment(4000) };
    history.record(jumped, 2);
    assert_eq!(history.highest(DELAY), None);
}

/// The rule without the shortcuts of the history.
fn highest_of(numbers: &[(u64, u32)], delay: u64) -> Option<u32> {
    let now = numbers.last()?.0;
    let begins = now.checked_sub(delay).filter(|begins| *begins >= numbers[0].0)?;
    let ends = numbers.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
    numbers.iter().zip(ends).filter(|(_, end)| *end > begins).map(|((_, number), _)| *number).max()
}

proptest! {
    #[test]
    fn the_highest_number_is_that_of_all_numbers_of_the_delay(
        steps in prop::collection::vec((1u64..200, 0u32..8), 1..60),
    ) {
        let mut history = DesiredHistory::begin(moment(steps[0].0));
        let (mut at, mut numbers) = (0, Vec::new());
        for (after, number) in steps {
            at += after;
            numbers.push((at, number));
            history.record(moment(at), number);
            prop_assert_eq!(history.highest(DELAY), highest_of(&numbers, 300), "{:?}", numbers);
        }
    }
}

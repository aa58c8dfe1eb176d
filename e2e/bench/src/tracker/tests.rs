use rstest::rstest;

use super::*;

fn at(begin: Instant, milliseconds: u64) -> Instant {
    begin + Duration::from_millis(milliseconds)
}

fn milliseconds(delays: &[Duration]) -> Vec<u128> {
    delays.iter().map(Duration::as_millis).collect()
}

#[test]
fn one_status_may_show_several_changes() {
    let (begin, mut pool) = (Instant::now(), Tracked::default());
    pool.machine_changed(begin, 1);
    pool.machine_changed(at(begin, 50), 2);
    pool.machine_changed(at(begin, 300), 3);
    pool.seen(at(begin, 200), 2, 1);
    assert_eq!(milliseconds(pool.ready_delays()), [200, 150]);
    assert_eq!(pool.pending(), 1);
    assert!(pool.is_starved(), "the third change does not show yet");
    pool.seen(at(begin, 400), 3, 1);
    assert_eq!(milliseconds(pool.ready_delays()), [200, 150, 100]);
    assert!(!pool.is_starved());
}

#[test]
fn a_status_with_the_same_count_shows_no_machine_change() {
    let (begin, mut pool) = (Instant::now(), Tracked::default());
    pool.machine_changed(begin, 1);
    pool.seen(at(begin, 100), 1, 1);
    // One machine starts, then one stops. In the next status only other fields have changed.
    pool.machine_changed(at(begin, 200), 2);
    pool.machine_changed(at(begin, 300), 1);
    pool.seen(at(begin, 310), 1, 2);
    assert_eq!(pool.pending_machines(), 2, "the status showed one running machine before, too");
    pool.seen(at(begin, 400), 2, 2);
    pool.seen(at(begin, 500), 1, 2);
    assert_eq!(milliseconds(pool.ready_delays()), [100, 200, 200]);
}

#[test]
fn a_generation_may_show_before_the_response_of_its_request() {
    let (begin, mut pool) = (Instant::now(), Tracked::default());
    pool.seen(at(begin, 30), 0, 2);
    pool.seen(at(begin, 500), 0, 2);
    pool.scaled(begin, 2);
    assert_eq!(milliseconds(pool.scale_delays()), [30], "the delay ends at the first status that shows it");
}

#[test]
fn a_later_generation_includes_the_earlier_ones() {
    let (begin, mut pool) = (Instant::now(), Tracked::default());
    pool.scaled(begin, 2);
    pool.scaled(at(begin, 100), 3);
    pool.scaled(at(begin, 200), 4);
    pool.seen(at(begin, 300), 0, 3);
    assert_eq!(milliseconds(pool.scale_delays()), [300, 200]);
    assert_eq!(pool.pending(), 1);
}

#[rstest]
#[case::empty(&[], 0.99, 0)]
#[case::one_value(&[7], 0.99, 7)]
#[case::the_median(&[4, 1, 3, 2], 0.5, 2)]
#[case::the_maximum(&[4, 1, 3, 2], 1.0, 4)]
fn a_quantile_is_one_of_the_values(#[case] values: &[u64], #[case] share: f64, #[case] expected: u64) {
    let mut values: Vec<_> = values.iter().copied().map(Duration::from_millis).collect();
    assert_eq!(duration_quantile(&mut values, share), Duration::from_millis(expected));
}

#[test]
fn one_in_a_hundred_may_be_slow() {
    let mut values = vec![Duration::from_millis(1); 99];
    values.push(Duration::from_secs(9));
    assert_eq!(duration_quantile(&mut values, 0.99), Duration::from_millis(1));
}

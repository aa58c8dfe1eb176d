use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::Conclusion;
use rstest::rstest;

use super::*;

fn passes() {}

fn fails() {
    assert_eq!(1, 2, "this test fails");
}

fn conclusion(tests: Vec<Trial>, threads: usize) -> Conclusion {
    let mut arguments = Arguments::from_iter(["test"]);
    arguments.test_threads = Some(threads);
    // Otherwise the outer test runner would count these tests as its own.
    arguments.logfile = Some("/dev/null".to_owned());
    libtest_mimic::run(&arguments, tests)
}

#[rstest]
#[case::on_any_host(Test::new("passes", passes), false, None, (1, 0, 0))]
#[case::that_fails(Test::new("fails", fails), false, None, (0, 1, 0))]
#[case::without_need_of_a_node(Test::new("passes", passes), true, Some("no node"), (1, 0, 0))]
#[case::on_a_host_with_a_node(Test::on_node("passes", passes), true, None, (1, 0, 0))]
#[case::on_a_host_without_a_node(Test::on_node("passes", passes), false, Some("no node"), (0, 0, 1))]
#[case::that_is_required(Test::on_node("passes", passes), true, Some("no node"), (0, 1, 0))]
fn a_test(
    #[case] test: Test,
    #[case] required: bool,
    #[case] missing: Option<&'static str>,
    #[case] (passed, failed, ignored): (u64, u64, u64),
) {
    let found = conclusion(vec![trial(test, required, move || missing.map(str::to_owned), None)], 2);
    assert_eq!((found.num_passed, found.num_failed, found.num_ignored), (passed, failed, ignored));
}

#[test]
fn with_one_thread_tests_run_one_after_another() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    fn alone() {
        assert_eq!(RUNNING.fetch_add(1, Ordering::SeqCst), 0, "another test is running");
        std::thread::sleep(std::time::Duration::from_millis(20));
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
    let lock = Arc::<Mutex<()>>::default();
    let tests =
        (0..4).map(|_| trial(Test::new("alone", alone), false, || None, Some(lock.clone()))).collect();
    assert_eq!(conclusion(tests, 2).num_passed, 4);
}

#[rstest]
#[case::no_filter(&[], false, true)]
#[case::a_part_of_the_name(&["pods"], false, true)]
#[case::one_of_several(&["drains", "served"], false, true)]
#[case::another_name(&["drains"], false, false)]
#[case::the_exact_name(&["drains", "pods::are_served"], true, true)]
#[case::not_the_exact_name(&["pods"], true, false)]
fn filters_select_tests(#[case] filters: &[&str], #[case] exact: bool, #[case] selected: bool) {
    let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
    assert_eq!(is_selected("pods::are_served", &filters, exact), selected);
}

#[test]
fn filters_are_separated_from_flags_and_their_values() {
    let line = ["test", "--exact", "--test-threads", "1", "a", "--nocapture", "--skip=x", "b"];
    let (arguments, filters) = parse(line.map(str::to_owned));
    assert_eq!(filters, ["a", "b"]);
    assert!(arguments.exact && arguments.nocapture);
    assert_eq!((arguments.test_threads, arguments.skip), (Some(1), vec!["x".to_owned()]));
}

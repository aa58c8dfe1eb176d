use rstest::rstest;

use super::*;

const THEN: Usage = Usage { pid: 7, mib: 20.0, descriptors: 40, threads: 5, tasks: Some(60) };

fn grown(now: Usage) -> Vec<String> {
    let sample = |usage| UsageSample(vec![("controller".to_owned(), usage)]);
    sample(now).growth_since(&sample(THEN))
}

#[rstest]
#[case::the_same(THEN)]
#[case::less(Usage { mib: 10.0, descriptors: 10, threads: 2, tasks: Some(6), ..THEN })]
#[case::what_an_allocator_keeps(Usage { mib: 25.9, ..THEN })]
#[case::idle_connections(Usage { descriptors: 64, tasks: Some(84), threads: 9, ..THEN })]
#[case::a_program_without_task_metrics(Usage { tasks: None, ..THEN })]
fn allowed_variation_is_not_growth(#[case] now: Usage) {
    assert_eq!(grown(now), Vec::<String>::new());
}

#[rstest]
#[case::memory(Usage { mib: 26.1, ..THEN }, "memory of controller grew from 20.0 to 26.1 MiB")]
#[case::descriptors(Usage { descriptors: 65, ..THEN }, "descriptors of controller grew from 40 to 65")]
#[case::threads(Usage { threads: 10, ..THEN }, "threads of controller grew from 5 to 10")]
#[case::tasks(Usage { tasks: Some(85), ..THEN }, "tasks of controller grew from 60 to 85")]
#[case::a_restart(Usage { pid: 8, ..THEN }, "controller has restarted")]
fn more_than_the_allowed_variation_is_growth(#[case] now: Usage, #[case] expected: &str) {
    assert_eq!(grown(now), [expected]);
}

#[test]
fn memory_may_vary_by_a_share_of_its_size() {
    let large = |mib| UsageSample(vec![("simulator".to_owned(), Usage { mib, ..THEN })]);
    assert!(large(119.0).growth_since(&large(100.0)).is_empty());
    assert_eq!(large(121.0).growth_since(&large(100.0)).len(), 1);
}

#[test]
fn the_number_of_tasks_is_parsed_from_the_metrics() {
    assert_eq!(tasks("# TYPE process_tasks gauge\nprocess_tasks 12\nprocess_tasks_other 3\n"), Some(12));
    assert_eq!(tasks("no such metric"), None);
}

#[test]
fn the_minimums_of_the_first_and_the_last_third_are_compared() {
    let sample = |descriptors| UsageSample(vec![("controller".to_owned(), Usage { descriptors, ..THEN })]);
    let samples = [40, 90, 41, 95, 42, 41, 120].map(sample);
    let (first, last) = UsageSample::ends(&samples).unwrap();
    assert_eq!((first, last), (sample(40), sample(41)));
    assert_eq!(UsageSample::ends(&samples[..1]), Some((sample(40), sample(40))));
    assert_eq!(UsageSample::ends(&[]), None);
}

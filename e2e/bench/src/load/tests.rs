use super::*;

#[test]
fn a_family_is_a_program_and_its_children() {
    let process =
        |pid: u32| ProcessStat { pid, name: "cat".to_owned(), state: 'R', parent: 7, cpu_ticks: 168 };
    assert!(belongs_to(&process(7), 7), "itself");
    assert!(belongs_to(&process(8), 7), "a child");
    assert!(!belongs_to(&process(8), 9), "another program");
}

#[test]
fn cpu_time_of_other_programs_is_foreign() {
    let at = |stat: &str, own: u64| CpuSnapshot {
        machine: machine(stat).unwrap(),
        family: BTreeMap::from([("cat".to_owned(), own)]),
    };
    let before = at("cpu  10 0 10 100 0 0 0 0 5 0\ncpu0 1", 5);
    let after = at("cpu  40 0 30 140 10 0 0 0 9 0\ncpu0 1", 35);
    let load = after.since(&before);
    assert!((load.idle - 0.5).abs() < 1e-9, "waiting for the disk counts as idle: {load:?}");
    assert!((load.foreign - 0.2).abs() < 1e-9, "{load:?}");
    assert_eq!(load.programs, BTreeMap::from([("cat".to_owned(), ticks_to_duration(30))]));
}

#[test]
fn the_running_test_is_part_of_the_snapshot() {
    assert!(!CpuSnapshot::now().unwrap().family.is_empty());
}

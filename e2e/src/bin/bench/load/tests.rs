use super::*;

const STAT: &str = "(cat) R 7 4711 4711 0 -1 4194560 2914 0 0 0 123 45 0 0 20 0 3 0 9 0 0";

#[test]
fn a_family_is_a_program_and_its_children() {
    let member_as = |id: u32| member(&format!("{id} {STAT}"), 7);
    let cat = Some(("cat".to_owned(), 168));
    assert_eq!(member_as(7), cat, "itself");
    assert_eq!(member_as(8), cat, "a child");
    assert_eq!(member(&format!("8 {STAT}"), 9), None, "a stranger");
    assert_eq!(member(&format!("77 {STAT}"), 77).map(|(name, _)| name), Some("cat".to_owned()));
}

#[test]
fn cpu_time_of_other_programs_is_foreign() {
    let at = |stat: &str, own: u64| Snapshot {
        machine: machine(stat).unwrap(),
        family: BTreeMap::from([("cat".to_owned(), own)]),
    };
    let before = at("cpu  10 0 10 100 0 0 0 0 5 0\ncpu0 1", 5);
    let after = at("cpu  40 0 30 140 10 0 0 0 9 0\ncpu0 1", 35);
    let load = after.since(&before);
    assert!((load.idle - 0.5).abs() < 1e-9, "waiting for the disk counts as idle: {load:?}");
    assert!((load.foreign - 0.2).abs() < 1e-9, "{load:?}");
    assert_eq!(load.programs, BTreeMap::from([("cat".to_owned(), ticks(30))]));
}

#[test]
fn the_running_test_is_part_of_the_snapshot() {
    assert!(!Snapshot::now().unwrap().family.is_empty());
}

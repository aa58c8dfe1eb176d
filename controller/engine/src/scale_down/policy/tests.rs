use std::collections::BTreeSet;

use rstest::rstest;
use vmpool_api::enums;

use super::ScaleDownPolicy;
use crate::model::{Machine, MachineActivity};
use crate::testing::running_machine;

#[test]
fn the_values_are_those_of_the_api() {
    let known: Vec<&str> = enums::ScaleDownPolicy::ALL.iter().map(|policy| policy.as_str()).collect();
    let values: Vec<&str> = ScaleDownPolicy::ALL.into_iter().filter_map(ScaleDownPolicy::value).collect();
    assert_eq!(values, known);
}

#[test]
fn a_value_is_read_as_its_policy() {
    for policy in ScaleDownPolicy::ALL {
        assert_eq!(policy.value().and_then(ScaleDownPolicy::parse), policy.value().map(|_| policy));
    }
    assert_eq!(ScaleDownPolicy::parse("Random"), None);
}

#[test]
fn every_policy_has_a_description_of_its_own() {
    let descriptions: BTreeSet<&str> =
        ScaleDownPolicy::ALL.into_iter().map(ScaleDownPolicy::description).collect();
    assert_eq!(descriptions.len(), ScaleDownPolicy::ALL.len());
}

fn stopped_machine() -> Machine {
    Machine { activity: MachineActivity::Stopped, instance: None, ..running_machine("web-1", 1) }
}

#[rstest]
#[case::newest_first(ScaleDownPolicy::NewestFirst, [true, true])]
#[case::oldest_first(ScaleDownPolicy::OldestFirst, [true, true])]
#[case::the_lowest_ordinal_first(ScaleDownPolicy::LowestOrdinalFirst, [true, true])]
#[case::the_highest_ordinal_first(ScaleDownPolicy::HighestOrdinalFirst, [true, true])]
#[case::random(ScaleDownPolicy::Random, [true, true])]
#[case::only_stopped_ones(ScaleDownPolicy::StoppedOnly, [false, true])]
#[case::explicit(ScaleDownPolicy::Explicit, [false, false])]
fn the_policy_decides_which_machines_a_scale_down_may_delete(
    #[case] policy: ScaleDownPolicy,
    #[case] running_and_stopped: [bool; 2],
) {
    let machines = [running_machine("web-0", 1), stopped_machine()];
    assert_eq!(machines.map(|machine| policy.may_delete(&machine)), running_and_stopped);
    assert_eq!(policy.deletes_whole_surplus(), running_and_stopped == [true, true]);
    assert_eq!(policy.deletes_only_targets(), running_and_stopped == [false, false]);
}

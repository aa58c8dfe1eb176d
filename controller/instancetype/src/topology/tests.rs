use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const SOCKETS_CORES: Across = Across::SocketsCores;
const ALL: Across = Across::SocketsCoresThreads;

fn preferred(cpu: Value, older_ratio: Option<u32>) -> Result<Topology, TopologyError> {
    let spec = json!({"cpu": cpu, "preferSpreadSocketToCoreRatio": older_ratio});
    Topology::preferred(Some(&PreferenceSpec::read(&spec).unwrap()))
}

fn spread(across: Across, ratio: u32) -> Topology {
    Topology::Spread { across, ratio }
}

#[rstest]
#[case::none(json!({}), Topology::Sockets)]
#[case::empty(json!({"preferredCPUTopology": ""}), Topology::Sockets)]
#[case::sockets(json!({"preferredCPUTopology": "sockets"}), Topology::Sockets)]
#[case::cores(json!({"preferredCPUTopology": "cores"}), Topology::Cores)]
#[case::threads(json!({"preferredCPUTopology": "threads"}), Topology::Threads)]
#[case::any(json!({"preferredCPUTopology": "any"}), Topology::Any)]
#[case::spread(json!({"preferredCPUTopology": "spread"}), spread(SOCKETS_CORES, 2))]
#[case::old_sockets(json!({"preferredCPUTopology": "preferSockets"}), Topology::Sockets)]
#[case::old_cores(json!({"preferredCPUTopology": "preferCores"}), Topology::Cores)]
#[case::old_threads(json!({"preferredCPUTopology": "preferThreads"}), Topology::Threads)]
#[case::old_any(json!({"preferredCPUTopology": "preferAny"}), Topology::Any)]
#[case::old_spread(json!({"preferredCPUTopology": "preferSpread"}), spread(SOCKETS_CORES, 2))]
#[case::across_all(json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "SocketsCoresThreads", "ratio": 3}}), spread(ALL, 3))]
#[case::across_threads(json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "CoresThreads"}}), spread(Across::CoresThreads, 2))]
#[case::options_without_spread_are_not_examined(
    json!({"preferredCPUTopology": "cores", "spreadOptions": {"across": "Nowhere", "ratio": 0}}), Topology::Cores
)]
fn reads_the_preferred_topology(#[case] cpu: Value, #[case] topology: Topology) {
    assert_eq!(preferred(cpu, None), Ok(topology));
}

#[test]
fn without_a_preference_vcpus_are_sockets() {
    assert_eq!(Topology::preferred(None), Ok(Topology::Sockets));
}

#[rstest]
#[case::the_older_field(json!({"preferredCPUTopology": "spread"}), Some(4), 4)]
#[case::spread_options_override_it(json!({"preferredCPUTopology": "spread", "spreadOptions": {"ratio": 3}}), Some(4), 3)]
#[case::zero_in_the_older_field_is_absent(json!({"preferredCPUTopology": "spread"}), Some(0), 2)]
fn reads_the_ratio(#[case] cpu: Value, #[case] older: Option<u32>, #[case] ratio: u32) {
    assert_eq!(preferred(cpu, older), Ok(spread(SOCKETS_CORES, ratio)));
}

#[rstest]
#[case::topology(json!({"preferredCPUTopology": "sideways"}), None,
    TopologyError::UnknownTopology("sideways".to_owned()), "cpu.preferredCPUTopology")]
#[case::across(json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "Nowhere"}}), None,
    TopologyError::UnknownAcross("Nowhere".to_owned()), "cpu.spreadOptions.across")]
#[case::zero(json!({"preferredCPUTopology": "spread", "spreadOptions": {"ratio": 0}}), Some(2),
    TopologyError::ZeroRatio, "cpu.spreadOptions.ratio")]
#[case::threads(json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "CoresThreads", "ratio": 4}}), None,
    TopologyError::ThreadsRatio(4), "cpu.spreadOptions.ratio")]
#[case::threads_by_the_older_field(json!({"preferredCPUTopology": "preferSpread", "spreadOptions": {"across": "CoresThreads"}}), Some(4),
    TopologyError::ThreadsRatio(4), "cpu.spreadOptions.ratio")]
fn invalid_topologies_are_errors(
    #[case] cpu: Value,
    #[case] older: Option<u32>,
    #[case] error: TopologyError,
    #[case] field: &str,
) {
    assert_eq!(error.preference_field(), Some(field));
    assert_eq!(preferred(cpu, older), Err(error));
}

#[rstest]
#[case::one_vcpu(Topology::Cores, 1, (1, 1, 1))]
#[case::sockets(Topology::Sockets, 4, (4, 1, 1))]
#[case::any(Topology::Any, 4, (4, 1, 1))]
#[case::cores(Topology::Cores, 4, (1, 4, 1))]
#[case::threads(Topology::Threads, 4, (1, 1, 4))]
#[case::sockets_cores(spread(SOCKETS_CORES, 2), 6, (3, 2, 1))]
#[case::sockets_cores_by_three(spread(SOCKETS_CORES, 3), 6, (2, 3, 1))]
#[case::cores_threads(spread(Across::CoresThreads, 2), 6, (1, 3, 2))]
#[case::all(spread(ALL, 3), 12, (2, 3, 2))]
fn lays_out_vcpus(#[case] topology: Topology, #[case] guest: u32, #[case] expected: (u32, u32, u32)) {
    let Layout { sockets, cores, threads } = topology.layout(guest);
    assert_eq!((sockets, cores, threads), expected);
}

#[rstest]
#[case::sockets_cores(spread(SOCKETS_CORES, 3), 7, Some(3))]
#[case::sockets_cores_even(spread(SOCKETS_CORES, 3), 9, None)]
#[case::cores_threads(spread(Across::CoresThreads, 2), 3, Some(2))]
#[case::all_by_two_only(spread(ALL, 2), 6, Some(4))]
#[case::all_by_the_ratio_only(spread(ALL, 3), 9, Some(6))]
#[case::all_even(spread(ALL, 3), 12, None)]
#[case::one_vcpu_is_not_even(spread(SOCKETS_CORES, 2), 1, Some(2))]
#[case::a_large_ratio(spread(ALL, u32::MAX), 4, Some(2 * u64::from(u32::MAX)))]
#[case::no_spread(Topology::Cores, 7, None)]
fn a_spread_must_be_even(#[case] topology: Topology, #[case] guest: u32, #[case] divisor: Option<u64>) {
    let expected = divisor.map_or(Ok(()), |divisor| Err(TopologyError::Indivisible { guest, divisor }));
    assert_eq!(topology.check(guest), expected);
}

#[test]
fn an_uneven_spread_names_the_vcpus() {
    let error = spread(SOCKETS_CORES, 2).check(3).unwrap_err();
    assert_eq!(error.preference_field(), None);
    assert_eq!(error.cause().field, "instancetype.spec.cpu.guest");
}

fn any_topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        Just(Topology::Sockets),
        Just(Topology::Cores),
        Just(Topology::Threads),
        Just(Topology::Any),
        (1..6_u32).prop_map(|ratio| spread(SOCKETS_CORES, ratio)),
        Just(spread(Across::CoresThreads, 2)),
        (1..6_u32).prop_map(|ratio| spread(ALL, ratio)),
    ]
}

proptest! {
    #[test]
    fn every_accepted_layout_has_all_vcpus(topology in any_topology(), guest in 0..200_u32) {
        let Layout { sockets, cores, threads } = topology.layout(guest);
        if topology.check(guest).is_ok() {
            prop_assert_eq!(sockets * cores * threads, guest);
        }
    }
}

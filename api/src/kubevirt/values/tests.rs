use rstest::rstest;
use serde_json::Value;

use super::*;
use crate::kubevirt::crds::POOL_CRD;

/// The `enum` of a field in the schema of a pool, by its JSON pointer below `spec`.
fn schema_values(pointer: &str) -> Vec<String> {
    let crd: Value = serde_yaml_ng::from_str(POOL_CRD.yaml).unwrap();
    let path = pointer.replace('/', "/properties/");
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let values =
        spec.pointer(&path).unwrap_or_else(|| panic!("no field {pointer}"))["enum"].as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn names<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::scale_in("/scaleInStrategy/proactive/selectionPolicy/sortPolicy", names(SortPolicy::ALL))]
#[case::update("/updateStrategy/proactive/selectionPolicy/sortPolicy", names(SortPolicy::ALL))]
#[case::proactive("/scaleInStrategy/proactive/statePreservation", names(StatePreservation::ALL))]
#[case::opportunistic("/scaleInStrategy/opportunistic/statePreservation", names(StatePreservation::ALL))]
fn the_enums_have_the_values_of_the_schema(#[case] field: &str, #[case] values: Vec<String>) {
    assert_eq!(values, schema_values(field));
}

#[rstest]
#[case::backoff(PrintableStatus::CrashLoopBackOff, true)]
#[case::unschedulable(PrintableStatus::ErrorUnschedulable, true)]
#[case::data_volume(PrintableStatus::DataVolumeError, true)]
#[case::claim(PrintableStatus::ErrorPvcNotFound, true)]
#[case::image(PrintableStatus::ErrImagePull, true)]
#[case::image_backoff(PrintableStatus::ImagePullBackOff, true)]
#[case::slow_provisioning(PrintableStatus::Provisioning, false)]
#[case::an_unbound_volume(PrintableStatus::WaitingForVolumeBinding, false)]
#[case::a_stopped_machine(PrintableStatus::Stopped, false)]
fn knows_the_states_that_autohealing_ends(#[case] status: PrintableStatus, #[case] failure: bool) {
    assert_eq!(status.is_start_failure(), failure);
}

#[rstest]
#[case::always(RunStrategy::Always, true)]
#[case::once(RunStrategy::Once, true)]
#[case::manual(RunStrategy::Manual, false)]
#[case::rerun_on_failure(RunStrategy::RerunOnFailure, false)]
#[case::halted(RunStrategy::Halted, false)]
fn knows_whether_kubevirt_restarts_a_machine(#[case] strategy: RunStrategy, #[case] restarts: bool) {
    assert_eq!(strategy.restarts(), restarts);
}

#[rstest]
#[case::succeeded(DataVolumePhase::Succeeded, true)]
#[case::first_consumer(DataVolumePhase::WaitForFirstConsumer, true)]
#[case::population(DataVolumePhase::PendingPopulation, true)]
#[case::importing(DataVolumePhase::ImportInProgress, false)]
#[case::failed(DataVolumePhase::Failed, false)]
fn knows_whether_a_machine_can_start(#[case] phase: DataVolumePhase, #[case] starts: bool) {
    assert_eq!(phase.allows_start(), starts);
}

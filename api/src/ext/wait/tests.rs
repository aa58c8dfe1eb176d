use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::conditions::pool::reason;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A pool of DVP with generation 3.
fn dvp(status: &Value) -> v1alpha2::VirtualMachinePool {
    read(json!({
        "metadata": {"name": "web", "generation": 3},
        "spec": {
            "replicas": 2,
            "scaleDownPolicy": "Explicit",
            "virtualDiskTemplates": [],
            "virtualMachineTemplate": {
                "spec": {"cpu": {"cores": 1}, "memory": {"size": "1Gi"}, "blockDeviceRefs": []},
            },
        },
        "status": status,
    }))
}

/// A pool of KubeVirt with generation 3.
fn kubevirt(status: &Value) -> kubevirt::VirtualMachinePool {
    read(json!({
        "metadata": {"name": "web", "generation": 3},
        "spec": {"selector": {}, "virtualMachineTemplate": {"spec": {"template": {"spec": {}}}}},
        "status": status,
    }))
}

/// A status with one condition.
fn status(observed: i64, type_: &str, status: &str, reason: &str) -> Value {
    json!({"observedGeneration": observed, "readyReplicas": 1, "conditions": [{
        "type": type_, "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]})
}

/// The result for the same status on both platforms.
fn on_both(
    status: &Value,
    of_dvp: impl Fn(Option<&v1alpha2::VirtualMachinePool>) -> bool,
    of_kubevirt: impl Fn(Option<&kubevirt::VirtualMachinePool>) -> bool,
) -> bool {
    let found = of_dvp(Some(&dvp(status)));
    assert_eq!(of_kubevirt(Some(&kubevirt(status))), found, "{status}");
    found
}

#[rstest]
#[case::ready(status(3, pool::READY, "True", reason::READY), true)]
#[case::of_the_former_spec(status(2, pool::READY, "True", reason::READY), false)]
#[case::scaling(status(3, pool::READY, "False", reason::SCALING), false)]
#[case::another_condition(status(3, pool::AVAILABLE, "True", reason::ALL_REPLICAS_READY), false)]
#[case::not_processed_yet(json!({}), false)]
fn a_pool_is_ready_if_its_current_spec_is(#[case] status: Value, #[case] ready: bool) {
    assert_eq!(on_both(&status, pool_is_ready(), pool_is_ready()), ready);
}

#[test]
fn a_pool_that_is_being_deleted_is_not_ready() {
    let mut pool = dvp(&status(3, pool::READY, "True", reason::READY));
    let is_ready = pool_is_ready::<v1alpha2::VirtualMachinePool>();
    assert!(is_ready(Some(&pool)));
    pool.metadata.deletion_timestamp = Some(read(json!("2026-01-01T00:00:00Z")));
    assert!(!is_ready(Some(&pool)));
}

#[rstest]
#[case::stalled(status(3, pool::STALLED, "True", reason::BLOCKED), true)]
#[case::of_the_former_spec(status(2, pool::STALLED, "True", reason::BLOCKED), false)]
#[case::not_stalled(status(3, pool::STALLED, "False", reason::SCALING), false)]
fn a_pool_is_stalled_if_its_current_spec_is(#[case] status: Value, #[case] stalled: bool) {
    assert_eq!(on_both(&status, pool_is_stalled(), pool_is_stalled()), stalled);
}

#[test]
fn a_condition_is_awaited_by_type_and_status() {
    let rollout = status(3, pool::SYNCED, "False", reason::ROLLOUT_IN_PROGRESS);
    let is = |status| pool_condition_is::<v1alpha2::VirtualMachinePool>(pool::SYNCED, status);
    assert!(is("False")(Some(&dvp(&rollout))));
    assert!(!is("True")(Some(&dvp(&rollout))));
}

#[rstest]
#[case::fewer(0, true)]
#[case::as_many(1, true)]
#[case::more(2, false)]
fn ready_machines_count_before_the_controller_has_seen_a_change(
    #[case] machines: usize,
    #[case] enough: bool,
) {
    let old = status(2, pool::READY, "True", reason::READY);
    let found = on_both(&old, pool_has_ready_machines(machines), pool_has_ready_machines(machines));
    assert_eq!(found, enough);
}

#[test]
fn an_absent_pool_is_in_no_state() {
    type Pool = v1alpha2::VirtualMachinePool;
    assert!(!pool_is_ready::<Pool>()(None));
    assert!(!pool_is_stalled::<Pool>()(None));
    assert!(!pool_has_ready_machines::<Pool>(0)(None));
}

#[test]
fn the_counters_and_the_phase_are_those_of_the_status() {
    let mut written = status(3, pool::READY, "False", reason::SCALING);
    written["replicas"] = json!(3);
    written["updatedReplicas"] = json!(2);
    let (dvp, kubevirt) = (dvp(&written), kubevirt(&written));
    assert_eq!((dvp.current_machines(), dvp.ready_machines(), dvp.updated_machines()), (3, 1, 2));
    assert_eq!(
        (kubevirt.current_machines(), kubevirt.ready_machines(), kubevirt.updated_machines()),
        (3, 1, 2)
    );
    assert_eq!((dvp.desired_machines(), kubevirt.desired_machines()), (2, 1));
    assert_eq!((dvp.pool_phase(), kubevirt.pool_phase()), (Some("Scaling"), Some("Scaling")));
}

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fields::CauseReason;
use crate::testing::{typed_instancetype_spec, typed_preference_spec};

/// The fields of the causes for a machine with this spec.
fn fields(spec: Value, preferences: Value) -> Vec<String> {
    let template = InstanceTemplate::new(json!({ "spec": spec })).unwrap();
    let causes = unmet_requirements(
        &template,
        &template,
        None,
        &typed_preference_spec(preferences),
        MachineLocation::VirtualMachine,
    )
    .unwrap();
    assert!(causes.iter().all(|cause| cause.reason == CauseReason::FieldValueNotFound));
    let relative = |cause: StatusCause| cause.field.strip_prefix("spec.template.spec.").unwrap().to_owned();
    causes.into_iter().map(relative).collect()
}

fn requiring_cpus(topology: &str, across: Value, guest: u32) -> Value {
    json!({
        "cpu": {"preferredCPUTopology": topology, "spreadOptions": {"across": across}},
        "requirements": {"cpu": {"guest": guest}},
    })
}

#[rstest]
#[case::sockets("sockets", Value::Null, 2, &["sockets"])]
#[case::cores("cores", Value::Null, 3, &["cores"])]
#[case::threads("threads", Value::Null, 4, &["threads"])]
#[case::an_old_name("preferThreads", Value::Null, 4, &["threads"])]
#[case::spread("spread", Value::Null, 6, &["sockets", "cores"])]
#[case::spread_over_threads("spread", json!("CoresThreads"), 12, &["cores", "threads"])]
#[case::spread_over_all("spread", json!("SocketsCoresThreads"), 24, &["sockets", "cores", "threads"])]
#[case::any("any", Value::Null, 24, &["sockets", "cores", "threads"])]
fn vcpus_count_in_the_preferred_dimension(
    #[case] topology: &str,
    #[case] across: Value,
    #[case] provided: u32,
    #[case] dimensions: &[&str],
) {
    let spec = json!({"domain": {"cpu": {"sockets": 2, "cores": 3, "threads": 4}}});
    assert!(fields(spec.clone(), requiring_cpus(topology, across.clone(), provided)).is_empty());
    let expected: Vec<_> = dimensions.iter().map(|dimension| format!("domain.cpu.{dimension}")).collect();
    assert_eq!(fields(spec, requiring_cpus(topology, across, provided + 1)), expected);
}

#[rstest]
#[case::one_by_default(json!({}), 1)]
#[case::as_a_request(json!({"domain": {"resources": {"requests": {"cpu": "3500m"}}}}), 4)]
fn a_machine_without_cpu_settings_has_the_vcpus_that_it_starts_with(
    #[case] spec: Value,
    #[case] provided: u32,
) {
    assert!(fields(spec.clone(), requiring_cpus("sockets", Value::Null, provided)).is_empty());
    assert_eq!(fields(spec, requiring_cpus("sockets", Value::Null, provided + 1)), ["domain.cpu"]);
}

#[test]
fn an_unset_dimension_is_one() {
    let spec = json!({"domain": {"cpu": {"cores": 4}}});
    assert!(fields(spec.clone(), requiring_cpus("any", Value::Null, 4)).is_empty());
    assert_eq!(fields(spec, requiring_cpus("sockets", Value::Null, 2)), ["domain.cpu.sockets"]);
}

#[rstest]
#[case::equal(json!({"memory": {"guest": "2048Mi"}}), true)]
#[case::more(json!({"memory": {"guest": "3G"}}), true)]
#[case::less(json!({"memory": {"guest": "2G"}}), false)]
#[case::absent(json!({}), false)]
#[case::as_a_request(json!({"resources": {"requests": {"memory": "2Gi"}}}), true)]
fn memory_is_compared_as_quantities(#[case] domain: Value, #[case] met: bool) {
    let expected: &[&str] = if met { &[] } else { &["domain.memory"] };
    assert_eq!(
        fields(json!({ "domain": domain }), json!({"requirements": {"memory": {"guest": "2Gi"}}})),
        expected
    );
}

#[rstest]
#[case::equal(json!("arm64"), true)]
#[case::another(json!("amd64"), false)]
#[case::absent(Value::Null, true)]
#[case::empty(json!(""), true)]
fn the_architecture_must_be_equal_if_the_machine_has_one(#[case] architecture: Value, #[case] met: bool) {
    let expected: &[&str] = if met { &[] } else { &["architecture"] };
    let preferences = json!({"requirements": {"architecture": "arm64"}});
    assert_eq!(fields(json!({ "architecture": architecture }), preferences), expected);
}

/// What an instance type is required to have.
#[rstest]
#[case::enough(json!({"cpu": {"guest": 2}, "memory": {"guest": "2048Mi"}}), 0)]
#[case::too_few_vcpus(json!({"cpu": {"guest": 3}}), 1)]
#[case::too_little_memory(json!({"memory": {"guest": "3Gi"}}), 1)]
#[case::both(json!({"cpu": {"guest": 3}, "memory": {"guest": "3Gi"}}), 2)]
fn an_instance_type_is_what_counts(#[case] requirements: Value, #[case] count: usize) {
    let (instancetype, preference) =
        (typed_instancetype_spec(json!({})), typed_preference_spec(json!({ "requirements": requirements })));
    // The topology does not matter with an instance type: its vCPUs do.
    let template =
        InstanceTemplate::new(json!({"spec": {"domain": {"cpu": {"sockets": 1, "cores": 2}}}})).unwrap();
    let causes =
        unmet_requirements(&template, &template, Some(&instancetype), &preference, MachineLocation::Pool)
            .unwrap();
    assert_eq!(causes.len(), count, "{causes:?}");
    assert!(causes.iter().all(|cause| cause.field == "spec.virtualMachineTemplate.spec.instancetype"));
}

#[test]
fn memory_of_the_machine_counts_before_that_of_its_instance_type() {
    let (instancetype, preference) = (
        typed_instancetype_spec(json!({})),
        typed_preference_spec(json!({"requirements": {"memory": {"guest": "2Gi"}}})),
    );
    let causes = |guest: &str| {
        let template =
            InstanceTemplate::new(json!({"spec": {"domain": {"memory": {"guest": guest}}}})).unwrap();
        unmet_requirements(
            &template,
            &template,
            Some(&instancetype),
            &preference,
            MachineLocation::VirtualMachine,
        )
        .unwrap()
        .len()
    };
    assert_eq!((causes("1Gi"), causes("2Gi")), (1, 0));
}

#[test]
fn without_requirements_everything_is_met() {
    assert!(fields(json!({}), json!({"cpu": {"preferredCPUTopology": "cores"}})).is_empty());
}

#[test]
fn an_invalid_topology_is_an_error() {
    let template = InstanceTemplate::new(json!({"spec": {"domain": {"cpu": {"sockets": 1}}}})).unwrap();
    let preference = typed_preference_spec(requiring_cpus("sideways", Value::Null, 1));
    assert!(matches!(
        unmet_requirements(&template, &template, None, &preference, MachineLocation::VirtualMachine),
        Err(ApplyError::Topology(_))
    ));
}

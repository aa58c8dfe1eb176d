use rstest::rstest;

use super::*;

/// A machine of class `small` whose fraction of 25% the platform filled in when the controller created it.
fn live() -> Value {
    json!({
        "metadata": { "managedFields": [
            {
                "manager": "vmpool-controller",
                "operation": "Update",
                "fieldsV1": {
                    "f:metadata": { "f:ownerReferences": { ".": {} } },
                    "f:spec": {
                        "f:virtualMachineClassName": {},
                        "f:cpu": { "f:cores": {}, "f:coreFraction": {} },
                    },
                },
            },
            { "manager": "platform", "subresource": "status", "fieldsV1": { "f:status": { "f:phase": {} } } },
        ] },
        "spec": { "virtualMachineClassName": "small", "cpu": { "cores": 1, "coreFraction": "25%" } },
    })
}

/// The machine after an edit of its fraction by a user.
fn edited() -> Value {
    let mut live = live();
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:cpu"] = json!({ "f:cores": {} });
    let edit = json!({
        "manager": "kubectl-edit",
        "fieldsV1": { "f:spec": { "f:cpu": { "f:coreFraction": {} } } },
    });
    live["metadata"]["managedFields"].as_array_mut().unwrap().push(edit);
    live
}

fn without_managers() -> Value {
    let mut live = live();
    live["metadata"].as_object_mut().unwrap().remove("managedFields");
    live
}

fn without_a_fraction() -> Value {
    let mut live = live();
    live["spec"]["cpu"].as_object_mut().unwrap().remove("coreFraction");
    live
}

#[rstest]
#[case::the_class_changes(
    live(),
    json!({ "virtualMachineClassName": "large" }),
    json!({ "virtualMachineClassName": "large", "cpu": { "coreFraction": null } })
)]
#[case::the_number_of_cores_changes(
    live(),
    json!({ "cpu": { "cores": 4 } }),
    json!({ "cpu": { "cores": 4, "coreFraction": null } })
)]
#[case::neither_changes(live(), json!({ "memory": { "size": "2Gi" } }), json!({ "memory": { "size": "2Gi" } }))]
#[case::a_user_edited_it(
    edited(),
    json!({ "virtualMachineClassName": "large" }),
    json!({ "virtualMachineClassName": "large" })
)]
#[case::the_machine_has_none(
    without_a_fraction(),
    json!({ "virtualMachineClassName": "large" }),
    json!({ "virtualMachineClassName": "large" })
)]
#[case::the_server_records_no_managers(
    without_managers(),
    json!({ "virtualMachineClassName": "large" }),
    json!({ "virtualMachineClassName": "large", "cpu": { "coreFraction": null } })
)]
fn a_fraction_that_the_platform_filled_in_is_reset(
    #[case] live: Value,
    #[case] mut patch: Value,
    #[case] expected: Value,
) {
    let to = json!({ "virtualMachineClassName": "large", "cpu": { "cores": 1 } });
    reset_filled_fields(&live, &to, &mut patch);
    assert_eq!(patch, expected);
}

#[test]
fn a_fraction_of_the_template_is_not_reset() {
    let to = json!({ "virtualMachineClassName": "large", "cpu": { "cores": 1, "coreFraction": "25%" } });
    let mut patch = json!({ "virtualMachineClassName": "large" });
    reset_filled_fields(&live(), &to, &mut patch);
    assert_eq!(patch, json!({ "virtualMachineClassName": "large" }));
}

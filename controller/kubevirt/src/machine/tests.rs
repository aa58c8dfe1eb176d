use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::super::fixtures;
use super::super::keys::parse_machine_ordinal as ordinal_of;
use super::*;

const NONE: NameGenerationSettings = NameGenerationSettings::NONE;
/// All settings of KubeVirt.
const ALL: NameGenerationSettings = NameGenerationSettings { config_maps: true, secrets: true, ..NONE };
/// All settings that only vmpool has.
const OWN: NameGenerationSettings = NameGenerationSettings {
    sysprep: true,
    meta_data: true,
    resource_claims: true,
    machine_state: true,
    hostname: true,
    ..NONE
};

fn pool() -> ObjectId {
    ObjectId::new("herd", fixtures::POOL_UID)
}

#[test]
fn a_machine_equals_the_one_that_kubevirt_creates() {
    let content = &fixtures::recorded_pool_spec()["virtualMachineTemplate"];
    let machine = machine_object(
        "rec",
        &pool(),
        RevisionTemplate { content, names: ALL, pins: &Value::Null },
        0,
        "herd-1",
    );
    assert_eq!(machine, fixtures::created_machine());
}

#[rstest]
#[case::no_domain(json!({}), json!({ "domain": { "devices": {} } }))]
#[case::null(json!({ "domain": null }), json!({ "domain": { "devices": {} } }))]
#[case::no_devices(json!({ "domain": { "cpu": {} } }), json!({ "domain": { "cpu": {}, "devices": {} } }))]
#[case::both(json!({ "domain": { "devices": { "rng": {} } } }), json!({ "domain": { "devices": { "rng": {} } } }))]
#[case::another_type(json!({ "domain": "none" }), json!({ "domain": "none" }))]
fn a_machine_has_the_domain_that_its_template_omits(#[case] instance: Value, #[case] expected: Value) {
    let content = json!({ "spec": { "template": { "spec": instance } } });
    let spec =
        numbered_machine_spec(RevisionTemplate { content: &content, names: NONE, pins: &Value::Null }, 0);
    assert_eq!(spec["template"]["spec"], expected);
}

/// Template with these volumes, and with DataVolume template `root`.
fn with_volumes(volumes: &Value) -> Value {
    json!({ "spec": {
        "dataVolumeTemplates": [{ "metadata": { "name": "root" } }],
        "template": { "spec": { "volumes": volumes } },
    } })
}

#[rstest]
#[case::the_data_volume_of_a_template(NONE, json!({"dataVolume": {"name": "root"}}), json!({"dataVolume": {"name": "root-7"}}))]
#[case::a_shared_data_volume(ALL, json!({"dataVolume": {"name": "library"}}), json!({"dataVolume": {"name": "library"}}))]
#[case::the_claim_of_a_template(
    NONE, json!({"persistentVolumeClaim": {"claimName": "root"}}), json!({"persistentVolumeClaim": {"claimName": "root-7"}}))]
#[case::a_shared_claim(
    ALL, json!({"persistentVolumeClaim": {"claimName": "library"}}), json!({"persistentVolumeClaim": {"claimName": "library"}}))]
#[case::an_ephemeral_claim(
    ALL,
    json!({"ephemeral": {"persistentVolumeClaim": {"claimName": "root"}}}),
    json!({"ephemeral": {"persistentVolumeClaim": {"claimName": "root"}}}))]
#[case::a_config_map(ALL, json!({"configMap": {"name": "conf"}}), json!({"configMap": {"name": "conf-7"}}))]
#[case::a_config_map_without_the_setting(NONE, json!({"configMap": {"name": "conf"}}), json!({"configMap": {"name": "conf"}}))]
#[case::a_secret(ALL, json!({"secret": {"secretName": "cred"}}), json!({"secret": {"secretName": "cred-7"}}))]
#[case::a_secret_without_the_setting(NONE, json!({"secret": {"secretName": "cred"}}), json!({"secret": {"secretName": "cred"}}))]
#[case::secrets_of_cloud_init_no_cloud(
    ALL,
    json!({"cloudInitNoCloud": {"secretRef": {"name": "seed"}, "networkDataSecretRef": {"name": "net"}}}),
    json!({"cloudInitNoCloud": {"secretRef": {"name": "seed-7"}, "networkDataSecretRef": {"name": "net-7"}}}))]
#[case::secrets_of_cloud_init_config_drive(
    ALL,
    json!({"cloudInitConfigDrive": {"secretRef": {"name": "seed"}, "networkDataSecretRef": {"name": "net"}}}),
    json!({"cloudInitConfigDrive": {"secretRef": {"name": "seed-7"}, "networkDataSecretRef": {"name": "net-7"}}}))]
#[case::text_of_cloud_init(
    ALL, json!({"cloudInitNoCloud": {"userData": "root"}}), json!({"cloudInitNoCloud": {"userData": "root"}}))]
#[case::sysprep(
    ALL,
    json!({"sysprep": {"secret": {"name": "cred"}, "configMap": {"name": "conf"}}}),
    json!({"sysprep": {"secret": {"name": "cred"}, "configMap": {"name": "conf"}}}))]
#[case::sysprep_with_the_setting(
    OWN,
    json!({"sysprep": {"secret": {"name": "cred"}, "configMap": {"name": "conf"}}}),
    json!({"sysprep": {"secret": {"name": "cred-7"}, "configMap": {"name": "conf-7"}}}))]
#[case::metadata_of_cloud_init(
    ALL,
    json!({"cloudInitNoCloud": {"metaDataSecretRef": {"name": "meta"}}}),
    json!({"cloudInitNoCloud": {"metaDataSecretRef": {"name": "meta"}}}))]
#[case::metadata_of_cloud_init_with_the_setting(
    OWN,
    json!({"cloudInitConfigDrive": {"metaDataSecretRef": {"name": "meta"}, "secretRef": {"name": "seed"}}}),
    json!({"cloudInitConfigDrive": {"metaDataSecretRef": {"name": "meta-7"}, "secretRef": {"name": "seed"}}}))]
#[case::a_service_account(
    ALL, json!({"serviceAccount": {"serviceAccountName": "sa"}}), json!({"serviceAccount": {"serviceAccountName": "sa"}}))]
#[case::values_of_other_types(
    ALL, json!({"configMap": [], "secret": {"secretName": 1}}), json!({"configMap": [], "secret": {"secretName": 1}}))]
#[case::an_empty_name(ALL, json!({"configMap": {"name": ""}}), json!({"configMap": {"name": ""}}))]
fn the_ordinal_is_appended_to(
    #[case] names: NameGenerationSettings,
    #[case] volume: Value,
    #[case] expected: Value,
) {
    let mut named = volume;
    named["name"] = "root".into();
    let mut result = expected;
    result["name"] = "root".into();
    let content = with_volumes(&json!([named]));
    let spec = numbered_machine_spec(RevisionTemplate { content: &content, names, pins: &Value::Null }, 7);
    assert_eq!(spec["template"]["spec"]["volumes"], json!([result]));
    assert_eq!(spec["dataVolumeTemplates"], json!([{ "metadata": { "name": "root-7" } }]));
}

#[rstest]
#[case::without_the_setting(ALL, "gpu")]
#[case::with_the_setting(OWN, "gpu-7")]
fn the_ordinal_is_appended_to_resource_claims(#[case] names: NameGenerationSettings, #[case] expected: &str) {
    let claims = |name: &str| {
        json!([
            { "name": "a", "resourceClaimName": name },
            { "name": "b", "resourceClaimTemplateName": "shared" },
            { "name": "c", "resourceClaimName": 1 },
        ])
    };
    let content = json!({ "spec": { "template": { "spec": { "resourceClaims": claims("gpu") } } } });
    let spec = numbered_machine_spec(RevisionTemplate { content: &content, names, pins: &Value::Null }, 7);
    assert_eq!(spec["template"]["spec"]["resourceClaims"], claims(expected));
}

#[rstest]
#[case::a_claim_that_exists(
    json!({ "persistentVolumeClaim": { "name": "state" } }),
    json!({ "persistentVolumeClaim": { "name": "state-7" } })
)]
#[case::a_claim_that_kubevirt_creates(
    json!({ "template": { "metadata": { "name": "state" }, "spec": { "storageClassName": "fast" } } }),
    json!({ "template": { "metadata": { "name": "state-7" }, "spec": { "storageClassName": "fast" } } })
)]
#[case::a_generated_name(
    json!({ "template": { "metadata": { "generateName": "state-" } } }),
    json!({ "template": { "metadata": { "generateName": "state-" } } })
)]
#[case::a_claim_with_the_default_name(json!({ "template": {} }), json!({ "template": {} }))]
#[case::another_type(json!({ "template": "state" }), json!({ "template": "state" }))]
#[case::an_empty_name(
    json!({ "persistentVolumeClaim": { "name": "" } }),
    json!({ "persistentVolumeClaim": { "name": "" } })
)]
fn the_ordinal_is_appended_to_the_claim_for_the_state(#[case] state: Value, #[case] expected: Value) {
    let content = json!({ "spec": { "template": { "spec": { "vmState": state } } } });
    let result = |names| {
        let template = RevisionTemplate { content: &content, names, pins: &Value::Null };
        numbered_machine_spec(template, 7)["template"]["spec"]["vmState"].clone()
    };
    assert_eq!(result(OWN), expected);
    assert_eq!(result(ALL), state);
}

#[test]
fn other_references_of_the_template_stay_unchanged() {
    let content = json!({ "spec": { "template": { "spec": {
        "accessCredentials": [{ "sshPublicKey": { "source": { "secret": { "secretName": "keys" } } } }],
        "hostname": "root",
        "domain": { "devices": { "interfaces": [{ "name": "default", "macAddress": "02:00:00:00:00:01" }] } },
    } } } });
    assert_eq!(
        numbered_machine_spec(RevisionTemplate { content: &content, names: ALL, pins: &Value::Null }, 7),
        content["spec"]
    );
}

#[rstest]
#[case::by_the_setting(OWN, "herd", json!("herd-3"))]
#[case::without_the_setting(ALL, "herd", json!("fixed"))]
#[case::a_name_that_no_host_can_have(OWN, "herd.v2", json!("fixed"))]
fn the_host_name_is_that_of_the_machine(
    #[case] names: NameGenerationSettings,
    #[case] pool: &str,
    #[case] expected: Value,
) {
    let content = json!({ "spec": { "template": { "spec": { "hostname": "fixed" } } } });
    let template = RevisionTemplate { content: &content, names, pins: &Value::Null };
    let machine = machine_object("rec", &ObjectId::new(pool, "u"), template, 3, "herd-1");
    assert_eq!(machine["spec"]["template"]["spec"]["hostname"], expected);
}

#[test]
fn only_labels_and_annotations_of_the_template_metadata_are_copied() {
    let content = json!({
        "metadata": {
            "name": "x", "namespace": "y", "finalizers": ["z"], "ownerReferences": [{}],
            "labels": { "app": "herd", "kubevirt.io/vm-pool-revision-name": "forged", "none": null },
            "annotations": { "note": "n" },
        },
        "spec": { "template": { "metadata": null } },
    });
    let machine = machine_object(
        "rec",
        &pool(),
        RevisionTemplate { content: &content, names: NONE, pins: &Value::Null },
        3,
        "herd-9",
    );
    assert_eq!(
        machine["metadata"],
        json!({
            "name": "herd-3",
            "namespace": "rec",
            "labels": { "app": "herd", "kubevirt.io/vm-pool-revision-name": "herd-9" },
            "annotations": { "note": "n" },
            "finalizers": ["pool.kubevirt.io/finalizer"],
            "ownerReferences": [fixtures::recorded_owner_reference()],
        })
    );
    let labels = &machine["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels, &json!({ "kubevirt.io/vm-pool-revision-name": "herd-9" }));
}

#[rstest]
#[case::null(json!(null))]
#[case::a_text(json!("x"))]
#[case::a_spec_of_another_type(json!({"spec": []}))]
#[case::a_template_of_another_type(json!({"spec": {"template": 1, "dataVolumeTemplates": {}}}))]
#[case::volumes_of_another_type(json!({"spec": {"template": {"metadata": [], "spec": {"volumes": {"a": 1}}}}}))]
#[case::items_of_another_type(
    json!({"spec": {"template": {"metadata": {"labels": []}, "spec": {"volumes": [1, null]}}, "dataVolumeTemplates": [1]}}))]
fn a_template_of_any_type_gives_an_object(#[case] content: Value) {
    let machine = machine_object(
        "rec",
        &pool(),
        RevisionTemplate { content: &content, names: ALL, pins: &Value::Null },
        0,
        "herd-1",
    );
    assert_eq!(machine["metadata"]["name"], "herd-0");
}

/// Paths and values of everything in a JSON tree that is not an object or a list.
fn leaves(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| leaves(&format!("{path}/{key}"), value, found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(place, value)| leaves(&format!("{path}/{place}"), value, found));
        }
        leaf => found.push((path.to_owned(), leaf.clone())),
    }
}

fn volume() -> impl Strategy<Value = Value> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    (0..7, name).prop_map(|(kind, name)| match kind {
        0 => json!({ "name": name, "dataVolume": { "name": name, "hotpluggable": true } }),
        1 => json!({ "name": name, "persistentVolumeClaim": { "claimName": name, "readOnly": true } }),
        2 => json!({ "name": name, "configMap": { "name": name, "optional": true } }),
        3 => json!({ "name": name, "secret": { "secretName": name, "volumeLabel": name } }),
        4 => json!({ "name": name, "cloudInitNoCloud": { "secretRef": { "name": name }, "userData": name } }),
        5 => json!({ "name": name, "sysprep": { "secret": { "name": name } } }),
        _ => json!({ "name": name, "containerDisk": { "image": name } }),
    })
}

proptest! {
    #[test]
    fn rewriting_touches_only_the_listed_fields(
        templates in prop::collection::btree_set("[ab]", 0..3),
        volumes in prop::collection::vec(volume(), 0..5),
        config_maps: bool,
        secrets: bool,
        ordinal in 0..100_u64,
    ) {
        let templates: Vec<Value> = templates
            .iter()
            .map(|name| json!({ "metadata": { "name": name }, "spec": { "source": { "pvc": { "name": name } } } }))
            .collect();
        let content = json!({ "spec": {
            "dataVolumeTemplates": templates,
            "template": { "spec": { "volumes": volumes, "hostname": "a" } },
        } });
        let spec = numbered_machine_spec(RevisionTemplate { content: &content, names: NameGenerationSettings { config_maps, secrets, ..NONE }, pins: &Value::Null }, ordinal);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        leaves("", &content["spec"], &mut before);
        leaves("", &spec, &mut after);
        prop_assert_eq!(before.len(), after.len());
        let listed = ["dataVolume/name", "claimName", "configMap/name", "secretName", "secretRef/name", "metadata/name"];
        for ((path, old), (new_path, new)) in before.iter().zip(&after) {
            prop_assert_eq!(path, new_path);
            if old != new {
                prop_assert!(listed.iter().any(|end| path.ends_with(end)), "{}", path);
                prop_assert_eq!(new, &json!(format!("{}-{ordinal}", old.as_str().unwrap())));
            }
        }
    }

    #[test]
    fn the_ordinal_of_a_name_reads_back(pool in "[a-z][a-z0-9-]{0,8}[a-z0-9]", ordinal: u64) {
        prop_assert_eq!(ordinal_of(&ordinal_name(&pool, ordinal)), Some(ordinal));
    }
}

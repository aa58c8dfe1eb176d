//! What is allowed with a warning.

use rstest::rstest;

use super::*;

#[rstest]
#[case::labels_of_the_machine_only(
    machine("/template/metadata/labels", json!({ "other": "a" })),
    Rule::InnerLabels, "find no pods"
)]
#[case::online(
    with(pool(), "/spec/scaleInStrategy", json!({ "proactive": { "statePreservation": "Online" } })),
    Rule::OnlinePreservation, "not the memory"
)]
#[case::an_instance_type_and_memory(
    machine("/instancetype", json!({ "name": "u2.medium" })),
    Rule::TypeConflict, "sets it too"
)]
#[case::more_sockets_than_the_maximum(
    machine("/template/spec/domain/cpu", json!({ "sockets": 4, "maxSockets": 2 })),
    Rule::LiveUpdateLimit, "exceed maxSockets"
)]
#[case::more_memory_than_the_maximum(
    machine("/template/spec/domain/memory", json!({ "guest": "4Gi", "maxGuest": "2Gi" })),
    Rule::LiveUpdateLimit, "exceeds maxGuest"
)]
#[case::a_host_name(machine("/template/spec/hostname", json!("desk-0")), Rule::SharedIdentity, "the same identity")]
#[case::a_pasted_machine(
    machine(
        "/template/spec/domain/devices/interfaces",
        json!([{ "name": "default", "masquerade": {} }, { "name": "lan", "macAddress": "02:00:00:aa:bb:01" }])
    ),
    Rule::SharedIdentity, "interfaces[1].macAddress: gives all machines"
)]
#[case::firmware(
    machine("/template/spec/domain/firmware", json!({ "uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223", "serial": "s" })),
    Rule::SharedIdentity, "so does domain.firmware.serial"
)]
#[case::a_misspelled_field(
    machine("/template/spec/domain/memmory", json!({ "guest": "2Gi" })),
    Rule::UnknownTemplateField, "template.spec.domain.memmory: KubeVirt 1.9 has no such field"
)]
#[case::a_misspelled_field_of_the_machine(
    machine("/runstrategy", json!("Always")),
    Rule::UnknownTemplateField, "spec.virtualMachineTemplate.spec.runstrategy: "
)]
#[case::memory_without_a_unit(
    machine("/template/spec/domain/memory/guest", json!("512")),
    Rule::MemoryUnit, "512 bytes are less than 1Mi"
)]
#[case::a_number_as_memory(
    machine("/template/spec/domain/resources", json!({ "requests": { "memory": 2048 } })),
    Rule::MemoryUnit, "resources.requests.memory: 2048 bytes"
)]
#[case::a_receiver(machine("/runStrategy", json!("WaitAsReceiver")), Rule::WaitAsReceiver, "feature gate")]
#[case::a_field_of_a_newer_kubevirt(with(pool(), "/spec/warmSpares", json!(2)), Rule::UnknownField, "no effect")]
fn a_create_gets_a_warning(#[case] new: Value, #[case] rule: Rule, #[case] text: &str) {
    let verdict = create(&new);
    assert_eq!((&verdict.outcome, warned(&verdict)), (&AdmissionDecision::Allowed, vec![rule]));
    let warning = verdict.warnings[0].to_string();
    assert!(warning.contains(text) && warning.len() <= 256, "{warning}");
    assert!(warning.ends_with(&format!("(rule {rule})")), "{warning}");
}

#[test]
fn a_host_name_that_each_machine_replaces_is_no_shared_identity() {
    let named = machine("/template/spec/hostname", json!("desk"));
    assert_eq!(warned(&create(&named)), [Rule::SharedIdentity]);
    let field = with(named.clone(), "/spec/nameGeneration", json!({ "setHostnameToVMName": true }));
    assert_eq!(warned(&create(&field)), []);
    let annotation = json!({ "vmpool.dev/name-generation": "setHostnameToVMName" });
    assert_eq!(warned(&create(&with(named, "/metadata/annotations", annotation))), []);
}

#[test]
fn an_emptied_pool_gets_a_warning() {
    let verdict = update(&pool(), &with(pool(), "/spec/replicas", json!(0)));
    assert_eq!((&verdict.outcome, warned(&verdict)), (&AdmissionDecision::Allowed, vec![Rule::EmptiedPool]));
    let text = verdict.warnings[0].to_string();
    assert!(text.contains("goes from 4 to 0") && !text.contains("leaves replicas out"), "{text}");
    // A missing count means one machine.
    let verdict =
        update(&with(pool(), "/spec/replicas", Value::Null), &with(pool(), "/spec/replicas", json!(0)));
    assert!(verdict.warnings[0].to_string().contains("goes from 1 to 0"), "{verdict:?}");
}

#[rstest]
#[case::by_default(Value::Null, true)]
#[case::proactive(json!({ "proactive": {} }), true)]
#[case::opportunistic(json!({ "opportunistic": {} }), false)]
#[case::unmanaged(json!({ "unmanaged": {} }), false)]
fn changed_data_volume_templates_mean_data_loss(#[case] strategy: Value, #[case] expected: bool) {
    let old = with(pool(), "/spec/updateStrategy", strategy);
    let larger = "/dataVolumeTemplates/0/spec/storage/resources/requests/storage";
    let new = with(old.clone(), &format!("{MACHINE}{larger}"), json!("30Gi"));
    let expected: &[Rule] = if expected { &[Rule::DataVolumesReplaced] } else { &[] };
    assert_eq!(warned(&update(&old, &new)), expected);
    let other = with(old.clone(), &format!("{MACHINE}/template/spec/domain/memory/guest"), json!("3Gi"));
    assert_eq!(warned(&update(&old, &other)), []);
}

#[rstest]
#[case::renamed("Migration", "/dataVolumeTemplates/0/metadata/name", json!("scratch-b"), true)]
#[case::changed("Migration", "/dataVolumeTemplates/0/spec/storage/resources/requests/storage", json!("30Gi"), false)]
#[case::replaced("Replacement", "/dataVolumeTemplates/0/metadata/name", json!("scratch-b"), false)]
fn renamed_data_volume_templates_are_not_migrated(
    #[case] strategy: &str,
    #[case] place: &str,
    #[case] value: Value,
    #[case] expected: bool,
) {
    let old = machine("/updateVolumesStrategy", json!(strategy));
    let new = with(old.clone(), &format!("{MACHINE}{place}"), value.clone());
    let new = if place.ends_with("/name") {
        with(new, &format!("{MACHINE}/template/spec/volumes/0/dataVolume/name"), value)
    } else {
        new
    };
    let verdict = update(&old, &new);
    assert_eq!(warned(&verdict).contains(&Rule::StorageNotMigrated), expected);
    assert!(verdict.warnings.iter().all(|warning| warning.to_string().len() <= 256), "{verdict:?}");
}

#[test]
fn changed_data_volume_templates_mean_no_data_loss_if_the_storage_is_preserved() {
    for (preservation, text) in [("Offline", "preserves its DataVolumes"), ("Disabled", "their data")] {
        let strategy = json!({ "opportunistic": { "statePreservation": preservation } });
        let old = with(pool(), "/spec/scaleInStrategy", strategy);
        let larger = "/dataVolumeTemplates/0/spec/storage/resources/requests/storage";
        let new = with(old.clone(), &format!("{MACHINE}{larger}"), json!("30Gi"));
        let warning = update(&old, &new).warnings[0].to_string();
        assert!(warning.contains(text) && warning.len() <= 256, "{warning}");
    }
}

fn other(name: &str, volume: &str, farm: &str) -> Value {
    let pool = with(pool(), "/metadata", json!({ "name": name, "uid": name }));
    let pool = with(pool, &format!("{MACHINE}/dataVolumeTemplates/0/metadata/name"), json!(volume));
    let pool = with(pool, "/spec/selector/matchLabels/farm", json!(farm));
    with(pool, &format!("{MACHINE}/template/metadata/labels/farm"), json!(farm))
}

#[rstest]
#[case::with_the_same_volumes(other("cutting", "scratch", "cutting"), &[Rule::SharedDataVolumes], "\"cutting\"")]
#[case::with_the_same_labels(other("cutting", "cut", "render"), &[Rule::SharedMachines], "\"cutting\"")]
#[case::with_other_names(other("cutting", "cut", "cutting"), &[], "")]
#[case::that_is_the_same_pool(with(other("render", "scratch", "render"), "/metadata/uid", json!("u")), &[], "")]
fn another_pool_of_the_namespace(#[case] other: Value, #[case] expected: &[Rule], #[case] text: &str) {
    let pools = LookupOutcome::There(json!({ "items": [other] }));
    let verdict = among("alice", None, &pool(), Some(&pools));
    assert_eq!(warned(&verdict), expected);
    assert!(verdict.warnings.iter().all(|warning| warning.to_string().contains(text)), "{verdict:?}");
    // For a client that is not the API server, the webhook lists no pools, and warns about none.
    assert_eq!(warned(&among("alice", None, &pool(), None)), []);
}

#[test]
fn many_pools_with_the_same_volumes_cause_few_warnings() {
    let items: Vec<Value> = (0..50).map(|number| other(&format!("p{number}"), "scratch", "render")).collect();
    let verdict = among("alice", None, &pool(), Some(&LookupOutcome::There(json!({ "items": items }))));
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
    assert_eq!(verdict.warnings.len(), 6);
    assert!(verdict.warnings.iter().all(|warning| warning.to_string().len() <= 256));
}

#[test]
fn pools_that_cannot_be_read_do_not_reject_a_request() {
    let verdict = among("alice", None, &pool(), Some(&LookupOutcome::Failed("no response".to_owned())));
    assert_eq!(
        (&verdict.outcome, warned(&verdict)),
        (&AdmissionDecision::Allowed, vec![Rule::SharedDataVolumes])
    );
    assert!(verdict.warnings[0].to_string().contains("no response"), "{verdict:?}");
}

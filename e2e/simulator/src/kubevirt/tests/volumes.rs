//! DataVolumes: how machines get them, and how CDI fills them.

use super::{KubeVirtObjectKind, KubeVirtTestbed, machine_spec, ms, running};
use rstest::rstest;
use serde_json::{Value, json};
use std::time::Duration;

const ALLOW: &str = "cdi.kubevirt.io/allowClaimAdoption";

/// A DataVolume that no machine owns.
fn data_volume(stage: &mut KubeVirtTestbed, name: &str, source: &Value, storage: &Value) {
    let mut claim = json!({"resources": {"requests": {"storage": "2Gi"}}});
    super::server::merge(&mut claim, storage);
    stage.create(
        KubeVirtObjectKind::DataVolume,
        name,
        &json!({"spec": {"source": source, "storage": claim}}),
    );
}

fn controller(stage: &KubeVirtTestbed, kind: KubeVirtObjectKind, name: &str) -> String {
    let owners = stage.get(kind, name)["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let found = owners.iter().find(|owner| owner["controller"] == true);
    found.map_or_else(String::new, |owner| owner["uid"].as_str().unwrap().to_owned())
}

#[test]
fn a_machine_creates_the_data_volumes_of_its_templates() {
    let mut stage = KubeVirtTestbed::new();
    let mut spec = machine_spec("Halted", &["root"]);
    spec["dataVolumeTemplates"][0]["metadata"]["labels"] = json!({"tier": "fast"});
    stage.create(KubeVirtObjectKind::Machine, "a", &json!({ "spec": spec }));
    stage.settle();
    let (machine, volume) =
        (stage.get(KubeVirtObjectKind::Machine, "a"), stage.get(KubeVirtObjectKind::DataVolume, "root"));
    let uid = &machine["metadata"]["uid"];
    assert_eq!(volume["metadata"]["labels"], json!({"tier": "fast", "kubevirt.io/created-by": uid}));
    assert_eq!(volume["metadata"]["annotations"][ALLOW], "true");
    assert_eq!(
        volume["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "a", "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
    assert_eq!(volume["spec"], machine["spec"]["dataVolumeTemplates"][0]["spec"]);
}

#[test]
fn a_machine_adopts_a_data_volume_without_controller() {
    let mut stage = KubeVirtTestbed::new();
    data_volume(&mut stage, "root", &json!({"blank": {}}), &json!({}));
    let other = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}]);
    stage.edit(KubeVirtObjectKind::DataVolume, "root", &json!({"metadata": {"ownerReferences": other}}));
    stage.settle();
    let uid = stage.uid(KubeVirtObjectKind::DataVolume, "root");
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.uid(KubeVirtObjectKind::DataVolume, "root"), uid);
    assert_eq!(
        controller(&stage, KubeVirtObjectKind::DataVolume, "root"),
        stage.uid(KubeVirtObjectKind::Machine, "a")
    );
    let owners = stage.get(KubeVirtObjectKind::DataVolume, "root")["metadata"]["ownerReferences"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(owners, 2, "other owners stay");
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_deleted_machine_adopts_and_creates_nothing() {
    let mut stage = running(&["root"]);
    let keep = json!({"metadata": {"finalizers": ["kubevirt.io/virtualMachineControllerFinalize", "pool"]}});
    stage.edit(KubeVirtObjectKind::Machine, "a", &keep);
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.edit(KubeVirtObjectKind::DataVolume, "root", &json!({"metadata": {"ownerReferences": null}}));
    stage.settle();
    assert_eq!(controller(&stage, KubeVirtObjectKind::DataVolume, "root"), "");
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"metadata": {"finalizers": null}}));
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_some(), "it survives its machine");
    assert!(stage.find(KubeVirtObjectKind::Claim, "root").is_some());
}

#[test]
fn a_preserved_data_volume_is_adopted_by_the_next_machine_with_its_claim() {
    let mut stage = running(&["root"]);
    let (volume, claim) =
        (stage.uid(KubeVirtObjectKind::DataVolume, "root"), stage.uid(KubeVirtObjectKind::Claim, "root"));
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.edit(KubeVirtObjectKind::DataVolume, "root", &json!({"metadata": {"ownerReferences": null}}));
    stage.settle();
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.uid(KubeVirtObjectKind::DataVolume, "root"), volume);
    assert_eq!(stage.uid(KubeVirtObjectKind::Claim, "root"), claim);
    assert_eq!(
        controller(&stage, KubeVirtObjectKind::DataVolume, "root"),
        stage.uid(KubeVirtObjectKind::Machine, "a")
    );
    assert!(stage.violations.is_empty());
}

#[test]
fn a_data_volume_of_a_different_machine_is_left_alone_and_the_machine_does_not_start() {
    let mut stage = running(&["root"]);
    let owner = controller(&stage, KubeVirtObjectKind::DataVolume, "root");
    stage.machine("b", "Always", &["root"]);
    stage.settle();
    assert_eq!(controller(&stage, KubeVirtObjectKind::DataVolume, "root"), owner);
    assert!(stage.find(KubeVirtObjectKind::Instance, "b").is_none());
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "b", "Failure"), "True/FailedCreate");
    let conditions = stage.get(KubeVirtObjectKind::Machine, "b")["status"]["conditions"].to_string();
    assert!(conditions.contains("DataVolume root is controlled by VirtualMachine a"), "{conditions}");
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.settle();
    assert_eq!(stage.printable("b"), "Running", "once the disk is gone it gets its own");
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "b", "Failure"), "absent");
}

#[test]
fn a_machine_waits_for_its_data_volumes() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &["root"]);
    stage.machine("b", "Halted", &["data"]);
    stage.knobs(&[("provisioning-delay", "5s")]);
    stage.run(Duration::from_secs(4));
    assert_eq!(stage.printable("a"), "Provisioning");
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.printable("b"), "Stopped");
}

#[rstest]
#[case::blank(json!({"blank": {}}), "Import", "ImportInProgress")]
#[case::of_a_registry(json!({"registry": {"url": "docker://alpine"}}), "Import", "ImportInProgress")]
#[case::of_a_claim(json!({"pvc": {"name": "gold", "namespace": "ns"}}), "Clone", "CloneInProgress")]
#[case::of_a_snapshot(json!({"snapshot": {"name": "gold"}}), "Clone", "CloneFromSnapshotSourceInProgress")]
fn a_copy_passes_its_phases(#[case] source: Value, #[case] word: &str, #[case] copying: &str) {
    let mut stage = KubeVirtTestbed::new();
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}});
    stage.create(KubeVirtObjectKind::Claim, "gold", &claim);
    stage.create(
        KubeVirtObjectKind::Snapshot,
        "gold",
        &json!({"spec": {"source": {"persistentVolumeClaimName": "gold"}}}),
    );
    data_volume(&mut stage, "root", &source, &json!({}));
    stage.settle();
    let scheduled = format!("{word}Scheduled");
    let phases = ["Pending", &scheduled, copying, "Succeeded"];
    assert_eq!(stage.values(KubeVirtObjectKind::DataVolume, "root", "/status/phase"), phases);
    assert_eq!(stage.condition(KubeVirtObjectKind::DataVolume, "root", "Bound"), "True/Bound");
    assert_eq!(stage.condition(KubeVirtObjectKind::DataVolume, "root", "Ready"), "True/Ready");
    assert_eq!(stage.condition(KubeVirtObjectKind::DataVolume, "root", "Running"), "False/Completed");
    let status = &stage.get(KubeVirtObjectKind::DataVolume, "root")["status"];
    assert_eq!((&status["progress"], &status["claimName"]), (&json!("100.0%"), &json!("root")));
}

#[test]
fn an_upload_waits_for_its_user() {
    let mut stage = KubeVirtTestbed::new();
    data_volume(&mut stage, "root", &json!({"upload": {}}), &json!({}));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "UploadReady");
    let uploaded = json!({"metadata": {"annotations": {"simulator.vmpool.dev/uploaded": "true"}}});
    stage.edit(KubeVirtObjectKind::DataVolume, "root", &uploaded);
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "Succeeded");
}

#[test]
fn a_data_volume_has_a_claim_of_its_name() {
    let mut stage = KubeVirtTestbed::new();
    let storage = json!({"accessModes": ["ReadWriteMany"], "storageClassName": "now", "volumeMode": "Block"});
    data_volume(&mut stage, "root", &json!({"blank": {}}), &storage);
    stage.settle();
    let claim = stage.get(KubeVirtObjectKind::Claim, "root");
    assert_eq!(
        claim["spec"],
        json!({
            "accessModes": ["ReadWriteMany"], "storageClassName": "now", "volumeMode": "Block",
            "resources": {"requests": {"storage": "2Gi"}},
        })
    );
    assert_eq!(
        controller(&stage, KubeVirtObjectKind::Claim, "root"),
        stage.uid(KubeVirtObjectKind::DataVolume, "root")
    );
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    stage.delete(KubeVirtObjectKind::DataVolume, "root");
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Claim, "root").is_none());
}

#[rstest]
#[case::by_default(json!({}), "WaitForFirstConsumer")]
#[case::with_a_populator(json!({"cdi.kubevirt.io/storage.usePopulator": "true"}), "PendingPopulation")]
fn a_class_that_waits_holds_the_copy_until_an_instance_needs_it(
    #[case] annotations: Value,
    #[case] phase: &str,
) {
    let mut stage = KubeVirtTestbed::new();
    let mut spec = machine_spec("Manual", &["root"]);
    spec["dataVolumeTemplates"][0]["spec"]["storage"]["storageClassName"] = json!("later");
    spec["dataVolumeTemplates"][0]["metadata"]["annotations"] = annotations;
    stage.create(KubeVirtObjectKind::Machine, "a", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), phase);
    assert_eq!(stage.get(KubeVirtObjectKind::Claim, "root")["status"]["phase"], Value::Null);
    assert_eq!(stage.printable("a"), "Stopped");
    stage.knobs(&[("provisioning-delay", "2s")]);
    stage.edit(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({"status": {"stateChangeRequests": [{"action": "Start"}]}}),
    );
    stage.run(ms(1500));
    assert_eq!(stage.phase(KubeVirtObjectKind::Instance, "a"), "Pending");
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    let shown = stage.values(KubeVirtObjectKind::Machine, "a", "/status/printableStatus");
    assert!(shown.contains(&"WaitingForVolumeBinding".to_owned()), "{shown:?}");
}

#[test]
fn a_copy_waits_for_its_storage_class() {
    let mut stage = KubeVirtTestbed::new();
    data_volume(&mut stage, "root", &json!({"blank": {}}), &json!({"storageClassName": "absent"}));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "Pending");
    let class = crate::objects::ClassView {
        binding: crate::objects::BindingMode::Immediate,
        expands: false,
        is_default: false,
    };
    stage
        .world
        .observe(crate::kubevirt::KubeVirtModelEvent::Class("absent".to_owned(), Some(class)), stage.now);
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "Succeeded");
}

#[rstest]
#[case::adopted_if_allowed(true, "Succeeded")]
#[case::not_adopted_otherwise(false, "Pending")]
fn a_claim_with_the_name_of_a_data_volume_is(#[case] allowed: bool, #[case] phase: &str) {
    let mut stage = KubeVirtTestbed::new();
    stage.create(KubeVirtObjectKind::Claim, "root", &json!({"spec": {"accessModes": ["ReadWriteOnce"]}}));
    let uid = stage.uid(KubeVirtObjectKind::Claim, "root");
    let annotations = if allowed { json!({ALLOW: "true"}) } else { json!({}) };
    let spec = json!({"source": {"blank": {}}, "storage": {}});
    stage.create(
        KubeVirtObjectKind::DataVolume,
        "root",
        &json!({"metadata": {"annotations": annotations}, "spec": spec}),
    );
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), phase);
    assert_eq!(stage.uid(KubeVirtObjectKind::Claim, "root"), uid);
    let owner = if allowed { stage.uid(KubeVirtObjectKind::DataVolume, "root") } else { String::new() };
    assert_eq!(controller(&stage, KubeVirtObjectKind::Claim, "root"), owner);
    assert!(
        !stage
            .values(KubeVirtObjectKind::DataVolume, "root", "/status/phase")
            .contains(&"ImportInProgress".to_owned())
    );
}

#[test]
fn a_collected_data_volume_leaves_its_claim_to_the_machine() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("collect-datavolumes", "true")]);
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_none());
    assert_eq!(
        controller(&stage, KubeVirtObjectKind::Claim, "root"),
        stage.uid(KubeVirtObjectKind::Machine, "a")
    );
    assert_eq!(stage.printable("a"), "Running");
    let claim = stage.uid(KubeVirtObjectKind::Claim, "root");
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    assert_eq!(stage.printable("a"), "Running", "the claim alone is enough");
    assert_eq!(stage.uid(KubeVirtObjectKind::Claim, "root"), claim);
    assert!(stage.violations.is_empty(), "{:?}", stage.violations);
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Claim, "root").is_none());
}

#[rstest]
#[case::without_the_annotation(json!({}), true)]
#[case::with_the_annotation(json!({ "cdi.kubevirt.io/storage.deleteAfterCompletion": "false" }), false)]
fn a_data_volume_without_an_owner_is_collected(#[case] annotations: Value, #[case] collected: bool) {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("collect-datavolumes", "true")]);
    let spec = json!({"source": {"blank": {}}, "storage": {}});
    stage.create(
        KubeVirtObjectKind::DataVolume,
        "root",
        &json!({"metadata": {"annotations": annotations}, "spec": spec}),
    );
    stage.settle();
    assert_eq!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_none(), collected);
    let owner = if collected { String::new() } else { stage.uid(KubeVirtObjectKind::DataVolume, "root") };
    assert_eq!(controller(&stage, KubeVirtObjectKind::Claim, "root"), owner);
}

#[test]
fn a_preserved_claim_of_a_collected_data_volume_is_used_again() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("collect-datavolumes", "true")]);
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    let claim = stage.uid(KubeVirtObjectKind::Claim, "root");
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.edit(KubeVirtObjectKind::Claim, "root", &json!({"metadata": {"ownerReferences": null}}));
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Machine, "a").is_none());
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.uid(KubeVirtObjectKind::Claim, "root"), claim);
    assert_eq!(
        controller(&stage, KubeVirtObjectKind::Claim, "root"),
        stage.uid(KubeVirtObjectKind::Machine, "a")
    );
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_data_volume_that_cannot_be_created_is_retried() {
    let mut stage = KubeVirtTestbed::new();
    stage.refuse.insert(KubeVirtObjectKind::DataVolume, "no quota".to_owned());
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.printable("a"), "Provisioning");
    stage.refuse.clear();
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

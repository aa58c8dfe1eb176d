//! DataVolumes: how machines get them, and how CDI fills them.

use super::{Kind, Stage, machine_spec, ms, running};
use rstest::rstest;
use serde_json::{Value, json};
use std::time::Duration;

const ALLOW: &str = "cdi.kubevirt.io/allowClaimAdoption";

/// A DataVolume that no machine owns.
fn data_volume(stage: &mut Stage, name: &str, source: &Value, storage: &Value) {
    let mut claim = json!({"resources": {"requests": {"storage": "2Gi"}}});
    super::server::merge(&mut claim, storage);
    stage.create(Kind::DataVolume, name, &json!({"spec": {"source": source, "storage": claim}}));
}

fn controller(stage: &Stage, kind: Kind, name: &str) -> String {
    let owners = stage.get(kind, name)["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let found = owners.iter().find(|owner| owner["controller"] == true);
    found.map_or_else(String::new, |owner| owner["uid"].as_str().unwrap().to_owned())
}

#[test]
fn a_machine_creates_the_data_volumes_of_its_templates() {
    let mut stage = Stage::new();
    let mut spec = machine_spec("Halted", &["root"]);
    spec["dataVolumeTemplates"][0]["metadata"]["labels"] = json!({"tier": "fast"});
    stage.create(Kind::Machine, "a", &json!({ "spec": spec }));
    stage.settle();
    let (machine, volume) = (stage.get(Kind::Machine, "a"), stage.get(Kind::DataVolume, "root"));
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
    let mut stage = Stage::new();
    data_volume(&mut stage, "root", &json!({"blank": {}}), &json!({}));
    let other = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}]);
    stage.edit(Kind::DataVolume, "root", &json!({"metadata": {"ownerReferences": other}}));
    stage.settle();
    let uid = stage.uid(Kind::DataVolume, "root");
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.uid(Kind::DataVolume, "root"), uid);
    assert_eq!(controller(&stage, Kind::DataVolume, "root"), stage.uid(Kind::Machine, "a"));
    let owners = stage.get(Kind::DataVolume, "root")["metadata"]["ownerReferences"].as_array().unwrap().len();
    assert_eq!(owners, 2, "other owners stay");
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_deleted_machine_adopts_and_creates_nothing() {
    let mut stage = running(&["root"]);
    let keep = json!({"metadata": {"finalizers": ["kubevirt.io/virtualMachineControllerFinalize", "pool"]}});
    stage.edit(Kind::Machine, "a", &keep);
    stage.delete(Kind::Machine, "a");
    stage.edit(Kind::DataVolume, "root", &json!({"metadata": {"ownerReferences": null}}));
    stage.settle();
    assert_eq!(controller(&stage, Kind::DataVolume, "root"), "");
    stage.edit(Kind::Machine, "a", &json!({"metadata": {"finalizers": null}}));
    stage.settle();
    assert!(stage.find(Kind::DataVolume, "root").is_some(), "it survives its machine");
    assert!(stage.find(Kind::Claim, "root").is_some());
}

#[test]
fn a_preserved_data_volume_is_adopted_by_the_next_machine_with_its_claim() {
    let mut stage = running(&["root"]);
    let (volume, claim) = (stage.uid(Kind::DataVolume, "root"), stage.uid(Kind::Claim, "root"));
    stage.delete(Kind::Machine, "a");
    stage.edit(Kind::DataVolume, "root", &json!({"metadata": {"ownerReferences": null}}));
    stage.settle();
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.uid(Kind::DataVolume, "root"), volume);
    assert_eq!(stage.uid(Kind::Claim, "root"), claim);
    assert_eq!(controller(&stage, Kind::DataVolume, "root"), stage.uid(Kind::Machine, "a"));
    assert!(stage.violations.is_empty());
}

#[test]
fn a_data_volume_of_a_different_machine_is_left_alone_and_the_machine_does_not_start() {
    let mut stage = running(&["root"]);
    let owner = controller(&stage, Kind::DataVolume, "root");
    stage.machine("b", "Always", &["root"]);
    stage.settle();
    assert_eq!(controller(&stage, Kind::DataVolume, "root"), owner);
    assert!(stage.find(Kind::Instance, "b").is_none());
    assert_eq!(stage.condition(Kind::Machine, "b", "Failure"), "True/FailedCreate");
    let conditions = stage.get(Kind::Machine, "b")["status"]["conditions"].to_string();
    assert!(conditions.contains("DataVolume root is controlled by VirtualMachine a"), "{conditions}");
    stage.delete(Kind::Machine, "a");
    stage.settle();
    assert_eq!(stage.printable("b"), "Running", "once the disk is gone it gets its own");
    assert_eq!(stage.condition(Kind::Machine, "b", "Failure"), "absent");
}

#[test]
fn a_machine_waits_for_its_data_volumes() {
    let mut stage = Stage::new();
    stage.machine("a", "Always", &["root"]);
    stage.machine("b", "Halted", &["data"]);
    stage.knobs(&[("provisioning-delay", "5s")]);
    stage.run(Duration::from_secs(4));
    assert_eq!(stage.printable("a"), "Provisioning");
    assert!(stage.find(Kind::Instance, "a").is_none());
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
    let mut stage = Stage::new();
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}});
    stage.create(Kind::Claim, "gold", &claim);
    stage.create(Kind::Snapshot, "gold", &json!({"spec": {"source": {"persistentVolumeClaimName": "gold"}}}));
    data_volume(&mut stage, "root", &source, &json!({}));
    stage.settle();
    let scheduled = format!("{word}Scheduled");
    let phases = ["Pending", &scheduled, copying, "Succeeded"];
    assert_eq!(stage.values(Kind::DataVolume, "root", "/status/phase"), phases);
    assert_eq!(stage.condition(Kind::DataVolume, "root", "Bound"), "True/Bound");
    assert_eq!(stage.condition(Kind::DataVolume, "root", "Ready"), "True/Ready");
    assert_eq!(stage.condition(Kind::DataVolume, "root", "Running"), "False/Completed");
    let status = &stage.get(Kind::DataVolume, "root")["status"];
    assert_eq!((&status["progress"], &status["claimName"]), (&json!("100.0%"), &json!("root")));
}

#[test]
fn an_upload_waits_for_its_user() {
    let mut stage = Stage::new();
    data_volume(&mut stage, "root", &json!({"upload": {}}), &json!({}));
    stage.settle();
    assert_eq!(stage.phase(Kind::DataVolume, "root"), "UploadReady");
}

#[test]
fn a_data_volume_has_a_claim_of_its_name() {
    let mut stage = Stage::new();
    let storage = json!({"accessModes": ["ReadWriteMany"], "storageClassName": "now", "volumeMode": "Block"});
    data_volume(&mut stage, "root", &json!({"blank": {}}), &storage);
    stage.settle();
    let claim = stage.get(Kind::Claim, "root");
    assert_eq!(
        claim["spec"],
        json!({
            "accessModes": ["ReadWriteMany"], "storageClassName": "now", "volumeMode": "Block",
            "resources": {"requests": {"storage": "2Gi"}},
        })
    );
    assert_eq!(controller(&stage, Kind::Claim, "root"), stage.uid(Kind::DataVolume, "root"));
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    stage.delete(Kind::DataVolume, "root");
    stage.settle();
    assert!(stage.find(Kind::Claim, "root").is_none());
}

#[rstest]
#[case::by_default(json!({}), "WaitForFirstConsumer")]
#[case::with_a_populator(json!({"cdi.kubevirt.io/storage.usePopulator": "true"}), "PendingPopulation")]
fn a_class_that_waits_holds_the_copy_until_an_instance_needs_it(
    #[case] annotations: Value,
    #[case] phase: &str,
) {
    let mut stage = Stage::new();
    let mut spec = machine_spec("Manual", &["root"]);
    spec["dataVolumeTemplates"][0]["spec"]["storage"]["storageClassName"] = json!("later");
    spec["dataVolumeTemplates"][0]["metadata"]["annotations"] = annotations;
    stage.create(Kind::Machine, "a", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(stage.phase(Kind::DataVolume, "root"), phase);
    assert_eq!(stage.get(Kind::Claim, "root")["status"]["phase"], Value::Null);
    assert_eq!(stage.printable("a"), "Stopped");
    stage.knobs(&[("provisioning-delay", "2s")]);
    stage.edit(Kind::Machine, "a", &json!({"status": {"stateChangeRequests": [{"action": "Start"}]}}));
    stage.run(ms(1500));
    assert_eq!(stage.phase(Kind::Instance, "a"), "Pending");
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    let shown = stage.values(Kind::Machine, "a", "/status/printableStatus");
    assert!(shown.contains(&"WaitingForVolumeBinding".to_owned()), "{shown:?}");
}

#[test]
fn a_copy_waits_for_its_storage_class() {
    let mut stage = Stage::new();
    data_volume(&mut stage, "root", &json!({"blank": {}}), &json!({"storageClassName": "absent"}));
    stage.settle();
    assert_eq!(stage.phase(Kind::DataVolume, "root"), "Pending");
    let class = crate::objects::ClassView {
        binding: crate::objects::BindingMode::Immediate,
        expands: false,
        is_default: false,
    };
    stage.world.observe(crate::kubevirt::Event::Class("absent".to_owned(), Some(class)), stage.now);
    stage.settle();
    assert_eq!(stage.phase(Kind::DataVolume, "root"), "Succeeded");
}

#[rstest]
#[case::adopted_if_allowed(true, "Succeeded")]
#[case::not_adopted_otherwise(false, "Pending")]
fn a_claim_with_the_name_of_a_data_volume_is(#[case] allowed: bool, #[case] phase: &str) {
    let mut stage = Stage::new();
    stage.create(Kind::Claim, "root", &json!({"spec": {"accessModes": ["ReadWriteOnce"]}}));
    let uid = stage.uid(Kind::Claim, "root");
    let annotations = if allowed { json!({ALLOW: "true"}) } else { json!({}) };
    let spec = json!({"source": {"blank": {}}, "storage": {}});
    stage.create(Kind::DataVolume, "root", &json!({"metadata": {"annotations": annotations}, "spec": spec}));
    stage.settle();
    assert_eq!(stage.phase(Kind::DataVolume, "root"), phase);
    assert_eq!(stage.uid(Kind::Claim, "root"), uid);
    let owner = if allowed { stage.uid(Kind::DataVolume, "root") } else { String::new() };
    assert_eq!(controller(&stage, Kind::Claim, "root"), owner);
    assert!(
        !stage.values(Kind::DataVolume, "root", "/status/phase").contains(&"ImportInProgress".to_owned())
    );
}

#[test]
fn a_collected_data_volume_leaves_its_claim_to_the_machine() {
    let mut stage = Stage::new();
    stage.knobs(&[("collect-datavolumes", "true")]);
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert!(stage.find(Kind::DataVolume, "root").is_none());
    assert_eq!(controller(&stage, Kind::Claim, "root"), stage.uid(Kind::Machine, "a"));
    assert_eq!(stage.printable("a"), "Running");
    let claim = stage.uid(Kind::Claim, "root");
    stage.delete(Kind::Instance, "a");
    stage.settle();
    assert_eq!(stage.printable("a"), "Running", "the claim alone is enough");
    assert_eq!(stage.uid(Kind::Claim, "root"), claim);
    assert!(stage.violations.is_empty(), "{:?}", stage.violations);
    stage.delete(Kind::Machine, "a");
    stage.settle();
    assert!(stage.find(Kind::Claim, "root").is_none());
}

#[rstest]
#[case::without_the_annotation(json!({}), true)]
#[case::with_the_annotation(json!({ "cdi.kubevirt.io/storage.deleteAfterCompletion": "false" }), false)]
fn a_data_volume_without_an_owner_is_collected(#[case] annotations: Value, #[case] collected: bool) {
    let mut stage = Stage::new();
    stage.knobs(&[("collect-datavolumes", "true")]);
    let spec = json!({"source": {"blank": {}}, "storage": {}});
    stage.create(Kind::DataVolume, "root", &json!({"metadata": {"annotations": annotations}, "spec": spec}));
    stage.settle();
    assert_eq!(stage.find(Kind::DataVolume, "root").is_none(), collected);
    let owner = if collected { String::new() } else { stage.uid(Kind::DataVolume, "root") };
    assert_eq!(controller(&stage, Kind::Claim, "root"), owner);
}

#[test]
fn a_preserved_claim_of_a_collected_data_volume_is_used_again() {
    let mut stage = Stage::new();
    stage.knobs(&[("collect-datavolumes", "true")]);
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    let claim = stage.uid(Kind::Claim, "root");
    stage.delete(Kind::Machine, "a");
    stage.edit(Kind::Claim, "root", &json!({"metadata": {"ownerReferences": null}}));
    stage.settle();
    assert!(stage.find(Kind::Machine, "a").is_none());
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.uid(Kind::Claim, "root"), claim);
    assert_eq!(controller(&stage, Kind::Claim, "root"), stage.uid(Kind::Machine, "a"));
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_data_volume_that_cannot_be_created_is_retried() {
    let mut stage = Stage::new();
    stage.refuse.insert(Kind::DataVolume, "no quota".to_owned());
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.printable("a"), "Provisioning");
    stage.refuse.clear();
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

//! What disk images need: imports that fail, clones through DataSources, snapshots.

use super::{KubeVirtObjectKind, KubeVirtTestbed, machine_spec, ms};
use rstest::rstest;
use serde_json::{Value, json};

const PREPOPULATED: &str = "cdi.kubevirt.io/storage.prePopulated";

/// An import with the name of an image.
fn import(stage: &mut KubeVirtTestbed, source: &Value) {
    let spec = json!({"source": source, "storage": {"resources": {"requests": {"storage": "2Gi"}}}});
    let metadata = json!({"labels": {"vmpool.dev/vmdiskimage-uid": "uid-1"}});
    stage.create(KubeVirtObjectKind::DataVolume, "debian", &json!({"metadata": metadata, "spec": spec}));
}

fn snapshot(stage: &mut KubeVirtTestbed) {
    let spec = json!({"source": {"persistentVolumeClaimName": "debian"}});
    stage.create(KubeVirtObjectKind::Snapshot, "debian", &json!({ "spec": spec }));
}

/// An imported image with its snapshot and DataSource.
fn image() -> KubeVirtTestbed {
    let mut stage = KubeVirtTestbed::new();
    import(&mut stage, &json!({"blank": {}}));
    stage.settle();
    snapshot(&mut stage);
    let source = json!({"snapshot": {"namespace": "ns", "name": "debian"}});
    stage.create(KubeVirtObjectKind::DataSource, "debian", &json!({"spec": {"source": source}}));
    stage.settle();
    stage
}

fn content(stage: &KubeVirtTestbed) -> String {
    let name = &stage.get(KubeVirtObjectKind::Snapshot, "debian")["status"]["boundVolumeSnapshotContentName"];
    name.as_str().unwrap().to_owned()
}

/// A machine whose disk is a clone of an image in a namespace.
fn machine_of(stage: &mut KubeVirtTestbed, namespace: &str) {
    let mut spec = machine_spec("Always", &["root"]);
    let reference = json!({"kind": "DataSource", "name": "debian", "namespace": namespace});
    spec["dataVolumeTemplates"][0]["spec"] = json!({"sourceRef": reference, "storage": {}});
    stage.create(KubeVirtObjectKind::Machine, "a", &json!({ "spec": spec }));
}

#[test]
fn a_claim_has_the_labels_of_its_data_volume() {
    let stage = image();
    let labels = &stage.get(KubeVirtObjectKind::Claim, "debian")["metadata"]["labels"];
    assert_eq!(labels["vmpool.dev/vmdiskimage-uid"], "uid-1");
    assert_eq!(labels["app"], "containerized-data-importer");
}

#[test]
fn a_failing_import_stays_in_progress_with_message_and_restarts() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("import-message", "404 Not Found"), ("import-restarts", "2")]);
    import(&mut stage, &json!({"http": {"url": "http://example.com/disk.raw"}}));
    stage.settle();
    let status = &stage.get(KubeVirtObjectKind::DataVolume, "debian")["status"];
    assert_eq!((&status["phase"], &status["restartCount"]), (&json!("ImportInProgress"), &json!(2)));
    let running =
        status["conditions"].as_array().unwrap().iter().find(|each| each["type"] == "Running").unwrap();
    assert_eq!((&running["status"], &running["message"]), (&json!("False"), &json!("404 Not Found")));
    stage.knobs(&[]);
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "debian"), "Succeeded");
}

#[rstest]
#[case::is_filled_again(false)]
#[case::stays_away_if_the_data_volume_is_prepopulated(true)]
fn a_deleted_claim(#[case] prepopulated: bool) {
    let mut stage = image();
    let before = stage.uid(KubeVirtObjectKind::Claim, "debian");
    if prepopulated {
        let annotations = json!({PREPOPULATED: "debian"});
        stage.edit(
            KubeVirtObjectKind::DataVolume,
            "debian",
            &json!({"metadata": {"annotations": annotations}}),
        );
        stage.settle();
    }
    stage.delete(KubeVirtObjectKind::Claim, "debian");
    stage.settle();
    let after = stage.find(KubeVirtObjectKind::Claim, "debian").map(|claim| claim["metadata"]["uid"].clone());
    assert_eq!(after.is_none(), prepopulated);
    assert_ne!(after, Some(json!(before)));
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "debian"), "Succeeded");
}

#[test]
fn a_snapshot_becomes_ready_with_its_content() {
    let stage = image();
    let status = &stage.get(KubeVirtObjectKind::Snapshot, "debian")["status"];
    assert_eq!((&status["readyToUse"], &status["restoreSize"]), (&json!(true), &json!("2Gi")));
    let reference = &stage.get(KubeVirtObjectKind::Content, &content(&stage))["spec"]["volumeSnapshotRef"];
    assert_eq!(reference["uid"], *stage.uid(KubeVirtObjectKind::Snapshot, "debian"));
    assert_eq!(stage.condition(KubeVirtObjectKind::DataSource, "debian", "Ready"), "True/Ready");
}

#[test]
fn a_snapshot_fails_on_demand_and_recovers() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("snapshot-error", "the pool is full")]);
    import(&mut stage, &json!({"blank": {}}));
    stage.settle();
    snapshot(&mut stage);
    stage.settle();
    let status = &stage.get(KubeVirtObjectKind::Snapshot, "debian")["status"];
    assert_eq!(
        (&status["readyToUse"], &status["error"]["message"]),
        (&json!(false), &json!("the pool is full"))
    );
    stage.knobs(&[]);
    stage.settle();
    let status = &stage.get(KubeVirtObjectKind::Snapshot, "debian")["status"];
    assert_eq!((&status["readyToUse"], &status["error"]), (&json!(true), &Value::Null));
}

#[test]
fn a_snapshot_whose_content_is_gone_is_not_ready() {
    let mut stage = image();
    let content = content(&stage);
    stage.delete(KubeVirtObjectKind::Content, &content);
    stage.settle();
    let status = &stage.get(KubeVirtObjectKind::Snapshot, "debian")["status"];
    assert_eq!(status["readyToUse"], false);
    assert_eq!(status["error"]["message"], "VolumeSnapshotContent is missing");
    assert_eq!(stage.condition(KubeVirtObjectKind::DataSource, "debian", "Ready"), "False/NotFound");
}

#[test]
fn a_deleted_snapshot_stays_while_a_volume_is_restored_from_it() {
    let mut stage = image();
    stage.knobs(&[("provisioning-delay", "30s")]);
    machine_of(&mut stage, "ns");
    stage.run(ms(20_000));
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "CloneFromSnapshotSourceInProgress");
    stage.delete(KubeVirtObjectKind::Snapshot, "debian");
    stage.run(ms(5000));
    assert!(stage.find(KubeVirtObjectKind::Snapshot, "debian").is_some());
    stage.run(ms(20_000));
    assert!(stage.find(KubeVirtObjectKind::Snapshot, "debian").is_none());
    assert_eq!(stage.list(KubeVirtObjectKind::Content).count(), 0);
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "Succeeded");
}

#[test]
fn kubevirt_replaces_the_data_source_of_a_template() {
    let mut stage = image();
    machine_of(&mut stage, "ns");
    stage.settle();
    let spec = &stage.get(KubeVirtObjectKind::DataVolume, "root")["spec"];
    assert_eq!(spec["source"], json!({"snapshot": {"namespace": "ns", "name": "debian"}}));
    assert_eq!(spec["sourceRef"], Value::Null);
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_machine_waits_for_its_data_source() {
    let mut stage = KubeVirtTestbed::new();
    machine_of(&mut stage, "ns");
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_none());
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Failure"), "True/FailedCreate");
    import(&mut stage, &json!({"blank": {}}));
    let source = json!({"pvc": {"namespace": "ns", "name": "debian"}});
    stage.create(KubeVirtObjectKind::DataSource, "debian", &json!({"spec": {"source": source}}));
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

#[rstest]
#[case::of_its_name(json!({"serviceAccountName": "builder"}), "builder")]
#[case::of_its_volume(json!({"volumes": [{"name": "v", "serviceAccount": {"serviceAccountName": "mounted"}},
    {"name": "root", "dataVolume": {"name": "root"}}]}), "mounted")]
#[case::or_the_default_one(json!({}), "default")]
fn a_clone_from_another_namespace_needs_the_permission_of_the_account(
    #[case] spec: Value,
    #[case] account: &str,
) {
    let mut stage = KubeVirtTestbed::new();
    let source = json!({"pvc": {"namespace": "images", "name": "debian"}});
    stage.create(KubeVirtObjectKind::DataSource, "debian", &json!({"spec": {"source": source}}));
    machine_of(&mut stage, "ns");
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"template": {"spec": spec}}}));
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_none());
    let conditions = stage.get(KubeVirtObjectKind::Machine, "a")["status"]["conditions"].to_string();
    assert!(
        conditions.contains(&format!("system:serviceaccount:ns:{account} has insufficient")),
        "{conditions}"
    );
    stage.may_clone = vec![format!("system:serviceaccount:ns:{account}")];
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_some());
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Failure"), "absent");
}

#[test]
fn a_clone_waits_for_its_source_and_says_so() {
    let mut stage = KubeVirtTestbed::new();
    let spec = json!({"source": {"snapshot": {"name": "absent"}}, "storage": {}});
    stage.create(KubeVirtObjectKind::DataVolume, "root", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "CloneScheduled");
    assert_eq!(
        stage.condition(KubeVirtObjectKind::DataVolume, "root", "Running"),
        "False/CloneWithoutSource"
    );
}

#[test]
fn a_smart_clone_of_a_claim_passes_its_phases() {
    let mut stage = image();
    stage.knobs(&[("smart-clone", "true")]);
    let spec = json!({"source": {"pvc": {"name": "debian", "namespace": "ns"}}, "storage": {}});
    stage.create(KubeVirtObjectKind::DataVolume, "root", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(
        stage.values(KubeVirtObjectKind::DataVolume, "root", "/status/phase"),
        [
            "Pending",
            "CloneScheduled",
            "SnapshotForSmartCloneInProgress",
            "CloneFromSnapshotSourceInProgress",
            "RebindInProgress",
            "Succeeded"
        ]
    );
}

#[test]
fn a_download_is_repeated_until_its_data_is_right() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("http-host", "images.test=127.0.0.1:1")]);
    stage.download = Some(Err("checksum mismatch".to_owned()));
    import(&mut stage, &json!({"http": {"url": "http://images.test/disk.raw", "checksum": "sha256:aa"}}));
    stage.run(ms(1000));
    let status = &stage.get(KubeVirtObjectKind::DataVolume, "debian")["status"];
    assert_eq!(status["phase"], "ImportInProgress");
    assert!(status["restartCount"].as_u64().unwrap() >= 2, "{status}");
    assert!(status["conditions"].to_string().contains("checksum mismatch"), "{status}");
    stage.download = Some(Ok("sha256:aa".to_owned()));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "debian"), "Succeeded");
    let annotations = &stage.get(KubeVirtObjectKind::DataVolume, "debian")["metadata"]["annotations"];
    assert_eq!(annotations["simulator.vmpool.dev/content"], "sha256:aa");
}

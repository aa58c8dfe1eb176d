//! The life of machines: set-up, restart, deletion, changes of the spec.

use super::{CONTROLLER_FINALIZER, KubeVirtObjectKind, KubeVirtTestbed, machine_spec, ms, running};
use crate::kubevirt::objects::FOREGROUND_FINALIZER;
use rstest::rstest;
use serde_json::{Value, json};
use std::time::Duration;

const POOL_FINALIZER: &str = "pool.kubevirt.io/finalizer";

fn firmware(stage: &KubeVirtTestbed) -> Value {
    stage.get(KubeVirtObjectKind::Machine, "a")["spec"]["template"]["spec"]["domain"]["firmware"].clone()
}

#[test]
fn one_update_adds_finalizer_annotation_and_defaults_behind_the_creators_back() {
    let mut stage = KubeVirtTestbed::new();
    let meta = json!({"finalizers": [POOL_FINALIZER], "annotations": {"mine": "kept"}});
    stage.create(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({"metadata": meta, "spec": machine_spec("Halted", &[])}),
    );
    stage.run(ms(19));
    assert_eq!(stage.finalizers(KubeVirtObjectKind::Machine, "a"), [POOL_FINALIZER]);
    stage.run(ms(2));
    let machine = stage.get(KubeVirtObjectKind::Machine, "a");
    assert_eq!(machine["metadata"]["resourceVersion"], "102", "one write so far");
    assert_eq!(stage.finalizers(KubeVirtObjectKind::Machine, "a"), [POOL_FINALIZER, CONTROLLER_FINALIZER]);
    assert_eq!(
        machine["metadata"]["annotations"],
        json!({
            "mine": "kept",
            "kubevirt.io/latest-observed-api-version": "v1",
            "kubevirt.io/storage-observed-api-version": "v1",
        })
    );
    let template = &machine["spec"]["template"];
    assert_eq!(template["spec"]["domain"]["machine"]["type"], "q35");
    assert_eq!(template["metadata"]["annotations"]["kubevirt.io/pci-topology-version"], "v3");
    assert_eq!(template["metadata"]["labels"]["app"], "web");
    let (uuid, serial) = (firmware(&stage)["uuid"].clone(), firmware(&stage)["serial"].clone());
    assert_eq!(uuid.as_str().map(str::len), Some(36));
    assert_eq!(serial.as_str().map(str::len), Some(36));
    assert_ne!(uuid, serial);
}

#[test]
fn machines_have_different_firmware_identities() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Halted", &[]);
    stage.machine("b", "Halted", &[]);
    stage.settle();
    let of = |name| {
        stage.get(KubeVirtObjectKind::Machine, name)["spec"]["template"]["spec"]["domain"]["firmware"].clone()
    };
    assert_ne!(of("a")["uuid"], of("b")["uuid"]);
    assert_ne!(of("a")["serial"], of("b")["serial"]);
}

#[test]
fn given_firmware_and_machine_type_stay() {
    let mut stage = KubeVirtTestbed::new();
    let mut spec = machine_spec("Halted", &[]);
    spec["template"]["spec"]["domain"]["firmware"] = json!({"uuid": "u", "serial": "s"});
    spec["template"]["spec"]["domain"]["machine"] = json!({"type": "pc"});
    stage.create(KubeVirtObjectKind::Machine, "a", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(firmware(&stage), json!({"uuid": "u", "serial": "s"}));
    assert_eq!(
        stage.get(KubeVirtObjectKind::Machine, "a")["spec"]["template"]["spec"]["domain"]["machine"]["type"],
        "pc"
    );
}

#[test]
fn an_update_that_drops_the_firmware_identity_loses_it() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Halted", &[]);
    stage.settle();
    let before = firmware(&stage);
    let drop = json!({"spec": {"template": {"spec": {"domain": {"firmware": null}}}}});
    stage.edit(KubeVirtObjectKind::Machine, "a", &drop);
    stage.settle();
    let derived = firmware(&stage);
    assert_ne!(derived["uuid"], before["uuid"]);
    assert_eq!(derived["uuid"].as_str().map(str::len), Some(36));
    assert_eq!(derived["serial"], Value::Null);
    stage.edit(KubeVirtObjectKind::Machine, "a", &drop);
    stage.settle();
    assert_eq!(firmware(&stage), derived, "it follows from the name");
}

#[test]
fn an_instance_has_the_template_of_its_machine() {
    let mut stage = KubeVirtTestbed::new();
    let mut spec = machine_spec("Always", &["root"]);
    spec["template"]["metadata"]["annotations"] = json!({"note": "x"});
    stage.create(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({"metadata": {"labels": {"outer": "y"}}, "spec": spec}),
    );
    stage.settle();
    let (machine, instance) =
        (stage.get(KubeVirtObjectKind::Machine, "a"), stage.get(KubeVirtObjectKind::Instance, "a"));
    assert_eq!(instance["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(instance["metadata"]["annotations"]["note"], "x");
    assert_eq!(instance["spec"], machine["spec"]["template"]["spec"]);
    assert_eq!(
        instance["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "a",
            "uid": machine["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }])
    );
    assert_eq!(
        stage.finalizers(KubeVirtObjectKind::Instance, "a"),
        [CONTROLLER_FINALIZER, FOREGROUND_FINALIZER]
    );
}

#[test]
fn a_deleted_instance_stops_and_comes_back_from_the_current_template() {
    let mut stage = running(&[]);
    let before = stage.uid(KubeVirtObjectKind::Instance, "a");
    stage.edit(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({"spec": {"template": {"metadata": {"labels": {"app": "new"}}}}}),
    );
    stage.settle();
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a"), before, "labels alone restart nothing");
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.run(ms(150));
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a"), before);
    assert_eq!(stage.printable("a"), "Stopping");
    stage.settle();
    assert_ne!(stage.uid(KubeVirtObjectKind::Instance, "a"), before);
    assert_eq!(stage.get(KubeVirtObjectKind::Instance, "a")["metadata"]["labels"]["app"], "new");
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.pods().len(), 1);
}

#[test]
fn a_guest_that_does_not_shut_down_is_stopped_after_the_grace_period() {
    let mut stage = running(&[]);
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": "Manual"}}));
    stage.edit(KubeVirtObjectKind::Instance, "a", &json!({"spec": {"terminationGracePeriodSeconds": 3}}));
    stage.annotate(KubeVirtObjectKind::Machine, "a", "stop-delay", Some("1h"));
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.run(Duration::from_millis(2900));
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_some());
    stage.run(ms(200));
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
}

#[test]
fn a_deleted_machine_stops_first_and_drops_only_its_own_finalizer() {
    let mut stage = running(&["root"]);
    let finalizers = json!([CONTROLLER_FINALIZER, POOL_FINALIZER]);
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"metadata": {"finalizers": finalizers}}));
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.run(ms(150));
    assert_eq!(stage.printable("a"), "Terminating");
    assert_eq!(stage.finalizers(KubeVirtObjectKind::Machine, "a"), [CONTROLLER_FINALIZER, POOL_FINALIZER]);
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
    assert_eq!(stage.finalizers(KubeVirtObjectKind::Machine, "a"), [POOL_FINALIZER]);
    assert_eq!(stage.printable("a"), "Terminating");
    assert!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_some(), "the machine still exists");
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"metadata": {"finalizers": []}}));
    stage.settle();
    for (kind, name) in [
        (KubeVirtObjectKind::Machine, "a"),
        (KubeVirtObjectKind::DataVolume, "root"),
        (KubeVirtObjectKind::Claim, "root"),
    ] {
        assert!(stage.find(kind, name).is_none(), "{kind:?}");
    }
    assert!(stage.violations.is_empty(), "{:?}", stage.violations);
}

#[test]
fn a_machine_that_is_orphaned_lets_go_at_once_and_its_instance_runs_on() {
    let mut stage = running(&[]);
    let finalizers = json!([CONTROLLER_FINALIZER, "orphan"]);
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"metadata": {"finalizers": finalizers}}));
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.run(ms(20));
    assert_eq!(stage.finalizers(KubeVirtObjectKind::Machine, "a"), ["orphan"]);
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::Instance, "a"), "Running");
    assert_eq!(stage.get(KubeVirtObjectKind::Instance, "a")["metadata"]["deletionTimestamp"], Value::Null);
}

#[test]
fn foreground_deletion_of_a_machine_is_no_violation() {
    let mut stage = running(&["root"]);
    // The deletion of the machine is seen after that of its disk.
    stage.lag.insert(KubeVirtObjectKind::Machine, ms(300));
    stage.delete_in_foreground(KubeVirtObjectKind::Machine, "a");
    stage.settle();
    for (kind, name) in [
        (KubeVirtObjectKind::Machine, "a"),
        (KubeVirtObjectKind::Instance, "a"),
        (KubeVirtObjectKind::DataVolume, "root"),
    ] {
        assert!(stage.find(kind, name).is_none(), "{kind:?}");
    }
    assert!(stage.violations.is_empty(), "{:?}", stage.violations);
}

#[rstest]
#[case::of_a_volume(json!({"volumes": [{"name": "x", "emptyDisk": {"capacity": "1Gi"}}]}), true)]
#[case::of_the_processors(json!({"domain": {"cpu": {"cores": 8}}}), true)]
#[case::of_the_sockets(json!({"domain": {"cpu": {"sockets": 4}}}), false)]
#[case::of_the_memory(json!({"domain": {"memory": {"guest": "1Gi"}}}), false)]
#[case::of_the_node_selector(json!({"nodeSelector": {"disk": "ssd"}}), false)]
#[case::of_affinity(json!({"affinity": {"nodeAffinity": {}}}), false)]
#[case::of_tolerations(json!({"tolerations": [{"operator": "Exists"}]}), false)]
fn a_change_needs_a_restart_or_is_made_live(#[case] change: Value, #[case] restart: bool) {
    let mut stage = running(&[]);
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"template": {"spec": change}}}));
    stage.settle();
    let wanted = stage.get(KubeVirtObjectKind::Machine, "a")["spec"]["template"]["spec"].clone();
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid, "the platform restarts nothing by itself");
    if !restart {
        assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "absent");
        assert_eq!(stage.get(KubeVirtObjectKind::Instance, "a")["spec"], wanted);
        return;
    }
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "True/RestartRequired");
    assert_ne!(stage.get(KubeVirtObjectKind::Instance, "a")["spec"], wanted);
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "absent");
    assert_eq!(stage.get(KubeVirtObjectKind::Instance, "a")["spec"], wanted);
}

#[test]
fn a_stopped_machine_needs_no_restart() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Manual", &[]);
    stage.settle();
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"template": {"spec": {"hostname": "x"}}}}));
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "absent");
}

#[test]
fn an_instance_of_a_different_controller_stays_and_the_machine_says_so() {
    let mut stage = KubeVirtTestbed::new();
    stage.create(KubeVirtObjectKind::Instance, "a", &json!({"spec": {"domain": {}}}));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::Instance, "a"), "Running");
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    stage.machine("a", "Always", &[]);
    stage.settle();
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid);
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Failure"), "True/FailedCreate");
    assert_eq!(stage.printable("a"), "Stopped");
}

#[test]
fn settled_machines_cost_nothing() {
    let mut stage = running(&["root"]);
    stage.machine("b", "Halted", &["data"]);
    stage.settle();
    stage.writes.clear();
    stage.run(Duration::from_hours(1));
    assert!(stage.writes.is_empty(), "{:?}", stage.writes);
    assert_eq!(stage.world.next_due(), None);
}

#[test]
fn after_a_restart_of_the_simulator_nothing_is_written() {
    let mut stage = running(&["root"]);
    stage.machine("b", "RerunOnFailure", &[]);
    stage.machine("c", "Manual", &[]);
    stage.settle();
    stage.restart_simulator();
    stage.settle();
    assert!(stage.writes.is_empty(), "{:?}", stage.writes);
    assert!(stage.violations.is_empty());
}

#[test]
fn an_api_server_that_drops_a_field_is_not_asked_again_and_again() {
    let mut stage = KubeVirtTestbed::new();
    stage.pruned = Some("observedGeneration");
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    stage.writes.clear();
    stage.run(Duration::from_hours(1));
    assert!(stage.writes.len() <= 1, "{:?}", stage.writes);
}

//! Operations and attachments of machines.

use super::DvpTestbed;
use crate::objects::DvpObjectKind;
use rstest::rstest;
use serde_json::json;

impl DvpTestbed {
    fn operate(&mut self, name: &str, type_: &str, machine: &str) {
        let spec = json!({"type": type_, "virtualMachineName": machine});
        self.create(DvpObjectKind::Operation, name, &json!({ "spec": spec }));
        self.settle();
    }
}

#[test]
fn operations_stop_and_start_a_machine() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    stage.operate("stop", "Stop", "a");
    assert_eq!(stage.phase(DvpObjectKind::Operation, "stop"), "Completed");
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Stopped");
    assert_eq!(stage.condition(DvpObjectKind::Disk, "d", "InUse"), "False/NotInUse");
    stage.operate("start", "Start", "a");
    assert_eq!(stage.phase(DvpObjectKind::Operation, "start"), "Completed");
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
}

#[test]
fn a_restart_creates_a_new_pod_and_waits_for_the_knob() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    let before = stage.pods()[0]["metadata"]["name"].clone();
    stage.annotate(DvpObjectKind::Machine, "a", "hold-restart", Some("true"));
    stage.operate("restart", "Restart", "a");
    assert_eq!(stage.phase(DvpObjectKind::Operation, "restart"), "InProgress");
    assert_eq!(stage.pods()[0]["metadata"]["name"], before);
    stage.annotate(DvpObjectKind::Machine, "a", "hold-restart", None);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Operation, "restart"), "Completed");
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_ne!(stage.pods()[0]["metadata"]["name"], before);
}

#[test]
fn a_migration_moves_the_machine_to_another_node() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    let before = stage.get(DvpObjectKind::Machine, "a")["status"]["nodeName"].clone();
    let spec = json!({"type": "Evict", "virtualMachineName": "a"});
    stage.create(DvpObjectKind::Operation, "move", &json!({ "spec": spec }));
    stage.run(super::ms(100));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Migrating");
    assert_eq!(stage.pods().len(), 2);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Operation, "move"), "Completed");
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_eq!(stage.pods().len(), 1);
    assert_ne!(stage.get(DvpObjectKind::Machine, "a")["status"]["nodeName"], before);
    assert!(stage.violations.is_empty(), "one guest in two Pods uses the disk once");
}

#[rstest]
#[case::of_a_missing_machine("Stop", "missing", "AlwaysOn")]
#[case::start_with_always_off("Start", "a", "AlwaysOff")]
#[case::stop_with_always_on("Stop", "a", "AlwaysOn")]
#[case::restart_of_a_stopped_machine("Restart", "a", "AlwaysOff")]
#[case::migration_of_a_stopped_machine("Migrate", "a", "Manual")]
#[case::of_an_unsupported_type("Clone", "a", "AlwaysOn")]
fn an_operation_fails(#[case] type_: &str, #[case] machine: &str, #[case] policy: &str) {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": policy}}));
    stage.settle();
    let phase = stage.phase(DvpObjectKind::Machine, "a");
    stage.operate("op", type_, machine);
    assert_eq!(stage.phase(DvpObjectKind::Operation, "op"), "Failed");
    assert_eq!(stage.condition(DvpObjectKind::Operation, "op", "Completed"), "False/OperationFailed");
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), phase);
}

#[test]
fn an_attachment_attaches_a_disk_and_its_deletion_detaches_it() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &[]);
    stage.settle();
    let spec = json!({"virtualMachineName": "a", "blockDeviceRef": {"kind": "VirtualDisk", "name": "d"}});
    stage.create(DvpObjectKind::Attachment, "plug", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Attachment, "plug"), "Attached");
    let device = &stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"][0];
    assert_eq!(device["virtualMachineBlockDeviceAttachmentName"], "plug");
    assert_eq!(device["hotplugged"], true);
    assert_eq!(stage.condition(DvpObjectKind::Disk, "d", "InUse"), "True/AttachedToVirtualMachine");
    stage.delete(DvpObjectKind::Attachment, "plug");
    stage.settle();
    assert!(stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"].is_null());
    assert_eq!(stage.condition(DvpObjectKind::Disk, "d", "InUse"), "False/NotInUse");
}

use serde_json::Value;

use super::record_stored_objects;

#[test]
fn recordings_contain_each_kind_and_a_removal_in_progress() {
    let recordings = record_stored_objects();
    let count = |name: &str, kind: &str| {
        let recording = recordings.iter().find(|recording| recording.name == name).unwrap();
        recording.objects.iter().filter(|object| object["kind"] == kind).count()
    };
    for (name, kind) in [
        ("dvp", "VirtualMachine"),
        ("dvp", "VirtualDisk"),
        ("dvp", "ControllerRevision"),
        ("dvp", "Lease"),
        ("kubevirt", "VMDiskImage"),
        ("kubevirt", "VMDiskImageGrant"),
        ("kubevirt", "DataVolume"),
        ("instancetypes", "VirtualMachineInstancetype"),
        ("instancetypes", "VirtualMachineInstance"),
    ] {
        assert!(count(name, kind) > 0, "{name} has no {kind}");
    }
    let records = ["scale-down-targets", "scale-in-targets"];
    let annotations = |object: &Value| object["metadata"]["annotations"].to_string();
    let in_progress = recordings.iter().flat_map(|recording| &recording.objects).filter(|object| {
        object["kind"] == "VirtualMachinePool"
            && records.iter().any(|record| annotations(object).contains(record))
    });
    assert_eq!(in_progress.count(), 2);
}

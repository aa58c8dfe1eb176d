//! The number of writes, and rejected, dropped and late writes.

use super::{DvpTestbed, id, ms};
use crate::{
    objects::{DvpObjectKind, NamespacedKey},
    world::{DvpModelEvent, DvpWrite, DvpWriteOutcome},
};
use serde_json::json;
use std::{collections::HashSet, time::Duration};

#[test]
fn a_machine_with_a_disk_needs_few_writes() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &["d"]);
    stage.disk("d");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    let machine = stage.writes[&id(DvpObjectKind::Machine, "a")].len();
    let disk = stage.writes[&id(DvpObjectKind::Disk, "d")].len();
    let pods: usize =
        stage.writes.iter().filter(|(id, _)| id.kind == DvpObjectKind::Pod).map(|(_, w)| w.len()).sum();
    // Finalizer, Pending, Starting, Running; finalizers, Provisioning, Ready, mount log; create and status.
    assert_eq!((machine, disk, pods), (4, 4, 2));
}

#[test]
fn without_changes_there_are_no_writes() {
    let mut stage = DvpTestbed::new();
    for n in 0..20 {
        stage.disk(&format!("d{n}"));
        stage.machine(&format!("m{n}"), &[&format!("d{n}")]);
    }
    stage.settle();
    stage.writes.clear();
    stage.run(Duration::from_hours(1));
    assert_eq!(stage.written(), 0);
    assert_eq!(stage.world.next_due(), None);
}

#[test]
fn a_restarted_simulator_changes_no_object() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.disk("free");
    stage.machine("runs", &["d"]);
    stage.machine("waits", &["d"]);
    stage.machine("stopped", &[]);
    stage.edit(DvpObjectKind::Machine, "stopped", &json!({"spec": {"runPolicy": "AlwaysOff"}}));
    stage.settle();
    let pod = stage.pods()[0]["metadata"]["name"].clone();
    stage.restart_simulator();
    stage.settle();
    assert_eq!(stage.written(), 0, "{:?}", stage.writes);
    assert_eq!(stage.pods()[0]["metadata"]["name"], pod);
    assert!(stage.violations.is_empty());
    // The restarted simulator knows to which machine the disk is attached.
    stage.delete(DvpObjectKind::Machine, "runs");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "waits"), "Running");
    assert!(stage.violations.is_empty());
}

#[test]
fn a_simulator_killed_at_any_time_completes_its_work_after_a_restart() {
    for moment in (0..900).step_by(30) {
        let mut stage = DvpTestbed::new();
        stage.latency = ms(15);
        stage.disk("d");
        stage.machine("a", &["d"]);
        stage.run(ms(moment));
        stage.restart_simulator();
        stage.settle();
        assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running", "killed after {moment} ms");
        assert_eq!(stage.pods().len(), 1, "killed after {moment} ms");
        stage.delete(DvpObjectKind::Machine, "a");
        stage.run(ms(moment));
        stage.restart_simulator();
        stage.settle();
        assert!(stage.find(DvpObjectKind::Machine, "a").is_none(), "killed {moment} ms into the deletion");
        assert!(stage.pods().is_empty());
        assert!(stage.violations.is_empty());
    }
}

#[test]
fn a_rejected_pod_is_reported_and_retried_with_backoff() {
    let mut stage = DvpTestbed::new();
    stage.refuse.insert(DvpObjectKind::Pod, "exceeded quota".to_owned());
    stage.machine("a", &[]);
    stage.run(Duration::from_mins(1));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Pending");
    assert_eq!(stage.condition(DvpObjectKind::Machine, "a", "Running"), "False/PodNotCreated");
    assert!(stage.written() < 30, "{} writes in a minute", stage.written());
    stage.refuse.clear();
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
}

#[test]
fn a_write_with_a_dropped_field_is_not_repeated() {
    let mut stage = DvpTestbed::new();
    stage.pruned = Some("virtualMachinePods");
    stage.machine("a", &[]);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    stage.writes.clear();
    stage.run(Duration::from_mins(10));
    assert_eq!(stage.written(), 0);
}

#[test]
fn a_status_overwritten_by_another_client_is_restored() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    for _ in 0..2 {
        stage.edit(DvpObjectKind::Machine, "a", &json!({"status": {"phase": "Pause"}}));
        stage.settle();
        assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    }
}

#[test]
fn writes_require_the_observed_version() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    for (id, writes) in stage.writes.iter().filter(|(id, _)| id.kind != DvpObjectKind::Pod) {
        for write in writes {
            let (DvpWrite::Patch(body) | DvpWrite::PatchStatus(body)) = write else {
                panic!("{id:?}: {write:?}")
            };
            assert!(body["metadata"]["uid"].is_string() && body["metadata"]["resourceVersion"].is_string());
        }
    }
}

#[test]
fn a_conflict_with_another_client_is_retried() {
    let mut stage = DvpTestbed::new();
    stage.latency = ms(10);
    stage.machine("a", &[]);
    for n in 0..40 {
        stage.edit(DvpObjectKind::Machine, "a", &json!({"metadata": {"labels": {"n": n.to_string()}}}));
        stage.run(ms(20));
    }
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_eq!(stage.pods()[0]["metadata"]["labels"]["n"], "39");
}

#[test]
fn a_late_response_does_not_restore_a_deleted_object() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    let seen = super::read(DvpObjectKind::Machine, stage.get(DvpObjectKind::Machine, "a"));
    stage.delete(DvpObjectKind::Machine, "a");
    stage.settle();
    stage.world.observe(
        DvpModelEvent::Written(id(DvpObjectKind::Machine, "a"), DvpWriteOutcome::Done(seen)),
        stage.now,
    );
    stage.writes.clear();
    stage.settle();
    assert_eq!(stage.written(), 0);
}

#[test]
fn an_object_missing_from_a_list_is_removed_unless_it_was_observed_later() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    let began = stage.now;
    stage.now += ms(5);
    stage.disk("newer");
    stage.machine("b", &["d", "newer"]);
    let keys = HashSet::from([NamespacedKey::new("ns", "a")]);
    stage.world.observe(DvpModelEvent::Relisted { kind: DvpObjectKind::Machine, keys, began }, stage.now);
    stage.world.observe(
        DvpModelEvent::Relisted { kind: DvpObjectKind::Disk, keys: HashSet::new(), began },
        stage.now,
    );
    stage.settle();
    assert_eq!(stage.condition(DvpObjectKind::Machine, "a", "BlockDevicesReady"), "True/BlockDevicesReady");
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Pending");
    let conditions = stage.get(DvpObjectKind::Machine, "b")["status"]["conditions"].to_string();
    assert!(conditions.contains("VirtualDisk d does not exist"), "{conditions}");
}

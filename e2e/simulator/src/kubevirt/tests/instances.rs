//! The phases of instances, their conditions and their Pods.

use super::{KubeVirtObjectKind, KubeVirtTestbed, machine_spec, ms, running, settings};
use crate::shared::SimulatorSettings;
use serde_json::{Value, json};

fn pod_name(stage: &KubeVirtTestbed) -> String {
    stage.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn an_instance_passes_its_phases_and_records_when() {
    let stage = running(&["root"]);
    let phases = ["Pending", "Scheduling", "Scheduled", "Running"];
    assert_eq!(stage.values(KubeVirtObjectKind::Instance, "a", "/status/phase"), phases);
    let status = &stage.get(KubeVirtObjectKind::Instance, "a")["status"];
    let recorded = status["phaseTransitionTimestamps"].as_array().unwrap();
    let names: Vec<_> = recorded.iter().map(|passed| passed["phase"].as_str().unwrap()).collect();
    assert_eq!(names, phases);
    assert!(recorded.iter().all(|passed| passed["phaseTransitionTimestamp"].is_string()));
    let node = stage.pods()[0]["spec"]["nodeName"].clone();
    assert_eq!(status["nodeName"], node);
    let address = &status["interfaces"][0]["ipAddress"];
    assert!(address.as_str().is_some_and(|address| address.starts_with("10.")), "{status}");
    assert_eq!(status["activePods"], json!({stage.uid(KubeVirtObjectKind::Pod, &pod_name(&stage)): node}));
}

#[test]
fn the_launcher_pod_has_the_labels_that_autoscalers_and_services_select() {
    let stage = running(&["root"]);
    let (pod, instance) = (stage.pods()[0], stage.get(KubeVirtObjectKind::Instance, "a"));
    let uid = &instance["metadata"]["uid"];
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "web",
            "kubevirt.io": "virt-launcher",
            "kubevirt.io/created-by": uid,
            "vm.kubevirt.io/name": "a",
            "vmi.kubevirt.io/id": "a",
        })
    );
    assert!(pod_name(&stage).starts_with("virt-launcher-a-"));
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("VirtualMachineInstance"), uid));
    assert_eq!(pod["status"]["phase"], "Running");
    let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(*requests, json!({"cpu": "200m", "memory": "512Mi"}));
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "root");
}

#[test]
fn knobs_and_kubectls_annotation_do_not_reach_the_pod() {
    let mut stage = KubeVirtTestbed::new();
    let mut spec = machine_spec("Always", &[]);
    spec["template"]["metadata"]["annotations"] =
        json!({"simulator.vmpool.dev/start-delay": "1ms", "note": "x"});
    stage.create(KubeVirtObjectKind::Machine, "a", &json!({ "spec": spec }));
    stage.settle();
    let annotations = &stage.pods()[0]["metadata"]["annotations"];
    assert_eq!(annotations["note"], "x");
    assert_eq!(annotations["simulator.vmpool.dev/start-delay"], Value::Null);
}

/// Status and reason of the condition `Ready` of an instance, one after another.
fn ready_reasons(stage: &KubeVirtTestbed) -> Vec<String> {
    let mut reasons = Vec::new();
    for index in 0..2 {
        let pointer = format!("/status/conditions/{index}");
        reasons = stage.values(KubeVirtObjectKind::Instance, "a", &format!("{pointer}/reason"));
        if !reasons.is_empty() {
            break;
        }
    }
    reasons
}

#[test]
fn ready_is_false_for_a_reason_until_the_guest_runs_and_then_a_copy_of_the_pods() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &[]);
    stage.settle();
    assert_eq!(ready_reasons(&stage), ["PodNotExists", "GuestNotRunning"]);
    let ready = stage.get(KubeVirtObjectKind::Instance, "a")["status"]["conditions"][0].clone();
    let pods = stage.pods()[0]["status"]["conditions"].as_array().unwrap().clone();
    let pod_ready = pods.iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")));
    assert_eq!(ready["lastTransitionTime"], pod_ready["lastTransitionTime"]);
    let fields = ready.as_object().unwrap();
    assert!(fields.contains_key("lastProbeTime") && ready["lastProbeTime"].is_null());
}

#[test]
fn ready_says_that_the_pod_is_terminating() {
    let mut stage = running(&[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "stop-delay", Some("2s"));
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.run(ms(500));
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", "Ready"), "False/PodTerminating");
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Ready"), "False/PodTerminating");
    assert!(stage.pods()[0]["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn a_stopped_instance_has_succeeded_before_it_is_gone() {
    let mut stage = running(&[]);
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    let phases = stage.values(KubeVirtObjectKind::Instance, "a", "/status/phase");
    let once = ["Pending", "Scheduling", "Scheduled", "Running"];
    assert_eq!(phases, [&once[..], &["Succeeded"], &once[..]].concat());
}

#[test]
fn an_instance_without_a_machine_runs_and_stops() {
    let mut stage = KubeVirtTestbed::new();
    let meta = json!({"finalizers": ["kubevirt.io/foregroundDeleteVirtualMachine"]});
    stage.create(KubeVirtObjectKind::Instance, "lone", &json!({"metadata": meta, "spec": {"domain": {}}}));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::Instance, "lone"), "Running");
    stage.delete(KubeVirtObjectKind::Instance, "lone");
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Instance, "lone").is_none());
    assert!(stage.pods().is_empty());
}

#[test]
fn an_evicted_pod_shuts_its_guest_down_and_the_machine_starts_again() {
    let mut stage = running(&[]);
    let (uid, pod) = (stage.uid(KubeVirtObjectKind::Instance, "a"), pod_name(&stage));
    stage.delete(KubeVirtObjectKind::Pod, &pod);
    stage.settle();
    assert_ne!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid);
    assert!(
        stage.values(KubeVirtObjectKind::Instance, "a", "/status/phase").contains(&"Succeeded".to_owned())
    );
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.pods().len(), 1);
}

#[test]
fn without_pods_instances_run_as_well() {
    let mut stage = KubeVirtTestbed::with(SimulatorSettings { pods: false, ..settings() });
    stage.machine("a", "Always", &["root"]);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.get(KubeVirtObjectKind::Machine, "a")["status"]["ready"], true);
    assert!(stage.pods().is_empty());
    stage.restart_simulator();
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Machine, "a").is_none());
}

#[test]
fn a_pod_that_cannot_be_created_is_retried() {
    let mut stage = KubeVirtTestbed::new();
    stage.refuse.insert(KubeVirtObjectKind::Pod, "no quota".to_owned());
    stage.machine("a", "Always", &[]);
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::Instance, "a"), "Pending");
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", "Ready"), "False/PodNotExists");
    let tries = stage.writes.iter().filter(|(id, _)| id.kind == KubeVirtObjectKind::Pod).count();
    assert!((3..12).contains(&tries), "{tries} tries in 8 s");
    stage.refuse.clear();
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn conditions_of_other_controllers_stay() {
    let mut stage = running(&[]);
    let conditions = json!([{"type": "AgentConnected", "status": "True"}]);
    stage.edit(KubeVirtObjectKind::Instance, "a", &json!({"status": {"conditions": conditions}}));
    stage.edit(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}}),
    );
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", "AgentConnected"), "True/");
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", "Ready"), "True/");
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Initialized"), "True/");
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Ready"), "True/");
}

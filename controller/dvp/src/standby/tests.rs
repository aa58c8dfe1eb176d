use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::{Draft, MachineActivity, ObjectId};
use vmpool_engine::standby::{StandbyPhase, WarmUp};
use vmpool_platform::Platform;

use crate::{Dvp, DvpMachineObject, DvpPoolObject};

const AT: &str = "2026-11-28T12:00:00Z";

fn pool(spec: &Value) -> DvpPoolObject {
    let mut pool = json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualMachinePool",
        "metadata": { "name": "web", "namespace": "team", "uid": "pool-uid", "generation": 1 },
        "spec": {
            "replicas": 1,
            "virtualMachineTemplate": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "virtualMachineClassName": "small", "runPolicy": "AlwaysOn" },
            },
        },
    });
    json_patch::merge(&mut pool["spec"], spec);
    serde_json::from_value(pool).unwrap()
}

fn draft(standby: Option<StandbyPhase>) -> Draft {
    Draft {
        name: "web-a".into(),
        number: 1,
        revision: "r1".into(),
        disks: Vec::new(),
        rehearsal: Rehearsal::None,
        standby,
    }
}

fn machine(standby: Option<StandbyPhase>) -> Value {
    let pool = pool(&json!({}));
    Dvp::machine(&pool, &Dvp::template(&pool), &draft(standby))
}

fn read(machine: &Value) -> vmpool_engine::Machine {
    let mut machine = machine.clone();
    machine["metadata"]["uid"] = "machine-uid".into();
    Dvp::read_machine(&serde_json::from_value::<DvpMachineObject>(machine).unwrap())
}

#[test]
fn a_standby_machine_has_no_label_that_a_selector_names() {
    for phase in [StandbyPhase::Warming, StandbyPhase::Stopped] {
        let labels = machine(Some(phase))["metadata"]["labels"].clone();
        let mut keys: Vec<&String> = labels.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, ["vmpool.dev/standby", "vmpool.virtualization.deckhouse.io/template-hash"]);
    }
    assert_eq!(machine(Some(StandbyPhase::Warming))["spec"]["runPolicy"], "AlwaysOn");
    assert_eq!(machine(Some(StandbyPhase::Stopped))["spec"]["runPolicy"], "AlwaysOff");
}

#[test]
fn a_stop_and_an_activation_make_a_warming_machine_an_active_one() {
    let pool = pool(&json!({}));
    let mut live = machine(Some(StandbyPhase::Warming));
    let stop = Dvp::stop_standby(&live);
    json_patch::merge(&mut live, &stop);
    let state = read(&live).standby.unwrap();
    assert_eq!((state.phase, state.kept_off), (StandbyPhase::Stopped, true));
    let template = Dvp::template(&pool);
    let patch = Dvp::activate(&pool, &live, &"r1".into(), &template, AT);
    json_patch::merge(&mut live, &patch);
    assert_eq!(
        Dvp::update(&live, Some(&template), &"r1".into(), &template, &[]),
        None,
        "one patch is enough"
    );
    let facts = read(&live);
    assert_eq!((facts.standby, facts.activated), (None, Some(AT.parse().unwrap())));
    let mut active = machine(None);
    active["metadata"]["annotations"]["vmpool.dev/activated-at"] = AT.into();
    assert_eq!(live, active);
}

#[test]
fn an_activation_restores_the_default_run_policy() {
    let pool = pool(&json!({ "virtualMachineTemplate": { "spec": { "runPolicy": null } } }));
    let mut live = machine(Some(StandbyPhase::Stopped));
    let patch = Dvp::activate(&pool, &live, &"r1".into(), &Dvp::template(&pool), AT);
    json_patch::merge(&mut live, &patch);
    assert_eq!(live["spec"].get("runPolicy"), None);
}

#[rstest]
#[case::it_did_not_start("AlwaysOnUnlessStoppedManually", "Stopped", json!([]), true)]
#[case::the_default_policy("", "Stopped", json!([{ "phase": "Running", "timestamp": "2026-11-28T11:59:00Z" }]), true)]
#[case::it_stopped_after_a_start("", "Stopped", json!([{ "phase": "Running", "timestamp": "2026-11-28T12:01:00Z" }]), false)]
#[case::the_platform_starts_it("AlwaysOn", "Stopped", json!([]), false)]
#[case::it_runs("", "Running", json!([]), false)]
fn an_activated_machine_awaits_its_start(
    #[case] policy: &str,
    #[case] phase: &str,
    #[case] transitions: Value,
    #[case] expected: bool,
) {
    let mut live = machine(None);
    live["spec"]["runPolicy"] = policy.into();
    live["status"] = json!({ "phase": phase, "stats": { "phasesTransitions": transitions } });
    assert!(!read(&live).awaits_start, "it was not activated");
    live["metadata"]["annotations"]["vmpool.dev/activated-at"] = AT.into();
    assert_eq!(read(&live).awaits_start, expected);
}

#[rstest]
#[case::it_did_not_start("AlwaysOnUnlessStoppedManually", "Stopped", 11, true)]
#[case::the_default_policy("", "Running", 11, true)]
#[case::the_platform_starts_it("AlwaysOn", "Running", 11, true)]
#[case::it_stopped_after_a_start("", "Running", 13, false)]
#[case::it_stopped_once_more("", "Stopped", 13, true)]
#[case::it_is_kept_off("AlwaysOff", "Running", 11, false)]
#[case::only_a_user_starts_it("Manual", "Running", 11, false)]
fn an_activated_machine_that_has_not_started_is_not_stopped_on_purpose(
    #[case] policy: &str,
    #[case] phase: &str,
    #[case] hour: u8,
    #[case] is_starting: bool,
) {
    let mut live = machine(None);
    live["spec"]["runPolicy"] = policy.into();
    let transition = json!({ "phase": phase, "timestamp": format!("2026-11-28T{hour}:00:00Z") });
    live["status"] = json!({ "phase": "Stopped", "stats": { "phasesTransitions": [transition] } });
    assert_eq!(read(&live).activity, MachineActivity::Stopped, "it was not activated");
    live["metadata"]["annotations"]["vmpool.dev/activated-at"] = AT.into();
    let facts = read(&live);
    let activity = if is_starting { MachineActivity::NotRunning } else { MachineActivity::Stopped };
    assert_eq!((facts.activity, facts.unready_on_purpose), (activity, !is_starting));
    live["status"]["stats"] = json!({});
    assert_eq!(read(&live).activity, MachineActivity::Stopped, "it is not known whether it has run since");
}

#[test]
fn the_start_operation_has_the_name_of_the_machine_and_belongs_to_it() {
    let operation = Dvp::start_operation("team", &ObjectId::new("web-a", "u")).unwrap();
    assert_eq!(operation["metadata"]["name"], "web-a");
    assert_eq!(operation["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(operation["spec"], json!({ "type": "Start", "virtualMachineName": "web-a" }));
}

#[test]
fn a_ready_guest_is_ready_since_it_runs() {
    let mut live = machine(Some(StandbyPhase::Warming));
    live["status"] = json!({ "phase": "Running", "stats": { "phasesTransitions": [
        { "phase": "Starting", "timestamp": "2026-11-28T11:00:00Z" },
        { "phase": "Running", "timestamp": "2026-11-28T11:05:00Z" },
    ] } });
    let facts = read(&live);
    assert_eq!(facts.activity, MachineActivity::Running);
    assert_eq!(facts.standby.unwrap().ready_since, Some("2026-11-28T11:05:00Z".parse().unwrap()));
}

#[rstest]
#[case::the_field(json!({ "standby": { "replicas": 2, "warmUp": "None" } }), Some(2), 0)]
#[case::no_standby(json!({}), Some(0), 0)]
#[case::unreadable(json!({ "standby": { "replicas": "two" } }), None, 1)]
#[case::a_template_that_does_not_start(
    json!({ "standby": { "replicas": 2 }, "virtualMachineTemplate": { "spec": { "runPolicy": "Manual" } } }), None, 1
)]
#[case::none_of_such_a_template(
    json!({ "standby": { "replicas": 0 }, "virtualMachineTemplate": { "spec": { "runPolicy": "AlwaysOff" } } }), Some(0), 0
)]
fn the_setting_of_a_pool_is_read(
    #[case] spec: Value,
    #[case] replicas: Option<usize>,
    #[case] messages: usize,
) {
    let mut settings = spec.clone();
    settings["scaleDownPolicy"] = json!("NewestFirst");
    let read = Dvp::read_pool(&pool(&settings));
    assert_eq!(read.standby.map(|standby| standby.replicas), replicas);
    assert_eq!(read.invalid_settings.len(), messages);
    if spec.pointer("/standby/warmUp").is_some() {
        assert_eq!(read.standby.unwrap().warm_up, WarmUp::None);
    }
}

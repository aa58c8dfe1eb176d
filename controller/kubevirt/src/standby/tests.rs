use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::Draft;
use vmpool_engine::standby::StandbyPhase;
use vmpool_platform::Platform;

use crate::fixtures::new_pool;
use crate::{KubeVirt, KubeVirtMachineObject, KubeVirtPoolObject};

const AT: &str = "2026-11-28T12:00:00Z";

fn pool(edit: impl FnOnce(&mut Value)) -> KubeVirtPoolObject {
    let mut pool = new_pool();
    pool["metadata"]["uid"] = "pool-uid".into();
    edit(&mut pool);
    serde_json::from_value(pool).unwrap()
}

fn machine(pool: &KubeVirtPoolObject, standby: Option<StandbyPhase>) -> Value {
    let draft = Draft {
        name: "web-1".into(),
        number: 1,
        revision: "r1".into(),
        disks: Vec::new(),
        rehearsal: Rehearsal::None,
        standby,
    };
    KubeVirt::machine(pool, &KubeVirt::template(pool), &draft)
}

fn read(machine: &Value) -> vmpool_engine::Machine {
    let mut machine = machine.clone();
    machine["metadata"]["uid"] = "machine-uid".into();
    KubeVirt::read_machine(&serde_json::from_value::<KubeVirtMachineObject>(machine).unwrap())
}

fn set_strategy(pool: &mut Value, strategy: &str) {
    let spec = pool.pointer_mut("/spec/virtualMachineTemplate/spec").unwrap();
    spec.as_object_mut().unwrap().remove("running");
    spec["runStrategy"] = strategy.into();
}

#[test]
fn a_standby_machine_has_no_inner_label_of_its_template() {
    let pool = pool(|pool| set_strategy(pool, "Always"));
    for phase in [StandbyPhase::Warming, StandbyPhase::Stopped] {
        let standby = machine(&pool, Some(phase));
        let inner = standby.pointer("/spec/template/metadata/labels").unwrap().as_object().unwrap();
        assert_eq!(inner.len(), 1, "only the revision: {inner:?}");
        assert!(pool_includes(&pool, &standby), "the selector of the pool selects the machine");
    }
    assert_eq!(machine(&pool, Some(StandbyPhase::Stopped))["spec"]["runStrategy"], "Halted");
    assert_eq!(machine(&pool, Some(StandbyPhase::Warming))["spec"]["runStrategy"], "Always");
}

fn pool_includes(pool: &KubeVirtPoolObject, machine: &Value) -> bool {
    KubeVirt::read_pool(pool).includes(&read(machine))
}

#[test]
fn a_stop_and_an_activation_make_a_warming_machine_an_active_one() {
    let pool = pool(|pool| set_strategy(pool, "Always"));
    let mut live = machine(&pool, Some(StandbyPhase::Warming));
    let stop = KubeVirt::stop_standby(&live);
    json_patch::merge(&mut live, &stop);
    let state = read(&live).standby.unwrap();
    assert_eq!((state.phase, state.kept_off), (StandbyPhase::Stopped, true));
    let template = KubeVirt::template(&pool);
    let patch = KubeVirt::activate(&pool, &live, &"r1".into(), &template, AT);
    json_patch::merge(&mut live, &patch);
    let update = KubeVirt::update(&live, Some(&template), &"r1".into(), &template, &[]);
    assert_eq!(update, None, "one patch is enough");
    let mut active = machine(&pool, None);
    active["metadata"]["annotations"]["vmpool.dev/activated-at"] = AT.into();
    assert_eq!(live, active);
    let facts = read(&live);
    assert_eq!((facts.standby, facts.activated), (None, Some(AT.parse().unwrap())));
}

#[rstest]
#[case::it_starts("Always", "Disabled", Some(2))]
#[case::it_does_not_start("Manual", "Disabled", None)]
#[case::halted("Halted", "Disabled", None)]
#[case::preserved_state("Always", "Offline", None)]
fn the_setting_of_a_pool_is_read(
    #[case] strategy: &str,
    #[case] preservation: &str,
    #[case] replicas: Option<usize>,
) {
    let pool = pool(|pool| {
        set_strategy(pool, strategy);
        pool["spec"]["standby"] = json!({ "replicas": 2 });
        pool["spec"]["scaleInStrategy"] = json!({ "proactive": { "statePreservation": preservation } });
    });
    let read = KubeVirt::read_pool(&pool);
    assert_eq!(read.standby.map(|standby| standby.replicas), replicas);
    assert_eq!(read.invalid_settings.len(), usize::from(replicas.is_none()), "{:?}", read.invalid_settings);
}

#[test]
fn the_time_of_readiness_is_read_for_standby_machines() {
    let pool = pool(|pool| set_strategy(pool, "Always"));
    let mut live = machine(&pool, Some(StandbyPhase::Warming));
    live["status"] = json!({ "conditions": [
        { "type": "Ready", "status": "True", "lastTransitionTime": "2026-11-28T11:05:00Z" },
    ] });
    assert_eq!(read(&live).standby.unwrap().ready_since, Some("2026-11-28T11:05:00Z".parse().unwrap()));
}

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::kubevirt::values::{SortPolicy, StatePreservation};
use vmpool_engine::model::{DisruptionBudget, StorageTemplate};

use super::super::fixtures;
use super::super::labels::CachedLabels;
use super::super::objects::KubeVirtMachineObject;
use super::super::selectors::MachineSelector;
use super::*;

/// The pool with changed fields of its spec, by JSON merge patch.
fn pool_with(spec: &Value) -> PoolFacts {
    let mut object = fixtures::recorded_pool();
    json_patch::merge(&mut object["spec"], spec);
    read_pool_facts(&serde_json::from_value(object).unwrap())
}

/// The settings of a pool that are read without any message.
fn read_with(spec: &Value) -> PoolSettings {
    let pool = pool_with(spec);
    assert_eq!(pool.validation_errors, Vec::<String>::new());
    assert_eq!(pool.invalid_settings, Vec::<String>::new());
    pool.settings
}

#[test]
fn a_recorded_pool_is_read_with_the_defaults() {
    let pool = pool_with(&json!({}));
    assert_eq!((&*pool.id.name, pool.id.uid.as_str()), ("herd", fixtures::POOL_UID));
    assert_eq!((pool.namespace.as_str(), pool.generation, pool.deleting), ("rec", 1, false));
    assert_eq!(pool.settings.selector.as_ref().unwrap().to_string(), "app=herd");
    let settings = PoolSettings { selector: None, ..pool.settings };
    assert_eq!(
        settings,
        PoolSettings {
            replicas: 2,
            paused: false,
            max_unavailable: DisruptionBudget::Percent(100),
            healing: Value::Null,
            drain: Value::Null,
            image_refresh: Value::Null,
            recycle: Value::Null,
            max_protection: Value::Null,
            progress_deadline: Value::Null,
            max_provisioning: Value::Null,
            standby: Value::Null,
            start_obstacle: None,
            history_limit: Value::Null,
            scale_in: ScaleIn {
                mode: ScaleInMode::Proactive,
                selection: MachineSelection { order: SortPolicy::Random, machines: MachineSelector::All },
                preservation: StatePreservation::Disabled,
            },
            update: UpdateMode::Proactive(MachineSelection::default()),
            names: NameGenerationSettings {
                config_maps: true,
                secrets: true,
                ..NameGenerationSettings::NONE
            },
            data_volume_templates: vec![storage("root", Some("root"))],
            storage_classes: [Arc::from("")].into(),
            autohealing: None,
            selector: None,
        }
    );
}

#[rstest]
#[case::absent(json!({"replicas": null}), 1)]
#[case::zero(json!({"replicas": 0}), 0)]
#[case::five(json!({"replicas": 5}), 5)]
fn the_default_of_replicas_is_one(#[case] spec: Value, #[case] replicas: usize) {
    assert_eq!(read_with(&spec).replicas, replicas);
}

#[rstest]
#[case::absent(json!(null), DisruptionBudget::Percent(100))]
#[case::a_number(json!(3), DisruptionBudget::Machines(3))]
#[case::a_percentage(json!("25%"), DisruptionBudget::Percent(25))]
fn the_budget_is_a_number_or_a_percentage(#[case] value: Value, #[case] budget: DisruptionBudget) {
    assert_eq!(read_with(&json!({ "maxUnavailable": value })).max_unavailable, budget);
}

#[rstest]
#[case::empty(json!({}), ScaleInMode::Proactive, SortPolicy::Random, StatePreservation::Disabled)]
#[case::null_machines(
    json!({"proactive": null, "unmanaged": null}), ScaleInMode::Proactive, SortPolicy::Random, StatePreservation::Disabled)]
#[case::proactive(
    json!({"proactive": {"selectionPolicy": {"sortPolicy": "Oldest"}, "statePreservation": "Online"}}),
    ScaleInMode::Proactive, SortPolicy::Oldest, StatePreservation::Online)]
#[case::the_field_of_kubevirt_1_6(
    json!({"proactive": {"selectionPolicy": {"basePolicy": "DescendingOrder"}}}),
    ScaleInMode::Proactive, SortPolicy::DescendingOrder, StatePreservation::Disabled)]
#[case::the_new_field_overrides_that_of_kubevirt_1_6(
    json!({"proactive": {"selectionPolicy": {"basePolicy": "DescendingOrder", "sortPolicy": "Newest"}}}),
    ScaleInMode::Proactive, SortPolicy::Newest, StatePreservation::Disabled)]
#[case::opportunistic(
    json!({"opportunistic": {"statePreservation": "Offline"}}),
    ScaleInMode::Opportunistic, SortPolicy::Random, StatePreservation::Offline)]
#[case::unmanaged(json!({"unmanaged": {}}), ScaleInMode::Unmanaged, SortPolicy::Random, StatePreservation::Disabled)]
fn scale_in_is_read(
    #[case] strategy: Value,
    #[case] mode: ScaleInMode,
    #[case] order: SortPolicy,
    #[case] preservation: StatePreservation,
) {
    let scale_in = read_with(&json!({ "scaleInStrategy": strategy })).scale_in;
    assert_eq!((scale_in.mode, scale_in.selection.order, scale_in.preservation), (mode, order, preservation));
}

#[rstest]
#[case::empty(json!({}), UpdateMode::Proactive(MachineSelection::default()))]
#[case::proactive(
    json!({"proactive": {"selectionPolicy": {"sortPolicy": "AscendingOrder"}}}),
    UpdateMode::Proactive(MachineSelection { order: SortPolicy::AscendingOrder, ..MachineSelection::default() }))]
#[case::opportunistic(json!({"opportunistic": {}}), UpdateMode::Opportunistic)]
#[case::unmanaged(json!({"unmanaged": {}}), UpdateMode::Unmanaged)]
fn the_update_strategy_is_read(#[case] strategy: Value, #[case] update: UpdateMode) {
    assert_eq!(read_with(&json!({ "updateStrategy": strategy })).update, update);
}

#[rstest]
#[case::present(json!({}), 3, 300)]
#[case::with_values(json!({"startUpFailureThreshold": 4, "minFailingToStartDuration": "8m"}), 4, 480)]
#[case::zero_time(json!({"minFailingToStartDuration": "0s"}), 3, 0)]
fn autohealing_is_on_if_it_is_present(#[case] value: Value, #[case] threshold: u64, #[case] seconds: u64) {
    let autohealing = AutohealingSettings { threshold, failing_time: Duration::from_secs(seconds) };
    assert_eq!(read_with(&json!({ "autohealing": value })).autohealing, Some(autohealing));
}

/// Whether the safe value of the setting is in force.
type Safe = fn(&PoolSettings) -> bool;

#[rstest]
#[case::paused(json!({"paused": "yes"}), "paused \"yes\"", |s: &PoolSettings| s.paused)]
#[case::budget(json!({"maxUnavailable": "3"}), "maxUnavailable: ", |s: &PoolSettings| s.max_unavailable == DisruptionBudget::Machines(1))]
#[case::budget_of_zero(json!({"maxUnavailable": 0}), "maxUnavailable: ", |s: &PoolSettings| s.max_unavailable == DisruptionBudget::Machines(1))]
#[case::budget_above_all(json!({"maxUnavailable": "101%"}), "maxUnavailable: ", |s: &PoolSettings| s.max_unavailable == DisruptionBudget::Machines(1))]
#[case::config_maps(
    json!({"nameGeneration": {"appendIndexToConfigMapRefs": 1}}), "nameGeneration.appendIndexToConfigMapRefs 1", |s: &PoolSettings| !s.names.config_maps)]
#[case::autohealing(json!({"autohealing": []}), "autohealing []", |s: &PoolSettings| s.autohealing.is_none())]
#[case::threshold(json!({"autohealing": {"startUpFailureThreshold": 0}}), "startUpFailureThreshold 0", |s: &PoolSettings| s.autohealing.is_none())]
#[case::negative_duration(
    json!({"autohealing": {"minFailingToStartDuration": "-1m"}}), "minFailingToStartDuration \"-1m\"", |s: &PoolSettings| s.autohealing.is_none())]
#[case::scale_in_of_another_type(
    json!({"scaleInStrategy": []}), "scaleInStrategy [] is not an object",
    |s: &PoolSettings| s.scale_in.mode == ScaleInMode::Unmanaged && s.scale_in.preservation == StatePreservation::Offline)]
#[case::two_scale_in_strategies(
    json!({"scaleInStrategy": {"proactive": {}, "unmanaged": {}}}),
    "scaleInStrategy has more than one member", |s: &PoolSettings| s.scale_in.mode == ScaleInMode::Unmanaged)]
#[case::an_unknown_scale_in_strategy(
    json!({"scaleInStrategy": {"gentle": {}}}), "scaleInStrategy has the unknown member gentle", |s: &PoolSettings| s.scale_in.mode == ScaleInMode::Unmanaged)]
#[case::a_scale_in_machine_of_another_type(
    json!({"scaleInStrategy": {"proactive": true}}),
    "scaleInStrategy has a member proactive that is not an object", |s: &PoolSettings| s.scale_in.mode == ScaleInMode::Unmanaged)]
#[case::preservation(
    json!({"scaleInStrategy": {"proactive": {"statePreservation": "Always"}}}),
    "statePreservation \"Always\"", |s: &PoolSettings| s.scale_in.preservation == StatePreservation::Offline)]
#[case::order(
    json!({"scaleInStrategy": {"proactive": {"selectionPolicy": {"sortPolicy": "Fancy"}}}}),
    "sortPolicy \"Fancy\" is unknown", |s: &PoolSettings| s.scale_in.selection.order == SortPolicy::Random)]
#[case::selectors(
    json!({"scaleInStrategy": {"proactive": {"selectionPolicy": {"selectors": {"labelSelector": []}}}}}),
    "scaleInStrategy: selectors: the selector is not an object", |s: &PoolSettings| s.scale_in.selection.machines == MachineSelector::Nothing)]
#[case::two_update_strategies(
    json!({"updateStrategy": {"proactive": {}, "opportunistic": {}}}),
    "updateStrategy has more than one member", |s: &PoolSettings| s.update == UpdateMode::Unmanaged)]
#[case::update_selectors(
    json!({"updateStrategy": {"proactive": {"selectionPolicy": {"selectors": 1}}}}),
    "updateStrategy: selectors: selectors is not an object",
    |s: &PoolSettings| s.update == UpdateMode::Proactive(MachineSelection { machines: MachineSelector::Nothing, ..MachineSelection::default() }))]
fn a_setting_that_cannot_be_read_gets_its_safe_value(
    #[case] spec: Value,
    #[case] message: &str,
    #[case] safe: Safe,
) {
    let pool = pool_with(&spec);
    assert_eq!(pool.validation_errors, Vec::<String>::new());
    let [only] = pool.invalid_settings.as_slice() else { panic!("{:?}", pool.invalid_settings) };
    assert!(only.contains(message) && only.ends_with("; correct or remove it"), "{only}");
    assert!(safe(&pool.settings), "{:?}", pool.settings);
    assert_eq!(pool.settings.replicas, 2, "the other settings stay in force");
}

#[rstest]
#[case::replicas(json!({"replicas": -1}), "replicas -1 is not a count")]
#[case::no_selector(json!({"selector": null}), "selector: the selector is not an object")]
#[case::an_unknown_operator(
    json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}), "selector: operator \"Like\"")]
#[case::no_template(json!({"virtualMachineTemplate": {"spec": {"template": null}}}), "virtualMachineTemplate.spec.template is missing")]
#[case::another_template_type(json!({"virtualMachineTemplate": {"spec": 1}}), "virtualMachineTemplate.spec.template is missing")]
#[case::labels_that_do_not_match(
    json!({"virtualMachineTemplate": {"metadata": {"labels": {"app": "x"}}}}), "selector app=herd does not match labels")]
#[case::no_labels(json!({"virtualMachineTemplate": {"metadata": null}}), "selector app=herd does not match labels")]
#[case::another_selector(json!({"selector": {"matchLabels": {"app": "x"}}}), "selector app=x does not match labels")]
fn a_pool_with_a_validation_error_loses_no_machine(#[case] spec: Value, #[case] message: &str) {
    let pool = pool_with(&spec);
    assert!(pool.validation_errors[0].contains(message), "{:?}", pool.validation_errors);
    assert_eq!(pool.settings.scale_in.mode, ScaleInMode::Unmanaged);
    assert_eq!(pool.settings.update, UpdateMode::Unmanaged);
    let releases = pool.settings.selector.is_some_and(|selector| {
        let labels = CachedLabels::from_json(&fixtures::recorded_machine()["metadata"]["labels"]);
        !selector.matches(&labels.unwrap())
    });
    assert!(!releases, "it releases its machines");
}

#[test]
fn a_pool_whose_name_leaves_no_place_for_a_generation_is_invalid() {
    let errors = |name: &str| {
        let mut object = fixtures::recorded_pool();
        object["metadata"]["name"] = name.into();
        read_pool_facts(&serde_json::from_value(object).unwrap()).validation_errors
    };
    assert_eq!(errors(&"p".repeat(61)), Vec::<String>::new());
    assert!(errors(&"p".repeat(62))[0].contains("62 bytes"));
}

#[rstest]
#[case::null(json!(null))]
#[case::a_text(json!("x"))]
#[case::a_list(json!([1]))]
fn a_spec_of_another_type_is_a_validation_error(#[case] spec: Value) {
    let mut object = fixtures::recorded_pool();
    object["spec"] = spec;
    let pool = read_pool_facts(&serde_json::from_value(object).unwrap());
    assert!(!pool.validation_errors.is_empty());
}

fn stored_machine(edit: &Value) -> KubeVirtMachineObject {
    let mut object = fixtures::recorded_machine();
    json_patch::merge(&mut object, edit);
    serde_json::from_value(object).unwrap()
}

#[test]
fn storage_of_templates_and_of_volumes_is_listed_once() {
    let volumes = json!([
        { "name": "a", "dataVolume": { "name": "root-0" } },
        { "name": "b", "dataVolume": { "name": "extra" } },
        { "name": "c", "persistentVolumeClaim": { "claimName": "claim" } },
    ]);
    let machine = stored_machine(&json!({ "spec": { "template": { "spec": { "volumes": volumes } } } }));
    let texts = |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&data_volume_names(&machine)), ["root-0", "extra"]);
    assert_eq!(texts(&claim_names(&machine)), ["root-0", "claim"]);
    // The storage that an update took out of the machine comes last.
    let former = json!({ "metadata": { "annotations": { "vmpool.dev/former-storage": "logs-0,extra" } } });
    let former = stored_machine(&former);
    assert_eq!(texts(&data_volume_names(&former)), ["root-0", "logs-0", "extra"]);
    assert_eq!(texts(&claim_names(&former)), ["root-0", "logs-0", "extra"]);
}

fn storage(name: &str, volume: Option<&str>) -> StorageTemplate {
    StorageTemplate { name: name.into(), volume: volume.map(Arc::from) }
}

#[test]
fn a_storage_template_is_read_with_the_volume_that_refers_to_it() {
    let template = json!({ "virtualMachineTemplate": { "spec": {
        "dataVolumeTemplates": [
            { "metadata": { "name": "boot" } }, { "metadata": { "name": "logs" } }, { "metadata": { "name": "unused" } },
            { "metadata": {} }, 7,
        ],
        "template": { "spec": { "volumes": [
            { "name": "unused", "containerDisk": {} },
            { "name": "os", "dataVolume": { "name": "boot" } },
            { "name": "var-log", "persistentVolumeClaim": { "claimName": "logs" } },
        ] } },
    } } });
    let expected = [storage("boot", Some("os")), storage("logs", Some("var-log")), storage("unused", None)];
    assert_eq!(read_pool_settings(&template).data_volume_templates, expected);
    let hostile =
        json!({ "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": {}, "template": 3 } } });
    assert!(read_pool_settings(&hostile).data_volume_templates.is_empty());
}

//! Sizing policies, the default class, and classes that cannot be read.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::{ClassName, default_class};
use super::*;

fn sized(cores: i32, fraction: &Value, memory: &str) -> Value {
    let pool = machine("/cpu", json!({ "cores": cores, "coreFraction": fraction }));
    with(pool, &format!("{MACHINE}/memory/size"), json!(memory))
}

#[rstest]
#[case::all_in_range(2, json!("25%"), "1Gi", None)]
#[case::the_fraction_is_left_to_the_class(2, Value::Null, "1Gi", None)]
#[case::a_fraction_that_is_not_listed(2, json!("50%"), "1Gi", Some("use 5%, 25%, 100%, or leave it out"))]
#[case::the_least_memory(2, json!("5%"), "512Mi", None)]
#[case::less_than_the_least(2, json!("5%"), "511Mi", Some("use at least 512Mi"))]
#[case::less_than_each_core_needs(4, json!("5%"), "512Mi", Some("use more memory, or fewer than 4 cores"))]
#[case::the_most_for_one_core(1, json!("5%"), "4Gi", None)]
#[case::what_two_cores_may_have(2, json!("5%"), "6Gi", None)]
#[case::more_than_one_core_may_have(1, json!("5%"), "4608Mi", Some("use less memory, or more than 1 cores"))]
#[case::more_than_the_most(4, json!("5%"), "9Gi", Some("use at most 8Gi"))]
#[case::between_two_steps(2, json!("5%"), "1100Mi", Some("use 512Mi and a multiple of 512Mi more"))]
#[case::between_two_policies(6, json!("5%"), "1Gi", Some("use 1 to 4, 8 to 248, or another class"))]
#[case::the_second_policy_limits_no_memory(16, json!("33%"), "1Ti", None)]
#[case::a_step_of_cores(12, json!("33%"), "1Ti", Some("use 8 and a multiple of 8 more"))]
#[case::auto_with_a_choice(2, json!("Auto"), "1Gi", None)]
#[case::auto_without_a_list(16, json!("Auto"), "1Gi", None)]
fn sizes_fit_the_class(
    #[case] cores: i32,
    #[case] fraction: Value,
    #[case] memory: &str,
    #[case] way_out: Option<&str>,
) {
    let verdict = World::complete().create(&sized(cores, &fraction, memory));
    match (way_out, &verdict.outcome) {
        (None, AdmissionDecision::Allowed) => {}
        (Some(way_out), AdmissionDecision::Refused(refusal)) => {
            let refusal = refusal.first();
            assert_eq!(refusal.rule, Rule::Sizing);
            assert!(refusal.detail.ends_with(way_out), "{refusal}");
        }
        _ => panic!("{verdict:?}"),
    }
}

#[rstest]
#[case::one_fraction(json!(["10%", "100%"]), true)]
#[case::two_fractions(json!(["10%", "20%"]), false)]
#[case::numbers_as_other_versions_write_them(json!([10, 20, 100]), false)]
#[case::an_empty_list(json!([]), true)]
fn auto_needs_something_to_choose_from(#[case] fractions: Value, #[case] is_refused: bool) {
    let class = with(small(), "/spec/sizingPolicies/0/coreFractions", fractions);
    let verdict = World::complete().with_class(&class).create(&machine("/cpu/coreFraction", json!("Auto")));
    assert_eq!(refused(&verdict), is_refused.then_some(Rule::AutoFraction));
}

/// The fraction is left to a class that leaves it to the vertical autoscaler of the platform.
#[rstest]
#[case::a_choice(json!(["10%", "20%", "100%"]), CapabilityState::Yes, "512Mi", None)]
#[case::unknown_resize(json!(["10%", "20%", "100%"]), CapabilityState::Unknown, "512Mi", None)]
#[case::every_fraction(Value::Null, CapabilityState::Yes, "512Mi", None)]
#[case::no_choice(json!(["10%", "100%"]), CapabilityState::Yes, "512Mi", Some(Rule::AutoFraction))]
#[case::no_resize(json!(["10%", "20%"]), CapabilityState::No, "512Mi", Some(Rule::AutoFraction))]
#[case::no_resize_and_no_list(Value::Null, CapabilityState::No, "512Mi", Some(Rule::AutoFraction))]
#[case::too_little_memory(json!(["10%", "20%"]), CapabilityState::Yes, "511Mi", Some(Rule::Sizing))]
fn a_class_can_choose_auto_by_default(
    #[case] fractions: Value,
    #[case] in_place_resize: CapabilityState,
    #[case] memory: &str,
    #[case] expected: Option<Rule>,
) {
    let class = with(small(), "/spec/sizingPolicies/0/coreFractions", fractions);
    let class = with(class, "/spec/sizingPolicies/0/defaultCoreFraction", json!("Auto"));
    let mut world = World::complete().with_class(&class);
    world.settings.cluster.in_place_resize = in_place_resize;
    let verdict = world.create(&sized(2, &Value::Null, memory));
    assert_eq!(refused(&verdict), expected, "{verdict:?}");
    assert_eq!(verdict.warnings, [], "the class is understood");
    // A pool that sets a percentage does not depend on it.
    assert_eq!(refused(&world.create(&sized(2, &json!("10%"), "512Mi"))), None);
}

#[rstest]
#[case::the_first(3, 4, true)]
#[case::counted_from_the_least(3, 7, true)]
#[case::between_two(3, 8, false)]
#[case::no_multiple_of_the_least(3, 6, false)]
#[case::a_step_of_nothing_is_none(0, 5, true)]
fn steps_begin_at_the_least(#[case] step: i32, #[case] cores: i32, #[case] is_allowed: bool) {
    let range = json!({ "min": 4, "max": 8, "step": step });
    let class = with(small(), "/spec/sizingPolicies", json!([{ "cores": range }]));
    let verdict = World::complete().with_class(&class).create(&sized(cores, &json!("5%"), "1Gi"));
    assert_eq!(refused(&verdict), (!is_allowed).then_some(Rule::Sizing));
}

#[rstest]
#[case::the_least("3Gi", "1Gi", true)]
#[case::counted_from_the_least("3Gi", "4Gi", true)]
#[case::no_multiple_of_the_least("3Gi", "3Gi", false)]
#[case::the_most("3Gi", "7Gi", true)]
#[case::more_than_the_most("3Gi", "10Gi", false)]
#[case::a_step_of_nothing_is_none("0", "2Gi", true)]
fn steps_of_memory_begin_at_the_least(#[case] step: &str, #[case] size: &str, #[case] is_allowed: bool) {
    let memory = json!({ "min": "1Gi", "max": "7Gi", "step": step });
    let policy = json!([{ "cores": { "min": 1, "max": 4 }, "memory": memory }]);
    let class = with(small(), "/spec/sizingPolicies", policy);
    let verdict = World::complete().with_class(&class).create(&sized(1, &json!("5%"), size));
    assert_eq!(refused(&verdict), (!is_allowed).then_some(Rule::Sizing));
}

#[rstest]
#[case::no_spec(json!({ "metadata": { "name": "small" } }))]
#[case::no_policies(json!({ "metadata": { "name": "small" }, "spec": { "sizingPolicies": [] } }))]
fn a_class_without_policies_allows_every_size(#[case] class: Value) {
    assert_allowed(&World::complete().with_class(&class).create(&sized(6, &json!("77%"), "123Mi")));
}

#[test]
fn a_class_that_is_not_understood_warns_and_limits_nothing() {
    let class = with(small(), "/spec/sizingPolicies/0/coreFractions", json!(["half"]));
    let verdict = World::complete().with_class(&class).create(&sized(6, &json!("77%"), "1Gi"));
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
    assert_eq!(
        verdict.warnings[0].to_string(),
        "spec.virtualMachineTemplate.spec.virtualMachineClassName: the sizing policies of class \"small\" are not \
         understood, so sizes are not checked: \"half\" is no core fraction (rule W5w)"
    );
}

#[test]
fn without_a_name_the_default_class_counts() {
    let pool = machine("/virtualMachineClassName", Value::Null);
    let world = World::complete();
    assert_eq!(world.needs(None, &pool).unwrap().class, Some(ClassName::Default));
    assert_eq!(
        refused(&world.create(&with(pool.clone(), &format!("{MACHINE}/cpu/cores"), json!(6)))),
        Some(Rule::Sizing)
    );
    let mut none = World::complete();
    none.facts.class = Some(LookupOutcome::Absent);
    let verdict = none.create(&pool);
    assert!(verdict.warnings[0].to_string().contains("has no default class; name one"), "{verdict:?}");
}

#[test]
fn the_default_class_is_the_one_that_says_so() {
    let class = |name: &str, mark: Value| {
        let key = "virtualmachineclass.virtualization.deckhouse.io/is-default-class";
        json!({ "metadata": { "name": name, "annotations": { key: mark } } })
    };
    let classes = [class("a", json!("false")), class("b", json!("true")), class("c", Value::Null)];
    assert_eq!(default_class(&classes), Some(&classes[1]));
    assert_eq!(default_class(&classes[2..]), None);
}

#[test]
fn a_read_that_failed_decides_nothing_where_a_rule_would_refuse() {
    let failed = || "connection refused".to_owned();
    let mut world = World::complete();
    world.facts.class = Some(LookupOutcome::Failed(failed()));
    assert_eq!(
        world.create(&pool()).outcome,
        AdmissionDecision::Undecided(
            "reading class \"small\", which spec.virtualMachineTemplate.spec.virtualMachineClassName means: \
             connection refused"
                .to_owned()
        )
    );
    let mut world = World::complete();
    let id = ImageId { kind: ImageKind::Cluster, name: "toolbox".to_owned() };
    world.facts.images.insert(id, LookupOutcome::Failed(failed()));
    let bootable = machine(
        "/blockDeviceRefs",
        json!([
            { "kind": "ClusterVirtualImage", "name": "toolbox" },
            { "kind": "VirtualDisk", "name": "root" },
            { "kind": "VirtualDisk", "name": "cache" },
        ]),
    );
    assert!(matches!(world.create(&bootable).outcome, AdmissionDecision::Undecided(_)));
    // If a rule that only warns cannot be evaluated, the verdict has a warning about that.
    let id = ImageId { kind: ImageKind::Cluster, name: "debian".to_owned() };
    world.facts.images.insert(id, LookupOutcome::Failed(failed()));
    let verdict = world.create(&pool());
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
    assert!(verdict.warnings[0].to_string().contains("\"debian\" could not be read"), "{verdict:?}");
}

#[test]
fn what_is_not_ready_or_not_there_is_let_through() {
    let mut world = World::complete().image("toolbox", VirtualImageFacts::default());
    let bootable = machine(
        "/blockDeviceRefs",
        json!([
            { "kind": "ClusterVirtualImage", "name": "toolbox" },
            { "kind": "VirtualDisk", "name": "root" },
            { "kind": "VirtualDisk", "name": "cache" },
        ]),
    );
    assert_allowed(&world.create(&bootable));
    world = world.image("toolbox", VirtualImageFacts { ready: true, cdrom: true, unpacked: None });
    assert_allowed(&world.create(&bootable));
    world.facts.images.clear();
    assert_allowed(&world.create(&bootable));
}

#[test]
fn a_snapshot_has_a_size_too() {
    let source =
        json!({ "type": "ObjectRef", "objectRef": { "kind": "VirtualDiskSnapshot", "name": "monday" } });
    let pool = disk(0, "/spec/dataSource", source);
    assert_allowed(&World::complete().snapshot("monday", 10 << 30).create(&pool));
    let verdict = World::complete().snapshot("monday", (10 << 30) + 1).create(&pool);
    assert_eq!(verdict.warnings.len(), 1);
    assert_eq!(verdict.warnings[0].rule, Rule::DiskBelowSource);
}

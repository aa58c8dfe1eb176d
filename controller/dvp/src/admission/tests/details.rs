//! Limits of single rules: the field of a refusal, and values that are just allowed.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// The field and the rule of a refused create; `None` if the create is allowed.
fn blame(pool: &Value) -> Option<(String, Rule)> {
    match World::complete().create(pool).outcome {
        AdmissionDecision::Refused(refusals) => {
            let refusal = refusals.first();
            Some((refusal.field.replace("spec.virtualMachineTemplate.spec", "M"), listed(refusal.rule)))
        }
        AdmissionDecision::Allowed => None,
        AdmissionDecision::Malformed(reason) | AdmissionDecision::Undecided(reason) => panic!("{reason}"),
    }
}

fn assert_blames(pool: &Value, field: Option<&str>, rule: Rule) {
    assert_eq!(blame(pool), field.map(|field| (field.to_owned(), rule)));
}

#[rstest]
#[case::fifty_seven(&"b".repeat(57), false)]
#[case::fifty_eight(&"b".repeat(58), true)]
fn names_have_room_for_a_suffix(#[case] name: &str, #[case] is_refused: bool) {
    let verdict = World::complete().create(&with(pool(), "/metadata/name", json!(name)));
    assert_eq!(refused(&verdict), is_refused.then_some(Rule::NameLength));
}

#[rstest]
#[case::no_order(json!([null, null, null]), None)]
#[case::all_ordered(json!([1, 2, 3]), None)]
#[case::gaps(json!([7, null, 3]), None)]
#[case::zero(json!([0, null, null]), Some("M.blockDeviceRefs[0].bootOrder"))]
#[case::below_zero(json!([null, null, -3]), Some("M.blockDeviceRefs[2].bootOrder"))]
#[case::twice(json!([1, 2, 1]), Some("M.blockDeviceRefs[2].bootOrder"))]
fn boot_orders(#[case] orders: Value, #[case] field: Option<&str>) {
    let mut pool = pool();
    for (index, order) in orders.as_array().unwrap().iter().enumerate() {
        pool = with(pool, &format!("{MACHINE}/blockDeviceRefs/{index}/bootOrder"), order.clone());
    }
    assert_blames(&pool, field, Rule::Devices);
}

/// A disk and an image can have the same name.
#[test]
fn kinds_have_names_of_their_own() {
    assert_blames(&machine("/blockDeviceRefs/1/name", json!("root")), None, Rule::Devices);
}

#[rstest]
#[case::none(0, false)]
#[case::one(1, true)]
#[case::sixteen(16, true)]
#[case::seventeen(17, false)]
#[case::thirty_two(32, true)]
#[case::thirty_four(34, false)]
#[case::thirty_six(36, true)]
#[case::sixty_eight(68, false)]
#[case::seventy_two(72, true)]
#[case::the_most(248, true)]
#[case::more(256, false)]
#[case::below_zero(-8, false)]
fn cores_fill_sockets(#[case] cores: i32, #[case] fits: bool) {
    let mut world = World::complete();
    world.facts.class = Some(LookupOutcome::Absent);
    let verdict = world.create(&machine("/cpu/cores", json!(cores)));
    assert_eq!(refused(&verdict), (!fits).then_some(Rule::Cores), "{verdict:?}");
}

#[rstest]
#[case::a_percentage(json!("1%"), true)]
#[case::all(json!("100%"), true)]
#[case::more(json!("101%"), false)]
#[case::none(json!("0%"), false)]
#[case::a_leading_zero(json!("05%"), false)]
#[case::a_sign(json!("+5%"), false)]
#[case::small_letters(json!("auto"), false)]
#[case::nothing(json!(""), false)]
fn core_fractions(#[case] fraction: Value, #[case] good: bool) {
    let mut world = World::complete();
    world.facts.class = Some(LookupOutcome::Absent);
    let verdict = world.create(&machine("/cpu/coreFraction", fraction));
    assert_eq!(refused(&verdict), (!good).then_some(Rule::BadCoreFraction));
}

#[rstest]
#[case::main(json!([{ "type": "Main" }]), None)]
#[case::main_with_its_id(json!([{ "type": "Main", "id": 1 }, { "type": "Network", "name": "a", "id": 2 }]), None)]
#[case::without_main(json!([{ "type": "Network", "name": "a" }, { "type": "ClusterNetwork", "name": "a" }]), None)]
#[case::main_has_no_name(json!([{ "type": "Main", "name": "a" }]), Some("M.networks[0].name"))]
#[case::others_have_one(json!([{ "type": "Main" }, { "type": "Network" }]), Some("M.networks[1].name"))]
#[case::an_empty_name(json!([{ "type": "ClusterNetwork", "name": "" }]), Some("M.networks[0].name"))]
#[case::main_comes_first(json!([{ "type": "Network", "name": "a" }, { "type": "Main" }]), Some("M.networks[1].type"))]
#[case::main_twice(json!([{ "type": "Main" }, { "type": "Main" }]), Some("M.networks[1].name"))]
#[case::one_network_twice(json!([{ "type": "Network", "name": "a" }, { "type": "Network", "name": "a" }]), Some("M.networks[1].name"))]
#[case::main_is_number_one(json!([{ "type": "Main", "id": 2 }]), Some("M.networks[0].id"))]
#[case::no_zero(json!([{ "type": "Network", "name": "a", "id": 0 }]), Some("M.networks[0].id"))]
#[case::the_greatest(json!([{ "type": "Network", "name": "a", "id": 16_383 }]), None)]
#[case::beyond(json!([{ "type": "Network", "name": "a", "id": 16_384 }]), Some("M.networks[0].id"))]
#[case::an_id_twice(json!([{ "type": "Network", "name": "a", "id": 5 }, { "type": "Network", "name": "b", "id": 5 }]), Some("M.networks[1].id"))]
#[case::the_id_of_main(json!([{ "type": "Main" }, { "type": "Network", "name": "b", "id": 1 }]), Some("M.networks[1].id"))]
#[case::an_unknown_type(json!([{ "type": "Internet", "name": "a" }]), Some("M.networks[0].type"))]
fn a_list_of_networks(#[case] networks: Value, #[case] field: Option<&str>) {
    assert_blames(&machine("/networks", networks), field, Rule::Networks);
}

#[rstest]
#[case::implicit(Value::Null, true)]
#[case::an_empty_list(json!([]), true)]
#[case::explicit(json!([{ "type": "Main" }]), true)]
#[case::others(json!([{ "type": "Network", "name": "a" }]), false)]
fn without_address_ranges_there_is_no_main_network(#[case] networks: Value, #[case] is_refused: bool) {
    let world = World::without(|cluster| cluster.machine_cidrs = CapabilityState::No);
    let verdict = world.create(&machine("/networks", networks));
    assert_eq!(refused(&verdict), is_refused.then_some(Rule::Networks));
}

#[test]
fn without_software_defined_networks_there_is_only_the_main_one() {
    let world = World::without(|cluster| cluster.sdn = CapabilityState::No);
    let main = json!({ "type": "Main" });
    assert_allowed(&world.create(&machine("/networks", json!([main]))));
    let verdict =
        world.create(&machine("/networks", json!([main, { "type": "ClusterNetwork", "name": "a" }])));
    assert_eq!(refused(&verdict), Some(Rule::Networks));
}

#[rstest]
#[case::another_address("/networks", json!([{ "type": "Main", "ipAddressName": "a" }]), "M.networks[0].ipAddressName")]
#[case::another_mac("/networks", json!([{ "type": "Main", "virtualMachineMACAddressName": "a" }]), "M.networks[0].virtualMachineMACAddressName")]
#[case::usb("/usbDevices", json!([{ "name": "a" }]), "M.usbDevices")]
fn per_machine_fields_are_refused(#[case] below: &str, #[case] value: Value, #[case] field: &str) {
    assert_blames(&machine(below, value), Some(field), Rule::Identities);
    assert_blames(&machine("/usbDevices", json!([])), None, Rule::Identities);
}

#[rstest]
#[case::in_a_key(json!({ "vm.kubevirt.io/name": "a" }), Rule::PlatformKeys)]
#[case::in_the_middle(json!({ "x/kubevirt.io": "a" }), Rule::PlatformKeys)]
#[case::ours(json!({ "vmpool.virtualization.deckhouse.io/patched-template-hash": "a" }), Rule::ReservedKeys)]
#[case::of_protection(json!({ "vmpool.dev/protected-until": "2030-01-01T00:00:00Z" }), Rule::ReservedKeys)]
#[case::no_text(json!({ "a": 1 }), Rule::Unreadable)]
fn annotations_are_as_guarded_as_labels(#[case] keys: Value, #[case] rule: Rule) {
    for kind in ["labels", "annotations"] {
        let pool = with(pool(), &format!("/spec/virtualMachineTemplate/metadata/{kind}"), keys.clone());
        assert_eq!(refused(&World::complete().create(&pool)), Some(rule), "{kind}");
    }
}

#[rstest]
#[case::a_script("#!/bin/sh\n: [", 0)]
#[case::a_config("#cloud-config\npackages: [git]\n", 0)]
#[case::only_comments("#cloud-config\n# nothing\n", 0)]
#[case::a_template("## template: jinja\n#cloud-config\na: {{ b }}\n", 0)]
#[case::an_archive("#cloud-config-archive\n- content: a\n", 0)]
#[case::no_header("packages: [git]\n", 1)]
#[case::nothing("", 1)]
#[case::a_list("#cloud-config\n- git\n", 1)]
#[case::broken("#cloud-config\na: [\n", 1)]
#[case::an_alias_of_itself("#cloud-config\na: &a [*a]\n", 1)]
fn user_data_is_looked_at(#[case] text: &str, #[case] warnings: usize) {
    let verdict =
        World::complete().create(&machine("/provisioning", json!({ "type": "UserData", "userData": text })));
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
    assert_eq!(verdict.warnings.len(), warnings, "{:?}", verdict.warnings);
}

#[test]
fn user_data_is_never_repeated() {
    for text in ["hunter2".to_owned(), format!("#cloud-config\n- hunter2 {}", "x".repeat(3000))] {
        let pool = machine("/provisioning", json!({ "type": "UserData", "userData": text }));
        assert!(!format!("{:?}", World::complete().create(&pool)).contains("hunter2"));
    }
}

#[rstest]
#[case::the_wrong_part(json!({ "type": "UserDataRef", "userData": "#!" }), "this type needs userDataRef")]
#[case::two_parts(json!({ "type": "UserData", "userData": "#!", "sysprepRef": { "name": "a" } }), "this type takes no sysprepRef")]
#[case::an_unknown_type(json!({ "type": "Ignition" }), "no such type")]
fn provisioning_has_one_part(#[case] provisioning: Value, #[case] reason: &str) {
    let AdmissionDecision::Refused(refusal) =
        World::complete().create(&machine("/provisioning", provisioning)).outcome
    else {
        panic!("it is allowed");
    };
    let refusal = refusal.first();
    assert!(refusal.rule == Rule::Provisioning && refusal.detail.starts_with(reason), "{refusal}");
}

#[rstest]
#[case::another_part(json!({ "type": "ContainerImage", "http": { "url": "http://a/b" } }))]
#[case::a_part_too_many(json!({ "type": "ObjectRef", "objectRef": { "kind": "VirtualImage", "name": "a" }, "http": { "url": "http://a/b" } }))]
#[case::no_type(json!({ "http": { "url": "http://a/b" } }))]
#[case::an_unknown_type(json!({ "type": "Tape" }))]
fn data_sources_have_one_part(#[case] source: Value) {
    assert_blames(
        &disk(0, "/spec/dataSource", source),
        Some("spec.virtualDiskTemplates[root].spec.dataSource.type"),
        Rule::DataSource,
    );
}

#[rstest]
#[case::zero(json!("0Gi"))]
#[case::below_zero(json!("-1Gi"))]
#[case::a_word(json!("large"))]
#[case::a_number(json!(0))]
#[case::too_much(json!("1e30"))]
#[case::nothing(Value::Null)]
fn sizes_are_amounts(#[case] size: Value) {
    let pool = disk(1, "/spec/persistentVolumeClaim/size", size);
    assert_blames(
        &pool,
        Some("spec.virtualDiskTemplates[cache].spec.persistentVolumeClaim.size"),
        Rule::DiskSize,
    );
}

#[rstest]
#[case::no_unit("90", true)]
#[case::a_plus("+90s", false)]
#[case::a_minus("-90s", true)]
#[case::below_zero("-5m", true)]
#[case::nothing_at_all("0s", true)]
#[case::in_parts("1h30m", false)]
#[case::a_fraction("1.5h", false)]
fn ttls_are_durations(#[case] ttl: &str, #[case] is_refused: bool) {
    let field = is_refused.then_some("spec.virtualDiskTemplates[cache].reclaim.ttl");
    assert_blames(&disk(1, "/reclaim/ttl", json!(ttl)), field, Rule::BadTtl);
}

/// An empty reclaim and a missing one both mean Delete.
#[test]
fn an_absent_policy_is_delete() {
    let world = World::complete();
    let delete = disk(0, "/reclaim", json!({ "onScaleDown": "Delete" }));
    for same in [disk(0, "/reclaim", json!({})), pool()] {
        assert_allowed(&world.update(&delete, &same));
        assert_allowed(&world.update(&same, &delete));
    }
}

const HOST: &str = "kubernetes.io/hostname";

#[rstest]
#[case::no_terms(json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } } }), "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")]
#[case::no_weight(json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 0, "preference": {} }] } }), "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight")]
#[case::no_place(json!({ "virtualMachineAndPodAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "" }] } }), "virtualMachineAndPodAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey")]
#[case::a_value_no_label_has(json!({ "virtualMachineAndPodAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": HOST, "labelSelector": { "matchLabels": { "app": "a b" } } }] } }), "virtualMachineAndPodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels[app]")]
#[case::a_namespace_in_capitals(json!({ "virtualMachineAndPodAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": HOST, "namespaces": ["A"] }] } }), "virtualMachineAndPodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[0]")]
#[case::a_key_that_is_selected_already(json!({ "virtualMachineAndPodAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": HOST, "labelSelector": { "matchLabels": { "a": "b" } }, "matchLabelKeys": ["a"] }] } }), "virtualMachineAndPodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]")]
#[case::a_key_in_two_places(json!({ "virtualMachineAndPodAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": HOST, "labelSelector": {}, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b", "a"] }] } }), "virtualMachineAndPodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].mismatchLabelKeys[1]")]
#[case::a_key_of_an_expression(json!({ "virtualMachineAndPodAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": HOST, "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] }, "mismatchLabelKeys": ["a"] }] } }), "virtualMachineAndPodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].mismatchLabelKeys[0]")]
#[case::keys_without_a_selector(json!({ "virtualMachineAndPodAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "virtualMachineAndPodAffinityTerm": { "topologyKey": HOST, "matchLabelKeys": ["a"] } }] } }), "virtualMachineAndPodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].virtualMachineAndPodAffinityTerm.matchLabelKeys[0]")]
fn affinity_is_that_of_a_pod(#[case] affinity: Value, #[case] field: &str) {
    assert_blames(&machine("/affinity", affinity), Some(&format!("M.affinity.{field}")), Rule::Placement);
}

#[rstest]
#[case::values(json!({ "key": "a", "operator": "In", "values": ["x", "y"] }), None)]
#[case::existence(json!({ "key": "example.com/a", "operator": "Exists" }), None)]
#[case::a_comparison(json!({ "key": "a", "operator": "Gt", "values": ["-16"] }), None)]
#[case::existence_of_values(json!({ "key": "a", "operator": "DoesNotExist", "values": ["x"] }), Some("values"))]
#[case::two_numbers(json!({ "key": "a", "operator": "Lt", "values": ["1", "2"] }), Some("values"))]
#[case::no_number(json!({ "key": "a", "operator": "Gt", "values": ["many"] }), Some("values"))]
#[case::no_operator(json!({ "key": "a", "operator": "Near" }), Some("operator"))]
#[case::no_key(json!({ "key": "", "operator": "Exists" }), Some("key"))]
#[case::two_slashes(json!({ "key": "a/b/c", "operator": "Exists" }), Some("key"))]
fn requirements_on_nodes(#[case] requirement: Value, #[case] below: Option<&str>) {
    let path = "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [requirement] }],
    } } });
    let field = below.map(|below| format!("M.affinity.{path}[0].matchExpressions[0].{below}"));
    assert_blames(&machine("/affinity", affinity), field.as_deref(), Rule::Placement);
}

#[rstest]
#[case::one_node(json!({ "key": "metadata.name", "operator": "In", "values": ["node-1"] }), None)]
#[case::two_nodes(json!({ "key": "metadata.name", "operator": "In", "values": ["a", "b"] }), Some("values"))]
#[case::no_name(json!({ "key": "metadata.name", "operator": "NotIn", "values": ["A"] }), Some("values"))]
#[case::another_field(json!({ "key": "spec.taints", "operator": "In", "values": ["a"] }), Some("key"))]
#[case::existence(json!({ "key": "metadata.name", "operator": "Exists" }), Some("operator"))]
fn fields_of_nodes(#[case] requirement: Value, #[case] below: Option<&str>) {
    let path = "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0]";
    let affinity = json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
        { "weight": 100, "preference": { "matchFields": [requirement] } },
    ] } });
    let field = below.map(|below| format!("M.affinity.{path}.{below}"));
    assert_blames(&machine("/affinity", affinity), field.as_deref(), Rule::Placement);
}

#[rstest]
#[case::good(json!({}), None)]
#[case::no_skew(json!({ "maxSkew": 0 }), Some("maxSkew"))]
#[case::no_place(json!({ "topologyKey": "-" }), Some("topologyKey"))]
#[case::no_word(json!({ "whenUnsatisfiable": "Cry" }), Some("whenUnsatisfiable"))]
#[case::no_values(json!({ "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "In", "values": [] }] } }), Some("labelSelector.matchExpressions[0].values"))]
fn spread_constraints(#[case] change: Value, #[case] below: Option<&str>) {
    let mut constraint = json!({ "maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule" });
    constraint.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let field = below.map(|below| format!("M.topologySpreadConstraints[0].{below}"));
    assert_blames(
        &machine("/topologySpreadConstraints", json!([constraint])),
        field.as_deref(),
        Rule::Placement,
    );
    let field = field.or_else(|| Some("M.topologySpreadConstraints[1].topologyKey".to_owned()));
    let twice = json!([constraint, constraint]);
    assert_blames(&machine("/topologySpreadConstraints", twice), field.as_deref(), Rule::Placement);
}

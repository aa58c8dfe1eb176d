mod answers;

use rstest::rstest;
use serde_json::json;
use vmpool_decision::decide_with;
use vmpool_platform::ReferencedObject;

use super::super::fixtures;
use super::*;

const NAMESPACE: &str = "studio";
const TYPES: &str =
    "/apis/instancetype.kubevirt.io/v1beta1/namespaces/studio/virtualmachineinstancetypes/small";
const REVISIONS: &str = "/apis/apps/v1/namespaces/studio/controllerrevisions/";

fn instancetype(memory: &str) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineInstancetype",
        "metadata": { "name": "small", "namespace": NAMESPACE, "uid": "uid-of-small", "generation": 1 },
        "spec": { "cpu": { "guest": 2 }, "memory": { "guest": memory } },
    })
}

fn spec() -> Value {
    json!({
        "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
        "template": { "spec": { "domain": { "devices": {} } } },
    })
}

/// Expands with a cluster that has these objects, by their paths.
fn with(cluster: &[(String, Value)], expand: impl Fn(&FetchedObjects) -> Expansion) -> Expansion {
    decide_with(
        |reference| object_of(cluster, reference),
        |found| match expand(found) {
            Expansion::Needs(needs) => Err(needs),
            ended => Ok(ended),
        },
    )
}

fn object_of(cluster: &[(String, Value)], reference: &ReferencedObject) -> Option<Value> {
    let path = format!("{}/{}", reference.collection, reference.name);
    cluster.iter().find(|(known, _)| *known == path).map(|(_, object)| object.clone())
}

/// Expands a machine in a cluster without KubeVirt.
fn start(vm: &Value, namespace: &str, found: &FetchedObjects) -> Expansion {
    expand_machine_object(vm, namespace, ExpansionForm::Complete, found, Some(&StartDefaults::default()))
}

/// Expands a pool in a cluster without KubeVirt.
fn of_pool(pool: &Value, which: &RevisionToExpand, index: Option<u64>, found: &FetchedObjects) -> Expansion {
    super::expand_pool(pool, NAMESPACE, which, index, found, Some(&StartDefaults::default()))
}

fn done(expansion: Expansion) -> Value {
    match expansion {
        Expansion::Done(value) => value,
        other => panic!("{other:?}"),
    }
}

fn memory(machine: &Value) -> &Value {
    &machine["spec"]["template"]["spec"]["domain"]["memory"]["guest"]
}

#[test]
fn a_machine_without_matchers_stays_as_it_is() {
    let bare = json!({ "spec": { "template": { "spec": {} } } });
    assert_eq!(done(with(&[], |found| start(&bare, NAMESPACE, found))), bare);
}

#[test]
fn an_expanded_machine_has_no_matchers_and_expands_to_itself() {
    let vm = json!({ "metadata": { "name": "m" }, "spec": spec() });
    let cluster = [(TYPES.to_owned(), instancetype("2048Mi"))];
    let expanded = done(with(&cluster, |found| start(&vm, NAMESPACE, found)));
    assert_eq!(memory(&expanded), "2048Mi");
    assert_eq!(expanded["spec"].get("instancetype"), None);
    assert_eq!(done(with(&[], |found| start(&expanded, NAMESPACE, found))), expanded);
}

/// The ControllerRevision `copy` of an instance type with this name and 1Gi.
fn copy(name: &str) -> Value {
    let labels = json!({
        "instancetype.kubevirt.io/object-name": name,
        "instancetype.kubevirt.io/object-kind": "VirtualMachineInstancetype",
        "instancetype.kubevirt.io/object-uid": "uid-of-small",
        "instancetype.kubevirt.io/object-generation": "1",
        "instancetype.kubevirt.io/object-version": "v1beta1",
    });
    let mut data = instancetype("1Gi");
    data["metadata"]["name"] = json!(name);
    json!({ "metadata": { "name": "copy", "namespace": NAMESPACE, "labels": labels }, "data": data })
}

#[test]
fn a_machine_is_expanded_from_the_copy_that_its_status_names() {
    let mut vm = json!({ "metadata": { "name": "m", "uid": "uid-of-m" }, "spec": spec() });
    vm["status"]["instancetypeRef"] = json!({
        "name": "small", "kind": "VirtualMachineInstancetype", "controllerRevisionRef": { "name": "copy" },
    });
    let cluster =
        |name: &str| [(TYPES.to_owned(), instancetype("4Gi")), (format!("{REVISIONS}copy"), copy(name))];
    let expanded = |name: &str| done(with(&cluster(name), |found| start(&vm, NAMESPACE, found)));
    assert_eq!(memory(&expanded("small")), "1Gi");
    assert_eq!(memory(&expanded("large")), "4Gi", "the matcher has changed since the copy was recorded");
}

/// A claim whose labels name this instance type.
fn claim(name: &str) -> (String, Value) {
    let labels = json!({
        "instancetype.kubevirt.io/default-instancetype": name,
        "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
    });
    let path = "/api/v1/namespaces/studio/persistentvolumeclaims/root".to_owned();
    (path, json!({ "metadata": { "name": "root", "labels": labels } }))
}

/// The spec of a machine that infers its instance type from the claim `root`.
fn inferring() -> Value {
    let mut spec = spec();
    spec["instancetype"] = json!({ "inferFromVolume": "root" });
    spec["template"]["spec"]["volumes"] =
        json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "root" } }]);
    spec
}

#[test]
fn a_machine_that_has_a_copy_is_expanded_from_it_whatever_its_volume_names_now() {
    let mut vm = json!({ "metadata": { "name": "m", "uid": "uid-of-m" }, "spec": inferring() });
    let mut large = instancetype("8Gi");
    large["metadata"]["name"] = json!("large");
    let cluster = [
        claim("large"),
        (TYPES.replace("/small", "/large"), large),
        (TYPES.to_owned(), instancetype("4Gi")),
        (format!("{REVISIONS}copy"), copy("small")),
    ];
    let expanded = |vm: &Value, cluster: &[(String, Value)]| {
        memory(&done(with(cluster, |found| start(vm, NAMESPACE, found)))).clone()
    };
    assert_eq!(expanded(&vm, &cluster), "8Gi", "the machine has no copy yet");
    vm["status"]["instancetypeRef"] = json!({
        "name": "small", "kind": "VirtualMachineInstancetype", "inferFromVolume": "root",
        "controllerRevisionRef": { "name": "copy" },
    });
    assert_eq!(expanded(&vm, &cluster), "1Gi");
    assert_eq!(expanded(&vm, &cluster[3..]), "1Gi", "neither the volume nor a type is read");
    // A copy of what another volume named is not that of this one.
    vm["status"]["instancetypeRef"]["inferFromVolume"] = json!("other");
    assert_eq!(expanded(&vm, &cluster), "8Gi");
}

#[test]
fn a_pool_that_has_copies_is_expanded_from_them_whatever_its_volume_names_now() {
    let mut spec = json!({ "replicas": 1, "virtualMachineTemplate": { "spec": inferring() } });
    spec["virtualMachineTemplate"]["metadata"] = json!({ "labels": { "a": "b" } });
    let id = vmpool_engine::ObjectId::new("herd", fixtures::POOL_UID);
    let content = pinned(&id, &spec, &[claim("small"), (TYPES.to_owned(), instancetype("1Gi"))]);
    let stored = super::super::revision::revision_object(NAMESPACE, &id, "herd-1", 1, &content);
    let pool = json!({
        "metadata": { "name": "herd", "namespace": NAMESPACE, "uid": fixtures::POOL_UID, "generation": 1 },
        "spec": spec,
    });
    let mut large = instancetype("8Gi");
    large["metadata"]["name"] = json!("large");
    let mut cluster = vec![claim("large"), (TYPES.replace("/small", "/large"), large)];
    let expanded = |cluster: &[(String, Value)]| {
        let pool = done(with(cluster, |found| of_pool(&pool, &RevisionToExpand::Current, None, found)));
        memory(&pool["spec"]["virtualMachineTemplate"]).clone()
    };
    assert_eq!(expanded(&cluster), "8Gi", "the pool has no copies yet");
    cluster.push((format!("{REVISIONS}herd-1"), stored));
    assert_eq!(expanded(&cluster), "1Gi");
}

#[rstest]
#[case::a_missing_type(spec(), "InstancetypeNotFound", "spec.instancetype.name")]
#[case::a_kind(json!({ "instancetype": { "name": "a", "kind": "x" } }), "InstancetypeNotFound", "spec.instancetype.kind")]
#[case::no_name(json!({ "preference": {} }), "PreferenceNotFound", "spec.preference")]
#[case::a_missing_copy(
    json!({ "instancetype": { "name": "a", "revisionName": "gone" } }), "InstancetypeNotFound", "spec.instancetype.revisionName"
)]
#[case::a_volume(
    json!({ "instancetype": { "inferFromVolume": "root" } }), "InferenceFailed", "spec.instancetype.inferFromVolume"
)]
fn a_refusal_names_the_field(#[case] spec: Value, #[case] reason: &str, #[case] field: &str) {
    let vm = json!({ "spec": spec });
    let Expansion::Refused(problem) = with(&[], |found| start(&vm, NAMESPACE, found)) else { panic!() };
    assert_eq!((problem.reason.as_str(), &*problem.causes[0].field), (reason, field));
    let pool = json!({ "spec": { "virtualMachineTemplate": { "spec": spec } } });
    let Expansion::Refused(problem) =
        with(&[], |found| of_pool(&pool, &RevisionToExpand::Supplied(ExpansionForm::Complete), None, found))
    else {
        panic!()
    };
    let below = format!("spec.virtualMachineTemplate.{field}");
    assert_eq!((problem.reason.as_str(), &*problem.causes[0].field), (reason, &*below));
}

#[test]
fn a_conflict_names_the_field() {
    let mut vm = json!({ "spec": spec() });
    vm["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let cluster = [(TYPES.to_owned(), instancetype("2Gi"))];
    let Expansion::Refused(problem) = with(&cluster, |found| start(&vm, NAMESPACE, found)) else { panic!() };
    assert_eq!(problem.causes[0].field, "spec.template.spec.domain.memory.guest");
}

/// The spec of a pool with the copies of its revision, in a cluster without KubeVirt that has these objects.
fn pinned(id: &vmpool_engine::ObjectId, spec: &Value, cluster: &[(String, Value)]) -> Value {
    let configuration = vmpool_platform::Configuration::default();
    let resolve = |found: &_| pins::resolve_pool_pins(id, NAMESPACE, spec, &configuration, found);
    match decide_with(|reference| object_of(cluster, reference), resolve) {
        vmpool_platform::Resolution::Resolved(content) => content,
        other => panic!("{other:?}"),
    }
}

/// A pool, and its stored revisions `herd-1` with the type of 1Gi and `herd-2` without copies.
fn herd() -> (Value, Vec<(String, Value)>) {
    let template = |host: &str| {
        let mut spec = spec();
        spec["template"]["spec"]["hostname"] = json!(host);
        spec["dataVolumeTemplates"] = json!([{ "metadata": { "name": "root" } }]);
        json!({ "metadata": { "labels": { "a": "b" } }, "spec": spec })
    };
    let pool_spec = |host: &str| json!({ "replicas": 1, "virtualMachineTemplate": template(host) });
    let id = vmpool_engine::ObjectId::new("herd", fixtures::POOL_UID);
    let pinned = pinned(&id, &pool_spec("one"), &[(TYPES.to_owned(), instancetype("1Gi"))]);
    let revision = |number: i64, content: &Value| {
        let name = format!("herd-{number}");
        (
            format!("{REVISIONS}{name}"),
            super::super::revision::revision_object(NAMESPACE, &id, &name, number, content),
        )
    };
    let pool = json!({
        "metadata": { "name": "herd", "namespace": NAMESPACE, "uid": fixtures::POOL_UID, "generation": 3 },
        "spec": pool_spec("one"),
        "status": { "currentRevision": "herd-1" },
    });
    let foreign = super::super::revision::revision_object(
        NAMESPACE,
        &vmpool_engine::ObjectId::new("herd", "another-pool"),
        "herd-9",
        9,
        &pinned,
    );
    let mut cluster =
        vec![revision(1, &pinned), revision(2, &pool_spec("two")), (format!("{REVISIONS}herd-9"), foreign)];
    // The live type is larger by now.
    cluster.push((TYPES.to_owned(), instancetype("8Gi")));
    (pool, cluster)
}

fn expanded(which: &RevisionToExpand, index: Option<u64>) -> Expansion {
    let (pool, cluster) = herd();
    with(&cluster, |found| of_pool(&pool, which, index, found))
}

#[test]
fn a_pool_is_expanded_from_the_copies_of_its_current_revision() {
    let pool = done(expanded(&RevisionToExpand::Current, None));
    let template = &pool["spec"]["virtualMachineTemplate"];
    assert_eq!(memory(template), "1Gi");
    assert_eq!(template["spec"].get("instancetype"), None);
    assert_eq!(
        (&pool["spec"]["replicas"], &pool["status"]["currentRevision"]),
        (&json!(1), &json!("herd-1"))
    );
}

#[test]
fn a_pool_without_copies_of_its_template_is_expanded_from_the_live_objects() {
    let (mut pool, cluster) = herd();
    pool["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["hostname"] = json!("three");
    let new = done(with(&cluster, |found| of_pool(&pool, &RevisionToExpand::Current, None, found)));
    assert_eq!(memory(&new["spec"]["virtualMachineTemplate"]), "8Gi");
    let supplied = done(with(&cluster, |found| {
        of_pool(&pool, &RevisionToExpand::Supplied(ExpansionForm::Complete), None, found)
    }));
    assert_eq!(supplied, new);
}

/// Virt-controller has stored the revision of the generation without copies.
#[rstest]
#[case::that_the_controller_has_stored_beside_it(true, "1Gi")]
#[case::that_are_made_for_the_next_machine(false, "8Gi")]
fn a_pool_whose_revision_lacks_copies_is_expanded_from_those(
    #[case] is_stored: bool,
    #[case] expected: &str,
) {
    let (mut pool, mut cluster) = herd();
    let id = vmpool_engine::ObjectId::new("herd", fixtures::POOL_UID);
    let names: Vec<String> = super::super::revision::revision_names(&id, 3).take(2).collect();
    let pinned = cluster[0].1["data"].clone();
    cluster.retain(|(path, _)| !path.starts_with(REVISIONS));
    let mut store = |name: &str, content: &Value| {
        let object = super::super::revision::revision_object(NAMESPACE, &id, name, 3, content);
        cluster.push((format!("{REVISIONS}{name}"), object));
    };
    store(&names[0], &pool["spec"]);
    if is_stored {
        store(&names[1], &pinned);
    }
    for shown in [Value::Null, json!(names[0]), json!(names[1])] {
        pool["status"]["currentRevision"] = shown;
        let machine =
            done(with(&cluster, |found| of_pool(&pool, &RevisionToExpand::Current, Some(4), found)));
        assert_eq!(memory(&machine), expected);
        assert_eq!(machine["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"], *names[1]);
    }
}

#[test]
fn an_older_revision_is_expanded_from_its_own_template() {
    let old = done(expanded(&RevisionToExpand::Named("herd-2".to_owned()), None));
    assert_eq!(old["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["hostname"], "two");
    for unknown in ["herd-9", "herd-5", "../secrets"] {
        assert_eq!(
            expanded(&RevisionToExpand::Named(unknown.to_owned()), None),
            Expansion::NoRevision,
            "{unknown}"
        );
    }
}

#[test]
fn the_machine_with_an_index_has_its_name_and_the_suffixes() {
    let machine = done(expanded(&RevisionToExpand::Current, Some(4)));
    assert_eq!(
        (&machine["kind"], &machine["metadata"]["name"]),
        (&json!("VirtualMachine"), &json!("herd-4"))
    );
    assert_eq!(machine["spec"]["dataVolumeTemplates"][0]["metadata"]["name"], "root-4");
    assert_eq!(memory(&machine), "1Gi");
    assert_eq!(machine["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"], "herd-1");
}

/// The machine of each expansion, if the machine has this spec and the preference that one. Without
/// `defaults`, what KubeVirt adds cannot be read.
fn each(spec: &Value, preference: &Value, defaults: Option<&StartDefaults>) -> [Expansion; 4] {
    let mut spec = spec.clone();
    spec["preference"] = json!({ "name": "linux", "kind": "VirtualMachinePreference" });
    let preference = json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePreference",
        "metadata": { "name": "linux", "namespace": NAMESPACE, "uid": "uid-of-linux", "generation": 1 },
        "spec": preference,
    });
    let cluster = [
        (TYPES.to_owned(), instancetype("2Gi")),
        (TYPES.replace("instancetypes/small", "preferences/linux"), preference),
    ];
    let id = vmpool_engine::ObjectId::new("herd", fixtures::POOL_UID);
    let pool = json!({
        "metadata": { "name": "herd", "namespace": NAMESPACE, "uid": fixtures::POOL_UID, "generation": 1 },
        "spec": { "virtualMachineTemplate": { "spec": spec } },
    });
    let content = pinned(&id, &pool["spec"], &cluster);
    let revision = super::super::revision::revision_object(NAMESPACE, &id, "herd-1", 1, &content);
    let stored = [(format!("{REVISIONS}herd-1"), revision)];
    let of_pool = |cluster: &[(String, Value)], which: &RevisionToExpand, index| {
        with(cluster, |found| super::expand_pool(&pool, NAMESPACE, which, index, found, defaults))
    };
    let template = |expansion| match expansion {
        Expansion::Done(pool) => Expansion::Done(pool["spec"]["virtualMachineTemplate"].clone()),
        other => other,
    };
    let vm = json!({ "spec": spec });
    [
        with(&cluster, |found| {
            expand_machine_object(&vm, NAMESPACE, ExpansionForm::Complete, found, defaults)
        }),
        template(of_pool(&cluster, &RevisionToExpand::Supplied(ExpansionForm::Complete), None)),
        template(of_pool(&stored, &RevisionToExpand::Current, None)),
        of_pool(&stored, &RevisionToExpand::Current, Some(4)),
    ]
}

#[test]
fn a_machine_has_the_host_name_that_the_annotation_of_its_pool_requests() {
    let pool = json!({
        "metadata": {
            "name": "herd", "namespace": NAMESPACE, "uid": fixtures::POOL_UID, "generation": 1,
            "annotations": { "vmpool.dev/name-generation": "setHostnameToVMName" },
        },
        "spec": { "virtualMachineTemplate": { "spec": spec() } },
    });
    let cluster = [(TYPES.to_owned(), instancetype("2Gi"))];
    let machine = done(with(&cluster, |found| {
        super::expand_pool(
            &pool,
            NAMESPACE,
            &RevisionToExpand::Supplied(ExpansionForm::Complete),
            Some(4),
            found,
            None,
        )
    }));
    assert_eq!(machine["spec"]["template"]["spec"]["hostname"], "herd-4");
}

/// An expansion names no preference from which a webhook could fill in the storage class later.
#[test]
fn each_expansion_has_the_storage_class_of_the_preference() {
    let mut spec = spec();
    spec["dataVolumeTemplates"] = json!([{ "metadata": { "name": "root" }, "spec": { "storage": {} } }]);
    let preference = json!({ "volumes": { "preferredStorageClassName": "fast" } });
    for expansion in each(&spec, &preference, Some(&StartDefaults::default())) {
        let machine = done(expansion);
        let templates = &machine["spec"]["dataVolumeTemplates"];
        assert_eq!(templates[0]["spec"]["storage"]["storageClassName"], "fast", "{machine}");
    }
}

/// KubeVirt applies the preference to the interface that it adds, and an expansion names no preference then.
#[test]
fn each_expansion_has_the_default_interface_that_the_preference_changes() {
    let installation = json!({
        "metadata": { "name": "kubevirt" },
        "spec": { "configuration": { "network": { "defaultNetworkInterface": "masquerade" } } },
    });
    let defaults: StartDefaults = serde_json::from_value(json!({ "items": [installation] })).unwrap();
    let preference = json!({ "devices": { "preferredInterfaceModel": "e1000e" } });
    for expansion in each(&spec(), &preference, Some(&defaults)) {
        let machine = done(expansion);
        let instance = &machine["spec"]["template"]["spec"];
        let interfaces = json!([{ "name": "default", "masquerade": {}, "model": "e1000e" }]);
        assert_eq!(instance["domain"]["devices"]["interfaces"], interfaces, "{machine}");
        assert_eq!(instance["networks"], json!([{ "name": "default", "pod": {} }]));
    }
    // What KubeVirt adds is read only if a preference changes it. A machine has the other defaults, too.
    let [machine, pools @ ..] = each(&spec(), &preference, None);
    assert_eq!(machine, Expansion::NeedsDefaults);
    assert_eq!(pools, [Expansion::NeedsDefaults, Expansion::NeedsDefaults, Expansion::NeedsDefaults]);
    let [machine, pools @ ..] = each(&spec(), &json!({}), None);
    assert_eq!(machine, Expansion::NeedsDefaults);
    for expansion in pools {
        assert_eq!(done(expansion)["spec"]["template"]["spec"]["domain"]["devices"].get("interfaces"), None);
    }
}

fn valid_vm() -> Value {
    json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": { "name": "m" }, "spec": spec() })
}

fn valid_pool() -> Value {
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "metadata": { "name": "p" },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "virtualMachineTemplate": { "spec": spec() } },
    })
}

fn fields(causes: Vec<StatusCause>) -> Vec<String> {
    causes.into_iter().map(|cause| cause.to_string()).collect()
}

#[test]
fn valid_objects_have_no_violation() {
    assert_eq!(fields(check_machine(&valid_vm())), Vec::<String>::new());
    assert_eq!(fields(check_pool(&valid_pool())), Vec::<String>::new());
}

#[rstest]
#[case::of_another_kind(json!({}), &["apiVersion: must be \"kubevirt.io/v1\"", "kind: must be \"VirtualMachine\""])]
#[case::without_a_spec(json!({ "spec": null }), &["spec: is required"])]
#[case::of_a_wrong_type(json!({ "spec": [] }), &["spec: must be an object"])]
#[case::with_several(
    json!({ "spec": { "running": "yes", "runStrategy": 1, "instancetype": { "name": 5 }, "template": { "spec": 7 } } }),
    &[
        "spec.instancetype.name: must be a string", "spec.runStrategy: must be a string",
        "spec.running: must be true or false", "spec.template.spec: must be an object",
    ]
)]
#[case::in_a_list(
    json!({ "spec": { "dataVolumeTemplates": [{}, 5], "template": { "spec": { "domain": { "devices": {} } } } } }),
    &["spec.dataVolumeTemplates[1]: must be an object"]
)]
#[case::in_the_metadata(json!({ "metadata": { "name": 5 } }), &["metadata: has a field of the wrong type"])]
fn each_violation_of_a_machine_is_a_cause(#[case] change: Value, #[case] expected: &[&str]) {
    let mut machine = if change == json!({}) { json!({}) } else { valid_vm() };
    for (field, value) in change.as_object().unwrap() {
        machine[field] = value.clone();
    }
    let mut found = fields(check_machine(&machine));
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn each_violation_of_a_pool_is_a_cause() {
    let mut pool = valid_pool();
    pool["spec"]["replicas"] = json!("three");
    pool["spec"]["selector"] = Value::Null;
    pool["spec"]["instancetypePolicy"] = json!("Sometimes");
    let mut found = fields(check_pool(&pool));
    found.sort();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("spec.instancetypePolicy: must be one of"), "{found:?}");
    assert_eq!(found[1..], ["spec.replicas: must be an integer", "spec.selector: is required"]);
}

/// A body has at most 256 KiB, but the violations in it take more.
#[test]
fn a_response_does_not_contain_any_number_of_violations() {
    let mut machine = valid_vm();
    machine["spec"]["dataVolumeTemplates"] = vec![5; 10_000].into();
    assert_eq!(check_machine(&machine).len(), 100);
}

//! Expansions compared with the answers of KubeVirt 1.9.0 in its default configuration.

use super::super::*;
use super::*;

/// One case: a machine, what it names, and the answer.
#[derive(serde::Deserialize)]
struct Case {
    name: String,
    machine: Value,
    #[serde(default)]
    instancetype: Option<Value>,
    #[serde(default)]
    preference: Option<Value>,
    /// The expanded spec, or the message of the refusal.
    answer: Value,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("answers.json")).unwrap()
}

/// The objects of a case, with their paths.
fn cluster(case: &Case) -> Vec<(String, Value)> {
    let object = |noun: &str, object: &Value| {
        let kind = object["kind"].as_str().unwrap();
        let name = case.machine[noun]["name"].as_str().unwrap();
        let namespace =
            if kind.contains("Cluster") { String::new() } else { format!("/namespaces/{NAMESPACE}") };
        let plural = format!("{}s", kind.to_lowercase());
        let path = format!("/apis/instancetype.kubevirt.io/v1beta1{namespace}/{plural}/{name}");
        let metadata = json!({ "name": name, "uid": "uid", "generation": 1 });
        let api_version = "instancetype.kubevirt.io/v1beta1";
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": object["spec"],
        });
        (path, object)
    };
    let objects = [("instancetype", &case.instancetype), ("preference", &case.preference)];
    objects.iter().filter_map(|(noun, given)| Some(object(noun, given.as_ref()?))).collect()
}

/// What KubeVirt adds in its default configuration on `amd64`.
fn defaults() -> StartDefaults {
    let installation = json!({
        "metadata": { "name": "kubevirt", "namespace": "kubevirt" },
        "status": { "defaultArchitecture": "amd64" },
    });
    serde_json::from_value(json!({ "items": [installation] })).unwrap()
}

/// The expanded spec, or the message of the refusal.
fn answer(expansion: Expansion, spec: &str) -> Value {
    match expansion {
        Expansion::Done(expanded) => expanded.pointer(spec).unwrap().clone(),
        Expansion::Refused(problem) => problem.message.into(),
        other => panic!("{other:?}"),
    }
}

fn machine_answer(case: &Case) -> Value {
    let machine = json!({ "metadata": { "name": "m" }, "spec": case.machine });
    let defaults = defaults();
    let expand = |found: &FetchedObjects| {
        expand_machine_object(&machine, NAMESPACE, ExpansionForm::KubeVirt, found, Some(&defaults))
    };
    answer(with(&cluster(case), expand), "/spec")
}

fn pool_answer(case: &Case) -> Value {
    let pool = json!({ "spec": { "virtualMachineTemplate": { "spec": case.machine } } });
    let which = RevisionToExpand::Supplied(ExpansionForm::KubeVirt);
    let defaults = defaults();
    let expand = |found: &FetchedObjects| expand_pool(&pool, NAMESPACE, &which, None, found, Some(&defaults));
    answer(with(&cluster(case), expand), "/spec/virtualMachineTemplate/spec")
}

#[test]
fn a_machine_is_expanded_as_kubevirt_expands_it() {
    for case in cases() {
        assert_eq!(machine_answer(&case), case.answer, "{}", case.name);
    }
}

#[test]
fn the_template_of_a_pool_is_expanded_as_a_machine() {
    for case in cases() {
        let expected = case.answer.as_str().map(|text| {
            Value::from(text.replace("spec.template", "spec.virtualMachineTemplate.spec.template"))
        });
        assert_eq!(pool_answer(&case), expected.unwrap_or(case.answer.clone()), "{}", case.name);
    }
}

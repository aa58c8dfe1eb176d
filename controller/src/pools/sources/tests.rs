use serde_json::json;
use vmpool_engine::condition::ConditionReason;
use vmpool_platforms::kubevirt::KubeVirt;

use super::*;

const KIND: &str = "VirtualMachineInstancetype";

fn object(namespace: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": KIND,
        "metadata": { "name": "small", "namespace": namespace, "uid": "u" },
        "spec": { "cpu": { "guest": 1 }, "memory": { "guest": memory } },
    })
}

fn copy() -> [CopiedObject; 1] {
    let (kind, namespace, name) = (KIND.to_owned(), "n".to_owned(), "small".to_owned());
    [CopiedObject { kind, namespace, name, content: object("n", "1Gi") }]
}

fn objects(objects: &[Value]) -> Objects<Value> {
    let key = |object: &Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
        ObjectKey::new(text("namespace"), text("name"))
    };
    objects.iter().map(|object| (key(object), object.clone())).collect()
}

#[test]
fn a_copy_is_compared_with_the_object_of_its_namespace_once_that_is_listed() {
    let sources = Sources::default();
    let reason = || sources.outdated::<KubeVirt>(&copy()).map(|report| report.reason);
    assert_eq!(reason(), None, "nothing is known before the first list");
    sources.show(KIND, Some(&objects(&[object("n", "1Gi"), object("other", "2Gi")])));
    assert_eq!(reason(), None);
    sources.show(KIND, Some(&objects(&[object("n", "2Gi"), object("other", "1Gi")])));
    assert_eq!(reason(), Some(ConditionReason::SpecChanged));
    sources.show(KIND, Some(&objects(&[object("other", "1Gi")])));
    assert_eq!(reason(), Some(ConditionReason::Deleted));
    sources.show(KIND, None);
    assert_eq!(reason(), None, "without the definition, nothing is known");
}

#[test]
fn only_a_change_of_the_objects_changes_the_version() {
    let sources = Sources::default();
    let mut seen = vec![sources.version()];
    let mut show = |shown: Option<&[Value]>| {
        sources.show(KIND, shown.map(objects).as_ref());
        seen.push(sources.version());
    };
    show(None);
    show(Some(&[object("n", "1Gi")]));
    show(Some(&[object("n", "1Gi")]));
    show(Some(&[object("n", "2Gi")]));
    show(None);
    assert_eq!(seen, [0, 0, 1, 1, 2, 3]);
}

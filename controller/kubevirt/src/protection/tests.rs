use serde_json::json;

use super::*;

fn protected() -> ProtectedType {
    let object = json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineInstancetype",
        "metadata": { "name": "small", "namespace": "team", "uid": "u1" },
        "spec": { "cpu": { "guest": 2 }, "memory": { "guest": "2Gi" } },
    });
    ProtectedType::read(&object).unwrap()
}

fn pool() -> Value {
    let matcher = json!({ "name": "small", "kind": "VirtualMachineInstancetype" });
    let template = json!({ "spec": { "instancetype": matcher, "template": { "spec": {} } } });
    json!({ "metadata": { "name": "p", "namespace": "team" }, "spec": { "virtualMachineTemplate": template } })
}

#[test]
fn a_pool_needs_the_object_until_its_template_is_pinned() {
    let (pool, protected) = (pool(), protected());
    let template = &pool["spec"]["virtualMachineTemplate"];
    let pin = json!({ "instancetype": { "revision": { "data": { "metadata": { "uid": "u1" } } } } });
    let content = json!({ "virtualMachineTemplate": template, "vmpoolPins": pin, "replicas": 3 });
    assert!(has_pinned_type(&pool, &content, &protected));
    let mut respelled = pool.clone();
    respelled["spec"]["virtualMachineTemplate"]["metadata"] = json!({ "labels": {} });
    assert!(
        has_pinned_type(&respelled, &content, &protected),
        "the template is the same in another spelling"
    );
    assert!(!has_pinned_type(&pool, &json!({ "virtualMachineTemplate": template }), &protected));
    let mut other = content;
    other["virtualMachineTemplate"]["spec"]["template"]["spec"]["subdomain"] = json!("other");
    assert!(!has_pinned_type(&pool, &other, &protected), "another template has copies of its own");
}

#[test]
fn a_pool_whose_spec_is_not_read_needs_no_object() {
    let (mut pool, protected) = (pool(), protected());
    assert!(may_need_type(&pool, &protected));
    pool["spec"]["virtualMachineTemplate"]["metadata"] =
        json!({ "annotations": { "a": "x".repeat(200_000) } });
    assert!(!may_need_type(&pool, &protected), "the controller makes no copies for it");
}

//! What a change of instance type or preference requires of running machines.

use rstest::rstest;
use serde_json::{Value, json};
use vmpool_decision::decide_with;
use vmpool_engine::revisions::TemplateParts;
use vmpool_instancetype::pins::{self, FIELD, TEMPLATE, policy};
use vmpool_instancetype::sample_pool::{
    LINUX, NAMESPACE, SMALL, find_in_cluster, linux_preference, pool_id, pool_spec_with_both,
    small_instancetype,
};
use vmpool_platform::{DefaultInterface, ReferencedObject};

use super::super::*;

fn resolve_where(configuration: &Configuration, spec: &Value, cluster: &[(&str, Value)]) -> Value {
    let answer = |reference: &ReferencedObject| find_in_cluster(cluster, reference);
    let resolve = |found: &_| pins::resolve_pool_pins(&pool_id(), NAMESPACE, spec, configuration, found);
    match decide_with(answer, resolve) {
        Resolution::Resolved(content) => content,
        other => panic!("{other:?}"),
    }
}

fn with_policy(policy: &str) -> Value {
    let mut spec = pool_spec_with_both();
    spec[policy::FIELD] = json!(policy);
    spec
}

/// The content of a revision whose preference sets this model of interfaces.
fn with_model(spec: &Value, model: &str, interface: DefaultInterface) -> Value {
    let preference = linux_preference(&json!({ "devices": { "preferredInterfaceModel": model } }));
    let cluster = [(SMALL, small_instancetype(3, "2Gi")), (LINUX, preference)];
    resolve_where(&Configuration { interface, ..Configuration::default() }, spec, &cluster)
}

/// What a change of the template to this revision requires of a running machine.
fn parts(content: &Value) -> TemplateParts {
    <KubeVirt as RevisionObjects<KubeVirtPoolObject>>::parts(content).unwrap()
}

#[test]
fn another_preferred_model_of_the_default_interface_is_another_instance() {
    for policy in ["Pin", "Expand"] {
        let with = |model| parts(&with_model(&with_policy(policy), model, DefaultInterface::Bridge));
        let (virtio, e1000) = (with("virtio"), with("e1000"));
        assert_ne!(virtio.instance, e1000.instance, "{policy}");
        assert_eq!((virtio.live, virtio.storage), (e1000.live, e1000.storage), "{policy}");
        assert_ne!(virtio.instance, with("").instance, "{policy}");
    }
}

/// The configuration of KubeVirt selects the binding, which the controller may not know.
#[rstest]
#[case::by_a_bridge(DefaultInterface::Bridge, true)]
#[case::by_masquerade(DefaultInterface::Masquerade, true)]
#[case::in_an_unknown_way(DefaultInterface::Other, false)]
fn writing_out_the_default_interface_restarts_nothing(
    #[case] interface: DefaultInterface,
    #[case] is_written: bool,
) {
    let pinned = parts(&with_model(&pool_spec_with_both(), "virtio", DefaultInterface::Bridge));
    assert_eq!(pinned, parts(&with_model(&pool_spec_with_both(), "virtio", interface)));
    let expanded = with_model(&with_policy("Expand"), "virtio", interface);
    assert_eq!(parts(&expanded) == pinned, is_written, "{expanded}");
}

#[test]
fn another_binding_in_the_template_is_another_instance() {
    let with = |binding: &str| {
        let mut spec = pool_spec_with_both();
        let interfaces = json!([{ "name": "default", (binding): {} }]);
        spec[TEMPLATE]["spec"]["template"]["spec"] = json!({
            "domain": { "devices": { "interfaces": interfaces } }, "networks": [{ "name": "default", "pod": {} }],
        });
        parts(&with_model(&spec, "virtio", DefaultInterface::Bridge))
    };
    assert_ne!(with("bridge").instance, with("masquerade").instance);
}

#[test]
fn machines_with_storage_are_not_created_again() {
    let mut spec = with_policy("Expand");
    spec[TEMPLATE]["spec"]["dataVolumeTemplates"] =
        json!([{ "metadata": { "name": "root" }, "spec": { "storage": {} } }]);
    let resolved = |spec: &Value, class: &str| {
        let preference = linux_preference(&json!({ "volumes": { "preferredStorageClassName": class } }));
        resolve_where(
            &Configuration::default(),
            spec,
            &[(SMALL, small_instancetype(3, "2Gi")), (LINUX, preference)],
        )
    };
    let content = resolved(&spec, "fast");
    // An earlier version wrote no class.
    let mut earlier = content.clone();
    earlier[FIELD]["expanded"]["dataVolumeTemplates"] = spec[TEMPLATE]["spec"]["dataVolumeTemplates"].clone();
    assert_ne!(earlier, content);
    let mut pinned = spec.clone();
    pinned[policy::FIELD] = json!("Pin");
    let (pinned, slow) = (resolved(&pinned, "fast"), resolved(&spec, "slow"));
    for (what, other) in [("another class", slow), ("copies", pinned), ("an earlier version", earlier)] {
        assert_eq!(parts(&other), parts(&content), "{what}");
    }
}

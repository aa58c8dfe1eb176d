//! What the kubectl plugin shows and changes.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Value, json};
use vmpool_api::kubevirt::labels::{POOL_UID, REVISION};
use vmpool_engine::model::Membership;
use vmpool_engine::scale_up::names::ordinal_of;
use vmpool_engine::{ParsedPool, Uid};
use vmpool_platform::removal_api::RemovalApi;
use vmpool_platform::{ClaimedPlatform, ClientPlatform, MachineView, PoolPart, RestartFailure};

use super::expansion;
use super::keys::REVISION_LABEL;
use super::platform::KubeVirt;
use super::removal::VMPOOL;
use super::revision::pool_name_of_revision;

impl ClaimedPlatform for KubeVirt {
    const INSTANCE_SELECTOR: Option<&'static str> = Some(REVISION_LABEL);

    fn machine_selector(_: &str) -> Option<String> {
        None
    }
    fn has_template_of(pool: &Value, revision: &Value) -> bool {
        expansion::has_template_of(pool, revision)
    }
}

impl ClientPlatform for KubeVirt {
    const TITLE: &'static str = "KubeVirt";
    const REMOVAL: &'static RemovalApi = &VMPOOL;
    const PAUSES: &'static str = "the pool";

    fn machine_view(machine: &Value, instance: Option<&Value>) -> MachineView {
        let instance = instance.unwrap_or(&Value::Null);
        let interfaces = instance["status"]["interfaces"].as_array().into_iter().flatten();
        let addresses = interfaces.filter_map(|interface| interface["ipAddress"].as_str());
        MachineView {
            state: machine["status"]["printableStatus"].as_str().unwrap_or_default().to_owned(),
            node: instance["status"]["nodeName"].as_str().map(str::to_owned),
            addresses: addresses.filter(|address| !address.is_empty()).map(str::to_owned).collect(),
        }
    }

    fn smallest_pool(name: &str) -> Value {
        let labels = json!({ "app.kubernetes.io/name": name });
        json!({
            "apiVersion": "pool.kubevirt.io/v1beta1",
            "kind": "VirtualMachinePool",
            "metadata": { "name": name },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": labels },
                "virtualMachineTemplate": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "runStrategy": "Halted",
                        "template": {
                            "metadata": { "labels": labels },
                            "spec": { "domain": { "memory": { "guest": "64Mi" }, "devices": {} } },
                        },
                    },
                },
            },
        })
    }

    fn pause(paused: bool) -> Vec<Value> {
        vec![json!({ "spec": { "paused": paused } })]
    }

    fn is_paused(pool: &ParsedPool) -> bool {
        pool.paused
    }

    fn stored_template(content: &Value) -> Option<Value> {
        Some(&content["virtualMachineTemplate"]).filter(|template| template.is_object()).cloned()
    }

    fn copies(content: &Value) -> Vec<String> {
        vmpool_instancetype::pins::describe_copies(content)
    }

    fn pinned_revision_pointers() -> &'static [&'static str] {
        &[]
    }

    /// Machines have no label of their pool. A machine was one of it if its name and the revision in its
    /// label are those of a pool of this name, and if the selector matches.
    fn belonged_to_former_pool(pool: &ParsedPool, former: &Uid, part: PoolPart, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let labels = &metadata["labels"];
        let is_revision_of_pool =
            |revision: &str| pool_name_of_revision(revision, &pool.id.name) == Some(&*pool.id.name);
        match part {
            PoolPart::Machine => {
                let is_selected = match &pool.membership {
                    Membership::ManagedLabels => true,
                    Membership::Selector(selector) => {
                        let labels = BTreeMap::deserialize(labels).unwrap_or_default();
                        selector.matches(&labels)
                    }
                };
                let revision = labels[REVISION].as_str().unwrap_or_default();
                is_selected && ordinal_of(&pool.id.name, name).is_some() && is_revision_of_pool(revision)
            }
            PoolPart::Disk => false,
            PoolPart::Revision => {
                let is_copy = labels[POOL_UID] == former.as_str();
                is_copy || (Self::stored_template(&object["data"]).is_some() && is_revision_of_pool(name))
            }
        }
    }

    fn restart(_: &str) -> Option<Value> {
        None
    }

    fn restart_result(_: &Value) -> Option<Result<(), RestartFailure>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use vmpool_platform::Platform;

    #[test]
    fn a_machine_shows_its_state_and_the_node_and_addresses_of_its_instance() {
        let machine = json!({ "status": { "printableStatus": "Running" } });
        let interfaces =
            json!([{ "ipAddress": "10.0.0.4" }, { "name": "other" }, { "ipAddress": "fd00::4" }]);
        let instance = json!({ "status": { "nodeName": "n", "interfaces": interfaces } });
        let view = KubeVirt::machine_view(&machine, Some(&instance));
        assert_eq!((&*view.state, view.node.as_deref()), ("Running", Some("n")));
        assert_eq!(view.addresses, ["10.0.0.4", "fd00::4"]);
        assert_eq!(KubeVirt::machine_view(&machine, None).node, None);
    }

    #[rstest]
    #[case::a_machine("web-3", "web-7", "web", true)]
    #[case::a_machine_of_a_hashed_revision("web-3", "web-0a1b2c3d-7", "web", true)]
    #[case::a_machine_of_another_pool("api-3", "api-7", "web", false)]
    #[case::a_machine_of_a_revision_of_another_pool("web-3", "api-7", "web", false)]
    #[case::a_machine_with_other_labels("web-3", "web-7", "other", false)]
    #[case::a_machine_without_an_ordinal("web-db", "web-7", "web", false)]
    fn a_machine_was_of_the_pool_if_name_revision_and_labels_say_so(
        #[case] name: &str,
        #[case] revision: &str,
        #[case] app: &str,
        #[case] expected: bool,
    ) {
        let template =
            json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "template": { "spec": {} } } });
        let pool = json!({
            "metadata": { "name": "web", "namespace": "n", "uid": "u" },
            "spec": { "selector": { "matchLabels": { "app": "web" } }, "virtualMachineTemplate": template },
        });
        let pool = KubeVirt::read_pool(&serde_json::from_value(pool).unwrap());
        let machine = json!({ "metadata": { "name": name, "labels": { "app": app, REVISION: revision } } });
        assert_eq!(
            KubeVirt::belonged_to_former_pool(&pool, &"former".into(), PoolPart::Machine, &machine),
            expected
        );
    }

    #[test]
    fn the_smallest_pool_has_no_error_and_no_machine() {
        let object = KubeVirt::smallest_pool("probe");
        let pool = KubeVirt::read_pool(&serde_json::from_value(object).unwrap());
        assert_eq!((&*pool.id.name, pool.desired), ("probe", 0));
        assert_eq!(pool.validation_errors, Vec::<String>::new());
    }

    #[test]
    fn a_pause_is_read_as_paused() {
        for paused in [true, false] {
            let mut pool = json!({ "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": {} });
            json_patch::merge(&mut pool, &KubeVirt::pause(paused)[0]);
            let pool: super::super::KubeVirtPoolObject = serde_json::from_value(pool).unwrap();
            assert_eq!(KubeVirt::is_paused(&KubeVirt::read_pool(&pool)), paused);
        }
    }

    #[test]
    fn the_template_of_a_revision_is_that_of_the_pool() {
        let spec = json!({ "replicas": 3, "virtualMachineTemplate": { "spec": {} } });
        assert_eq!(KubeVirt::stored_template(&spec), Some(json!({ "spec": {} })));
        assert_eq!(KubeVirt::stored_template(&json!({ "virtualMachineTemplate": null })), None);
    }
}

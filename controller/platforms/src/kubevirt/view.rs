//! What the kubectl plugin shows and changes.

use serde_json::{Value, json};
use vmpool_engine::ParsedPool;

use super::platform::KubeVirt;
use super::removal::VMPOOL;
use crate::removal_api::RemovalApi;
use crate::{MachineView, View};

impl View for KubeVirt {
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
        super::pins::described(content)
    }

    fn pins() -> &'static [&'static str] {
        &[]
    }

    fn restart(_: &str) -> Option<Value> {
        None
    }

    fn restart_result(_: &Value) -> Option<Result<(), String>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;

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

    #[test]
    fn a_pause_is_read_as_paused() {
        for paused in [true, false] {
            let mut pool = json!({ "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": {} });
            json_patch::merge(&mut pool, &KubeVirt::pause(paused)[0]);
            let pool: super::super::PoolObject = serde_json::from_value(pool).unwrap();
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

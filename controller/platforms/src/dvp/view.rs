//! What the kubectl plugin shows and changes.

use serde_json::{Value, json};
use vmpool_api::annotations::ROLLOUT_PAUSED;
use vmpool_engine::ParsedPool;

use super::Dvp;
use super::removal::VMPOOL;
use crate::removal_api::RemovalApi;
use crate::{MachineView, View};

impl View for Dvp {
    const TITLE: &'static str = "DVP";
    const REMOVAL: &'static RemovalApi = &VMPOOL;
    const PAUSES: &'static str = "the rollout";

    fn machine_view(machine: &Value, _: Option<&Value>) -> MachineView {
        let status = &machine["status"];
        let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        MachineView {
            state: text("phase").unwrap_or_default(),
            node: text("nodeName"),
            addresses: text("ipAddress").into_iter().collect(),
        }
    }

    fn pause(paused: bool) -> Vec<Value> {
        vec![
            json!({ "spec": { "rollout": { "paused": paused } } }),
            json!({ "metadata": { "annotations": { (ROLLOUT_PAUSED): paused.to_string() } } }),
        ]
    }

    fn is_paused(pool: &ParsedPool) -> bool {
        pool.rollout.paused
    }

    fn stored_template(content: &Value) -> Option<Value> {
        let mut template = content.clone();
        let fields = template.as_object_mut().filter(|fields| fields.contains_key("spec"))?;
        fields.retain(|_, value| !value.is_null());
        Some(template)
    }

    fn copies(_: &Value) -> Vec<String> {
        Vec::new()
    }

    fn pins() -> &'static [&'static str] {
        &[
            "/spec/rollout/revision",
            "/metadata/annotations/vmpool.virtualization.deckhouse.io~1rollout-revision",
        ]
    }

    fn restart(machine: &str) -> Option<Value> {
        Some(json!({
            "apiVersion": format!("{}/{}", vmpool_api::v1alpha2::GROUP, vmpool_api::v1alpha2::VERSION),
            "kind": "VirtualMachineOperation",
            "metadata": { "generateName": "restart-" },
            "spec": { "type": "Restart", "virtualMachineName": machine },
        }))
    }

    fn restart_result(operation: &Value) -> Option<Result<(), String>> {
        let status = &operation["status"];
        match status["phase"].as_str()? {
            "Completed" => Some(Ok(())),
            "Failed" => {
                let conditions = status["conditions"].as_array().into_iter().flatten();
                let message = conditions.filter_map(|condition| condition["message"].as_str()).next_back();
                Some(Err(message.unwrap_or("the platform gives no reason").to_owned()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use vmpool_api::annotations::ROLLOUT_REVISION;

    use super::*;
    use crate::Platform;

    #[test]
    fn the_pins_are_the_fields_that_the_rollout_reads() {
        let key = Dvp::pins()[1].trim_start_matches("/metadata/annotations/").replace("~1", "/");
        assert_eq!(key, ROLLOUT_REVISION);
    }

    #[test]
    fn a_machine_shows_its_phase_node_and_address() {
        let machine = json!({ "status": { "phase": "Running", "nodeName": "n", "ipAddress": "10.0.0.4" } });
        let addresses = vec!["10.0.0.4".to_owned()];
        let expected = MachineView { state: "Running".into(), node: Some("n".into()), addresses };
        assert_eq!(Dvp::machine_view(&machine, None), expected);
        assert_eq!(Dvp::machine_view(&Value::Null, None), MachineView::default());
    }

    #[test]
    fn an_operation_ends_completed_or_failed() {
        let result = |status: Value| Dvp::restart_result(&json!({ "status": status }));
        assert_eq!(result(json!({ "phase": "InProgress" })), None);
        assert_eq!(result(json!({})), None);
        assert_eq!(result(json!({ "phase": "Completed" })), Some(Ok(())));
        let failed = json!({ "phase": "Failed", "conditions": [{ "message": "no such machine" }] });
        assert_eq!(result(failed), Some(Err("no such machine".to_owned())));
    }

    #[test]
    fn every_way_to_pause_is_read_as_paused() {
        for paused in [true, false] {
            for patch in Dvp::pause(paused) {
                let mut pool =
                    json!({ "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": {} });
                json_patch::merge(&mut pool, &patch);
                let pool: crate::dvp::PoolObject = serde_json::from_value(pool).unwrap();
                assert_eq!(Dvp::is_paused(&Dvp::read_pool(&pool)), paused, "{patch}");
            }
        }
    }
}

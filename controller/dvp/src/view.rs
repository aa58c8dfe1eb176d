//! What the kubectl plugin shows and changes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vmpool_api::annotations::ROLLOUT_PAUSED;
use vmpool_api::labels;
use vmpool_engine::{ParsedPool, Uid};
use vmpool_platform::removal_api::RemovalApi;
use vmpool_platform::{
    ClaimedPlatform, ClientPlatform, MachineView, PoolPart, RestartFailure, TemplateEffect,
};

use super::Dvp;
use super::names::machine_label_selector;
use super::removal::VMPOOL;

/// Fields of a machine that the platform applies while the machine runs. Devices are attached and detached.
const HOT: [&str; 4] = ["blockDeviceRefs", "disruptions", "liveMigrationPolicy", "runPolicy"];
/// Fields that it applies to a running machine in some editions, with some feature gates, or in one direction
/// only.
const DEPENDING: [&str; 6] = ["affinity", "cpu", "memory", "networks", "nodeSelector", "tolerations"];

impl ClaimedPlatform for Dvp {
    const INSTANCE_SELECTOR: Option<&'static str> = None;

    fn machine_selector(pool_uid: &str) -> Option<String> {
        Some(machine_label_selector(pool_uid))
    }
    /// Machines tell which revision they have, so no stored revision is compared.
    fn has_template_of(_: &Value, _: &Value) -> bool {
        false
    }
}

impl ClientPlatform for Dvp {
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

    fn smallest_pool(name: &str) -> Value {
        json!({
            "apiVersion": format!("{}/{}", vmpool_api::v1alpha2::GROUP, vmpool_api::v1alpha2::VERSION),
            "kind": "VirtualMachinePool",
            "metadata": { "name": name },
            "spec": {
                "replicas": 0,
                "scaleDownPolicy": "NewestFirst",
                "virtualMachineTemplate": { "spec": {
                    "virtualMachineClassName": "generic",
                    "cpu": { "cores": 1, "coreFraction": "100%" },
                    "memory": { "size": "512Mi" },
                    "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
                } },
                "virtualDiskTemplates": [
                    { "name": "root", "spec": { "persistentVolumeClaim": { "size": "1Gi" } } },
                ],
            },
        })
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

    fn effect_of_change(from: &Value, to: &Value) -> Option<TemplateEffect> {
        let spec = |template: &Value| template["spec"].as_object().cloned().unwrap_or_default();
        let (from, to) = (spec(from), spec(to));
        let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        let mut changed: Vec<String> =
            names.into_iter().filter(|name| from.get(*name) != to.get(*name)).cloned().collect();
        if changed.is_empty() {
            return None;
        }
        if changed.iter().all(|field| HOT.contains(&&**field)) {
            return Some(TemplateEffect::Hot(changed));
        }
        let is_cold = |field: &String| !HOT.contains(&&**field) && !DEPENDING.contains(&&**field);
        if changed.iter().any(is_cold) {
            changed.retain(is_cold);
            return Some(TemplateEffect::Cold(changed));
        }
        Some(TemplateEffect::Either(changed))
    }

    fn copies(_: &Value) -> Vec<String> {
        Vec::new()
    }

    fn pinned_revision_pointers() -> &'static [&'static str] {
        &[
            "/spec/rollout/revision",
            "/metadata/annotations/vmpool.virtualization.deckhouse.io~1rollout-revision",
        ]
    }

    fn belonged_to_former_pool(_: &ParsedPool, former: &Uid, _: PoolPart, object: &Value) -> bool {
        object["metadata"]["labels"][labels::POOL_UID] == former.as_str()
    }

    fn restart(machine: &str) -> Option<Value> {
        Some(json!({
            "apiVersion": format!("{}/{}", vmpool_api::v1alpha2::GROUP, vmpool_api::v1alpha2::VERSION),
            "kind": "VirtualMachineOperation",
            "metadata": { "generateName": "restart-" },
            "spec": { "type": "Restart", "virtualMachineName": machine },
        }))
    }

    fn restart_result(operation: &Value) -> Option<Result<(), RestartFailure>> {
        let status = &operation["status"];
        match status["phase"].as_str()? {
            "Completed" => Some(Ok(())),
            "Failed" => {
                let conditions = status["conditions"].as_array().into_iter().flatten();
                let message = conditions.filter_map(|condition| condition["message"].as_str()).next_back();
                let explained = message.map(|message| RestartFailure::Explained(message.to_owned()));
                Some(Err(explained.unwrap_or(RestartFailure::Unexplained)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use vmpool_api::annotations::ROLLOUT_REVISION;

    use super::*;
    use vmpool_platform::Platform;

    #[test]
    fn the_pins_are_the_fields_that_the_rollout_reads() {
        let key = Dvp::pinned_revision_pointers()[1]
            .trim_start_matches("/metadata/annotations/")
            .replace("~1", "/");
        assert_eq!(key, ROLLOUT_REVISION);
    }

    fn fields(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[rstest]
    #[case::labels(json!({ "metadata": { "labels": { "a": "b" } } }), None)]
    #[case::a_policy(json!({ "spec": { "runPolicy": "Manual" } }), Some(TemplateEffect::Hot(fields(&["runPolicy"]))))]
    #[case::a_removed_device(json!({ "spec": { "blockDeviceRefs": [] } }), Some(TemplateEffect::Hot(fields(&["blockDeviceRefs"]))))]
    #[case::memory(
        json!({ "spec": { "memory": { "size": "2Gi" }, "runPolicy": "Manual" } }),
        Some(TemplateEffect::Either(fields(&["memory", "runPolicy"])))
    )]
    #[case::a_removed_field(json!({ "spec": { "bootloader": null } }), Some(TemplateEffect::Cold(fields(&["bootloader"]))))]
    #[case::a_field_that_this_version_does_not_know(
        json!({ "spec": { "future": 1, "memory": { "size": "2Gi" } } }),
        Some(TemplateEffect::Cold(fields(&["future"])))
    )]
    fn the_changed_fields_decide_what_a_change_takes(
        #[case] patch: Value,
        #[case] expected: Option<TemplateEffect>,
    ) {
        let from = json!({ "metadata": { "labels": {} }, "spec": {
            "runPolicy": "AlwaysOn", "bootloader": "EFI", "memory": { "size": "1Gi" },
            "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
        } });
        let mut to = from.clone();
        json_patch::merge(&mut to, &patch);
        assert_eq!(Dvp::effect_of_change(&from, &to), expected);
    }

    #[test]
    fn the_smallest_pool_has_no_error_and_no_machine() {
        let object = Dvp::smallest_pool("probe");
        let pool = Dvp::read_pool(&serde_json::from_value(object).unwrap());
        assert_eq!((&*pool.id.name, pool.desired), ("probe", 0));
        assert_eq!(pool.validation_errors, Vec::<String>::new());
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
        assert_eq!(result(failed), Some(Err(RestartFailure::Explained("no such machine".to_owned()))));
    }

    #[test]
    fn every_way_to_pause_is_read_as_paused() {
        for paused in [true, false] {
            for patch in Dvp::pause(paused) {
                let mut pool =
                    json!({ "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": {} });
                json_patch::merge(&mut pool, &patch);
                let pool: crate::DvpPoolObject = serde_json::from_value(pool).unwrap();
                assert_eq!(Dvp::is_paused(&Dvp::read_pool(&pool)), paused, "{patch}");
            }
        }
    }
}

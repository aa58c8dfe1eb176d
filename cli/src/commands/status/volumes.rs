//! The volumes of machines, on platforms where these are objects of their own.

use std::collections::HashMap;

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_platforms::{ClientPlatform, MachineStorage, VolumeOf};

use super::view::DiskOverview;

/// The volumes of a machine, on platforms on which these are objects of their own.
pub(super) fn list_volume_overviews<P: ClientPlatform>(
    machine: &Value,
    volumes: &HashMap<String, Value>,
) -> Vec<DiskOverview> {
    let machine: Option<P::Machine> = serde_json::from_value(machine.clone()).ok();
    let names = machine.map(|machine| P::Storage::volumes(&machine)).unwrap_or_default();
    names.iter().map(|name| volume_overview::<P>(name, volumes.get(&**name))).collect()
}

/// A volume. Its state is empty if it cannot be read.
fn volume_overview<P: ClientPlatform>(name: &str, stored: Option<&Value>) -> DiskOverview {
    let Some(stored) = stored else {
        return DiskOverview { name: name.to_owned(), ..DiskOverview::default() };
    };
    let spec = &stored["spec"];
    let requests =
        ["/storage", "/pvc"].map(|part| spec.pointer(&format!("{part}/resources/requests/storage")));
    let size = requests.into_iter().flatten().find_map(Value::as_str);
    let volume: Option<VolumeOf<P>> = serde_json::from_value(stored.clone()).ok();
    DiskOverview {
        name: name.to_owned(),
        state: stored["status"]["phase"].as_str().unwrap_or_default().to_owned(),
        created: stored["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok()),
        size: size.and_then(|size| Quantity::from(size).bytes().ok()),
        problem: volume.and_then(|volume| P::Storage::problem(&volume)),
        ..DiskOverview::default()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use vmpool_platforms::KubeVirt;

    use super::*;

    #[test]
    fn a_machine_of_kubevirt_shows_its_data_volumes() {
        let machine = json!({
            "metadata": { "name": "web-0", "namespace": "a", "uid": "u" },
            "spec": { "template": { "spec": {
                "domain": {},
                "volumes": [
                    { "name": "root", "dataVolume": { "name": "root-0" } },
                    { "name": "home", "dataVolume": { "name": "home-0" } },
                ],
            } } },
        });
        let root = json!({
            "metadata": { "name": "root-0", "namespace": "a", "creationTimestamp": "1970-01-01T00:01:00Z" },
            "spec": { "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
            "status": { "phase": "ImportInProgress" },
        });
        let volumes = HashMap::from([("root-0".to_owned(), root)]);
        let shown = list_volume_overviews::<KubeVirt>(&machine, &volumes);
        let root = DiskOverview {
            name: "root-0".into(),
            state: "ImportInProgress".into(),
            created: Timestamp::from_second(60).ok(),
            size: Some(1 << 30),
            ..DiskOverview::default()
        };
        let home = DiskOverview { name: "home-0".into(), ..DiskOverview::default() };
        let find = |name: &str| shown.iter().find(|disk| disk.name == name);
        assert_eq!((find("root-0"), find("home-0")), (Some(&root), Some(&home)));
    }
}

//! The loads of namespaces, from which metrics follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use parking_lot::Mutex;

/// The ConfigMap with the load of its namespace, where users set loads.
const CONFIG_MAP: &str = "simulator-load";

/// The key of the CPU usage. All other keys are custom metrics.
const CPU: &str = "cpu";

/// The metrics of one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// CPU usage of all Pods together, in thousandths of a core.
    pub(super) cpu_millis: u64,
    /// Custom metrics by name. Metrics of an object are returned as they are, and those of Pods are shared
    /// evenly.
    pub(super) custom: BTreeMap<String, u64>,
}

/// The loads by namespace.
pub(super) type Loads = Arc<Mutex<BTreeMap<String, Load>>>;

/// Where the loads come from.
#[derive(Debug, Clone)]
pub(super) enum LoadSource {
    /// A scenario sets them.
    Scenario(Loads),
    /// Users set them, in the ConfigMap [`CONFIG_MAP`] of each namespace.
    ConfigMaps,
}

impl LoadSource {
    /// The load of a namespace.
    ///
    /// # Errors
    /// The client's error.
    pub(super) async fn read(&self, client: Client, namespace: &str) -> kube::Result<Load> {
        match self {
            Self::Scenario(loads) => Ok(loads.lock().get(namespace).cloned().unwrap_or_default()),
            Self::ConfigMaps => {
                let found = Api::<ConfigMap>::namespaced(client, namespace).get_opt(CONFIG_MAP).await?;
                Ok(parse_load(found.and_then(|map| map.data).unwrap_or_default()))
            }
        }
    }
}

/// The load in a ConfigMap. Values that are no number are ignored.
fn parse_load(mut data: BTreeMap<String, String>) -> Load {
    let cpu_millis = data.remove(CPU).and_then(|cpu| parse_cpu(&cpu)).unwrap_or_default();
    let custom = data.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect();
    Load { cpu_millis, custom }
}

/// Thousandths of a core: `900m`, or whole cores.
fn parse_cpu(text: &str) -> Option<u64> {
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().ok(),
        None => text.parse::<u64>().ok()?.checked_mul(1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_load_of_a_namespace_is_in_its_config_map() {
        let load = parse_load(data(&[("cpu", "900m"), ("queued_jobs", "12"), ("note", "busy")]));
        assert_eq!(load.cpu_millis, 900);
        assert_eq!(load.custom, BTreeMap::from([("queued_jobs".to_owned(), 12)]));
        assert_eq!(parse_load(data(&[("cpu", "2")])).cpu_millis, 2000);
        assert_eq!(parse_load(data(&[("cpu", "much")])), Load::default());
    }
}

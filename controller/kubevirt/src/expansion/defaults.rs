//! What KubeVirt adds to machines.

use serde::Deserialize;
use vmpool_instancetype::pins;
use vmpool_instancetype::start::InstanceSettings;

use super::super::coexistence::{self, Installations};

/// What KubeVirt adds to a machine when it starts, as far as the KubeVirt objects of the cluster show it. A
/// list of these objects decodes to it; the default is that of a cluster without one.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Installations")]
pub struct StartDefaults(pub(super) InstanceSettings);

impl From<Installations> for StartDefaults {
    fn from(Installations { items }: Installations) -> Self {
        let interface = pins::interface_binding(coexistence::kubevirt_configuration(&items).interface);
        Self(InstanceSettings { interface, defaults: Some(coexistence::machine_defaults(&items)) })
    }
}

impl Default for StartDefaults {
    fn default() -> Self {
        Installations::default().into()
    }
}

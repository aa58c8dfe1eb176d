//! The platforms whose pools are checked, and the resources of their kinds.

use std::fmt;
use std::str::FromStr;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use vmpool_api::{kubevirt, v1alpha2};

use crate::object::TestedKind;

/// A platform.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TestedPlatform {
    /// Deckhouse DVP.
    #[default]
    Dvp,
    /// KubeVirt with CDI.
    KubeVirt,
}

impl TestedPlatform {
    /// The groups of the platform's kinds.
    pub fn groups(self) -> &'static [&'static str] {
        match self {
            Self::Dvp => &[v1alpha2::GROUP],
            Self::KubeVirt => &[kubevirt::POOL_GROUP, kubevirt::GROUP, "cdi.kubevirt.io"],
        }
    }

    /// The API resource of a kind. Operations exist on DVP only.
    pub fn resource(self, kind: TestedKind) -> ApiResource {
        let api_version = match (self, kind) {
            (Self::Dvp, _) | (_, TestedKind::Operation | TestedKind::Event) => return kind.resource(),
            (Self::KubeVirt, TestedKind::Pool) => kubevirt::POOL_API_VERSION,
            (Self::KubeVirt, TestedKind::Machine) => kubevirt::API_VERSION,
            (Self::KubeVirt, TestedKind::Disk) => kubevirt::DATA_VOLUME_API_VERSION,
        };
        let (name, plural) = match kind {
            TestedKind::Disk => ("DataVolume", "datavolumes"),
            _ => (kind.name(), kind.plural()),
        };
        let (group, version) = api_version.split_once('/').unwrap_or_default();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: name.to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// An API for a kind in a namespace.
    pub fn api(self, kind: TestedKind, client: Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client, namespace, &self.resource(kind))
    }
}

impl fmt::Display for TestedPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dvp => "dvp",
            Self::KubeVirt => "kubevirt",
        })
    }
}

impl FromStr for TestedPlatform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Dvp, Self::KubeVirt]
            .into_iter()
            .find(|platform| platform.to_string() == text)
            .ok_or_else(|| format!("unknown platform {text:?}: use dvp or kubevirt"))
    }
}

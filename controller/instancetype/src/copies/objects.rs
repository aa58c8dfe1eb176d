//! The objects that the plans read, with the fields that they read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use vmpool_platform::slim_metadata;

use crate::model::TypeFamily;
use crate::pins::FAMILIES;

/// An object that is watched as a whole.
pub trait Document: vmpool_platform::ApiObject {
    /// The object as JSON.
    fn document(&self) -> Value;
}

macro_rules! documents {
    ($($(#[$doc:meta])* $name:ident, $group:literal, $version:literal, $kind:literal, $plural:literal;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Deserialize)]
            pub struct $name {
                #[serde(deserialize_with = "slim_metadata")]
                metadata: ObjectMeta,
                #[serde(default)]
                spec: Value,
                #[serde(default)]
                status: Value,
                #[serde(default)]
                data: Value,
            }

            vmpool_platform::api_object!($name, $group, $version, $kind, $plural);

            impl Document for $name {
                fn document(&self) -> Value {
                    let Self { metadata, spec, status, data } = self;
                    let mut document = json!({
                        "apiVersion": concat!($group, "/", $version),
                        "kind": $kind,
                        "metadata": metadata,
                    });
                    for (field, value) in [("spec", spec), ("status", status), ("data", data)] {
                        if !value.is_null() {
                            document[field] = value.clone();
                        }
                    }
                    document
                }
            }
        )+
    };
}

documents! {
    /// A machine.
    Machine, "kubevirt.io", "v1", "VirtualMachine", "virtualmachines";
    /// A ControllerRevision.
    Revision, "apps", "v1", "ControllerRevision", "controllerrevisions";
    /// A pool.
    Pool, "pool.kubevirt.io", "v1beta1", "VirtualMachinePool", "virtualmachinepools";
    /// An instance type of a namespace.
    Instancetype, "instancetype.kubevirt.io", "v1beta1", "VirtualMachineInstancetype", "virtualmachineinstancetypes";
    /// An instance type of the cluster.
    ClusterInstancetype, "instancetype.kubevirt.io", "v1beta1", "VirtualMachineClusterInstancetype",
        "virtualmachineclusterinstancetypes";
    /// A preference of a namespace.
    Preference, "instancetype.kubevirt.io", "v1beta1", "VirtualMachinePreference", "virtualmachinepreferences";
    /// A preference of the cluster.
    ClusterPreference, "instancetype.kubevirt.io", "v1beta1", "VirtualMachineClusterPreference",
        "virtualmachineclusterpreferences";
}

impl Machine {
    /// Whether the machine names this ControllerRevision, in its spec or in its status, and is not being
    /// deleted.
    pub fn uses(&self, revision: &str) -> bool {
        let is_used = |family: &TypeFamily| {
            let by_spec = &self.spec[family.field()]["revisionName"];
            let recorded = &self.status[family.status_field()]["controllerRevisionRef"]["name"];
            [by_spec, recorded].into_iter().any(|name| name == revision)
        };
        self.metadata.deletion_timestamp.is_none() && FAMILIES.iter().any(is_used)
    }
}

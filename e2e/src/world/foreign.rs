//! Foreign objects, and operations of users on machines.

use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_invariants::object::{Kind, Object};
use vmpool_invariants::platform::PlatformName;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::poll;

use super::state::{DEADLINE, World};

/// The smallest spec with which a platform accepts an object of this kind.
pub(super) fn smallest_spec(platform: PlatformName, kind: Kind) -> Value {
    match kind {
        Kind::Disk if platform == PlatformName::KubeVirt => json!({
            "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "64Mi" } } },
        }),
        Kind::Machine if platform == PlatformName::KubeVirt => {
            json!({ "runStrategy": "Halted", "template": { "spec": { "domain": { "devices": {} } } } })
        }
        Kind::Disk => json!({ "persistentVolumeClaim": { "size": "64Mi" } }),
        Kind::Machine => json!({
            "virtualMachineClassName": CLASS,
            "cpu": { "cores": 1, "coreFraction": "5%" },
            "memory": { "size": "512Mi" },
            "terminationGracePeriodSeconds": 1,
            "blockDeviceRefs": [{ "kind": "ClusterVirtualImage", "name": IMAGE }],
        }),
        Kind::Pool | Kind::Operation | Kind::Event => json!({}),
    }
}

impl World {
    /// Creates a machine without a pool. From now on only the platform may change it (I4).
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn foreign_machine(&self, name: &str, labels: &Value) -> Result<Object> {
        self.foreign(Kind::Machine, name, labels).await
    }

    /// Creates a disk without a pool. From now on only the platform may change it (I4).
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn foreign_disk(&self, name: &str, labels: &Value) -> Result<Object> {
        self.foreign(Kind::Disk, name, labels).await
    }

    /// Creates a machine without a pool that uses only this disk. From now on only the platform may change it (I4).
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn foreign_machine_on(&self, name: &str, disk: &Object) -> Result<Object> {
        let mut spec = smallest_spec(self.platform(), Kind::Machine);
        spec["blockDeviceRefs"] = json!([{ "kind": "VirtualDisk", "name": disk.name() }]);
        self.foreign_with(Kind::Machine, name, &json!({}), &spec).await
    }

    async fn foreign(&self, kind: Kind, name: &str, labels: &Value) -> Result<Object> {
        self.foreign_with(kind, name, labels, &smallest_spec(self.platform(), kind)).await
    }

    async fn foreign_with(&self, kind: Kind, name: &str, labels: &Value, spec: &Value) -> Result<Object> {
        let resource = self.platform().resource(kind);
        let object = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name, "namespace": self.namespace(), "labels": labels },
            "spec": spec,
        });
        let created = self.post(kind, &object).await?;
        self.treat_as_foreign(&created);
        Ok(created)
    }

    /// From now on only the platform may change this object (I4). Call this again after each change by the scenario.
    pub fn treat_as_foreign(&self, object: &Object) {
        self.user_actions().foreign.insert(object.uid().to_owned(), object.clone());
    }

    /// Starts, stops or restarts a machine as a user does, and waits until the operation has completed.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`], [`Error::Unexpected`] if the operation fails.
    pub async fn operate(&self, operation: &str, machine: &Object) -> Result<()> {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": Kind::Operation.name(),
            "metadata": { "generateName": format!("{}-", machine.name()), "namespace": self.namespace() },
            "spec": { "type": operation, "virtualMachineName": machine.name() },
        });
        let created = self.post(Kind::Operation, &object).await?;
        let what = || format!("{operation} of {} is completed", machine.name());
        let done = poll::until(what, DEADLINE, async || {
            let now = self.get(Kind::Operation, created.name()).await?;
            Ok(if ["Completed", "Failed"].contains(&now.phase()) { Ok(now) } else { Err(now.to_yaml()) })
        });
        let done = done.await?;
        if done.phase() == "Failed" {
            let what = format!("{operation} of {} succeeds", machine.name());
            return Err(Error::Unexpected { what, last: done.to_yaml() });
        }
        self.check().await
    }
}

//! Foreign objects, and operations of users on machines.

use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::poll;

use super::state::{DEADLINE, ScenarioWorld};

/// The smallest spec with which a platform accepts an object of this kind.
pub(super) fn smallest_spec(platform: TestedPlatform, kind: TestedKind) -> Value {
    match kind {
        TestedKind::Disk if platform == TestedPlatform::KubeVirt => json!({
            "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "64Mi" } } },
        }),
        TestedKind::Machine if platform == TestedPlatform::KubeVirt => {
            json!({ "runStrategy": "Halted", "template": { "spec": { "domain": { "devices": {} } } } })
        }
        TestedKind::Disk => json!({ "persistentVolumeClaim": { "size": "64Mi" } }),
        TestedKind::Machine => json!({
            "virtualMachineClassName": CLASS,
            "cpu": { "cores": 1, "coreFraction": "5%" },
            "memory": { "size": "512Mi" },
            "terminationGracePeriodSeconds": 1,
            "blockDeviceRefs": [{ "kind": "ClusterVirtualImage", "name": IMAGE }],
        }),
        TestedKind::Pool | TestedKind::Operation | TestedKind::Event => json!({}),
    }
}

impl ScenarioWorld {
    /// Creates a machine without a pool. From now on only the platform may change it (I4).
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn foreign_machine(&self, name: &str, labels: &Value) -> Result<JsonObject> {
        self.foreign(TestedKind::Machine, name, labels).await
    }

    /// Creates a disk without a pool. From now on only the platform may change it (I4).
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn foreign_disk(&self, name: &str, labels: &Value) -> Result<JsonObject> {
        self.foreign(TestedKind::Disk, name, labels).await
    }

    /// Creates a machine without a pool that uses only this disk. From now on only the platform may change it
    /// (I4).
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn foreign_machine_on(&self, name: &str, disk: &JsonObject) -> Result<JsonObject> {
        let mut spec = smallest_spec(self.platform(), TestedKind::Machine);
        spec["blockDeviceRefs"] = json!([{ "kind": "VirtualDisk", "name": disk.name() }]);
        self.foreign_with(TestedKind::Machine, name, &json!({}), &spec).await
    }

    async fn foreign(&self, kind: TestedKind, name: &str, labels: &Value) -> Result<JsonObject> {
        self.foreign_with(kind, name, labels, &smallest_spec(self.platform(), kind)).await
    }

    async fn foreign_with(
        &self,
        kind: TestedKind,
        name: &str,
        labels: &Value,
        spec: &Value,
    ) -> Result<JsonObject> {
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

    /// From now on only the platform may change this object (I4). Call this again after each change by the
    /// scenario.
    pub fn treat_as_foreign(&self, object: &JsonObject) {
        self.user_actions().foreign.insert(object.uid().to_owned(), object.clone());
    }

    /// Starts, stops or restarts a machine as a user does, and waits until the operation has completed.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`], [`Error::Unexpected`] if the operation fails.
    pub async fn operate(&self, operation: &str, machine: &JsonObject) -> Result<()> {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": TestedKind::Operation.name(),
            "metadata": { "generateName": format!("{}-", machine.name()), "namespace": self.namespace() },
            "spec": { "type": operation, "virtualMachineName": machine.name() },
        });
        let created = self.post(TestedKind::Operation, &object).await?;
        let what = || format!("{operation} of {} is completed", machine.name());
        let done = poll::poll_until(what, DEADLINE, async || {
            let now = self.get(TestedKind::Operation, created.name()).await?;
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

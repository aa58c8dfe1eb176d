//! The guests of machines: users stop and start them, and templates restart them.

use serde_json::{Value, json};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::error::Result;

use super::state::ScenarioWorld;

/// The patch of a pool that gives its machines this memory.
pub(super) fn memory_patch(platform: TestedPlatform, size: &str) -> Value {
    let spec = match platform {
        TestedPlatform::Dvp => json!({ "memory": { "size": size } }),
        TestedPlatform::KubeVirt => {
            json!({ "template": { "spec": { "domain": { "memory": { "guest": size } } } } })
        }
    };
    json!({ "spec": { "virtualMachineTemplate": { "spec": spec } } })
}

impl ScenarioWorld {
    /// Stops the guest of a machine as a user does: with an operation, or with the run strategy.
    ///
    /// # Errors
    /// As [`ScenarioWorld::operate`] and [`ScenarioWorld::patch`].
    pub async fn stop_guest(&self, machine: &JsonObject) -> Result<()> {
        match self.platform {
            TestedPlatform::Dvp => self.operate("Stop", machine).await,
            TestedPlatform::KubeVirt => self.set_run_strategy(machine, "Halted").await,
        }
    }

    /// Starts the guest of a machine that a user has stopped.
    ///
    /// # Errors
    /// As [`ScenarioWorld::stop_guest`].
    pub async fn start_guest(&self, machine: &JsonObject) -> Result<()> {
        match self.platform {
            TestedPlatform::Dvp => self.operate("Start", machine).await,
            TestedPlatform::KubeVirt => self.set_run_strategy(machine, "Always").await,
        }
    }

    async fn set_run_strategy(&self, machine: &JsonObject, strategy: &str) -> Result<()> {
        let patch = json!({ "spec": { "runStrategy": strategy } });
        self.patch(TestedKind::Machine, machine.name(), &patch).await?;
        self.check().await
    }

    /// What changes when the guest of a machine restarts: how often it has stopped, or the UID of its
    /// instance.
    ///
    /// # Errors
    /// As [`ScenarioWorld::kubectl`].
    pub async fn guest_of(&self, machine: &str) -> Result<String> {
        if self.platform == TestedPlatform::KubeVirt {
            let uid = "jsonpath={.metadata.uid}";
            return self.kubectl(&["get", "virtualmachineinstances.kubevirt.io", machine, "-o", uid]).await;
        }
        let (mut stops, mut ran) = (0, false);
        self.recorder.history().replay(|_, change| {
            if change.kind == TestedKind::Machine && change.object.name() == machine {
                stops += usize::from(ran && !change.object.is_running());
                ran = change.object.is_running();
            }
        });
        Ok(stops.to_string())
    }
}

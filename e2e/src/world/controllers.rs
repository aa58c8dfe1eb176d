//! The controllers of a scenario.

use std::sync::Arc;

use vmpool_installation::fault_proxy::FaultProxy;
use vmpool_installation::programs::{
    CONTROLLER_ACCOUNT, ControllerOptions, ControllerProgram, SYSTEM_NAMESPACE,
};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::error::{Error, Result};

use super::state::ScenarioWorld;

impl ScenarioWorld {
    /// Starts an additional controller, which competes for the same lease, and waits until it is live.
    ///
    /// # Errors
    /// As [`ControllerProgram::start`].
    pub async fn add_controller(&self) -> Result<Arc<ControllerProgram>> {
        let identity = format!("controller-{}", self.controllers.lock().len());
        self.add_controller_with(ControllerOptions::new(&self.namespace, identity)).await
    }

    /// Starts an additional controller with a short lease, so that the loss of the leader is noticed soon.
    ///
    /// # Errors
    /// As [`ControllerProgram::start`].
    pub async fn add_short_leased(&self, identity: &str) -> Result<Arc<ControllerProgram>> {
        self.add_controller_with(ControllerOptions::short_lease(&self.namespace, identity)).await
    }

    /// Starts an additional controller with custom options.
    ///
    /// # Errors
    /// As [`ControllerProgram::start`].
    pub async fn add_controller_with(
        &self,
        mut options: ControllerOptions,
    ) -> Result<Arc<ControllerProgram>> {
        if self.platform == TestedPlatform::KubeVirt {
            options.extra.push("--platforms=dvp,kubevirt".to_owned());
        }
        let controller = Arc::new(ControllerProgram::start(self.cluster(), options).await?);
        self.controllers.lock().push(controller.clone());
        Ok(controller)
    }

    /// Starts an additional controller whose requests go through a fault proxy.
    ///
    /// # Errors
    /// As [`FaultProxy::open`] and [`ControllerProgram::start`].
    pub async fn add_controller_with_proxy(
        &self,
        mut options: ControllerOptions,
    ) -> Result<(Arc<ControllerProgram>, FaultProxy)> {
        let proxy = FaultProxy::open(self.cluster(), SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        options.kubeconfig = Some(proxy.kubeconfig(self.cluster())?);
        Ok((self.add_controller_with(options).await?, proxy))
    }

    /// The controllers, in the order of their start.
    pub fn controllers(&self) -> Vec<Arc<ControllerProgram>> {
        self.controllers.lock().clone()
    }

    /// The first controller.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if the scenario has none.
    pub fn controller(&self) -> Result<Arc<ControllerProgram>> {
        self.controllers.lock().first().cloned().ok_or_else(|| Error::Unexpected {
            what: "the scenario has a controller".to_owned(),
            last: "it was started without one".to_owned(),
        })
    }
}

//! Replaces the provider `k3s` in builds without the feature of this name.

use std::path::Path;

use vmpool_test_cluster::error::Result;
use vmpool_test_cluster::node::images::ContainerImage;

use crate::{Environment, Provider};

/// No container: this build cannot start one.
pub(crate) enum K3sServer {}

#[expect(clippy::unused_async, reason = "callers await these functions of the provider")]
impl K3sServer {
    /// # Errors
    /// Always `Error::Unavailable`.
    pub(crate) async fn start(
        _environment: &Environment,
        _home: &Path,
        _kubeconfig: &Path,
        _images: impl FnOnce() -> Result<Vec<ContainerImage>>,
    ) -> Result<Self> {
        Err(Provider::K3s.unavailable("this program was built without the feature `k3s`; run `make e2e`"))
    }

    pub(crate) async fn delete(self) -> Result<()> {
        match self {}
    }
}

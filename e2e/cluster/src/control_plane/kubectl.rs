//! Access through kubectl.

use std::path::Path;

use super::options::{AUDIT_LOG, AuditLog};
use super::running::ControlPlane;
use crate::access::Access;
use crate::error::Result;

impl ControlPlane {
    /// The administrator's access to this cluster.
    pub fn access(&self) -> Access {
        Access {
            client: self.admin(),
            kubeconfig: self.admin_kubeconfig.clone(),
            kubectl: self.tools.kubectl.clone(),
            home: self.directory.clone(),
            audit_log: (self.audit != AuditLog::Off).then(|| self.directory.join(AUDIT_LOG)),
        }
    }

    /// The kubectl with the API server's version.
    pub fn kubectl_program(&self) -> &Path {
        &self.tools.kubectl
    }

    /// As [`Access::kubectl`].
    ///
    /// # Errors
    /// [`crate::Error::Command`] with its error output if it fails, [`crate::Error::Spawn`] if it cannot be
    /// started.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.access().kubectl(arguments).await
    }
}

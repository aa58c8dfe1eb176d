//! Runs helm.

use std::path::PathBuf;
use std::time::Duration;

use crate::access::Access;
use crate::cluster;
use crate::error::Result;
use crate::programs::SYSTEM_NAMESPACE;

/// Longer than helm's own timeout.
const DEADLINE: Duration = Duration::from_mins(6);

/// helm on one cluster.
#[derive(Clone)]
pub(super) struct Helm {
    access: Access,
    program: PathBuf,
}

impl Helm {
    /// # Errors
    /// [`crate::Error::MissingTool`].
    pub(super) fn new(access: Access) -> Result<Self> {
        Ok(Self { access, program: cluster::helm()? })
    }

    /// Runs helm in the chart's namespace and returns its output.
    ///
    /// # Errors
    /// [`crate::Error::Command`] with its error output.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut all = vec!["--namespace", SYSTEM_NAMESPACE];
        all.extend(arguments);
        self.access.run("helm", &self.program, &all, DEADLINE).await
    }
}

//! Runs helm.

use std::path::PathBuf;
use std::time::Duration;

use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane::target_directory;
use vmpool_test_cluster::error::{Error, Result};

use crate::programs::SYSTEM_NAMESPACE;

/// Longer than helm's own timeout.
const DEADLINE: Duration = Duration::from_mins(6);

/// The path of helm.
///
/// # Errors
/// [`Error::MissingTool`] if it was not built.
pub fn find_helm() -> Result<PathBuf> {
    let directory = target_directory().join("tools/helm/bin");
    let path = directory.join("helm");
    if path.is_file() { Ok(path) } else { Err(Error::MissingTool { tool: "helm", directory }) }
}

/// Checks that helm was built.
///
/// # Errors
/// As [`find_helm`].
pub fn check_helm_built() -> Result<()> {
    find_helm().map(drop)
}

/// helm on one cluster.
#[derive(Clone)]
pub(super) struct Helm {
    access: Access,
    program: PathBuf,
}

impl Helm {
    /// # Errors
    /// [`vmpool_test_cluster::Error::MissingTool`].
    pub(super) fn new(access: Access) -> Result<Self> {
        Ok(Self { access, program: find_helm()? })
    }

    /// Runs helm in the chart's namespace and returns its output.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Command`] with its error output.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut all = vec!["--namespace", SYSTEM_NAMESPACE];
        all.extend(arguments);
        self.access.run("helm", &self.program, &all, DEADLINE).await
    }
}

//! Finds the programs of the control plane.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The environment variable with an alternative directory of tools.
const VARIABLE: &str = "VMPOOL_TOOLS";

/// The programs of a control plane. Each of them exists.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    /// etcd; its main package is called `server`.
    pub(crate) etcd: PathBuf,
    /// kube-apiserver.
    pub(crate) api_server: PathBuf,
    /// kube-controller-manager.
    pub(crate) controller_manager: PathBuf,
    /// kubectl.
    pub(crate) kubectl: PathBuf,
}

impl Tools {
    /// Finds the programs in `$VMPOOL_TOOLS`, or in the output directory of `cargo xtask tools`.
    ///
    /// # Errors
    /// [`Error::MissingTool`] for the first missing program.
    pub(crate) fn find() -> Result<Self> {
        let directory = std::env::var_os(VARIABLE)
            .map_or_else(|| target_directory().join("tools/control-plane/bin"), PathBuf::from);
        Self::in_directory(&directory)
    }

    fn in_directory(directory: &Path) -> Result<Self> {
        let find = |tool: &'static str| {
            let path = directory.join(tool);
            if path.is_file() {
                Ok(path)
            } else {
                Err(Error::MissingTool { tool, directory: directory.to_owned() })
            }
        };
        Ok(Self {
            etcd: find("server")?,
            api_server: find("kube-apiserver")?,
            controller_manager: find("kube-controller-manager")?,
            kubectl: find("kubectl")?,
        })
    }
}

/// The path of helm.
///
/// # Errors
/// [`Error::MissingTool`] if it does not exist.
pub(crate) fn helm() -> Result<PathBuf> {
    let directory = target_directory().join("tools/helm/bin");
    let path = directory.join("helm");
    if path.is_file() { Ok(path) } else { Err(Error::MissingTool { tool: "helm", directory }) }
}

/// The path of kubectl.
///
/// # Errors
/// [`Error::MissingTool`] if the control plane was not built.
pub(crate) fn kubectl() -> Result<PathBuf> {
    Tools::find().map(|tools| tools.kubectl)
}

/// Checks that all programs for [`super::Cluster::start`] were built.
///
/// # Errors
/// [`Error::MissingTool`] for the first missing program.
pub fn check() -> Result<()> {
    Tools::find().map(drop)
}

/// Whether helm was built, which installs the chart.
///
/// # Errors
/// [`Error::MissingTool`] if it is not there.
pub fn check_helm() -> Result<()> {
    helm().map(drop)
}

/// The root of this crate's workspace.
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
}

/// Cargo's target directory.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_missing_tool_names_the_command_to_run() {
        let empty = tempfile::tempdir().unwrap();
        let error = Tools::in_directory(empty.path()).unwrap_err().to_string();
        assert!(error.contains("cargo xtask tools"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

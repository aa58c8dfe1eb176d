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

/// The path of kubectl.
///
/// # Errors
/// [`Error::MissingTool`] if the control plane was not built.
pub fn kubectl_path() -> Result<PathBuf> {
    Tools::find().map(|tools| tools.kubectl)
}

/// Checks that all programs for [`super::ControlPlane::start`] were built.
///
/// # Errors
/// [`Error::MissingTool`] for the first missing program.
pub fn check_tools_exist() -> Result<()> {
    Tools::find().map(drop)
}

/// Cargo's target directory: `CARGO_TARGET_DIR`, or the one that contains the running program.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || {
            std::env::current_exe()
                .ok()
                .and_then(|program| around(&program))
                .unwrap_or_else(|| "target".into())
        },
        PathBuf::from,
    )
}

/// The closest directory above `program` that cargo has marked as a target directory.
fn around(program: &Path) -> Option<PathBuf> {
    let mut directories = program.ancestors().skip(1);
    directories.find(|directory| directory.join("CACHEDIR.TAG").is_file()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_directory_is_the_one_around_the_program() {
        let target = tempfile::tempdir().unwrap();
        let program = target.path().join("debug/deps/program");
        assert_eq!(around(&program), None, "cargo has not marked the directory");
        std::fs::write(target.path().join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(around(&program).as_deref(), Some(target.path()));
    }

    #[test]
    fn the_error_for_a_missing_tool_names_the_command_to_run() {
        let empty = tempfile::tempdir().unwrap();
        let error = Tools::in_directory(empty.path()).unwrap_err().to_string();
        assert!(error.contains("cargo xtask tools"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

//! Finds the programs of a node.

use std::path::{Path, PathBuf};

use crate::control_plane::target_directory;
use crate::error::{Error, Result};

/// The programs that are built for a node. Each of them exists.
#[derive(Debug, Clone)]
pub(super) struct NodeTools {
    /// kubelet.
    pub(super) kubelet: PathBuf,
    /// kube-proxy.
    pub(super) proxy: PathBuf,
    /// kube-scheduler.
    pub(super) scheduler: PathBuf,
    /// containerd; its shim is in the same directory.
    pub(super) containerd: PathBuf,
    /// containerd's own client.
    pub(super) ctr: PathBuf,
}

impl NodeTools {
    /// Finds the programs in the output directory of `cargo xtask tools node`.
    ///
    /// # Errors
    /// [`Error::MissingTool`] for the first missing program.
    pub(super) fn find() -> Result<Self> {
        let tools = target_directory().join("tools");
        let (node, containerd) = (tools.join("node/bin"), tools.join("containerd/bin"));
        find(&containerd, "containerd-shim-runc-v2")?;
        Ok(Self {
            kubelet: find(&node, "kubelet")?,
            proxy: find(&node, "kube-proxy")?,
            scheduler: find(&node, "kube-scheduler")?,
            containerd: find(&containerd, "containerd")?,
            ctr: find(&containerd, "ctr")?,
        })
    }
}

fn find(directory: &Path, tool: &'static str) -> Result<PathBuf> {
    let path = directory.join(tool);
    if path.is_file() { Ok(path) } else { Err(Error::MissingTool { tool, directory: directory.to_owned() }) }
}

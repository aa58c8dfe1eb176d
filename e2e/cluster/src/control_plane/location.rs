//! Where the components of a control plane run.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::namespaces::{Depth, LinuxNamespaces};

/// Where the components of a control plane run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ComponentLocation {
    /// On the host's loopback address; needs no privileges.
    #[default]
    Loopback,
    /// In namespaces of its own, whose network a node shares; needs root on Linux.
    Namespaces,
}

impl ComponentLocation {
    /// Creates the namespaces, if they are needed.
    ///
    /// # Errors
    /// As [`LinuxNamespaces::create`].
    pub(super) async fn prepare(self, directory: &Path) -> Result<Option<LinuxNamespaces>> {
        match self {
            Self::Loopback => Ok(None),
            Self::Namespaces => LinuxNamespaces::create(directory).await.map(Some),
        }
    }
}

/// A command that runs a component in its namespaces.
pub(super) fn component_command(namespaces: Option<&LinuxNamespaces>, program: &Path) -> Command {
    match namespaces {
        Some(namespaces) => namespaces.command(Depth::Network, program),
        None => Command::new(program),
    }
}

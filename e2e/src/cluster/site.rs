//! Where the parts of a control plane run.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::namespaces::{Depth, Namespaces};

/// Where the parts of a control plane run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Site {
    /// On the host's loopback address; needs no privileges.
    #[default]
    Loopback,
    /// On a separate network that a node shares; needs root on Linux.
    Node,
}

impl Site {
    /// Creates the namespaces, if they are needed.
    ///
    /// # Errors
    /// As [`Namespaces::create`].
    pub(super) async fn prepare(self, directory: &Path) -> Result<Option<Namespaces>> {
        match self {
            Self::Loopback => Ok(None),
            Self::Node => Namespaces::create(directory).await.map(Some),
        }
    }
}

/// A command that runs a part of the control plane in its namespaces.
pub(super) fn command(namespaces: Option<&Namespaces>, program: &Path) -> Command {
    match namespaces {
        Some(namespaces) => namespaces.command(Depth::Network, program),
        None => Command::new(program),
    }
}

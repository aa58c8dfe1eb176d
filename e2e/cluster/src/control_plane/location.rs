//! Where the components of a control plane run.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::namespaces::{Depth, Namespaces};

/// Where the components of a control plane run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Location {
    /// On the host's loopback address; needs no privileges.
    #[default]
    Loopback,
    /// In namespaces of its own, whose network a node shares; needs root on Linux.
    Namespaces,
}

impl Location {
    /// Creates the namespaces, if they are needed.
    ///
    /// # Errors
    /// As [`Namespaces::create`].
    pub(super) async fn prepare(self, directory: &Path) -> Result<Option<Namespaces>> {
        match self {
            Self::Loopback => Ok(None),
            Self::Namespaces => Namespaces::create(directory).await.map(Some),
        }
    }
}

/// A command that runs a component in its namespaces.
pub(super) fn command(namespaces: Option<&Namespaces>, program: &Path) -> Command {
    match namespaces {
        Some(namespaces) => namespaces.command(Depth::Network, program),
        None => Command::new(program),
    }
}

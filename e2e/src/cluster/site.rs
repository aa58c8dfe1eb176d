//! Where the parts of a control plane run.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::namespaces::{Depth, Namespaces};

/// Where the parts of a control plane run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Site {
    /// On this machine's loopback address; no privileges are needed.
    #[default]
    Loopback,
    /// On a network of their own, which a node shares; this needs root on Linux.
    Node,
}

impl Site {
    /// Makes what there has to be first.
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

/// A command that runs a part of the control plane where it belongs.
pub(super) fn command(namespaces: Option<&Namespaces>, program: &Path) -> Command {
    match namespaces {
        Some(namespaces) => namespaces.command(Depth::Network, program),
        None => Command::new(program),
    }
}

//! Integrations with other software that really ran. CI does not run them: `cargo xtask integration NAME`, or
//! `make integration NAME=...`. docs/integrations.md has the last results.

mod cert_manager;
mod expressions;
mod http;
mod keda;
mod kubernetes;
mod playground;
mod process;
mod prometheus;

use anyhow::Result;
use clap::ValueEnum;

use crate::tools::{self, ToolSelection};
use crate::workspace::{Workspace, run_command};

/// The other software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Integration {
    /// Prometheus scrapes all programs. Every alert and every query of the dashboard is evaluated. Needs the
    /// Debian package `prometheus`
    Prometheus,
    /// cert-manager issues and rotates the certificates of webhook and apiserver
    CertManager,
    /// KEDA scales a pool from and to zero by two triggers. Needs openssl
    Keda,
    /// Scenarios of both platforms run on the oldest Kubernetes that the chart accepts, and on the newest one
    /// of the tests
    Kubernetes,
}

/// Builds what the integration needs, runs it, and stops all programs.
///
/// # Errors
/// A program cannot be built or started, or the integration does not work.
pub(crate) fn run_integration(workspace: &Workspace, integration: Integration) -> Result<()> {
    tools::ensure_tools(workspace, ToolSelection::ControlPlane)?;
    run_command(workspace.cargo().args(["build", "--quiet", "--locked", "--workspace", "--bins"]))?;
    match integration {
        Integration::Prometheus => prometheus::check_prometheus(workspace),
        Integration::CertManager => {
            tools::ensure_tools(workspace, ToolSelection::CertManager)?;
            cert_manager::check_cert_manager(workspace)
        }
        Integration::Keda => {
            tools::ensure_tools(workspace, ToolSelection::Keda)?;
            keda::check_keda(workspace)
        }
        Integration::Kubernetes => {
            tools::ensure_tools(workspace, ToolSelection::OldestKubernetes)?;
            tools::ensure_tools(workspace, ToolSelection::Helm)?;
            kubernetes::check_kubernetes_releases(workspace)
        }
    }
}

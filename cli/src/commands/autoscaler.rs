//! `autoscaler`: what an autoscaler does, and what it would have done with a recorded demand.

mod simulate;
mod status;

use anyhow::Result;

use crate::arguments::{AutoscalerArguments, AutoscalerCommand};
use crate::cluster::UserClusterClient;

pub(crate) use simulate::simulate_autoscaler;

/// Runs a command about an autoscaler that needs the cluster.
///
/// # Errors
/// A request failed, or a file cannot be read.
pub(crate) async fn run_autoscaler_command(
    cluster: &UserClusterClient,
    arguments: &AutoscalerArguments,
) -> Result<()> {
    match &arguments.command {
        AutoscalerCommand::Status(arguments) => status::print_autoscaler_status(cluster, arguments).await,
        AutoscalerCommand::Simulate(arguments) => simulate_autoscaler(arguments),
    }
}

//! `status`: a pool with its machines, disks, conditions, blockers and events.

mod collect;
mod text;
mod view;

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use vmpool_platforms::ClientPlatform;

use crate::arguments::{Format, StatusArguments};
use crate::cluster::UserClusterClient;
use crate::output::{print_output, print_text};
use collect::collect_pool_overview;
use text::{TextExtent, render_pool_overview};

/// Time between two reads of a status that is watched.
const INTERVAL: Duration = Duration::from_secs(2);

/// Prints the status, with `--watch` again whenever it changes.
///
/// # Errors
/// A request failed.
pub(crate) async fn print_pool_status<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    mut pool: Value,
    arguments: &StatusArguments,
) -> Result<()> {
    let extent = if arguments.all { TextExtent::Complete } else { TextExtent::Screen };
    let mut shown = None;
    let system = &arguments.installation.system_namespace;
    loop {
        let status = collect_pool_overview::<P>(cluster, &pool, system).await?;
        // Ages change all the time, and are no reason to print.
        if shown.as_ref() != Some(&status) {
            if shown.is_some() && arguments.format.output == Format::Text {
                print_text("\n")?;
            }
            print_output(
                arguments.format.output,
                &render_pool_overview(&status, extent, cluster.env.now()),
                &status,
            )?;
            shown = Some(status);
        }
        if !arguments.watch {
            return Ok(());
        }
        cluster.env.sleep(INTERVAL).await;
        match cluster.get::<P::Pool>(&arguments.pool).await? {
            Some(next) => pool = next,
            None => return print_text(&format!("pool {} was deleted\n", arguments.pool)),
        }
    }
}

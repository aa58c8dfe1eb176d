//! `status`: a pool with its machines, disks, conditions, blockers and events.

mod collect;
mod text;
mod view;

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use vmpool_platforms::ClientPlatform;

use crate::arguments::StatusArguments;
use crate::cluster::UserClusterClient;
use crate::format::Format;
use crate::output::{print_objects, print_text};
use crate::pool::resource_name;
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
    let format = &arguments.format.output;
    let is_complete = arguments.all || *format == Format::Wide;
    let extent = if is_complete { TextExtent::Complete } else { TextExtent::Screen };
    let names = [resource_name::<P::Pool>(&arguments.pool)];
    let mut shown = None;
    let system = &arguments.installation.system_namespace;
    loop {
        let status = collect_pool_overview::<P>(cluster, &pool, system).await?;
        // Ages change all the time, and are no reason to print.
        if shown.as_ref() != Some(&status) {
            if shown.is_some() && matches!(format, Format::Text | Format::Wide) {
                print_text("\n")?;
            }
            let text = render_pool_overview(&status, extent, cluster.env.now());
            print_objects(format, &text, &names, &status)?;
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

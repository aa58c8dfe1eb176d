//! `status`: a pool with its machines, disks, conditions, blockers and events.

mod changes;
mod collect;
mod text;
mod view;
mod volumes;

use anyhow::Result;
use serde_json::Value;
use vmpool_platforms::ClientPlatform;

use crate::arguments::StatusArguments;
use crate::cluster::UserClusterClient;
use crate::format::Format;
use crate::output::{print_objects, print_screen, print_text};
use crate::pool::resource_name;
use crate::screen::is_terminal;
use changes::PoolChanges;
use collect::collect_pool_overview;
use text::{TextExtent, render_pool_overview};

/// Prints the status, with `--watch` again whenever it changes; on a terminal in the same place.
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
    let system = &arguments.installation.system_namespace;
    let is_for_users = matches!(format, Format::Text | Format::Wide);
    let mut changes = arguments.watch.then(|| PoolChanges::begin::<P>(cluster, &arguments.pool));
    let mut shown = None;
    loop {
        let status = collect_pool_overview::<P>(cluster, &pool, system).await?;
        let text = render_pool_overview(&status, extent, cluster.env.now());
        if arguments.watch && is_for_users && is_terminal() {
            print_screen(&text, shown.is_none())?;
            shown = Some(status);
        } else if shown.as_ref() != Some(&status) {
            // Ages change all the time, and are no reason to print.
            if shown.is_some() && is_for_users {
                print_text("\n")?;
            }
            print_objects(format, &text, &names, &status)?;
            shown = Some(status);
        }
        let Some(changes) = &mut changes else { return Ok(()) };
        changes.wait(&cluster.env).await;
        match cluster.get::<P::Pool>(&arguments.pool).await? {
            Some(next) => pool = next,
            None => return print_text(&format!("pool {} was deleted\n", arguments.pool)),
        }
    }
}

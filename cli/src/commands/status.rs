//! `status`: a pool with its machines, disks, conditions, blockers and events.

mod collect;
mod text;
mod view;

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use vmpool_platforms::View;

use crate::arguments::{Format, StatusArguments};
use crate::cluster::Cluster;
use crate::output::{print, write};
use collect::collect;
use text::text;

/// Time between two reads of a status that is watched.
const INTERVAL: Duration = Duration::from_secs(2);

/// Prints the status, with `--watch` again whenever it changes.
///
/// # Errors
/// A request failed.
pub(crate) async fn run<P: View>(
    cluster: &Cluster,
    _: P,
    mut pool: Value,
    arguments: &StatusArguments,
) -> Result<()> {
    let mut shown = None;
    loop {
        let status = collect::<P>(cluster, &pool).await?;
        // Ages change all the time, and are no reason to print.
        if shown.as_ref() != Some(&status) {
            if shown.is_some() && arguments.format.output == Format::Text {
                write("\n")?;
            }
            print(arguments.format.output, &text(&status, cluster.env.now()), &status)?;
            shown = Some(status);
        }
        if !arguments.watch {
            return Ok(());
        }
        cluster.env.sleep(INTERVAL).await;
        match cluster.get::<P::Pool>(&arguments.pool).await? {
            Some(next) => pool = next,
            None => return write(&format!("pool {} was deleted\n", arguments.pool)),
        }
    }
}

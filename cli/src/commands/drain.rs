//! `drain`: requests that other machines replace machines, and withdraws such requests.

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::protection::timestamp_text;
use vmpool_engine::recycling::REQUEST;
use vmpool_platforms::{ClientPlatform, is_controlled_by};

use super::protect::{annotate_machine, find_named_machines};
use crate::arguments::DrainArguments;
use crate::cluster::{UserClusterClient, name_of};
use crate::output::print_text;
use crate::pool::decode_pool;

/// Requests the replacement of machines, or withdraws the request.
///
/// # Errors
/// A machine does not belong to the pool, or a request failed.
pub(crate) async fn drain_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &DrainArguments,
) -> Result<()> {
    let (_, facts) = decode_pool::<P>(&pool)?;
    ensure!(
        arguments.all || !arguments.machines.is_empty(),
        "name machines of the pool, or use --all: nothing was changed"
    );
    let machines = if arguments.all {
        list_pool_machines::<P>(cluster, &facts.id).await?
    } else {
        find_named_machines::<P>(cluster, &facts.id, &arguments.machines).await?
    };
    let note = arguments.dry_run.mode.note();
    let mut changed = false;
    for machine in machines {
        let is_requested = !machine["metadata"]["annotations"][REQUEST].is_null();
        if arguments.cancel && !is_requested {
            continue;
        }
        let request = (!arguments.cancel).then(|| choose_request_time(&machine, cluster.env.now()));
        annotate_machine::<P>(cluster, &machine, &json!({ REQUEST: request }), arguments.dry_run.mode)
            .await?;
        let what = if arguments.cancel { "the request is withdrawn" } else { "its replacement is requested" };
        print_text(&format!("machine {}: {what}{note}\n", name_of(&machine)))?;
        changed = true;
    }
    if !changed {
        print_text("no machine was changed\n")?;
    }
    Ok(())
}

/// The live machines of the pool.
async fn list_pool_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &ObjectId,
) -> Result<Vec<Value>> {
    let machines = cluster.list::<P::Machine>(None).await?;
    let belongs = |machine: &Value| {
        machine["metadata"]["deletionTimestamp"].is_null()
            && serde_json::from_value(machine["metadata"].clone())
                .is_ok_and(|metadata| is_controlled_by::<P::Pool>(&metadata, pool))
    };
    Ok(machines.into_iter().filter(belongs).collect())
}

/// The time of a request that begins now. A request counts only if it is later than the creation of the
/// machine, whose clock is that of the API server.
fn choose_request_time(machine: &Value, now: Timestamp) -> String {
    let created = machine["metadata"]["creationTimestamp"].as_str();
    let created: Option<Timestamp> = created.and_then(|created| created.parse().ok());
    let after = created.and_then(|created| created.checked_add(SignedDuration::from_secs(1)).ok());
    timestamp_text(after.map_or(now, |after| now.max(after)))
}

#[cfg(test)]
mod tests;

//! `protect` and `unprotect`: the annotations of machines that protect them until a moment.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::protection::{BY, CLAIM, LONGEST_TEXT, REASON, UNTIL};
use vmpool_platforms::{ClientPlatform, is_controlled_by};

use crate::arguments::{ProtectArguments, UnprotectArguments};
use crate::cluster::{UserClusterClient, name_of};
use crate::dry_run::WriteMode;
use crate::output::print_text;
use crate::pool::decode_pool;

/// Protects machines for a duration.
///
/// # Errors
/// A machine does not belong to the pool, the duration exceeds the maximum of the pool, or a request failed.
pub(crate) async fn protect_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &ProtectArguments,
) -> Result<()> {
    let (_, facts) = decode_pool::<P>(&pool)?;
    let duration = arguments.duration;
    ensure!(
        duration <= facts.max_protection,
        "the pool allows protection for at most {} seconds; ask for less, or raise its maximum",
        facts.max_protection.as_secs()
    );
    for text in [&arguments.by, &arguments.reason].into_iter().flatten() {
        ensure!(
            text.len() <= LONGEST_TEXT,
            "a text has {} bytes, and at most {LONGEST_TEXT} are allowed",
            text.len()
        );
    }
    let until = protection_end(cluster.env.now(), duration)?;
    let annotations = json!({ UNTIL: until, BY: arguments.by, REASON: arguments.reason });
    for machine in find_named_machines::<P>(cluster, &facts.id, &arguments.machines).await? {
        annotate_machine::<P>(cluster, &machine, &annotations, arguments.dry_run.mode).await?;
        let note = arguments.dry_run.mode.note();
        print_text(&format!("machine {}: protected until {until}{note}\n", name_of(&machine)))?;
    }
    Ok(())
}

/// Ends the protection of machines.
///
/// # Errors
/// A machine does not belong to the pool or is claimed, or a request failed.
pub(crate) async fn unprotect_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &UnprotectArguments,
) -> Result<()> {
    let (_, facts) = decode_pool::<P>(&pool)?;
    let annotations = json!({ UNTIL: null, BY: null, REASON: null });
    let machines = find_named_machines::<P>(cluster, &facts.id, &arguments.machines).await?;
    for machine in &machines {
        ensure!(
            machine["metadata"]["annotations"][CLAIM].is_null(),
            "machine {} is claimed: nothing was changed; the holder of the claim releases it",
            name_of(machine)
        );
    }
    for machine in machines {
        annotate_machine::<P>(cluster, &machine, &annotations, arguments.dry_run.mode).await?;
        let note = arguments.dry_run.mode.note();
        print_text(&format!("machine {}: not protected{note}\n", name_of(&machine)))?;
    }
    Ok(())
}

/// The end of a protection that begins now, in whole seconds.
fn protection_end(now: Timestamp, duration: std::time::Duration) -> Result<String> {
    let until = now.checked_add(duration).context("the duration is too long")?;
    Ok(until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The named machines of the pool.
///
/// # Errors
/// A machine does not exist or does not belong to the pool, or a request failed.
pub(super) async fn find_named_machines<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &ObjectId,
    names: &[String],
) -> Result<Vec<Value>> {
    let mut machines = Vec::new();
    for name in names {
        let found = cluster.get::<P::Machine>(name).await?;
        let found = found.with_context(|| {
            format!("machine {name} not found in namespace {}: nothing was changed", cluster.namespace)
        })?;
        let metadata = serde_json::from_value(found["metadata"].clone()).context("reading a machine")?;
        ensure!(
            is_controlled_by::<P::Pool>(&metadata, pool),
            "machine {name} does not belong to the pool: nothing was changed"
        );
        machines.push(found);
    }
    Ok(machines)
}

/// Writes the annotations at the version of the machine that was read.
async fn annotate_machine<P: ClientPlatform>(
    cluster: &UserClusterClient,
    machine: &Value,
    annotations: &Value,
    mode: WriteMode,
) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": annotations } });
    cluster.merge_at_version::<P::Machine>(machine, patch, mode).await
}

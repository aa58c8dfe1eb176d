//! Machines that appear after their pool is gone, for example because the create of a former leader arrived late.
//!
//! The garbage collector deletes them. The finalizer of the controller, which no pool needs any more, would keep them.

use std::error::Error;
use std::time::Duration;

use kube::Resource;
use kube::api::Patch;
use serde::de::IgnoredAny;
use vmpool_engine::Uid;
use vmpool_platforms::{Finalizers, Platform};

use crate::cache::Key;
use crate::context::Context;
use crate::live::MetadataOnly;
use crate::metrics::WriteKind;
use crate::object::collection;

/// Time until the next attempt after an error.
const AFTER_ERROR: Duration = Duration::from_secs(10);

/// Removes the finalizer from the machines of a deleted pool that are being deleted. Returns the time until a retry, if
/// one was not released.
pub(super) async fn release<P: Platform>(context: &Context<P>, pool: &Uid) -> Option<Duration> {
    let machines = context.machines.places_where(&Key::Pool(pool.clone()), |machine| {
        machine.owner.as_ref() == Some(pool) && machine.terminating && machine.has_finalizer
    });
    let mut again = None;
    for (namespace, name) in machines {
        if let Err(error) = release_machine(context, pool, &namespace, &name).await {
            tracing::warn!(%error, machine = &*name, "releasing a machine whose pool is gone");
            again = Some(AFTER_ERROR);
        }
    }
    again
}

async fn release_machine<P: Platform>(
    context: &Context<P>,
    pool: &Uid,
    namespace: &str,
    name: &str,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // The watch of pools may not show a new pool yet.
    let mut exists = false;
    let visit = |object: MetadataOnly| exists |= object.metadata.uid.as_deref() == Some(pool.as_str());
    context.list_live_metadata::<P::Pool>(namespace, visit).await?;
    if exists {
        return Err("the pool exists, and the watch does not show it yet".into());
    }
    let Some(live) = context.get_live::<P::Machine>(namespace, name).await? else { return Ok(()) };
    let facts = P::read_machine(&live);
    if facts.owner.as_ref() != Some(pool) || live.meta().deletion_timestamp.is_none() {
        return Ok(());
    }
    let Some(operations) = P::Finalizers::remove(&live) else { return Ok(()) };
    let patch = Patch::<()>::Json(serde_json::from_value(operations)?);
    let path = collection::<P::Machine>(namespace);
    let kind = WriteKind::PatchMachine;
    match context.writer.patch::<IgnoredAny, _>(kind, path, name, None, patch).await {
        Err(error) if !error.is_gone() => Err(error.into()),
        _ => Ok(()),
    }
}

//! The actions of the plan of a wrapper.

use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_api::diskimage::VmDiskImage;
use vmpool_api::kubevirt::{self, DataVolume};
use vmpool_diskimage::model::{Found, Key};
use vmpool_diskimage::read::wrapper::{StoredMachine, disk, machine};
use vmpool_diskimage::wrapper::{Action, objects};
use vmpool_engine::ObjectId;
use vmpool_platforms::merge::Schema;

use super::apply::Applied;
use super::context::Context;
use super::kinds::Loose;
use super::live::ReadFailed;
use super::table::Origin;
use super::wrapper_facts::WrapperFacts;
use crate::metrics::WriteKind;
use crate::object::collection;
use crate::write::WriteError;

type Machine = Loose<kubevirt::VirtualMachine>;

/// The parts of a machine that wrappers set are objects and lists. KubeVirt has no keys for its lists, so that each is written
/// as a whole.
const SCHEMA: Schema = Schema { defaults: &[], keyed: &[], unions: &[] };

/// Carries out one action.
pub(super) async fn apply(context: &Context, facts: &WrapperFacts, action: &Action) -> Applied {
    tracing::info!(wrapper = %facts.wrapper.key, ?action, "writing");
    match carry_out(context, facts, action).await {
        Ok(applied) => applied,
        Err(error) => error.into(),
    }
}

async fn carry_out(context: &Context, facts: &WrapperFacts, action: &Action) -> Result<Applied, WriteError> {
    match action {
        Action::CreateImage => create_image(context, facts).await,
        Action::CreateMachine => create_machine(context, facts).await,
        Action::UpdateMachine { uid } => update_machine(context, facts, uid).await,
        Action::Kick { uid } => kick(context, facts, uid).await,
    }
}

/// Deletes the disk at the version that was read after the machine. What the caches show can be older than the start of the
/// machine, or than the end of the clone, and the disk would then have data of the guest.
async fn kick(context: &Context, facts: &WrapperFacts, uid: &str) -> Result<Applied, WriteError> {
    let key = &facts.wrapper.key;
    let live: Machine = match context.get::<Machine>(key).await {
        Ok(Some(live)) => live,
        Ok(None) => return Ok(Applied::Outdated),
        Err(failed) => return Ok(unread(&failed)),
    };
    let found = machine(&live.metadata, &live.spec, &live.status);
    let found = StoredMachine::found(Some(&found), &facts.wrapper.uid, "");
    context.update(|store, _| store.set_machine(&live, Origin::Written));
    let same = facts.machine.ours().map(|machine| &machine.uid);
    if found.ours().is_none_or(|machine| machine.started || Some(&machine.uid) != same) {
        return Ok(Applied::Outdated);
    }
    let name = objects::data_volume_name(&facts.object);
    let volume = match context.get::<DataVolume>(&Key::new(&key.namespace, &name)).await {
        Ok(Some(volume)) => volume,
        Ok(None) => return Ok(Applied::Outdated),
        Err(failed) => return Ok(unread(&failed)),
    };
    let is_stuck = disk(&volume, context.now()).is_some_and(|stored| {
        stored.of(&found).is_some_and(|disk| {
            disk.uid == uid && !disk.deleting && (disk.failed || disk.stuck_since.is_some())
        })
    });
    let read = volume.metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
    let Some(version) = read.filter(|_| is_stuck) else { return Ok(Applied::Outdated) };
    let path = collection::<DataVolume>(&key.namespace);
    let id = ObjectId::new(&name, uid);
    match context.writer.delete(WriteKind::DeleteWrappedDisk, path, &id, Some(version)).await {
        Ok(_) => Ok(Applied::Done),
        Err(error) if error.is_gone() => Ok(Applied::Outdated),
        Err(error) => Err(error),
    }
}

/// An image that exists is a success: another wrapper created it.
async fn create_image(context: &Context, facts: &WrapperFacts) -> Result<Applied, WriteError> {
    let Some(image) = objects::image(&facts.object) else { return Ok(Applied::Outdated) };
    let path = collection::<VmDiskImage>(&facts.wrapper.image.namespace);
    match context.writer.create(WriteKind::CreateImage, path, image).await {
        Ok(stored) => {
            context.update(|store, _| store.set_image(stored, Origin::Written));
            Ok(Applied::Done)
        }
        Err(error) if error.is_already_exists() => Ok(Applied::Outdated),
        Err(error) => Err(error),
    }
}

async fn create_machine(context: &Context, facts: &WrapperFacts) -> Result<Applied, WriteError> {
    let Some(image) = &facts.image else { return Ok(Applied::Outdated) };
    let object = objects::machine(&facts.object, &image.source.disk_size);
    let path = collection::<Machine>(&facts.wrapper.key.namespace);
    let stored: Machine = match context.writer.create(WriteKind::CreateWrappedMachine, path, object).await {
        Ok(stored) => stored,
        Err(error) if error.is_already_exists() => match context.get::<Machine>(&facts.wrapper.key).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Applied::Outdated),
            Err(failed) => return Ok(unread(&failed)),
        },
        Err(error) => return Err(error),
    };
    let found = machine(&stored.metadata, &stored.spec, &stored.status);
    let is_ours = matches!(StoredMachine::found(Some(&found), &facts.wrapper.uid, ""), Found::Ours(_));
    context.update(|store, _| store.set_machine(&stored, Origin::Written));
    Ok(if is_ours { Applied::Done } else { Applied::Outdated })
}

/// Writes what the template changed. Changes of other clients stay where the template does not differ from its former version
/// only in what it removed.
async fn update_machine(context: &Context, facts: &WrapperFacts, uid: &str) -> Result<Applied, WriteError> {
    let key = &facts.wrapper.key;
    let live: Value = match context.get_value::<Machine>(key).await {
        Ok(Some(live)) => live,
        Ok(None) => return Ok(Applied::Outdated),
        Err(failed) => return Ok(unread(&failed)),
    };
    if live["metadata"]["uid"] != uid {
        return Ok(Applied::Outdated);
    }
    let update = objects::update(&facts.object, &live);
    let Some(mut patch) = SCHEMA.patch(&live, update.from.as_ref(), &update.to) else {
        return Ok(Applied::Outdated);
    };
    patch["metadata"]["uid"] = json!(uid);
    patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    let path = collection::<Machine>(&key.namespace);
    let patch = Patch::Merge(patch);
    let stored: Machine =
        context.writer.patch(WriteKind::PatchWrappedMachine, path, &key.name, None, patch).await?;
    context.update(|store, _| store.set_machine(&stored, Origin::Written));
    Ok(Applied::Done)
}

fn unread(failed: &ReadFailed) -> Applied {
    Applied::Unknown(WriteError::Unconfirmed(failed.to_string()))
}

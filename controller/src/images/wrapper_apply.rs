//! The actions of the plan of a wrapper.

use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_api::diskimage::VmDiskImage;
use vmpool_api::kubevirt::{self, DataVolume};
use vmpool_diskimage::model::{FoundObject, ObjectKey};
use vmpool_diskimage::read::wrapper::{StoredWrapperMachine, read_wrapper_disk, read_wrapper_machine};
use vmpool_diskimage::wrapper::{WrapperAction, objects};
use vmpool_engine::ObjectId;
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::merge::Schema;

use super::apply::ImageActionOutcome;
use super::context::ImageContext;
use super::kinds::UntypedObject;
use super::live::ImageReadError;
use super::table::ObjectOrigin;
use super::wrapper_facts::WrapperFacts;
use crate::metrics::WriteKind;

type Machine = UntypedObject<kubevirt::VirtualMachine>;

/// The parts of a machine that wrappers set are objects and lists. KubeVirt has no keys for its lists, so
/// that each is written as a whole.
const SCHEMA: Schema = Schema { defaults: &[], keyed: &[], unions: &[] };

/// Carries out one action.
pub(super) async fn apply_wrapper_action(
    context: &ImageContext,
    facts: &WrapperFacts,
    action: &WrapperAction,
) -> ImageActionOutcome {
    tracing::info!(wrapper = %facts.wrapper.key, ?action, "writing");
    match carry_out_wrapper_action(context, facts, action).await {
        Ok(applied) => applied,
        Err(error) => error.into(),
    }
}

async fn carry_out_wrapper_action(
    context: &ImageContext,
    facts: &WrapperFacts,
    action: &WrapperAction,
) -> Result<ImageActionOutcome, WriteError> {
    match action {
        WrapperAction::CreateImage => create_image(context, facts).await,
        WrapperAction::CreateMachine => create_machine(context, facts).await,
        WrapperAction::UpdateMachine { uid } => update_machine(context, facts, uid).await,
        WrapperAction::Kick { uid } => kick_machine_disk(context, facts, uid).await,
    }
}

/// Deletes the disk at the version that was read after the machine. What the caches show can be older than
/// the start of the machine, or than the end of the clone, and the disk would then have data of the guest.
async fn kick_machine_disk(
    context: &ImageContext,
    facts: &WrapperFacts,
    uid: &str,
) -> Result<ImageActionOutcome, WriteError> {
    let key = &facts.wrapper.key;
    let live: Machine = match context.get::<Machine>(key).await {
        Ok(Some(live)) => live,
        Ok(None) => return Ok(ImageActionOutcome::Outdated),
        Err(failed) => return Ok(failed_read_outcome(&failed)),
    };
    let found = read_wrapper_machine(&live.metadata, &live.spec, &live.status);
    let found = StoredWrapperMachine::found(Some(&found), &facts.wrapper.uid, "");
    context.update(|store, _| store.set_machine(&live, ObjectOrigin::Written));
    let same = facts.machine.ours().map(|machine| &machine.uid);
    if found.ours().is_none_or(|machine| machine.started || Some(&machine.uid) != same) {
        return Ok(ImageActionOutcome::Outdated);
    }
    let name = objects::data_volume_name(&facts.object);
    let volume = match context.get::<DataVolume>(&ObjectKey::new(&key.namespace, &name)).await {
        Ok(Some(volume)) => volume,
        Ok(None) => return Ok(ImageActionOutcome::Outdated),
        Err(failed) => return Ok(failed_read_outcome(&failed)),
    };
    let is_stuck = read_wrapper_disk(&volume, context.now()).is_some_and(|stored| {
        stored.of(&found).is_some_and(|disk| {
            disk.uid == uid && !disk.deleting && (disk.failed || disk.stuck_since.is_some())
        })
    });
    let read = volume.metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
    let Some(version) = read.filter(|_| is_stuck) else { return Ok(ImageActionOutcome::Outdated) };
    let path = collection_path::<DataVolume>(&key.namespace);
    let id = ObjectId::new(&name, uid);
    match context.leader.writer.delete(WriteKind::DeleteWrappedDisk, path, &id, Some(version)).await {
        Ok(_) => Ok(ImageActionOutcome::Done),
        Err(error) if error.is_gone() => Ok(ImageActionOutcome::Outdated),
        Err(error) => Err(error),
    }
}

/// An image that exists is a success: another wrapper created it.
async fn create_image(
    context: &ImageContext,
    facts: &WrapperFacts,
) -> Result<ImageActionOutcome, WriteError> {
    let Some(image) = objects::image_object(&facts.object) else { return Ok(ImageActionOutcome::Outdated) };
    let path = collection_path::<VmDiskImage>(&facts.wrapper.image.namespace);
    match context.leader.writer.create(WriteKind::CreateImage, path, image).await {
        Ok(stored) => {
            context.update(|store, _| store.set_image(stored, ObjectOrigin::Written));
            Ok(ImageActionOutcome::Done)
        }
        Err(error) if error.is_already_exists() => Ok(ImageActionOutcome::Outdated),
        Err(error) => Err(error),
    }
}

async fn create_machine(
    context: &ImageContext,
    facts: &WrapperFacts,
) -> Result<ImageActionOutcome, WriteError> {
    let Some(image) = &facts.image else { return Ok(ImageActionOutcome::Outdated) };
    let object = objects::machine_object(&facts.object, &image.source.disk_size);
    let path = collection_path::<Machine>(&facts.wrapper.key.namespace);
    let stored: Machine =
        match context.leader.writer.create(WriteKind::CreateWrappedMachine, path, object).await {
            Ok(stored) => stored,
            Err(error) if error.is_already_exists() => match context.get::<Machine>(&facts.wrapper.key).await
            {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(ImageActionOutcome::Outdated),
                Err(failed) => return Ok(failed_read_outcome(&failed)),
            },
            Err(error) => return Err(error),
        };
    let found = read_wrapper_machine(&stored.metadata, &stored.spec, &stored.status);
    let is_ours =
        matches!(StoredWrapperMachine::found(Some(&found), &facts.wrapper.uid, ""), FoundObject::Ours(_));
    context.update(|store, _| store.set_machine(&stored, ObjectOrigin::Written));
    Ok(if is_ours { ImageActionOutcome::Done } else { ImageActionOutcome::Outdated })
}

/// Writes what the template changed. Changes of other clients stay where the template does not differ from
/// its former version only in what it removed.
async fn update_machine(
    context: &ImageContext,
    facts: &WrapperFacts,
    uid: &str,
) -> Result<ImageActionOutcome, WriteError> {
    let key = &facts.wrapper.key;
    let live: Value = match context.get_value::<Machine>(key).await {
        Ok(Some(live)) => live,
        Ok(None) => return Ok(ImageActionOutcome::Outdated),
        Err(failed) => return Ok(failed_read_outcome(&failed)),
    };
    if live["metadata"]["uid"] != uid {
        return Ok(ImageActionOutcome::Outdated);
    }
    let update = objects::machine_template_update(&facts.object, &live);
    let Some(mut patch) = SCHEMA.patch(&live, update.from.as_ref(), &update.to) else {
        return Ok(ImageActionOutcome::Outdated);
    };
    patch["metadata"]["uid"] = json!(uid);
    patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    let path = collection_path::<Machine>(&key.namespace);
    let patch = Patch::Merge(patch);
    let stored: Machine =
        context.leader.writer.patch(WriteKind::PatchWrappedMachine, path, &key.name, None, patch).await?;
    context.update(|store, _| store.set_machine(&stored, ObjectOrigin::Written));
    Ok(ImageActionOutcome::Done)
}

fn failed_read_outcome(failed: &ImageReadError) -> ImageActionOutcome {
    ImageActionOutcome::Unknown(WriteError::Unconfirmed(failed.to_string()))
}

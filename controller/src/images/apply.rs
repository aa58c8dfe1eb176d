//! The actions of a plan.

use serde_json::{Value, json};
use vmpool_api::diskimage::{VmDiskImage, finalizers::IMAGE_PROTECTION};
use vmpool_api::kubevirt;
use vmpool_diskimage::model::{DataKind, DataTarget, DiskImage, ObjectKey};
use vmpool_diskimage::objects;
use vmpool_diskimage::plan::ImageAction;
use vmpool_diskimage::read::backing;
use vmpool_engine::ObjectId;
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::ApiObject;

use super::context::{ImageContext, ImageFacts};
use super::permission;
use super::store::{Changed, ImageStore, ObservationTime};
use super::table::ObjectOrigin;
use super::writes::Disowned;
use crate::metrics::WriteKind;

/// What became of an action.
pub(super) enum ImageActionOutcome {
    /// It is done.
    Done,
    /// The image is gone, or will be: there is no status to write.
    Gone,
    /// The objects are not as the plan saw them. The next pass plans again.
    Outdated,
    /// There was no answer, or the lease ends. The next pass repeats it.
    Unknown(WriteError),
    /// The API server refused it.
    Failed(WriteError),
}

impl From<WriteError> for ImageActionOutcome {
    fn from(error: WriteError) -> Self {
        match &error {
            _ if error.is_conflict() => Self::Outdated,
            WriteError::Fenced | WriteError::Unconfirmed(_) => Self::Unknown(error),
            WriteError::Refused { status, .. } if status.code == 429 => Self::Unknown(error),
            WriteError::Refused { .. } | WriteError::Invalid(_) | WriteError::Mismatch(_) => {
                Self::Failed(error)
            }
        }
    }
}

/// Carries out one action.
pub(super) async fn apply_image_action(
    context: &ImageContext,
    facts: &ImageFacts,
    action: &ImageAction,
) -> ImageActionOutcome {
    tracing::info!(image = %facts.image.key, ?action, "writing");
    match carry_out_image_action(context, facts, action).await {
        Ok(applied) => applied,
        Err(error) => error.into(),
    }
}

async fn carry_out_image_action(
    context: &ImageContext,
    facts: &ImageFacts,
    action: &ImageAction,
) -> Result<ImageActionOutcome, WriteError> {
    let image = &facts.image;
    let (namespace, name) = (image.key.namespace.as_str(), image.key.name.as_str());
    let copied = &context.settings.copied_label_prefixes;
    match action {
        ImageAction::Protect => {
            let mut finalizers = facts.object.metadata.finalizers.clone().unwrap_or_default();
            finalizers.push(IMAGE_PROTECTION.to_owned());
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            context.patch_image(&facts.object, patch, None).await?;
        }
        ImageAction::Unprotect => {
            permission::withdraw_clone_permission(context, namespace, &image.uid).await?;
            let mut finalizers = facts.object.metadata.finalizers.clone().unwrap_or_default();
            finalizers.retain(|name| name != IMAGE_PROTECTION);
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            match context.patch_image(&facts.object, patch, None).await {
                Ok(()) => return Ok(ImageActionOutcome::Gone),
                Err(error) if error.is_gone() => return Ok(ImageActionOutcome::Gone),
                Err(error) => return Err(error),
            }
        }
        ImageAction::Disown { kind, uid } => {
            return match kind {
                DataKind::DataVolume => {
                    disown_image_object::<kubevirt::DataVolume>(context, facts, uid).await
                }
                DataKind::Snapshot => {
                    disown_image_object::<kubevirt::VolumeSnapshot>(context, facts, uid).await
                }
                DataKind::DataSource => {
                    disown_image_object::<kubevirt::DataSource>(context, facts, uid).await
                }
            };
        }
        ImageAction::Label { kind, uid } => {
            return match kind {
                DataKind::DataVolume => {
                    relabel_image_object::<kubevirt::DataVolume>(context, facts, uid).await
                }
                DataKind::Snapshot => {
                    relabel_image_object::<kubevirt::VolumeSnapshot>(context, facts, uid).await
                }
                DataKind::DataSource => {
                    relabel_image_object::<kubevirt::DataSource>(context, facts, uid).await
                }
            };
        }
        ImageAction::CreateDataVolume => {
            let object = objects::data_volume_object(&facts.object, copied);
            return create_image_object::<kubevirt::DataVolume>(context, facts, object).await;
        }
        ImageAction::MarkPrepopulated { uid } => {
            let patch = json!({ "metadata": { "annotations": { objects::PREPOPULATED: name } } });
            match context.merge::<kubevirt::DataVolume>(namespace, name, uid, patch).await {
                Ok(volume) => {
                    context.update(|store, now| store.set_volume(&volume, now, ObjectOrigin::Written));
                }
                // CDI may remove a DataVolume after its success.
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        ImageAction::DeleteDataVolume { uid } => {
            context.delete::<kubevirt::DataVolume>(namespace, name, uid).await?;
        }
        ImageAction::CreateSnapshot => {
            let object = objects::snapshot_object(&facts.object, copied);
            return create_image_object::<kubevirt::VolumeSnapshot>(context, facts, object).await;
        }
        ImageAction::DeleteSnapshot { uid } => {
            context.delete::<kubevirt::VolumeSnapshot>(namespace, name, uid).await?;
        }
        ImageAction::ApplyDataSource { target } => {
            return apply_data_source(context, facts, *target).await;
        }
        ImageAction::DeleteDataSource { uid } => {
            context.delete::<kubevirt::DataSource>(namespace, name, uid).await?;
        }
        ImageAction::Expire { uid, resource_version } => {
            let object = ObjectId::new(name, uid);
            let Ok(version) = resource_version.parse() else { return Ok(ImageActionOutcome::Outdated) };
            let path = collection_path::<VmDiskImage>(namespace);
            context.leader.writer.delete(WriteKind::DeleteImage, path, &object, Some(version)).await?;
            return Ok(ImageActionOutcome::Gone);
        }
    }
    Ok(ImageActionOutcome::Done)
}

/// Writes the target of the DataSource of an image, and creates the DataSource if it does not exist.
async fn apply_data_source(
    context: &ImageContext,
    facts: &ImageFacts,
    target: DataTarget,
) -> Result<ImageActionOutcome, WriteError> {
    let key = &facts.image.key;
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    let copied = &context.settings.copied_label_prefixes;
    if let Some(source) = facts.backing.data_source.ours() {
        let mut wanted = objects::data_source_target(key, target);
        for other in ["snapshot", "pvc", "dataSource"] {
            if wanted.get(other).is_none() {
                wanted[other] = Value::Null;
            }
        }
        let patch = json!({ "spec": { "source": wanted } });
        context.note_correction(&source.uid, facts.uptime);
        match context.merge::<kubevirt::DataSource>(namespace, name, &source.uid, patch).await {
            Ok(source) => context.update(|store, _| store.set_source(&source, ObjectOrigin::Written)),
            Err(error) if error.is_gone() => return Ok(ImageActionOutcome::Outdated),
            Err(error) => return Err(error),
        }
        return Ok(ImageActionOutcome::Done);
    }
    let object = objects::data_source_object(&facts.object, target, copied);
    create_image_object::<kubevirt::DataSource>(context, facts, object).await
}

/// A kind of object with the data of an image.
trait Data: ApiObject {
    /// Shows the object to the store.
    fn show(&self, store: &mut ImageStore, now: ObservationTime) -> Changed;
    /// Whether the object says that it belongs to this image.
    fn is_of(&self, image_uid: &str) -> bool;
    /// A merge patch that gives the object the labels of its image again. `None` if it has them.
    fn relabel(&self, image: &VmDiskImage, prefixes: &[String]) -> Option<Value>;
}

impl Data for kubevirt::DataVolume {
    fn show(&self, store: &mut ImageStore, now: ObservationTime) -> Changed {
        store.set_volume(self, now, ObjectOrigin::Written)
    }
    fn is_of(&self, image_uid: &str) -> bool {
        backing::read_data_volume(self).is_of(image_uid)
    }
    fn relabel(&self, image: &VmDiskImage, prefixes: &[String]) -> Option<Value> {
        backing::read_data_volume(self).relabel(image, prefixes)
    }
}

impl Data for kubevirt::VolumeSnapshot {
    fn show(&self, store: &mut ImageStore, now: ObservationTime) -> Changed {
        store.set_snapshot(self, now, ObjectOrigin::Written)
    }
    fn is_of(&self, image_uid: &str) -> bool {
        backing::read_snapshot(self).0.is_of(image_uid)
    }
    fn relabel(&self, image: &VmDiskImage, prefixes: &[String]) -> Option<Value> {
        backing::read_snapshot(self).0.relabel(image, prefixes)
    }
}

impl Data for kubevirt::DataSource {
    fn show(&self, store: &mut ImageStore, _: ObservationTime) -> Changed {
        store.set_source(self, ObjectOrigin::Written)
    }
    fn is_of(&self, image_uid: &str) -> bool {
        backing::read_data_source(self).is_of(image_uid)
    }
    fn relabel(&self, image: &VmDiskImage, prefixes: &[String]) -> Option<Value> {
        backing::read_data_source(self).relabel(image, prefixes)
    }
}

/// Creates an object, and removes the owner reference that it has from its creation. If it exists already and
/// belongs to the image, an earlier request has created it.
async fn create_image_object<K: Data>(
    context: &ImageContext,
    facts: &ImageFacts,
    object: Value,
) -> Result<ImageActionOutcome, WriteError> {
    let stored = match context.create::<K>(&facts.image.key, object).await {
        Ok(stored) => stored,
        Err(error) if error.is_already_exists() => match context.get::<K>(&facts.image.key).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(ImageActionOutcome::Outdated),
            Err(failed) => {
                return Ok(ImageActionOutcome::Unknown(WriteError::Unconfirmed(failed.to_string())));
            }
        },
        Err(error) => return Err(error),
    };
    context.update(|known, now| stored.show(known, now));
    if !stored.is_of(&facts.image.uid) {
        return Ok(ImageActionOutcome::Outdated);
    }
    remove_owner(context, facts, &stored).await
}

/// Removes the owner reference to the image from an object that a former leader, or an earlier version, has
/// created.
async fn disown_image_object<K: Data>(
    context: &ImageContext,
    facts: &ImageFacts,
    uid: &str,
) -> Result<ImageActionOutcome, WriteError> {
    match read_image_object_live::<K>(context, facts, uid).await {
        Ok(found) => remove_owner(context, facts, &found).await,
        Err(other) => Ok(other),
    }
}

/// Removes the owner reference to the image, if the object has it. The label says from then on that the
/// object belongs to it.
async fn remove_owner<K: Data>(
    context: &ImageContext,
    facts: &ImageFacts,
    object: &K,
) -> Result<ImageActionOutcome, WriteError> {
    let DiskImage { key, uid, .. } = &facts.image;
    match context.disown(key, object, uid).await? {
        Disowned::NotOwned => {}
        Disowned::Patched(stored) => context.update(|known, now| stored.show(known, now)),
        Disowned::Changed => return Ok(ImageActionOutcome::Outdated),
    }
    Ok(ImageActionOutcome::Done)
}

/// Gives an object the labels of the image again.
async fn relabel_image_object<K: Data>(
    context: &ImageContext,
    facts: &ImageFacts,
    uid: &str,
) -> Result<ImageActionOutcome, WriteError> {
    let found = match read_image_object_live::<K>(context, facts, uid).await {
        Ok(found) => found,
        Err(other) => return Ok(other),
    };
    let ObjectKey { namespace, name } = &facts.image.key;
    let prefixes = &context.settings.copied_label_prefixes;
    context.note_correction(uid, facts.uptime);
    let stored = match found.relabel(&facts.object, prefixes) {
        Some(patch) => context.merge::<K>(namespace, name, uid, patch).await,
        None => Ok(found),
    };
    match stored {
        Ok(stored) => context.update(|known, now| stored.show(known, now)),
        Err(error) if error.is_gone() => return Ok(ImageActionOutcome::Outdated),
        Err(error) => return Err(error),
    }
    Ok(ImageActionOutcome::Done)
}

/// The object with the name of the image and this UID, as the API server has it now.
async fn read_image_object_live<K: Data>(
    context: &ImageContext,
    facts: &ImageFacts,
    uid: &str,
) -> Result<K, ImageActionOutcome> {
    match context.get::<K>(&facts.image.key).await {
        Ok(Some(found)) if found.meta().uid.as_deref() == Some(uid) => Ok(found),
        Ok(_) => Err(ImageActionOutcome::Outdated),
        Err(failed) => Err(ImageActionOutcome::Unknown(WriteError::Unconfirmed(failed.to_string()))),
    }
}

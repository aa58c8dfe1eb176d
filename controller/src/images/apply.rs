//! The actions of a plan.

use serde_json::{Value, json};
use vmpool_api::diskimage::{VmDiskImage, finalizers::IMAGE_PROTECTION};
use vmpool_api::kubevirt;
use vmpool_diskimage::model::{DataKind, Image};
use vmpool_diskimage::objects;
use vmpool_diskimage::plan::Action;
use vmpool_diskimage::read::backing;
use vmpool_engine::ObjectId;
use vmpool_platforms::ApiObject;

use super::context::{Context, Facts};
use super::permission;
use super::store::Store;
use super::table::Origin;
use crate::metrics::WriteKind;
use crate::object::collection;
use crate::write::WriteError;

/// What became of an action.
pub(super) enum Applied {
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

impl From<WriteError> for Applied {
    fn from(error: WriteError) -> Self {
        match &error {
            _ if error.is_conflict() => Self::Outdated,
            WriteError::Fenced | WriteError::Unconfirmed(_) => Self::Unknown(error),
            WriteError::Refused { status, .. } if status.code == 429 => Self::Unknown(error),
            WriteError::Refused { .. } | WriteError::Invalid(_) => Self::Failed(error),
        }
    }
}

/// Carries out one action.
pub(super) async fn apply(context: &Context, facts: &Facts, action: &Action) -> Applied {
    tracing::info!(image = %facts.image.key, ?action, "writing");
    match carry_out(context, facts, action).await {
        Ok(applied) => applied,
        Err(error) => error.into(),
    }
}

async fn carry_out(context: &Context, facts: &Facts, action: &Action) -> Result<Applied, WriteError> {
    let image = &facts.image;
    let (namespace, name) = (image.key.namespace.as_str(), image.key.name.as_str());
    let copied = &context.settings.copied_label_prefixes;
    match action {
        Action::Protect => {
            let mut finalizers = facts.object.metadata.finalizers.clone().unwrap_or_default();
            finalizers.push(IMAGE_PROTECTION.to_owned());
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            context.patch_image(&facts.object, patch, None).await?;
        }
        Action::Unprotect => {
            permission::withdraw(context, image).await?;
            let mut finalizers = facts.object.metadata.finalizers.clone().unwrap_or_default();
            finalizers.retain(|name| name != IMAGE_PROTECTION);
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            match context.patch_image(&facts.object, patch, None).await {
                Ok(()) => return Ok(Applied::Gone),
                Err(error) if error.is_gone() => return Ok(Applied::Gone),
                Err(error) => return Err(error),
            }
        }
        Action::Disown { kind, uid } => return disown_data(context, facts, *kind, uid).await,
        Action::CreateDataVolume => {
            let object = objects::data_volume(&facts.object, copied);
            return create::<kubevirt::DataVolume>(
                context,
                facts,
                object,
                |volume| backing::data_volume(volume).is_of(&image.uid),
                |store, volume, now| store.set_volume(volume, now, Origin::Written),
            )
            .await;
        }
        Action::MarkPrepopulated { uid } => {
            let patch = json!({ "metadata": { "annotations": { objects::PREPOPULATED: name } } });
            match context.merge::<kubevirt::DataVolume>(namespace, name, uid, patch).await {
                Ok(volume) => context.update(|store, now| store.set_volume(&volume, now, Origin::Written)),
                // CDI may remove a DataVolume after its success.
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Action::DeleteDataVolume { uid } => {
            context.delete::<kubevirt::DataVolume>(namespace, name, uid).await?;
        }
        Action::CreateSnapshot => {
            let object = objects::snapshot(&facts.object, copied);
            return create::<kubevirt::VolumeSnapshot>(
                context,
                facts,
                object,
                |snapshot| backing::snapshot(snapshot).0.is_of(&image.uid),
                |store, snapshot, now| store.set_snapshot(snapshot, now, Origin::Written),
            )
            .await;
        }
        Action::DeleteSnapshot { uid } => {
            context.delete::<kubevirt::VolumeSnapshot>(namespace, name, uid).await?;
        }
        Action::ApplyDataSource { target } => {
            if let Some(source) = facts.backing.data_source.ours() {
                let mut wanted = objects::data_source_target(&image.key, *target);
                for other in ["snapshot", "pvc"] {
                    if wanted.get(other).is_none() {
                        wanted[other] = Value::Null;
                    }
                }
                let patch = json!({ "spec": { "source": wanted } });
                match context.merge::<kubevirt::DataSource>(namespace, name, &source.uid, patch).await {
                    Ok(source) => context.update(|store, _| store.set_source(&source, Origin::Written)),
                    Err(error) if error.is_gone() => return Ok(Applied::Outdated),
                    Err(error) => return Err(error),
                }
                return Ok(Applied::Done);
            }
            let object = objects::data_source(&facts.object, *target, copied);
            return create::<kubevirt::DataSource>(
                context,
                facts,
                object,
                |source| backing::data_source(source).is_of(&image.uid),
                |store, source, _| store.set_source(source, Origin::Written),
            )
            .await;
        }
        Action::DeleteDataSource { uid } => {
            context.delete::<kubevirt::DataSource>(namespace, name, uid).await?;
        }
        Action::Expire { uid, resource_version } => {
            let object = ObjectId::new(name, uid);
            let Ok(version) = resource_version.parse() else { return Ok(Applied::Outdated) };
            let path = collection::<VmDiskImage>(namespace);
            context.writer.delete(WriteKind::DeleteImage, path, &object, Some(version)).await?;
            return Ok(Applied::Gone);
        }
    }
    Ok(Applied::Done)
}

/// Removes the owner reference to the image from one of the objects with its data.
async fn disown_data(
    context: &Context,
    facts: &Facts,
    kind: DataKind,
    uid: &str,
) -> Result<Applied, WriteError> {
    match kind {
        DataKind::DataVolume => {
            disown::<kubevirt::DataVolume>(context, facts, uid, |store, volume, now| {
                store.set_volume(volume, now, Origin::Written)
            })
            .await
        }
        DataKind::Snapshot => {
            disown::<kubevirt::VolumeSnapshot>(context, facts, uid, |store, snapshot, now| {
                store.set_snapshot(snapshot, now, Origin::Written)
            })
            .await
        }
        DataKind::DataSource => {
            disown::<kubevirt::DataSource>(context, facts, uid, |store, source, _| {
                store.set_source(source, Origin::Written)
            })
            .await
        }
    }
}

/// Creates an object, and removes the owner reference that it has from its creation. If it exists already and belongs to the
/// image, an earlier request has created it.
async fn create<K: ApiObject>(
    context: &Context,
    facts: &Facts,
    object: Value,
    is_of_image: impl Fn(&K) -> bool,
    store: impl Fn(&mut Store, &K, jiff::Timestamp) -> super::store::Changed,
) -> Result<Applied, WriteError> {
    let stored = match context.create::<K>(&facts.image.key, object).await {
        Ok(stored) => stored,
        Err(error) if error.is_already_exists() => match context.get::<K>(&facts.image.key).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Applied::Outdated),
            Err(failed) => return Ok(Applied::Unknown(WriteError::Unconfirmed(failed.to_string()))),
        },
        Err(error) => return Err(error),
    };
    let is_ours = is_of_image(&stored);
    context.update(|known, now| store(known, &stored, now));
    if !is_ours {
        return Ok(Applied::Outdated);
    }
    remove_owner(context, facts, &stored, store).await
}

/// Removes the owner reference to the image from an object that a former leader, or an earlier version, has created.
async fn disown<K: ApiObject>(
    context: &Context,
    facts: &Facts,
    uid: &str,
    store: impl FnOnce(&mut Store, &K, jiff::Timestamp) -> super::store::Changed,
) -> Result<Applied, WriteError> {
    match context.get::<K>(&facts.image.key).await {
        Ok(Some(found)) if found.meta().uid.as_deref() == Some(uid) => {
            remove_owner(context, facts, &found, store).await
        }
        Ok(_) => Ok(Applied::Outdated),
        Err(failed) => Ok(Applied::Unknown(WriteError::Unconfirmed(failed.to_string()))),
    }
}

/// Removes the owner reference to the image, if the object has it. The label says from then on that the object belongs to it.
async fn remove_owner<K: ApiObject>(
    context: &Context,
    facts: &Facts,
    object: &K,
    store: impl FnOnce(&mut Store, &K, jiff::Timestamp) -> super::store::Changed,
) -> Result<Applied, WriteError> {
    let Image { key, uid, .. } = &facts.image;
    let Some(operations) = objects::disown(object.meta(), uid) else { return Ok(Applied::Done) };
    match context.patch::<K>(key, operations).await {
        Ok(stored) => context.update(|known, now| store(known, &stored, now)),
        // The object is gone, or its owners have changed.
        Err(error) if error.is_gone() || error.is_unprocessable() => return Ok(Applied::Outdated),
        Err(error) => return Err(error),
    }
    Ok(Applied::Done)
}

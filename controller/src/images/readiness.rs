//! Whether pools can use an image.

use vmpool_api::diskimage::values::ImagePhase;
use vmpool_diskimage::failure::DiskImageReason;
use vmpool_diskimage::model::{NamedSource, NamedSourceKind, ObjectKey, ReferrerKind};
use vmpool_engine::condition::ConditionReason;
use vmpool_engine::limits::shorten_message;
use vmpool_engine::model::UnusableTemplate;

use super::context::ImageContext;
use super::gate::Images;
use crate::pools::pool_key::PoolKey;

impl Images for ImageContext {
    fn is_synced(&self) -> bool {
        self.has_all_lists()
    }

    fn blocker(&self, pool: &PoolKey, source: &NamedSource) -> Option<UnusableTemplate> {
        find_image_blocker(self, pool, source)
    }
}

/// In a namespace with images, each name is that of an image, so the answer to a pool of another namespace
/// does not depend on whether the image exists. A DataSource that is not of an image is an exception, because
/// it is made for clones. Other claims and snapshots are none: the answer would show which names they have.
///
/// A DataSource that is not of an image can lead to one. Then the image decides.
fn find_image_blocker(
    context: &ImageContext,
    pool: &PoolKey,
    source: &NamedSource,
) -> Option<UnusableTemplate> {
    let direct = find_source_blocker(context, pool, source, None);
    if direct.is_some() || source.kind != NamedSourceKind::DataSource {
        return direct;
    }
    let behind = context.store.lock().resolve(&source.key);
    behind.iter().find_map(|target| find_source_blocker(context, pool, target, Some(&source.key)))
}

/// Why a pool cannot clone an object. `alias` is the DataSource that leads to it, if the template does not
/// name it.
fn find_source_blocker(
    context: &ImageContext,
    pool: &PoolKey,
    source: &NamedSource,
    alias: Option<&ObjectKey>,
) -> Option<UnusableTemplate> {
    let namespace = &*pool.namespace;
    let unresolved = |reason, message: String| {
        let through =
            alias.map(|alias| format!("; the template names the DataSource {alias}, which leads to it"));
        Some(UnusableTemplate { reason, message: shorten_message(message + &through.unwrap_or_default()) })
    };
    let key = &source.key;
    let image = context.image(key);
    let (is_foreign, has_images, may_use, is_held) = {
        let store = context.store.lock();
        (
            store.is_foreign(source, image.as_ref()),
            store.has_images(&key.namespace),
            store.may_use(key, namespace, ReferrerKind::Pool),
            store.is_held_by_pool(key, pool.uid.as_str(), namespace),
        )
    };
    if is_foreign && source.kind == NamedSourceKind::DataSource {
        return None;
    }
    // What is beside its DataSource, a user of its namespace has chosen. A name in another namespace is
    // guessed, perhaps.
    let is_chosen = alias.is_some_and(|alias| alias.namespace == key.namespace);
    if is_chosen && (image.is_none() || is_foreign) {
        return None;
    }
    if has_images && !may_use {
        let message = format!(
            "no VMDiskImageGrant in the namespace {} permits pools of this namespace to use the image {}",
            key.namespace, key.name
        );
        return unresolved(ConditionReason::RefNotPermitted, message);
    }
    let image = image.filter(|_| !is_foreign)?;
    let status = &image.status;
    if image.deleting {
        // The deletion waits for this pool, which keeps working. Otherwise each would wait for the other one.
        if is_held && status.is_usable() && !image.force_release {
            return None;
        }
        return unresolved(ConditionReason::ImageTerminating, format!("the image {key} is being deleted"));
    }
    if status.phase == Some(ImagePhase::Failed) {
        return unresolved(
            ConditionReason::ImageFailed,
            format!("the image {key} failed: {}", status.message),
        );
    }
    if status.phase == Some(ImagePhase::Ready) && status.reason == Some(DiskImageReason::Synced) {
        return None;
    }
    unresolved(ConditionReason::ImageSyncing, format!("the image {key} is not ready: {}", status.message))
}

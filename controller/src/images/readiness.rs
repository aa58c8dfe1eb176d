//! Whether pools can use an image.

use vmpool_api::diskimage::values::ImagePhase;
use vmpool_diskimage::failure::Reason;
use vmpool_diskimage::model::{Key, ReferrerKind};
use vmpool_engine::condition::{IMAGE_FAILED, IMAGE_SYNCING, IMAGE_TERMINATING, REF_NOT_PERMITTED};
use vmpool_engine::limits::shorten;
use vmpool_engine::model::Unresolved;

use super::context::Context;
use super::gate::Images;

impl Images for Context {
    fn is_synced(&self) -> bool {
        Context::is_synced(self)
    }

    fn blocker(&self, namespace: &str, image: &Key) -> Option<Unresolved> {
        blocker(self, namespace, image)
    }
}

fn blocker(context: &Context, namespace: &str, key: &Key) -> Option<Unresolved> {
    let unresolved = |reason, message| Some(Unresolved { reason, message: shorten(message) });
    let (may_be_image, may_use) = {
        let store = context.store.lock();
        (store.may_be_image(key), store.may_use(key, namespace, ReferrerKind::Pool))
    };
    if may_be_image && !may_use {
        let message = format!(
            "no VMDiskImageGrant in the namespace {} permits pools of this namespace to use the image {}",
            key.namespace, key.name
        );
        return unresolved(REF_NOT_PERMITTED, message);
    }
    let image = context.image(key)?;
    let status = &image.status;
    if image.deleting {
        return unresolved(IMAGE_TERMINATING, format!("the image {key} is being deleted"));
    }
    if status.phase == Some(ImagePhase::Failed) {
        return unresolved(IMAGE_FAILED, format!("the image {key} failed: {}", status.message));
    }
    if status.phase == Some(ImagePhase::Ready) && status.reason == Some(Reason::Synced) {
        return None;
    }
    unresolved(IMAGE_SYNCING, format!("the image {key} is not ready: {}", status.message))
}

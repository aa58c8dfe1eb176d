//! What pools must know of images: a pool creates no machine before the images that its template names are ready.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_api::diskimage::values::ImagePhase;
use vmpool_diskimage::failure::Reason;
use vmpool_diskimage::model::{Key, ReferrerKind};
use vmpool_diskimage::read::named_images;
use vmpool_engine::condition::{IMAGE_FAILED, IMAGE_SYNCING, IMAGE_TERMINATING, REF_NOT_PERMITTED};
use vmpool_engine::limits::shorten;
use vmpool_engine::model::Unresolved;

use super::context::Context;

/// The images as pools see them. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ImageGate(Arc<Mutex<State>>);

#[derive(Default)]
enum State {
    /// This controller does not reconcile images, so templates name none.
    #[default]
    Off,
    /// It will reconcile them, and has not read them yet.
    Unknown,
    /// It reconciles them.
    Serving(Weak<Context>),
}

impl ImageGate {
    /// The gate of a leader that has not read the images yet.
    pub(crate) fn unknown() -> Self {
        Self(Arc::new(Mutex::new(State::Unknown)))
    }

    /// The images are in this context from now on.
    pub(super) fn serve(&self, context: &Arc<Context>) {
        *self.0.lock() = State::Serving(Arc::downgrade(context));
    }

    /// The cluster has no images.
    pub(super) fn close(&self) {
        *self.0.lock() = State::Off;
    }

    /// Why the images that the template of a pool of this namespace names cannot be cloned now.
    pub(crate) fn blocker(&self, namespace: &str, template: &Value) -> Option<Unresolved> {
        let context = match &*self.0.lock() {
            State::Off => return None,
            State::Unknown => None,
            State::Serving(context) => context.upgrade(),
        };
        let named = named_images(namespace, &json!({ "spec": template }));
        match context.filter(|context| context.is_synced()) {
            Some(context) => named.iter().find_map(|key| blocker(&context, namespace, key)),
            None => (!named.is_empty()).then(|| Unresolved {
                reason: IMAGE_SYNCING,
                message: "the controller has not read the disk images yet".to_owned(),
            }),
        }
    }
}

/// Why a pool cannot use an image. An object that is no image of this controller blocks nothing.
fn blocker(context: &Context, namespace: &str, key: &Key) -> Option<Unresolved> {
    let facts = context.facts(key)?;
    let status = &facts.image.status;
    let unresolved = |reason, message| Some(Unresolved { reason, message: shorten(message) });
    if !context.store.lock().may_use(key, namespace, ReferrerKind::Pool) {
        let message = format!(
            "no VMDiskImageGrant in the namespace {} permits pools of this namespace to use the image {}",
            key.namespace, key.name
        );
        return unresolved(REF_NOT_PERMITTED, message);
    }
    if facts.image.deleting {
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

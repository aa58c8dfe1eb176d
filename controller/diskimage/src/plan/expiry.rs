//! Automatic removal: an image with a time to live is deleted when no object has referred to it for that
//! long.

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use super::pass::Pass;
use super::types::ImageAction;

pub(super) fn plan_expiry(pass: &mut Pass<'_>) {
    let image = pass.world.image;
    if !pass.status.counts.is_zero() {
        pass.status.unreferenced_since = None;
        pass.status.expires_at = None;
        return;
    }
    // Before its first import has ended, an image cannot be used, so its time does not run.
    let settled = matches!(pass.status.phase, Some(ImagePhase::Ready | ImagePhase::Failed));
    if settled && pass.status.unreferenced_since.is_none() {
        pass.status.unreferenced_since = Some(pass.now());
    }
    pass.status.expires_at = expiry_time(pass);
    let Some(at) = pass.status.expires_at.filter(|_| settled) else { return };
    if pass.now() < at {
        let left = at.duration_since(pass.now());
        return pass.again(left.try_into().unwrap_or_default());
    }
    // A list that fails is no answer. Meanwhile the status shows a time in the past.
    if !pass.world.references.live {
        pass.reads.references = true;
        return;
    }
    pass.event("Expired", "no object has referred to the image for ttlAfterUnreferenced");
    pass.act(ImageAction::Expire {
        uid: image.uid.clone(),
        resource_version: image.resource_version.clone(),
    });
}

/// The end of the time to live. A time beyond the calendar is no end.
fn expiry_time(pass: &Pass<'_>) -> Option<Timestamp> {
    pass.status.unreferenced_since?.checked_add(pass.world.image.ttl?).ok()
}

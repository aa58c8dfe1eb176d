//! Events of objects that belong to no platform.

use vmpool_engine::limits::shorten_message;
use vmpool_kit::events::{EventKind, EventSender, EventSubject};

/// The reporting controller of these events.
const SOURCE: &str = "vmpool.dev/controller";

/// Queues an event of a kind that belongs to no platform.
pub(crate) fn publish_plain_event(
    sender: &EventSender,
    subject: &EventSubject,
    reason: &'static str,
    is_warning: bool,
    note: String,
) {
    let kind = EventKind { source: SOURCE, reason: reason.into(), action: "Reconcile", is_warning };
    sender.publish(subject, kind, shorten_message(note));
}

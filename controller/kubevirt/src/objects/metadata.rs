//! The metadata of objects in caches.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_engine::draining::HOOK_PREFIX;
use vmpool_engine::limits;

use super::super::keys::{FINALIZER, PREFIX};

/// The finalizers of an object: whether the pool's is among them, and where.
///
/// The others are not kept, because a patch needs only the position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinalizerSummary {
    /// Number of all finalizers.
    pub count: usize,
    /// Position of the pool's finalizer.
    pub position: Option<usize>,
    /// Whether the garbage collector deletes the dependents of the object first.
    pub dependents_first: bool,
    /// Whether the garbage collector removes the object from the owners of its dependents.
    pub orphans: bool,
}

/// The finalizer of objects that are deleted with foreground propagation.
pub const DEPENDENTS_FIRST: &str = "foregroundDeletion";
/// The finalizer of objects that are deleted without their dependents.
const ORPHANS: &str = "orphan";

impl FinalizerSummary {
    /// The finalizers in a list.
    pub fn of(finalizers: &[String]) -> Self {
        Self {
            count: finalizers.len(),
            position: finalizers.iter().position(|finalizer| finalizer == FINALIZER),
            dependents_first: finalizers.iter().any(|finalizer| finalizer == DEPENDENTS_FIRST),
            orphans: finalizers.iter().any(|finalizer| finalizer == ORPHANS),
        }
    }
}

/// Removes what vmpool does not read: finalizers, labels, annotations of others, and owners beyond a limit.
/// Positions in the list of owners stay, because patches refer to them.
pub(super) fn strip_cached_metadata(metadata: &mut ObjectMeta) -> FinalizerSummary {
    let finalizers = FinalizerSummary::of(metadata.finalizers.as_deref().unwrap_or_default());
    metadata.finalizers = None;
    metadata.labels = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key.starts_with(PREFIX) || key.starts_with(HOOK_PREFIX));
        if annotations.is_empty() {
            metadata.annotations = None;
        }
    }
    if let Some(owners) = &mut metadata.owner_references {
        owners.truncate(limits::ENTRIES);
        owners.shrink_to_fit();
        for owner in owners {
            for text in [&mut owner.name, &mut owner.uid] {
                if limits::clip_name(text).len() < text.len() {
                    *text = limits::clip_name(text).to_owned();
                }
            }
        }
    }
    finalizers
}

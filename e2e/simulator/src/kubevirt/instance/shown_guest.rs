//! A guest as the status of its instance is about to show it.

use crate::{
    kubevirt::{
        model::Guest,
        objects::{InstancePhase, InstanceView},
    },
    objects::NamespacedKey,
};

/// A guest, and the object of its instance.
#[derive(Clone, Copy)]
pub(super) struct ShownGuest<'a> {
    pub(super) key: &'a NamespacedKey,
    pub(super) instance: &'a InstanceView,
    pub(super) guest: &'a Guest,
}

impl ShownGuest<'_> {
    pub(super) fn runs(self) -> bool {
        self.guest.phase == InstancePhase::Running
    }
}

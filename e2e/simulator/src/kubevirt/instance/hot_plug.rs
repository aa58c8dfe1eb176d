//! Hot-plugs: a guest gets the CPU sockets and the memory of the spec of its instance later than the
//! instance, when it has been migrated.

use super::{condition::new_condition, guest_size::GuestSize, shown_guest::ShownGuest};
use crate::{
    kubevirt::{
        model::{Guest, KubeVirtModel},
        objects::{
            InstancePhase, InstanceView, KubeVirtObjectId, KubeVirtObjectKind, SimulatedKubeVirtCondition,
        },
    },
    objects::NamespacedKey,
    shared::delay_end,
};
use jiff::Timestamp;

impl KubeVirtModel {
    /// Gives a running guest what its instance has got while it runs.
    pub(super) fn advance_hot_plugs(
        &mut self,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &mut Guest,
        now: Timestamp,
    ) {
        if guest.phase != InstancePhase::Running {
            return;
        }
        let wanted = GuestSize::of_spec(&instance.spec);
        let Some(size) = guest.size.take() else {
            guest.size = Some(wanted);
            return;
        };
        if size.pending(&wanted).is_empty() {
            (guest.size, guest.resizing) = (Some(size), None);
            return;
        }
        let since = *guest.resizing.get_or_insert(now);
        let end =
            delay_end(since, self.settings.hot_plug_delay).filter(|_| !self.holds_hot_plug(key, instance));
        match end {
            Some(at) if at <= now => {
                (guest.size, guest.resizing) = (Some(size.after_hot_plug(wanted)), None);
            }
            Some(at) => {
                guest.size = Some(size);
                self.agenda.wake(KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key), at);
            }
            None => guest.size = Some(size),
        }
    }

    fn holds_hot_plug(&self, key: &NamespacedKey, instance: &InstanceView) -> bool {
        self.knobs_of_instance(key, instance).is(|knobs| knobs.hold_hot_plug)
    }

    /// A condition for each hot-plug that is not done. KubeVirt gives it no message.
    pub(super) fn hot_plug_conditions(
        &self,
        shown: ShownGuest<'_>,
        now: Timestamp,
    ) -> Vec<SimulatedKubeVirtCondition> {
        let ShownGuest { key, instance, guest } = shown;
        let Some(size) = guest.size.as_ref().filter(|_| shown.runs()) else {
            return Vec::new();
        };
        let is_held = self.holds_hot_plug(key, instance);
        let pending = size.pending(&GuestSize::of_spec(&instance.spec)).into_iter();
        let conditions = pending.map(|kind| {
            let message = "the guest cannot be migrated, as the knob hold-hot-plug says";
            let held = new_condition(kind, "True", "NotMigratable", message.to_owned(), now);
            if is_held { held } else { SimulatedKubeVirtCondition { reason: None, message: None, ..held } }
        });
        conditions.collect()
    }
}

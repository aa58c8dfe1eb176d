//! The table of phases: what follows a phase, and when.

use crate::{
    duration::Delay,
    kubevirt::{
        json::stable_number,
        launcher::LauncherPodState,
        model::{Guest, KubeVirtModel},
        objects::{
            InstancePhase, InstanceView, KubeVirtObjectId, KubeVirtObjectKind, RunStrategy, claims_of,
        },
    },
    objects::NamespacedKey,
    shared::delay_end,
};
use jiff::Timestamp;

/// A step in the life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A phase begins.
    Enter(InstancePhase),
    /// The guest does not start, because of the knob `fail-start`.
    FailStart,
    /// Choose a node and request the launcher Pod.
    RequestPod,
    /// Nothing of a deleted instance runs any more.
    End,
}

/// Half of a delay.
fn half(delay: Delay) -> Delay {
    match delay {
        Delay::After(delay) => Delay::After(delay / 2),
        Delay::Never => Delay::Never,
    }
}

impl KubeVirtModel {
    /// Takes every step that is due, and wakes the instance for the next one.
    pub(super) fn advance(
        &mut self,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &mut Guest,
        now: Timestamp,
    ) {
        let leaving = instance.meta.deleting() || self.pod_state(guest) == LauncherPodState::Terminating;
        if leaving && guest.stopping.is_none() {
            guest.stopping = Some(now);
            self.mark_pods_of(key);
        }
        if self.knobs_of_instance(key, instance).get(|knobs| knobs.shutdown).is_none() {
            guest.shut_down = None;
        }
        while let Some((at, step)) = self.next_step(key, instance, guest, now) {
            if at > now {
                return self.agenda.wake(KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key), at);
            }
            self.take_step(step, key, instance, guest, now);
        }
    }

    /// The table.
    fn next_step(
        &self,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &Guest,
        now: Timestamp,
    ) -> Option<(Timestamp, Step)> {
        let knobs = self.knobs_of_instance(key, instance);
        let deleting = instance.meta.deleting();
        let phase = guest.phase;
        // Nothing on a lost node reports or stops.
        if guest.ended || (knobs.is(|knobs| knobs.node_loss) && phase.has_volumes_open()) {
            return None;
        }
        if phase.is_final() || (deleting && phase.is_before_start()) {
            return deleting.then_some((now, Step::End));
        }
        let pod = self.pod_state(guest);
        if pod == LauncherPodState::Gone && phase >= InstancePhase::Scheduling {
            return Some((now, Step::Enter(InstancePhase::Failed)));
        }
        if let Some(since) = guest.stopping {
            if phase.is_before_start() {
                return Some((now, Step::Enter(InstancePhase::Failed)));
            }
            let delay = knobs.get(|knobs| knobs.stop_delay).unwrap_or(self.settings.stop_delay);
            return Some((
                delay_end(since, delay.at_most(instance.grace()))?,
                Step::Enter(InstancePhase::Succeeded),
            ));
        }
        let start = half(knobs.get(|knobs| knobs.start_delay).unwrap_or(self.settings.start_delay));
        match phase {
            InstancePhase::Unset => Some((now, Step::Enter(InstancePhase::Pending))),
            InstancePhase::Pending if pod == LauncherPodState::Live => {
                Some((now, Step::Enter(InstancePhase::Scheduling)))
            }
            InstancePhase::Pending if guest.pod.is_none() && self.volumes_are_ready(key, instance) => {
                Some((now, Step::RequestPod))
            }
            InstancePhase::Scheduling => {
                let held = knobs.is(|knobs| knobs.unschedulable)
                    || knobs.get(|knobs| knobs.image_pull_error.clone()).is_some();
                (!held).then_some((delay_end(guest.since, start)?, Step::Enter(InstancePhase::Scheduled)))
            }
            InstancePhase::Scheduled => {
                let step = if self.is_receiver(key) {
                    Step::Enter(InstancePhase::WaitingForSync)
                } else if self.fails_to_start(key, instance) {
                    Step::FailStart
                } else {
                    Step::Enter(InstancePhase::Running)
                };
                Some((delay_end(guest.since, start)?, step))
            }
            InstancePhase::Running => {
                let after = |delay: Option<Delay>| delay.and_then(|delay| delay_end(guest.since, delay));
                let crash =
                    after(knobs.get(|knobs| knobs.crash)).map(|at| (at, Step::Enter(InstancePhase::Failed)));
                let shutdown =
                    knobs.get(|knobs| knobs.shutdown).filter(|value| Some(*value) != guest.shut_down);
                let shutdown = after(shutdown).map(|at| (at, Step::Enter(InstancePhase::Succeeded)));
                [crash, shutdown].into_iter().flatten().min_by_key(|(at, _)| *at)
            }
            _ => None,
        }
    }

    fn take_step(
        &mut self,
        step: Step,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &mut Guest,
        now: Timestamp,
    ) {
        match step {
            Step::RequestPod => {
                let seed = (self.settings.seed, &*instance.meta.uid);
                let nodes = &self.settings.nodes;
                let chosen = usize::try_from(stable_number(seed)).unwrap_or_default() % nodes.len().max(1);
                guest.node = nodes.get(chosen).cloned().unwrap_or_default();
                guest.pod = Some(self.request_pod(key, instance));
            }
            Step::End => {
                guest.ended = true;
                self.unmount_all(&instance.meta.uid, guest);
            }
            Step::FailStart => {
                self.spend_failed_start(key, instance);
                self.enter(InstancePhase::Failed, key, instance, guest, now);
            }
            Step::Enter(phase) => self.enter(phase, key, instance, guest, now),
        }
        self.mark_pods_of(key);
    }

    fn enter(
        &mut self,
        phase: InstancePhase,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &mut Guest,
        now: Timestamp,
    ) {
        if phase == InstancePhase::Succeeded && guest.stopping.is_none() {
            guest.shut_down = self.knobs_of_instance(key, instance).get(|knobs| knobs.shutdown);
        }
        guest.phase = phase;
        guest.since = now;
        guest.passed.push((phase, now));
        if phase == InstancePhase::Scheduled {
            self.mount_all(key, instance, guest, Some(now));
        } else if phase.is_final() {
            self.unmount_all(&instance.meta.uid, guest);
        }
    }

    fn is_receiver(&self, key: &NamespacedKey) -> bool {
        self.machines
            .view(key)
            .is_some_and(|machine| machine.spec.run_strategy == RunStrategy::WaitAsReceiver)
    }

    /// Whether the knob `fail-start` still has starts to fail.
    fn fails_to_start(&self, key: &NamespacedKey, instance: &InstanceView) -> bool {
        let wanted = self.knobs_of_instance(key, instance).get(|knobs| knobs.fail_start).unwrap_or(0);
        let (value, spent) = self.machines.memory(key).map_or((0, 0), |memory| memory.failed_starts);
        wanted > if value == wanted { spent } else { 0 }
    }

    fn spend_failed_start(&mut self, key: &NamespacedKey, instance: &InstanceView) {
        let wanted = self.knobs_of_instance(key, instance).get(|knobs| knobs.fail_start).unwrap_or(0);
        if let Some(slot) = self.machines.slot(key) {
            let (value, spent) = slot.memory.failed_starts;
            slot.memory.failed_starts = (wanted, if value == wanted { spent + 1 } else { 1 });
        }
    }

    /// Whether the launcher could open all volumes of an instance.
    fn volumes_are_ready(&self, key: &NamespacedKey, instance: &InstanceView) -> bool {
        self.missing_volume(key, instance).is_none()
            && claims_of(key, instance).iter().all(|disk| {
                let populated = self.data_volumes.view(disk).is_none_or(|volume| volume.succeeded());
                populated && self.claims.view(disk).is_some_and(|claim| !claim.meta.deleting())
            })
    }

    /// Why an instance cannot get one of its volumes.
    pub(super) fn missing_volume(&self, key: &NamespacedKey, instance: &InstanceView) -> Option<String> {
        if self.knobs_of_instance(key, instance).is(|knobs| knobs.missing_claim) {
            return Some("PVC not found, as the knob missing-claim says".to_owned());
        }
        let missing =
            |disk: &NamespacedKey| self.claims.view(disk).is_none() && self.data_volumes.view(disk).is_none();
        let disk = claims_of(key, instance).into_iter().find(missing)?;
        Some(format!("PVC {disk} does not exist"))
    }
}

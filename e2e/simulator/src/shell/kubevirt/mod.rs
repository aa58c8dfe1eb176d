//! How the objects of KubeVirt and CDI are watched and written.

mod download;
mod read;
mod watch;
mod write;

use super::{clock::SimulatorClock, follow::Sender, model::PlatformModel, write::DvpWriter};
use crate::kubevirt::{
    KubeVirtModel, KubeVirtModelAction, KubeVirtModelEvent, KubeVirtWrite, KubeVirtWriteOutcome,
    objects::{KubeVirtObjectId, KubeVirtObjectKind, ObservedKubeVirtObject},
};
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;

impl PlatformModel for KubeVirtModel {
    const NAME: &'static str = "kubevirt";
    type Id = KubeVirtObjectId;
    type Kind = KubeVirtObjectKind;
    type Object = ObservedKubeVirtObject;
    type Write = KubeVirtWrite;

    fn observe(&mut self, event: KubeVirtModelEvent, now: Timestamp) {
        self.observe(event, now);
    }

    fn step(&mut self, now: Timestamp) -> Vec<KubeVirtModelAction> {
        self.step(now)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.next_due()
    }

    fn watch(
        client: &Client,
        namespace: Option<&str>,
        clock: SimulatorClock,
        sender: &Sender<KubeVirtModelEvent>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize {
        watch::start_kubevirt_watches(client, namespace, clock, sender, tasks)
    }

    async fn perform(
        writer: &DvpWriter,
        id: &KubeVirtObjectId,
        write: KubeVirtWrite,
    ) -> KubeVirtWriteOutcome {
        write::perform_kubevirt_write(&writer.client, id, write).await
    }
}

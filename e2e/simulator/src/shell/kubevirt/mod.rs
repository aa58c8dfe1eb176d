//! How the objects of KubeVirt and CDI are watched and written.

mod download;
mod read;
mod watch;
mod write;

use super::{clock::Clock, follow::Sender, model::Model, write::Writer};
use crate::kubevirt::{
    Action, Event, Outcome, World, Write,
    objects::{Id, Kind, Object},
};
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;

impl Model for World {
    const NAME: &'static str = "kubevirt";
    type Id = Id;
    type Kind = Kind;
    type Object = Object;
    type Write = Write;

    fn observe(&mut self, event: Event, now: Timestamp) {
        self.observe(event, now);
    }

    fn step(&mut self, now: Timestamp) -> Vec<Action> {
        self.step(now)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.next_due()
    }

    fn watch(
        client: &Client,
        namespace: Option<&str>,
        clock: Clock,
        sender: &Sender<Event>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize {
        watch::start(client, namespace, clock, sender, tasks)
    }

    async fn perform(writer: &Writer, id: &Id, write: Write) -> Outcome {
        write::perform(&writer.client, id, write).await
    }
}

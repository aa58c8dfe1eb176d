//! How the objects of KubeVirt and CDI are watched and written.

mod read;
mod watch;
mod write;

use super::{
    clock::Clock,
    follow::Sender,
    model::{Flight, Model},
    report::Reporter,
    write::Writer,
};
use crate::kubevirt::{Action, Event, World};
use futures::FutureExt;
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;

impl Model for World {
    const NAME: &'static str = "kubevirt";
    type Event = Event;
    type Action = Action;

    fn observe(&mut self, event: Event, now: Timestamp) {
        self.observe(event, now);
    }

    fn step(&mut self, now: Timestamp) -> Vec<Action> {
        self.step(now)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.next_due()
    }

    fn synced() -> Event {
        Event::Synced
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

    fn perform(action: Action, writer: Writer, reporter: Reporter) -> Flight<Event> {
        async move {
            match action {
                Action::Write(id, write) => {
                    let outcome = write::perform(&writer.client, &id, write).await;
                    Some(Event::Written(id, outcome))
                }
                Action::Report(violation) => {
                    reporter.report(violation).await;
                    None
                }
            }
        }
        .boxed()
    }
}

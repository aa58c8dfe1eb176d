//! How the objects of KubeVirt and CDI are watched and written.

mod watch;
mod write;

use super::{
    clock::Clock,
    model::{Flight, Model},
    report::Reporter,
    watch::Sender,
    write::Writer,
};
use crate::kubevirt::{
    Action, Event, World,
    objects::{
        ClaimView, DataVolumeView, InstanceView, LauncherView, MachineView, Object, StoredClaim,
        StoredDataVolume, StoredInstance, StoredLauncher, StoredMachine,
    },
};
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

fn machine(stored: StoredMachine) -> Object {
    Object::Machine(Box::new(MachineView::read(stored)))
}

fn instance(stored: StoredInstance) -> Object {
    Object::Instance(Box::new(InstanceView::read(stored)))
}

fn data_volume(stored: StoredDataVolume) -> Object {
    Object::DataVolume(Box::new(DataVolumeView::read(stored)))
}

fn claim(stored: StoredClaim) -> Object {
    Object::Claim(Box::new(ClaimView::read(stored)))
}

fn pod(stored: StoredLauncher) -> Option<Object> {
    LauncherView::read(stored).map(|view| Object::Pod(Box::new(view)))
}

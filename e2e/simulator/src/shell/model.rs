//! What the loop needs of a platform's model.

use super::{clock::Clock, report::Reporter, watch, write::Writer};
use crate::world::{Action, Event, World};
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;

/// A write or report under way; it ends with what the model is to learn of it.
pub(super) type Flight<E> = BoxFuture<'static, Option<E>>;

/// A pure model of a platform, and how its objects are watched and written.
pub(super) trait Model: Sized + Send + Sync {
    /// Name of the platform, for logs.
    const NAME: &'static str;
    /// Something that the model observes.
    type Event: Send + 'static;
    /// Something that the model wants to be done.
    type Action: Send + Sync;

    /// Takes note of an event.
    fn observe(&mut self, event: Self::Event, now: Timestamp);
    /// Returns what is to be done now.
    fn step(&mut self, now: Timestamp) -> Vec<Self::Action>;
    /// When [`Self::step`] has something to do again.
    fn next_due(&self) -> Option<Timestamp>;
    /// The event that says that everything has been listed.
    fn synced() -> Self::Event;
    /// Starts every watch; returns how many there are.
    fn watch(
        client: &Client,
        namespace: Option<&str>,
        clock: Clock,
        sender: &watch::Sender<Self::Event>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize;
    /// Does an action, once.
    fn perform(action: Self::Action, writer: Writer, reporter: Reporter) -> Flight<Self::Event>;
}

impl Model for World {
    const NAME: &'static str = "dvp";
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
        sender: &watch::Sender<Event>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize {
        watch::start(client, namespace, clock, sender, tasks)
    }

    fn perform(action: Action, writer: Writer, reporter: Reporter) -> Flight<Event> {
        async move {
            match action {
                Action::Write(id, write) => {
                    let outcome = writer.perform(&id, write).await;
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

//! The interface between the loop and a platform's model.

use super::{clock::Clock, follow::Sender, report::Reporter, watch, write::Writer};
use crate::world::{Action, Event, World};
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinSet;

/// A pending write or report. It returns the event for the model.
pub(super) type Flight<E> = BoxFuture<'static, Option<E>>;

/// A pure model of a platform, and how its objects are watched and written.
pub(super) trait Model: Sized + Send + Sync {
    /// Name of the platform, for logs.
    const NAME: &'static str;
    /// An event that the model observes.
    type Event: Send + 'static;
    /// An action that the model requests.
    type Action: Send + Sync;

    /// Processes an event.
    fn observe(&mut self, event: Self::Event, now: Timestamp);
    /// Returns the actions that are due.
    fn step(&mut self, now: Timestamp) -> Vec<Self::Action>;
    /// When [`Self::step`] must be called again.
    fn next_due(&self) -> Option<Timestamp>;
    /// The event that reports that all objects have been listed.
    fn synced() -> Self::Event;
    /// Starts the watches, and returns their number.
    fn watch(
        client: &Client,
        namespace: Option<&str>,
        clock: Clock,
        sender: &Sender<Self::Event>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize;
    /// Performs an action, without retries.
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
        sender: &Sender<Event>,
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

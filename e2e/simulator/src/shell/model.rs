//! The interface between the loop and a platform's model.

use super::{clock::Clock, follow::Sender, watch, write::Writer};
use crate::{
    objects::{Id, Kind},
    shared,
    world::{Action, Event, Object, Outcome, World, Write},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use std::future::Future;
use tokio::task::JoinSet;

/// A pending write or report. It returns the event for the model.
pub(super) type PendingWrite<E> = BoxFuture<'static, Option<E>>;

/// The events of a model.
pub(super) type EventOf<M> = shared::Event<<M as Model>::Id, <M as Model>::Kind, <M as Model>::Object>;

/// A pure model of a platform, and how its objects are watched and written.
pub(super) trait Model: Sized + Send + Sync {
    /// Name of the platform, for logs.
    const NAME: &'static str;
    /// Identities of objects.
    type Id: Send + Sync + 'static;
    /// Kinds of objects.
    type Kind: Send + 'static;
    /// Observed objects.
    type Object: Send + 'static;
    /// Writes that the model requests.
    type Write: Send + Sync + 'static;

    /// Processes an event.
    fn observe(&mut self, event: EventOf<Self>, now: Timestamp);
    /// Returns the actions that are due.
    fn step(&mut self, now: Timestamp) -> Vec<shared::Action<Self::Id, Self::Write>>;
    /// When [`Self::step`] must be called again.
    fn next_due(&self) -> Option<Timestamp>;
    /// Starts the watches, and returns their number.
    fn watch(
        client: &Client,
        namespace: Option<&str>,
        clock: Clock,
        sender: &Sender<EventOf<Self>>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize;
    /// Performs a write, without retries.
    fn perform(
        writer: &Writer,
        id: &Self::Id,
        write: Self::Write,
    ) -> impl Future<Output = shared::Outcome<Self::Object>> + Send;
}

impl Model for World {
    const NAME: &'static str = "dvp";
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
        writer.perform(id, write).await
    }
}

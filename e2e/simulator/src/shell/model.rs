//! The interface between the loop and a platform's model.

use super::{clock::SimulatorClock, follow::Sender, watch, write::DvpWriter};
use crate::{
    objects::{DvpObjectId, DvpObjectKind},
    shared,
    world::{DvpModel, DvpModelAction, DvpModelEvent, DvpWrite, DvpWriteOutcome, ObservedDvpObject},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use std::future::Future;
use tokio::task::JoinSet;

/// A pending write or report. It returns the event for the model.
pub(super) type PendingWrite<E> = BoxFuture<'static, Option<E>>;

/// The events of a model.
pub(super) type EventOf<M> =
    shared::ModelEvent<<M as PlatformModel>::Id, <M as PlatformModel>::Kind, <M as PlatformModel>::Object>;

/// A pure model of a platform, and how its objects are watched and written.
pub(super) trait PlatformModel: Sized + Send + Sync {
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
    fn step(&mut self, now: Timestamp) -> Vec<shared::ModelAction<Self::Id, Self::Write>>;
    /// When [`Self::step`] must be called again.
    fn next_due(&self) -> Option<Timestamp>;
    /// Starts the watches, and returns their number.
    fn watch(
        client: &Client,
        namespace: Option<&str>,
        clock: SimulatorClock,
        sender: &Sender<EventOf<Self>>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize;
    /// Performs a write, without retries.
    fn perform(
        writer: &DvpWriter,
        id: &Self::Id,
        write: Self::Write,
    ) -> impl Future<Output = shared::ModelWriteOutcome<Self::Object>> + Send;
}

impl PlatformModel for DvpModel {
    const NAME: &'static str = "dvp";
    type Id = DvpObjectId;
    type Kind = DvpObjectKind;
    type Object = ObservedDvpObject;
    type Write = DvpWrite;

    fn observe(&mut self, event: DvpModelEvent, now: Timestamp) {
        self.observe(event, now);
    }

    fn step(&mut self, now: Timestamp) -> Vec<DvpModelAction> {
        self.step(now)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.next_due()
    }

    fn watch(
        client: &Client,
        namespace: Option<&str>,
        clock: SimulatorClock,
        sender: &Sender<DvpModelEvent>,
        tasks: &mut JoinSet<&'static str>,
    ) -> usize {
        watch::start_dvp_watches(client, namespace, clock, sender, tasks)
    }

    async fn perform(writer: &DvpWriter, id: &DvpObjectId, write: DvpWrite) -> DvpWriteOutcome {
        writer.perform(id, write).await
    }
}

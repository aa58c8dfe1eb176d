//! Whether another controller of the same pools is off.

use std::collections::BTreeSet;

use futures::future::select;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use vmpool_engine::{ObjectId, Uid};
use vmpool_kit::definitions;
use vmpool_kit::definitions::DefinitionsObserver;
use vmpool_kit::events::EventSubject;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::observed_value::{ValueObserver, ValuePublisher};
use vmpool_kit::sink::{MapSink, Sink, WatchChange, Watched};
use vmpool_kit::watch::WatchScope;
use vmpool_platforms::{Configuration, DefaultWording, OtherController, Platform};

use crate::leadership::LeadershipResources;
use crate::pools::events::{EventReason, PoolEvent, publish_pool_events};

/// What is known of the other controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OtherControllerState {
    /// Nothing has been read yet.
    Unknown,
    /// It reconciles no pools.
    Off,
    /// It may reconcile pools. The text says why, and what to change.
    MayRun(String),
}

/// Keeps `state` up to date, forever. Until the first list of the
/// installations, the state does not change.
pub(crate) async fn observe_other_controller<P: Platform>(
    shared: LeadershipResources,
    known: DefinitionsObserver,
    state: ValuePublisher<OtherControllerState>,
) {
    type Installation<P> = <<P as Platform>::OtherController as OtherController>::Installation;
    let name = definitions::definition_name::<Installation<P>>();
    let uid = |known: &Option<definitions::Definitions>| {
        known.as_ref().map(|definitions| definitions.uid(&name).cloned())
    };
    loop {
        let served = known.read(uid);
        if served == Some(None) {
            // The other controller is not installed.
            shared.set_configuration(Configuration::default());
            state.publish(OtherControllerState::Off);
        }
        let changed = known.wait_for(|known| uid(known) != served);
        if let Some(Some(_)) = &served {
            let sink = MapSink::new(Some, |installations| {
                let installations: Vec<Installation<P>> = installations.values().cloned().collect();
                shared.set_configuration(P::OtherController::configuration(&installations));
                let blocker = P::OtherController::blocker(&installations);
                state.publish(blocker.map_or(OtherControllerState::Off, OtherControllerState::MayRun));
            });
            let api = Api::all(shared.client().clone());
            let watch =
                vmpool_kit::watch::list_and_watch(api, shared.env().clone(), WatchScope::default(), sink);
            select(std::pin::pin!(changed), std::pin::pin!(watch)).await;
        } else {
            changed.await;
        }
    }
}

/// Publishes one event for each pool, also for new ones, until the future is dropped. It says why the pool is
/// not reconciled.
pub(crate) async fn report_blocked_pools<P: Platform>(
    shared: LeadershipResources,
    state: ValueObserver<OtherControllerState>,
) {
    let events = shared.events().clone();
    let publish = move |metadata: &ObjectMeta| {
        let OtherControllerState::MayRun(why) = state.get() else { return };
        let name = metadata.name.clone().unwrap_or_default();
        let subject = EventSubject {
            api_version: P::Pool::api_version(&()).into_owned(),
            kind: P::Pool::kind(&()).into_owned(),
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            id: ObjectId::new(&name, metadata.uid.as_deref().unwrap_or_default()),
        };
        let note = format!("vmpool does not reconcile this pool, because another controller may: {why}");
        publish_pool_events::<DefaultWording>(
            &events,
            &subject,
            vec![PoolEvent { reason: EventReason::OtherControllerActive, name, note }],
        );
    };
    let api: Api<PartialObjectMeta<P::Pool>> = api_for_namespace(shared.client(), shared.namespace());
    let scope = WatchScope { metadata_only: true, ..WatchScope::default() };
    vmpool_kit::watch::list_and_watch(
        api,
        shared.env().clone(),
        scope,
        NewObjects { known: BTreeSet::new(), publish },
    )
    .await;
}

/// Shows each object once.
struct NewObjects<F> {
    known: BTreeSet<Uid>,
    publish: F,
}

impl<F: FnMut(&ObjectMeta)> NewObjects<F> {
    fn show(&mut self, metadata: &ObjectMeta) {
        if self.known.insert(metadata.uid.as_deref().unwrap_or_default().into()) {
            (self.publish)(metadata);
        }
    }
}

impl<K: Watched, F: FnMut(&ObjectMeta)> Sink<K> for NewObjects<F> {
    fn list_begins(&mut self) {}
    fn listed(&mut self, object: K) {
        self.show(object.meta());
    }
    fn list_ends(&mut self) {}
    fn changed(&mut self, change: WatchChange<K>) {
        match change {
            WatchChange::Applied(object) => self.show(object.meta()),
            WatchChange::Deleted(object) => {
                self.known.remove(&object.meta().uid.as_deref().unwrap_or_default().into());
            }
        }
    }
}

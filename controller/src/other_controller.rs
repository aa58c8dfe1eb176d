//! Whether another controller of the same pools is off.

use futures::future::select;
use kube::Api;
use tokio::sync::watch;
use vmpool_platforms::{OtherController, Platform};

use crate::definitions::{self, Known};
use crate::lead::Shared;
use crate::watch::{MapSink, Scope};

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

/// Keeps `state` up to date, until the definitions are no longer observed. Until the first list of the installations, the
/// state does not change.
pub(crate) async fn observe<P: Platform>(
    shared: Shared,
    mut known: Known,
    state: watch::Sender<OtherControllerState>,
) {
    type Installation<P> = <<P as Platform>::OtherController as OtherController>::Installation;
    let name = definitions::name::<Installation<P>>();
    let uid = |known: &Option<definitions::Definitions>| {
        known.as_ref().map(|definitions| definitions.uid(&name).cloned())
    };
    loop {
        let served = uid(&known.borrow_and_update());
        if served == Some(None) {
            // The other controller is not installed.
            show(&state, OtherControllerState::Off);
        }
        let changed = known.wait_for(|known| uid(known) != served);
        if let Some(Some(_)) = &served {
            let sink = MapSink::new(Some, |installations| {
                let installations: Vec<Installation<P>> = installations.values().cloned().collect();
                let blocker = P::OtherController::blocker(&installations);
                show(&state, blocker.map_or(OtherControllerState::Off, OtherControllerState::MayRun));
            });
            let api = Api::all(shared.client().clone());
            let watch = crate::watch::watch(api, shared.env().clone(), Scope::default(), sink);
            select(std::pin::pin!(changed), std::pin::pin!(watch)).await;
        } else if changed.await.is_err() {
            return;
        }
    }
}

fn show(state: &watch::Sender<OtherControllerState>, now: OtherControllerState) {
    state.send_if_modified(|state| {
        let is_new = *state != now;
        *state = now;
        is_new
    });
}

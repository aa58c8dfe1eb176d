//! Whether another controller of the same pools is off.

use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use tokio::sync::watch;
use vmpool_platforms::{Platform, Rival};

use crate::lead::Shared;

/// Duration of one watch request, in seconds.
const WATCH_SECONDS: u32 = 280;
/// Time until the next list after an error.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// Time until the next list if the cluster does not serve installations.
const ABSENT: Duration = Duration::from_mins(1);

/// What is known of the other controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RivalState {
    /// Nothing has been read yet.
    Unknown,
    /// It reconciles no pools.
    Off,
    /// It may reconcile pools. The text says why, and what to change.
    MayRun(String),
}

/// Keeps `state` up to date, forever. Until a list succeeds, the state does not change.
pub(crate) async fn observe<P: Platform>(shared: Shared, state: watch::Sender<RivalState>) {
    type Installation<P> = <<P as Platform>::Rival as Rival>::Installation;
    let api: Api<Installation<P>> = Api::all(shared.client().clone());
    loop {
        let pause = match api.list(&ListParams::default()).await {
            Ok(list) => {
                shared.set_live_updates(P::Rival::updates_live(&list.items));
                let blocker = P::Rival::blocker(&list.items);
                state.send_replace(blocker.map_or(RivalState::Off, RivalState::MayRun));
                let version = list.metadata.resource_version.unwrap_or_default();
                match until_change(&api, version).await {
                    Ok(()) => continue,
                    Err(error) => {
                        tracing::warn!(platform = P::NAME, %error, "watching the installations of another controller");
                        AFTER_ERROR
                    }
                }
            }
            // The other controller is not installed.
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                shared.set_live_updates(false);
                state.send_replace(RivalState::Off);
                ABSENT
            }
            Err(error) => {
                tracing::warn!(platform = P::NAME, %error, "listing the installations of another controller");
                AFTER_ERROR
            }
        };
        shared.env().sleep(pause).await;
    }
}

/// Watches from `version` on until an object changes.
async fn until_change<K: vmpool_platforms::ApiObject>(api: &Api<K>, mut version: String) -> kube::Result<()> {
    loop {
        let wanted = WatchParams::default().timeout(WATCH_SECONDS);
        let mut events = std::pin::pin!(api.watch(&wanted, &version).await?);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) => return Ok(()),
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
    }
}

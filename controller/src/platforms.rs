//! The platforms of one process. Each is reconciled while the cluster serves its pools.

use futures::FutureExt;
use futures::future::{Either, OptionFuture, join_all, join3, select};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmpool_platforms::{OtherController, Platform, with_platform};
use vmpool_runtime::lease::Fence;

use crate::copies;
use crate::definitions::{self, DefinitionsReceiver};
use crate::images;
use crate::lead::{Dependencies, LeaderHealth, LeadershipResources, reconcile_platform};
use crate::metrics::PlatformState;
use crate::options::PlatformName;
use crate::other_controller::{self, OtherControllerState};
use crate::platform_state::ShownState;
use crate::preserved_watches;
use crate::release_copies;
use crate::source_watches;

/// Reconciles the pools of these platforms, disk images, instance types and copies for single machines until
/// `stop`, each while the cluster has the CustomResourceDefinitions. If a platform stops early, the
/// leadership ends, so that the next leader starts with new caches.
///
/// The caller must hold the lease of `fence`, and must drop the future when the lease is lost.
pub async fn lead_all(
    dependencies: Dependencies,
    fence: Fence,
    leader_health: LeaderHealth,
    platforms: &[PlatformName],
    stop: CancellationToken,
) {
    let stop = stop.child_token();
    let (shared, events) = LeadershipResources::new(dependencies, fence, leader_health, stop.clone());
    let named: Vec<PlatformName> =
        PlatformName::ALL.into_iter().filter(|name| platforms.contains(name)).collect();
    let definitions_of = |name| with_platform!(name, P => definitions::definitions_of_platform::<P>());
    let mut names: Vec<String> = named.iter().copied().flat_map(definitions_of).collect();
    let image_settings = shared.images().cloned();
    names.extend(image_settings.is_some().then(images::definitions_for_images).into_iter().flatten());
    let settings = shared.settings();
    // Instance types, and their copies for single machines, exist on this platform only.
    let has_copies =
        named.contains(&PlatformName::Kubevirt) && (settings.copies.is_some() || settings.protects_types);
    names.extend(has_copies.then(copies::definitions_for_copies).into_iter().flatten());
    let (sender, known) = watch::channel(None);
    let observe =
        definitions::observe_definitions(shared.client().clone(), shared.env().clone(), names, sender);
    let observe = shared.env().spawn("watch of definitions", observe);
    let _listing = shared.leader_health().listing({
        let known = known.clone();
        move || known.borrow().is_some()
    });
    let reconcile = |name| {
        let (shared, known, stop) = (shared.for_platform(), known.clone(), stop.clone());
        with_platform!(name, P => while_served::<P>(shared, known, stop).boxed())
    };
    let pools = join_all(named.into_iter().map(reconcile));
    let images = image_settings
        .map(|settings| images::lead_images(shared.clone(), settings, known.clone(), stop.clone()).boxed());
    let copies = has_copies.then(|| copies::lead_copies(shared.clone(), known.clone(), stop.clone()).boxed());
    let platforms = join3(pools, OptionFuture::from(images), OptionFuture::from(copies));
    let tasks = select(events.join().boxed(), observe.join().boxed());
    match select(std::pin::pin!(platforms), tasks).await {
        Either::Left(_) => {}
        Either::Right((ended, platforms)) => {
            let (Either::Left((ended, _)) | Either::Right((ended, _))) = ended;
            let error = ended.err().map(|error| error.to_string());
            tracing::error!(
                error,
                "the sender of events or the watch of definitions ended: this leadership ends too"
            );
            stop.cancel();
            platforms.await;
        }
    }
}

/// Reconciles the pools of a platform while the cluster has its definitions. If one of them disappears, or is
/// replaced by another one of the same name, the caches are dropped.
async fn while_served<P: Platform>(
    shared: LeadershipResources,
    mut known: DefinitionsReceiver,
    stop: CancellationToken,
) {
    let shown = shared.show_state::<P>();
    while let Some(served) = until_served::<P>(&mut known, &shown, &stop).await {
        let turn = stop.child_token();
        let reconciling = while_alone::<P>(shared.clone(), known.clone(), &shown, turn.clone()).boxed();
        let is_other = |known: &Option<definitions::Definitions>| {
            known.as_ref().is_some_and(|known| known.served::<P>().as_ref() != Ok(&served))
        };
        let vanishes = known.wait_for(is_other).map(drop).boxed();
        match select(reconciling, vanishes).await {
            Either::Left(_) => return stop.cancel(),
            Either::Right(((), reconciling)) => {
                tracing::info!(
                    platform = P::NAME,
                    "a definition of this platform is gone: reconciling stops"
                );
                turn.cancel();
                reconciling.await;
            }
        }
    }
}

/// Waits until the cluster has all definitions that a platform requires, and returns their UIDs; `None` if
/// `stop` came first.
async fn until_served<P: Platform>(
    known: &mut DefinitionsReceiver,
    shown: &ShownState,
    stop: &CancellationToken,
) -> Option<Vec<String>> {
    loop {
        let served = known.borrow_and_update().as_ref().map(definitions::Definitions::served::<P>);
        match served {
            Some(Ok(served)) => return Some(served),
            Some(Err(missing)) => {
                let missing = missing.to_string();
                tracing::info!(platform = P::NAME, missing, "waiting for a definition of this platform");
                let why = format!("the cluster has no CustomResourceDefinition {missing}");
                shown.set(PlatformState::Waiting, why);
            }
            None => {}
        }
        if is_stopped(known, stop).await {
            return None;
        }
    }
}

/// Waits for a change. Returns whether `stop` came first, or there will be no change.
async fn is_stopped<T>(changes: &mut watch::Receiver<T>, stop: &CancellationToken) -> bool {
    let changed = std::pin::pin!(changes.changed());
    !matches!(select(changed, std::pin::pin!(stop.cancelled())).await, Either::Left((Ok(()), _)))
}

/// Reconciles the pools of a platform while no other controller may reconcile them.
async fn while_alone<P: Platform>(
    shared: LeadershipResources,
    known: DefinitionsReceiver,
    shown: &ShownState,
    stop: CancellationToken,
) {
    let _sources = source_watches::watch_sources::<P>(&shared, &known);
    let _preserved = preserved_watches::watch_preserved_storage::<P>(&shared, &known);
    if !P::OtherController::EXISTS {
        tracing::info!(platform = P::NAME, "reconciling the pools of this platform");
        shown.set(PlatformState::Reconciling, String::new());
        return reconcile_platform::<P>(shared, Vec::new(), stop).await;
    }
    let (sender, mut state) = watch::channel(OtherControllerState::Unknown);
    let observe = other_controller::observe_other_controller::<P>(shared.clone(), known, sender);
    let _observer = shared.env().spawn("watch of another controller", observe);
    while until_off::<P>(&shared, &mut state, shown, &stop).await {
        tracing::info!(platform = P::NAME, "reconciling the pools of this platform");
        shown.set(PlatformState::Reconciling, String::new());
        let turn = stop.child_token();
        let reconciling = reconcile_platform::<P>(shared.clone(), Vec::new(), turn.clone()).boxed();
        let returns =
            state.wait_for(|state| matches!(state, OtherControllerState::MayRun(_))).map(drop).boxed();
        match select(reconciling, returns).await {
            Either::Left(_) => return,
            Either::Right(((), reconciling)) => {
                turn.cancel();
                reconciling.await;
            }
        }
    }
}

/// Waits until the other controller is off. Returns whether it is, or `stop` came first.
async fn until_off<P: Platform>(
    shared: &LeadershipResources,
    state: &mut watch::Receiver<OtherControllerState>,
    shown: &ShownState,
    stop: &CancellationToken,
) -> bool {
    let (mut events, mut release) = (None, None);
    loop {
        let now = state.borrow_and_update().clone();
        match &now {
            OtherControllerState::Off => return true,
            OtherControllerState::MayRun(why) => {
                tracing::error!(
                    platform = P::NAME,
                    why,
                    "another controller may reconcile the pools of this platform: this one reconciles none"
                );
                shown.set(PlatformState::Blocked, why.clone());
                let report = || other_controller::report_blocked_pools::<P>(shared.clone(), state.clone());
                events.get_or_insert_with(|| shared.env().spawn("events of blocked pools", report()));
                let release_pins = || {
                    let shared = shared.clone();
                    async move { release_copies::release_copies_until_done::<P>(&shared).await }
                };
                release.get_or_insert_with(|| shared.env().spawn("release of pins", release_pins()));
            }
            OtherControllerState::Unknown => {}
        }
        if is_stopped(state, stop).await {
            return false;
        }
    }
}

#[cfg(test)]
mod tests;

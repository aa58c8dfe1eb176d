//! The platforms of one process. Each is reconciled while the cluster serves its pools.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, OptionFuture, join, select};
use kube::Resource;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmpool_platforms::{Dvp, KubeVirt, Platform, Rival};
use vmpool_runtime::lease::Fence;

use crate::lead::{Dependencies, LeaderHealth, Shared, reconcile_platform};
use crate::options::PlatformName;
use crate::rival::{self, RivalState};

/// Time between two checks whether the cluster serves the pools of a platform.
const CHECK: Duration = Duration::from_secs(10);

/// Reconciles the pools of these platforms until `stop`. If a platform stops early, the leadership ends, so that the next
/// leader starts with new caches.
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
    let (shared, events) = Shared::new(dependencies, fence, leader_health);
    let named = |name| platforms.contains(&name);
    // A single platform needs no check: without its CRDs its watches fail and are repeated.
    let checks = platforms.len() > 1;
    let dvp = named(PlatformName::Dvp)
        .then(|| while_served::<Dvp>(shared.for_platform(), checks, stop.clone()).boxed());
    let kubevirt = named(PlatformName::Kubevirt)
        .then(|| while_served::<KubeVirt>(shared.for_platform(), checks, stop.clone()).boxed());
    let (dvp, kubevirt) = (OptionFuture::from(dvp), OptionFuture::from(kubevirt));
    let platforms = join(dvp, kubevirt);
    match select(std::pin::pin!(platforms), std::pin::pin!(events.join())).await {
        Either::Left(_) => {}
        Either::Right((ended, platforms)) => {
            let error = ended.err().map(|error| error.to_string());
            tracing::error!(error, "the sender of events ended: this leadership ends too");
            stop.cancel();
            platforms.await;
        }
    }
}

/// Reconciles the pools of a platform; with `checks` as soon as the cluster serves them. While another controller may
/// reconcile the same pools, it reconciles none.
async fn while_served<P: Platform>(shared: Shared, checks: bool, stop: CancellationToken) {
    if checks && !until_served::<P>(&shared, &stop).await {
        return;
    }
    if !P::Rival::EXISTS {
        tracing::info!(platform = P::NAME, "reconciling the pools of this platform");
        reconcile_platform::<P>(shared, Vec::new(), stop.clone()).await;
        return stop.cancel();
    }
    let (sender, mut rival) = watch::channel(RivalState::Unknown);
    let _observer = shared.env().spawn("rival", rival::observe::<P>(shared.clone(), sender));
    while until_off::<P>(&mut rival, &stop).await {
        tracing::info!(platform = P::NAME, "reconciling the pools of this platform");
        let turn = stop.child_token();
        let reconciling = reconcile_platform::<P>(shared.clone(), Vec::new(), turn.clone()).boxed();
        let returns = rival.wait_for(|state| matches!(state, RivalState::MayRun(_))).map(drop).boxed();
        match select(reconciling, returns).await {
            Either::Left(_) => return stop.cancel(),
            Either::Right(((), reconciling)) => {
                turn.cancel();
                reconciling.await;
            }
        }
    }
}

/// Waits until the other controller is off. Returns whether it is, or `stop` came first.
async fn until_off<P: Platform>(rival: &mut watch::Receiver<RivalState>, stop: &CancellationToken) -> bool {
    let mut known = rival.borrow_and_update().clone();
    loop {
        match &known {
            RivalState::Off => return true,
            RivalState::MayRun(why) => {
                tracing::error!(
                    platform = P::NAME,
                    why,
                    "another controller may reconcile the pools of this platform: this one reconciles none"
                );
            }
            RivalState::Unknown => {}
        }
        let is_stopped = {
            let changed = std::pin::pin!(rival.changed());
            matches!(select(changed, std::pin::pin!(stop.cancelled())).await, Either::Right(_))
        };
        if is_stopped {
            return false;
        }
        known = rival.borrow_and_update().clone();
    }
}

/// Waits until the cluster serves the pools of a platform. Returns whether it does, or `stop` came first.
async fn until_served<P: Platform>(shared: &Shared, stop: &CancellationToken) -> bool {
    let mut is_told = false;
    loop {
        match is_served::<P>(shared).await {
            Ok(true) => return true,
            Ok(false) if !is_told => {
                tracing::info!(platform = P::NAME, "the cluster does not serve the pools of this platform");
                is_told = true;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(platform = P::NAME, %error, "asking whether the cluster serves pools");
            }
        }
        select(shared.env().sleep(CHECK), std::pin::pin!(stop.cancelled())).await;
        if stop.is_cancelled() {
            return false;
        }
    }
}

/// Whether the cluster serves the pools of a platform.
async fn is_served<P: Platform>(shared: &Shared) -> kube::Result<bool> {
    let version = P::Pool::api_version(&()).into_owned();
    match shared.client().list_api_group_resources(&version).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == P::Pool::plural(&()))),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

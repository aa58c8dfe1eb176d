//! The platforms of one process. Each is reconciled while the cluster serves its pools.

use futures::FutureExt;
use futures::future::{Either, OptionFuture, join4, select};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmpool_kit::definitions::observe_definitions;
use vmpool_platforms::{Dvp, KubeVirt};
use vmpool_runtime::lease::Fence;

use crate::copies;
use crate::images;
use crate::leadership::{Dependencies, LeaderHealth, LeadershipResources};
use crate::pools::definitions::definitions_of_platform;
use crate::pools::served;
use crate::process::options::PlatformName;

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
    let named = |name| platforms.contains(&name);
    let (is_dvp, is_kubevirt) = (named(PlatformName::Dvp), named(PlatformName::Kubevirt));
    let mut names = Vec::new();
    names.extend(is_dvp.then(definitions_of_platform::<Dvp>).into_iter().flatten());
    names.extend(is_kubevirt.then(definitions_of_platform::<KubeVirt>).into_iter().flatten());
    let image_settings = shared.images().cloned();
    names.extend(image_settings.is_some().then(images::definitions_for_images).into_iter().flatten());
    let settings = shared.settings();
    let has_copies = is_kubevirt && (settings.copies.is_some() || settings.protects_types);
    names.extend(has_copies.then(copies::definitions_for_copies).into_iter().flatten());
    let (sender, known) = watch::channel(None);
    let observe = observe_definitions(shared.client().clone(), shared.env().clone(), names, sender);
    let observe = shared.env().spawn("watch of definitions", observe);
    let _listing = shared.leader_health().workers().begin(Vec::new(), {
        let known = known.clone();
        move || known.borrow().is_some()
    });
    let dvp = is_dvp.then(|| {
        served::lead_while_served::<Dvp>(shared.for_platform(), known.clone(), stop.clone()).boxed()
    });
    let kubevirt = is_kubevirt.then(|| {
        served::lead_while_served::<KubeVirt>(shared.for_platform(), known.clone(), stop.clone()).boxed()
    });
    let images = image_settings
        .map(|settings| images::lead_images(shared.clone(), settings, known.clone(), stop.clone()).boxed());
    let copies = has_copies.then(|| copies::lead_copies(shared.clone(), known.clone(), stop.clone()).boxed());
    let platforms = join4(
        OptionFuture::from(dvp),
        OptionFuture::from(kubevirt),
        OptionFuture::from(images),
        OptionFuture::from(copies),
    );
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

#[cfg(test)]
mod tests;

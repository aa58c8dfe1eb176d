//! The platforms of one process. Each is reconciled while the cluster serves its pools.

use futures::FutureExt;
use futures::future::{Either, OptionFuture, join_all, join4, select};
use tokio_util::sync::CancellationToken;
use vmpool_kit::definitions::observe_definitions;
use vmpool_kit::observed_value::ValuePublisher;
use vmpool_platforms::{ClientPlatform, KubeVirt, with_platform};
use vmpool_runtime::lease::Fence;

use crate::autoscalers;
use crate::copies;
use crate::images;
use crate::leadership::{Dependencies, LeaderHealth, LeadershipResources};
use crate::pools::definitions::definitions_of_platform;
use crate::pools::served;
use crate::process::options::PlatformName;
use crate::process::permitted::{wait_and_show_missing_right, wait_until_permitted};

/// Reconciles the pools of these platforms, disk images, instance types, copies for single machines and
/// autoscalers until `stop`, each while the cluster has the CustomResourceDefinitions, and if the settings
/// say so, once the account has the rights. If a platform stops early, the leadership ends, so that the next
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
    let (shared, events) = LeadershipResources::new(dependencies, fence, leader_health, stop.clone());
    let named: Vec<PlatformName> =
        PlatformName::ALL.into_iter().filter(|name| platforms.contains(name)).collect();
    let definitions_of = |name| with_platform!(name, P => definitions_of_platform::<P>());
    let mut names: Vec<String> = named.iter().copied().flat_map(definitions_of).collect();
    let image_settings = shared.images().cloned();
    names.extend(image_settings.is_some().then(images::definitions_for_images).into_iter().flatten());
    let settings = shared.settings();
    // Instance types, and their copies for single machines, exist on this platform only.
    let has_copies =
        named.contains(&PlatformName::Kubevirt) && (settings.copies.is_some() || settings.protects_types);
    names.extend(has_copies.then(copies::definitions_for_copies).into_iter().flatten());
    names.extend(settings.autoscales.then(autoscalers::definitions_for_autoscalers).into_iter().flatten());
    for name in named.iter().copied() {
        with_platform!(name, P => shared.pool_hub().declare(P::REMOVAL.stored.pools.group, P::REMOVAL));
    }
    let publisher = ValuePublisher::new(None);
    let known = publisher.observe();
    let observe = observe_definitions(shared.client().clone(), shared.env().clone(), names, publisher);
    let observe = shared.env().spawn("watch of definitions", observe);
    let _listing = shared.leader_health().workers().begin(Vec::new(), {
        let known = known.clone();
        move || known.read(Option::is_some)
    });
    let reconcile = |name| {
        let (shared, known, stop) = (shared.for_platform(), known.clone(), stop.clone());
        with_platform!(name, P => async move {
            if wait_and_show_missing_right::<P>(&shared, &stop).await {
                served::lead_while_served::<P>(shared, known, stop).await;
            }
        }
        .boxed())
    };
    let pools = join_all(named.into_iter().map(reconcile));
    let images = image_settings
        .map(|settings| images::lead_images(shared.clone(), settings, known.clone(), stop.clone()).boxed());
    let copies = has_copies.then(|| {
        let (shared, known, stop) = (shared.clone(), known.clone(), stop.clone());
        async move {
            if wait_until_permitted::<KubeVirt>(&shared, &stop, || ()).await {
                copies::lead_copies(shared, known, stop).await;
            }
        }
        .boxed()
    });
    let scaling = settings
        .autoscales
        .then(|| autoscalers::lead_autoscalers(shared.clone(), known.clone(), stop.clone()).boxed());
    let (images, copies, scaling) =
        (OptionFuture::from(images), OptionFuture::from(copies), OptionFuture::from(scaling));
    let platforms = join4(pools, images, copies, scaling);
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

//! The leadership of images: the watches and the workers, while the cluster serves the kinds of images.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use tokio_util::sync::CancellationToken;
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImage, VmDiskImageGrant};
use vmpool_api::kubevirt;
use vmpool_runtime::env::Task;

use super::context::ImageContext;
use super::feed;
use super::grant_pass;
use super::pass::reconcile_image;
use super::permission_pass;
use super::settings::ImageSettings;
use super::store::{ImageStore, Served};
use super::wrapper_pass;
use crate::definitions::{Definitions, DefinitionsReceiver, definition_name};
use crate::lead::{LeadershipResources, oversee_workers};
use crate::passes;
use crate::queue::{PassQueue, Requeue};

/// The definitions of the kinds with our finalizers, and of wrappers. While definitions are being removed,
/// their objects wait for the finalizers, so each kind is served on its own.
fn image_api_definitions() -> [String; 3] {
    [definition_name::<VmDiskImage>(), definition_name::<Wrapper>(), definition_name::<VmDiskImageGrant>()]
}

/// The definitions of what images use, if the cluster serves it.
fn image_dependency_definitions() -> [String; 6] {
    [
        definition_name::<kubevirt::DataVolume>(),
        definition_name::<kubevirt::DataSource>(),
        definition_name::<kubevirt::VolumeSnapshot>(),
        definition_name::<kubevirt::VolumeSnapshotContent>(),
        definition_name::<kubevirt::VirtualMachine>(),
        definition_name::<kubevirt::VirtualMachinePool>(),
    ]
}

/// The definitions that the controller of images needs to know.
pub(crate) fn definitions_for_images() -> Vec<String> {
    image_api_definitions().into_iter().chain(image_dependency_definitions()).collect()
}

/// The UIDs of the definitions that exist; `None` if there is nothing to reconcile.
fn present_definition_uids(known: &Definitions) -> Option<Vec<Option<String>>> {
    image_api_definitions().iter().any(|name| known.uid(name).is_some()).then_some(())?;
    Some(definitions_for_images().iter().map(|name| known.uid(name).cloned()).collect())
}

fn served_image_kinds(known: &Definitions) -> Served {
    let is = |name: String| known.uid(&name).is_some();
    Served {
        images: is(definition_name::<VmDiskImage>()),
        wrappers: is(definition_name::<Wrapper>()),
        grants: is(definition_name::<VmDiskImageGrant>()),
        importer: is(definition_name::<kubevirt::DataVolume>())
            && is(definition_name::<kubevirt::DataSource>()),
        snapshots: is(definition_name::<kubevirt::VolumeSnapshot>())
            && is(definition_name::<kubevirt::VolumeSnapshotContent>()),
        machines: is(definition_name::<kubevirt::VirtualMachine>()),
        pools: is(definition_name::<kubevirt::VirtualMachinePool>()),
    }
}

/// Reconciles images until `stop`, while the cluster has their definitions. If a definition appears,
/// disappears or is replaced, the caches are filled again.
pub(crate) async fn lead_images(
    shared: LeadershipResources,
    settings: ImageSettings,
    mut known: DefinitionsReceiver,
    stop: CancellationToken,
) {
    loop {
        let is_absent = known.borrow().as_ref().is_some_and(|known| present_definition_uids(known).is_none());
        if is_absent {
            shared.image_gate().close();
        }
        let is_there =
            |known: &Option<Definitions>| known.as_ref().and_then(present_definition_uids).is_some();
        let found = known.wait_for(is_there).boxed();
        let (definitions, serves) = match select(found, stop.cancelled().boxed()).await {
            Either::Left((Ok(known), _)) => match known.as_ref() {
                Some(known) => (present_definition_uids(known), served_image_kinds(known)),
                None => continue,
            },
            _ => return,
        };
        tracing::info!(?serves, "reconciling disk images");
        let turn = stop.child_token();
        let leading = reconcile_images(shared.clone(), settings.clone(), serves, turn.clone()).boxed();
        let is_other = |known: &Option<Definitions>| {
            known.as_ref().is_some_and(|known| present_definition_uids(known) != definitions)
        };
        let changes = known.wait_for(is_other).map(drop).boxed();
        match select(leading, changes).await {
            Either::Left(_) => return stop.cancel(),
            Either::Right(((), leading)) => {
                tracing::info!(
                    "the definitions that disk images need have changed: the caches are filled again"
                );
                turn.cancel();
                leading.await;
            }
        }
    }
}

async fn reconcile_images(
    shared: LeadershipResources,
    settings: ImageSettings,
    serves: Served,
    stop: CancellationToken,
) {
    let limits = shared.settings();
    let namespace = shared.namespace().map(str::to_owned);
    let reconciles_wrappers = settings.wrappers && serves.wrappers;
    let store = ImageStore::new(serves, namespace.is_none() && serves.snapshots, reconciles_wrappers);
    let env = shared.env().clone();
    let queue = || PassQueue::new(env.clone(), limits.debounce, shared.metrics().queue.clone());
    let queues = [queue(), queue(), queue(), queue()];
    let handles = shared.handles();
    let context = ImageContext::new(handles, namespace, settings, limits.request_deadline, queues, store)
        .with_metrics(shared.metrics().clone())
        .with_gate(shared.image_gate().clone());
    let context = Arc::new(context);
    let tasks = feed::start_image_watches(&context);
    let images: Weak<ImageContext> = Arc::downgrade(&context);
    shared.image_gate().serve(images);
    shared.metrics().images.follow({
        let context = Arc::downgrade(&context);
        move || context.upgrade().map(|context| context.shown())
    });
    shared.metrics().wrappers.follow({
        let context = Arc::downgrade(&context);
        move || context.upgrade().map(|context| context.shown_wrappers())
    });
    let _listing = shared.leader_health().listing({
        let context = Arc::downgrade(&context);
        move || context.upgrade().is_none_or(|context| context.is_synced())
    });
    let images = || {
        run_image_worker(
            context.clone(),
            |context| &context.queue,
            |context, key| reconcile_image(context, key).boxed(),
            stop.clone(),
        )
    };
    let mut workers: Vec<Task> =
        (0..limits.workers).map(|_| env.spawn("worker of images", images())).collect();
    // Grants are few, and change rarely.
    let grants = run_image_worker(
        context.clone(),
        |context| &context.grants,
        |context, key| grant_pass::reconcile_grant(context, key).boxed(),
        stop.clone(),
    );
    workers.push(env.spawn("worker of grants", grants));
    let permissions = run_image_worker(
        context.clone(),
        |context| &context.permissions,
        |context, key| permission_pass::reconcile_orphan_permission(context, key).boxed(),
        stop.clone(),
    );
    workers.push(env.spawn("worker of permissions", permissions));
    if reconciles_wrappers {
        let wrappers = || {
            run_image_worker(
                context.clone(),
                |context| &context.wrappers,
                |context, key| wrapper_pass::reconcile_wrapper(context, key).boxed(),
                stop.clone(),
            )
        };
        workers.extend((0..limits.workers).map(|_| env.spawn("worker of wrappers", wrappers())));
    }
    oversee_workers(workers, tasks, &stop).await;
}

/// Runs the passes of a queue after the first lists.
async fn run_image_worker<K: Clone + Eq + Hash + Ord + Debug + Send + Sync>(
    context: Arc<ImageContext>,
    queue: fn(&ImageContext) -> &PassQueue<K>,
    pass: for<'a> fn(&'a ImageContext, &'a K) -> BoxFuture<'a, Requeue>,
    stop: CancellationToken,
) {
    passes::until_synced(&context.env, &stop, || context.is_synced()).await;
    passes::reconcile_queue(&*context, queue(&context), &stop, pass).await;
}

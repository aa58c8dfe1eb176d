//! The leadership of images: the watches and the workers, while the cluster serves the kinds of images.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use tokio_util::sync::CancellationToken;
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImage, VmDiskImageGrant};
use vmpool_api::kubevirt;
use vmpool_diskimage::model::Key;
use vmpool_runtime::env::Task;

use super::context::Context;
use super::feed;
use super::pass::reconcile;
use super::settings::ImageSettings;
use super::store::{Served, Store};
use super::wrapper_pass;
use crate::definitions::{Definitions, Known, name};
use crate::lead::{Shared, oversee};
use crate::queue::{Queue, Requeue};

/// Time until the next pass of an image whose pass panicked.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// The definitions without which there are no images.
fn required() -> [String; 3] {
    [name::<VmDiskImage>(), name::<Wrapper>(), name::<VmDiskImageGrant>()]
}

/// The definitions of what images use, if the cluster serves it.
fn used() -> [String; 6] {
    [
        name::<kubevirt::DataVolume>(),
        name::<kubevirt::DataSource>(),
        name::<kubevirt::VolumeSnapshot>(),
        name::<kubevirt::VolumeSnapshotContent>(),
        name::<kubevirt::VirtualMachine>(),
        name::<kubevirt::VirtualMachinePool>(),
    ]
}

/// The definitions that the controller of images needs to know.
pub(crate) fn definitions() -> Vec<String> {
    required().into_iter().chain(used()).collect()
}

/// The UIDs of the definitions that exist; `None` if a required one is missing.
fn present(known: &Definitions) -> Option<Vec<Option<String>>> {
    required().iter().all(|name| known.uid(name).is_some()).then_some(())?;
    Some(definitions().iter().map(|name| known.uid(name).cloned()).collect())
}

fn served(known: &Definitions) -> Served {
    let is = |name: String| known.uid(&name).is_some();
    Served {
        importer: is(name::<kubevirt::DataVolume>()) && is(name::<kubevirt::DataSource>()),
        snapshots: is(name::<kubevirt::VolumeSnapshot>()) && is(name::<kubevirt::VolumeSnapshotContent>()),
        machines: is(name::<kubevirt::VirtualMachine>()),
        pools: is(name::<kubevirt::VirtualMachinePool>()),
    }
}

/// Reconciles images until `stop`, while the cluster has their definitions. If a definition appears, disappears or is
/// replaced, the caches are filled again.
pub(crate) async fn lead(shared: Shared, settings: ImageSettings, mut known: Known, stop: CancellationToken) {
    loop {
        let is_absent = known.borrow().as_ref().is_some_and(|known| present(known).is_none());
        if is_absent {
            shared.image_gate().close();
        }
        let is_there = |known: &Option<Definitions>| known.as_ref().and_then(present).is_some();
        let found = known.wait_for(is_there).boxed();
        let (definitions, serves) = match select(found, stop.cancelled().boxed()).await {
            Either::Left((Ok(known), _)) => match known.as_ref() {
                Some(known) => (present(known), served(known)),
                None => continue,
            },
            _ => return,
        };
        tracing::info!(?serves, "reconciling disk images");
        let turn = stop.child_token();
        let leading = reconcile_images(shared.clone(), settings.clone(), serves, turn.clone()).boxed();
        let is_other =
            |known: &Option<Definitions>| known.as_ref().is_some_and(|known| present(known) != definitions);
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

async fn reconcile_images(shared: Shared, settings: ImageSettings, serves: Served, stop: CancellationToken) {
    let limits = shared.settings();
    let namespace = shared.namespace().map(str::to_owned);
    let reconciles_wrappers = settings.wrappers;
    let store = Store::new(serves, namespace.is_none() && serves.snapshots, reconciles_wrappers);
    let env = shared.env().clone();
    let queue = || Queue::new(env.clone(), limits.debounce, shared.metrics().queue.clone());
    let queues = (queue(), queue());
    let parts = (env.clone(), shared.client().clone(), shared.writer().clone(), shared.events().clone());
    let context = Context::new(parts, namespace, settings, limits.request_deadline, queues, store)
        .with_metrics(shared.metrics().clone())
        .with_gate(shared.image_gate().clone());
    let context = Arc::new(context);
    let tasks = feed::begin(&context);
    let images: Weak<Context> = Arc::downgrade(&context);
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
    let mut workers: Vec<Task> = (0..limits.workers)
        .map(|_| env.spawn("worker of images", work(context.clone(), Subjects::Images, stop.clone())))
        .collect();
    if reconciles_wrappers {
        workers.extend((0..limits.workers).map(|_| {
            env.spawn("worker of wrappers", work(context.clone(), Subjects::Wrappers, stop.clone()))
        }));
    }
    oversee(workers, tasks, &stop).await;
}

/// What a worker reconciles.
#[derive(Clone, Copy, Debug)]
enum Subjects {
    Images,
    Wrappers,
}

impl Subjects {
    fn queue(self, context: &Context) -> &Queue<Key> {
        match self {
            Self::Images => &context.queue,
            Self::Wrappers => &context.wrappers,
        }
    }

    async fn reconcile(self, context: &Context, key: &Key) -> Requeue {
        match self {
            Self::Images => reconcile(context, key).await,
            Self::Wrappers => wrapper_pass::reconcile(context, key).await,
        }
    }
}

async fn work(context: Arc<Context>, subjects: Subjects, stop: CancellationToken) {
    let queue = subjects.queue(&context);
    while !context.is_synced() {
        let pause = context.env.sleep(Duration::from_millis(20));
        select(pause, std::pin::pin!(stop.cancelled())).await;
        if stop.is_cancelled() {
            return;
        }
    }
    loop {
        let next = std::pin::pin!(queue.next());
        let key = match select(next, std::pin::pin!(stop.cancelled())).await {
            Either::Left((key, _)) => key,
            Either::Right(_) => return,
        };
        let began = context.env.uptime();
        let pass = AssertUnwindSafe(subjects.reconcile(&context, &key)).catch_unwind();
        let again = pass.await.unwrap_or_else(|_| {
            tracing::error!(?subjects, object = %key, "a pass panicked; the controller repeats it later");
            Requeue::After(AFTER_PANIC)
        });
        let took = context.env.uptime().saturating_sub(began);
        tracing::debug!(?subjects, object = %key, ?took, "ended a pass");
        queue.done(&key, again, Duration::ZERO);
        if again == Requeue::Never {
            queue.forget(&key);
        }
        tokio::task::yield_now().await;
    }
}

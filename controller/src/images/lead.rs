//! The leadership of images: the watches and the workers, while the cluster serves the kinds of images.

use std::sync::{Arc, Weak};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImage, VmDiskImageGrant};
use vmpool_api::{ObjectKey, kubevirt};
use vmpool_kit::controller::{Controller, WorkerGroup, run_controller};
use vmpool_kit::definitions::{Definitions, DefinitionsObserver, definition_name};
use vmpool_kit::leadership::{ConditionalLeadership, lead_on_duty};
use vmpool_kit::passes::PassEnd;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;

use super::context::ImageContext;
use super::feed;
use super::grant_pass;
use super::pass::reconcile_image;
use super::permission_pass;
use super::settings::ImageSettings;
use super::store::Served;
use super::wrapper_pass;
use crate::leadership::LeadershipResources;

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
    known: DefinitionsObserver,
    stop: CancellationToken,
) {
    lead_on_duty(WhileImagesServed { shared, settings }, known, stop).await;
}

/// The leadership while the cluster has definitions of images.
struct WhileImagesServed {
    shared: LeadershipResources,
    settings: ImageSettings,
}

/// What the leader reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ImageDuty {
    /// The UIDs of the definitions.
    definitions: Vec<Option<String>>,
    serves: Served,
}

impl ConditionalLeadership for WhileImagesServed {
    type Observed = Option<Definitions>;
    type Duty = ImageDuty;

    fn find_duty(known: &Option<Definitions>) -> Option<ImageDuty> {
        let known = known.as_ref()?;
        let definitions = present_definition_uids(known)?;
        Some(ImageDuty { definitions, serves: served_image_kinds(known) })
    }

    fn idle(&mut self, known: &Option<Definitions>) {
        if known.is_some() {
            self.shared.image_gate().close();
        }
    }

    async fn lead(&mut self, duty: ImageDuty, stop: CancellationToken) {
        tracing::info!(serves = ?duty.serves, "reconciling disk images");
        reconcile_images(&self.shared, self.settings.clone(), duty.serves, stop).await;
    }

    fn duty_changed(&self) {
        tracing::info!("the definitions that disk images need have changed: the caches are filled again");
    }
}

async fn reconcile_images(
    shared: &LeadershipResources,
    settings: ImageSettings,
    serves: Served,
    stop: CancellationToken,
) {
    let context = Arc::new(ImageContext::new(shared, settings, serves));
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
    run_controller(context, shared.leader_health().workers(), Vec::new(), stop).await;
}

impl Controller for ImageContext {
    fn env(&self) -> &Env {
        &self.leader.env
    }

    fn is_synced(&self) -> bool {
        self.has_all_lists()
    }

    fn start_watches(self: &Arc<Self>) -> Vec<Task> {
        feed::start_image_watches(self)
    }

    fn worker_groups(&self) -> Vec<WorkerGroup<Self>> {
        let images = WorkerGroup::new(
            "worker of images",
            self.workers,
            |context: &Self| &context.queues.images,
            |context, key: &ObjectKey| reconcile_image(context, key).map(PassEnd::from).boxed(),
        );
        // Grants are few, and change rarely.
        let grants = WorkerGroup::new(
            "worker of grants",
            1,
            |context: &Self| &context.queues.grants,
            |context, key| grant_pass::reconcile_grant(context, key).map(PassEnd::from).boxed(),
        );
        let permissions = WorkerGroup::new(
            "worker of permissions",
            1,
            |context: &Self| &context.queues.permissions,
            |context, key| {
                permission_pass::reconcile_orphan_permission(context, key).map(PassEnd::from).boxed()
            },
        );
        let mut groups = vec![images, grants, permissions];
        if self.store.lock().wrapped.is_some() {
            groups.push(WorkerGroup::new(
                "worker of wrappers",
                self.workers,
                |context: &Self| &context.queues.wrappers,
                |context, key| wrapper_pass::reconcile_wrapper(context, key).map(PassEnd::from).boxed(),
            ));
        }
        groups
    }
}

//! The removal of the controller's finalizers, before vmpool is uninstalled: nothing would remove them later,
//! and pools and machines could not be deleted.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use vmpool_api::diskimage::finalizers::{GRANT_PROTECTION, IMAGE_PROTECTION};
use vmpool_api::diskimage::labels::IMAGE_UID;
use vmpool_api::diskimage::{VmDiskImage, VmDiskImageGrant};
use vmpool_diskimage::clone_permission;
use vmpool_diskimage::objects::owner_reference;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::watch::{WatchError, WatchScope, list_served};
use vmpool_platforms::instancetype::copies::{
    ClusterInstancetype, ClusterPreference, Instancetype, Preference,
};
use vmpool_platforms::instancetype::type_protection;
use vmpool_platforms::{ApiObject, Finalizers, OtherController, Platform, with_platform};
use vmpool_runtime::Env;
use vmpool_runtime::lease::LeaseConfig;

use crate::images::{ImageSnapshotKind, ImageSourceKind, ImageVolumeKind};
use crate::pools::release::{ReleasePatch, release_once};
use crate::pools::release_copies::UsedCopies;
use crate::process::options::PlatformName;

mod conditions;
mod preserve;

/// How often the objects are listed again, because an object changed meanwhile.
const ROUNDS: usize = 10;
/// Time between two such lists.
const PAUSE: Duration = Duration::from_secs(1);
/// How long no replica takes the lease back after this process has ended. In this time, the controller must
/// be removed.
const HOLD: i32 = 120;
/// The interval at which this process renews the lease while it removes finalizers: several attempts within
/// `HOLD`.
const RENEWAL: Duration = Duration::from_secs(30);
/// The most patches in flight.
const PATCHES: usize = 8;

/// Why finalizers remain.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// The lease cannot be taken from the leader.
    #[error("taking the lease, so that running controllers stop")]
    Lease(#[source] kube::Error),
    /// A controller leads again, so it may have restored finalizers.
    #[error(
        "{0} has taken the lease meanwhile, so finalizers can be there again; stop other processes that take it, and try again"
    )]
    Taken(String),
    /// The installation of another controller cannot be read.
    #[error("reading whether another controller serves the pools")]
    OtherController(#[source] kube::Error),
    /// Pools or machines cannot be read.
    #[error("{0}")]
    List(String),
    /// A patch was rejected.
    #[error("changing the finalizers or owners of an object")]
    Patch(#[source] kube::Error),
    /// The storage of a machine that is being deleted cannot be preserved.
    #[error("preserving the storage of a machine that is being deleted")]
    Storage(#[source] kube::Error),
    /// The status of pools changes all the time.
    #[error(
        "pools still have conditions that no controller keeps up to date, because their status changes all the time"
    )]
    Conditions,
    /// A status was not changed.
    #[error("removing conditions from the status of a pool")]
    Status(#[source] kube::Error),
    /// Copies of instance types change all the time.
    #[error(
        "pools still own copies of instance types that machines use, because the objects change all the time"
    )]
    Copies,
    /// Objects change all the time.
    #[error("{0} finalizers remain, because the objects change all the time")]
    Remain(usize),
}

impl From<WatchError> for UninstallError {
    fn from(error: WatchError) -> Self {
        Self::List(vmpool_runtime::telemetry::with_causes(&error))
    }
}

impl From<preserve::PreserveError> for UninstallError {
    fn from(failure: preserve::PreserveError) -> Self {
        match failure {
            preserve::PreserveError::List(error) => error.into(),
            preserve::PreserveError::Write(error) => Self::Storage(error),
        }
    }
}

impl From<conditions::RemoveConditionsError> for UninstallError {
    fn from(failure: conditions::RemoveConditionsError) -> Self {
        match failure {
            conditions::RemoveConditionsError::List(error) => error.into(),
            conditions::RemoveConditionsError::Write(error) => Self::Status(error),
            conditions::RemoveConditionsError::Changing => Self::Conditions,
        }
    }
}

/// The objects that lose the finalizers of the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinalizerScope<'a> {
    /// Their namespace; `None` for all namespaces.
    pub(crate) namespace: Option<&'a str>,
    /// The platforms of the pools and machines.
    pub(crate) platforms: &'a [PlatformName],
    /// Whether disk images and grants are among them.
    pub(crate) images: bool,
    /// Whether instance types and preferences of KubeVirt are among them.
    pub(crate) types: bool,
}

/// Takes the lease from the leader, waits until it has stopped, and removes the finalizers of the controller
/// from all objects of `scope`. Returns their number. Pools lose their conditions in the meaning of kstatus,
/// which no controller would keep up to date. Machines become the owners of the copies of instance
/// types that they use. No replica leads meanwhile, and for two minutes afterwards.
///
/// # Errors
/// The first request that fails. It is safe to try again.
pub(crate) async fn remove_finalizers(
    client: &Client,
    env: &Env,
    lease: &LeaseConfig,
    scope: FinalizerScope<'_>,
) -> Result<usize, UninstallError> {
    take_lease(client, env, lease).await?;
    let work = async {
        env.sleep(lease.duration).await;
        remove_all_finalizers(client, env, scope).await
    };
    let removed = match select(pin!(work), pin!(keep_lease_renewed(client, env, lease))).await {
        Either::Left((removed, _)) => removed?,
        Either::Right((error, _)) => return Err(error),
    };
    // The time in which the controller must be removed begins now.
    renew_held_lease(client, env, lease).await?;
    Ok(removed)
}

async fn remove_all_finalizers(
    client: &Client,
    env: &Env,
    scope: FinalizerScope<'_>,
) -> Result<usize, UninstallError> {
    let FinalizerScope { namespace, platforms, images, types } = scope;
    let mut removed = 0;
    for name in PlatformName::ALL.into_iter().filter(|name| platforms.contains(name)) {
        removed += with_platform!(name, P => remove_platform_finalizers::<P>(client, env, namespace).await?);
    }
    if images {
        removed += remove_image_finalizers(client, env, namespace).await?;
    }
    if types && platforms.contains(&PlatformName::Kubevirt) {
        removed += remove_type_finalizers::<Instancetype>(client, env, namespace).await?;
        removed += remove_type_finalizers::<ClusterInstancetype>(client, env, None).await?;
        removed += remove_type_finalizers::<Preference>(client, env, namespace).await?;
        removed += remove_type_finalizers::<ClusterPreference>(client, env, None).await?;
    }
    Ok(removed)
}

/// Makes this process the holder of the lease. The leader stops when it sees that.
async fn take_lease(client: &Client, env: &Env, lease: &LeaseConfig) -> Result<(), UninstallError> {
    write_lease_holder(client, env, lease, |_| Ok(())).await
}

/// Renews the lease, if this process still holds it.
async fn renew_held_lease(client: &Client, env: &Env, lease: &LeaseConfig) -> Result<(), UninstallError> {
    let is_ours = |holder: &str| {
        if holder == lease.identity { Ok(()) } else { Err(UninstallError::Taken(holder.to_owned())) }
    };
    write_lease_holder(client, env, lease, is_ours).await
}

/// Renews the lease again and again. Ends when another process holds it.
async fn keep_lease_renewed(client: &Client, env: &Env, lease: &LeaseConfig) -> UninstallError {
    loop {
        env.sleep(RENEWAL).await;
        match renew_held_lease(client, env, lease).await {
            Err(error @ UninstallError::Taken(_)) => return error,
            Err(error) => tracing::warn!(%error, "the lease was not renewed"),
            Ok(()) => {}
        }
    }
}

/// Writes this process into the lease, unless `check` refuses the process that holds it.
async fn write_lease_holder(
    client: &Client,
    env: &Env,
    lease: &LeaseConfig,
    check: impl Fn(&str) -> Result<(), UninstallError>,
) -> Result<(), UninstallError> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
    loop {
        let found = leases.get_opt(&lease.name).await.map_err(UninstallError::Lease)?;
        let is_new = found.is_none();
        let holder = found.as_ref().and_then(|found| found.spec.as_ref()?.holder_identity.as_deref());
        check(holder.unwrap_or_default())?;
        let mut object = found.unwrap_or_default();
        object.metadata.name = Some(lease.name.clone());
        let spec = object.spec.get_or_insert_default();
        spec.holder_identity = Some(lease.identity.clone());
        spec.lease_duration_seconds = Some(HOLD);
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + 1);
        // The API server stores whole microseconds.
        spec.renew_time = Some(MicroTime(env.now().round(jiff::Unit::Microsecond).unwrap_or_default()));
        spec.acquire_time.clone_from(&spec.renew_time);
        let written = if is_new {
            leases.create(&PostParams::default(), &object).await
        } else {
            leases.replace(&lease.name, &PostParams::default(), &object).await
        };
        match written {
            Ok(_) => return Ok(()),
            // The leader has renewed it meanwhile.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(UninstallError::Lease(error)),
        }
    }
}

async fn remove_platform_finalizers<P: Platform>(
    client: &Client,
    env: &Env,
    namespace: Option<&str>,
) -> Result<usize, UninstallError> {
    release_copies_to_machines::<P>(client, env, namespace).await?;
    let rounds = conditions::ListRounds { count: ROUNDS, pause: PAUSE };
    conditions::remove_kstatus_conditions::<P>(client, env, namespace, rounds).await?;
    if P::OtherController::EXISTS && other_may_run::<P>(client).await? {
        tracing::info!(platform = P::NAME, "another controller serves the pools and needs the finalizers");
        return Ok(0);
    }
    let (pools, machines) = (api_for_namespace(client, namespace), api_for_namespace(client, namespace));
    let (mut removed, mut left) = (0, 0);
    for _ in 0..ROUNDS {
        let of_pools =
            patch_listed_objects::<P::Pool>(client, &pools, P::Finalizers::remove_from_pool).await?;
        let preserved = preserve::preserve_terminating_storage::<P>(client, namespace).await?;
        let mut waiting = 0;
        let of_machines = patch_listed_objects::<P::Machine>(client, &machines, |machine| {
            let patch = P::Finalizers::remove(machine)?;
            let waits = !preserved.may_release(machine.meta());
            waiting += usize::from(waits);
            (!waits).then_some(patch)
        });
        let of_machines = of_machines.await?;
        removed += of_pools.0 + of_machines.0;
        left = of_pools.1 + of_machines.1 + waiting;
        if left == 0 {
            return Ok(removed);
        }
        env.sleep(PAUSE).await;
    }
    Err(UninstallError::Remain(left))
}

/// Releases the pins to the machines that use them. Another controller may reconcile the pools later, and
/// delete them.
async fn release_copies_to_machines<P: Platform>(
    client: &Client,
    env: &Env,
    namespace: Option<&str>,
) -> Result<(), UninstallError> {
    let send = |ReleasePatch { namespace, name, patch }: ReleasePatch| async move {
        let revisions: Api<ControllerRevision> = Api::namespaced(client.clone(), &namespace);
        match revisions.patch_metadata(&name, &PatchParams::default(), &Patch::<()>::Json(patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if [404, 409, 422].contains(&status.code) => Ok(()),
            Err(error) => Err(UninstallError::Patch(error)),
        }
    };
    for _ in 0..ROUNDS {
        if release_once::<UsedCopies<P>, UninstallError, _>(client, namespace, send).await? == 0 {
            return Ok(());
        }
        env.sleep(PAUSE).await;
    }
    Err(UninstallError::Copies)
}

/// Removes the finalizers of all disk images and grants, and makes images the owners of their data and of the
/// permissions to clone them: the garbage collector then deletes these with an image that is deleted later.
/// An image that is being deleted is gone without its finalizer, although machines may use it. So its data
/// gets no owner, and stays. The permission goes, because no controller would withdraw it later.
async fn remove_image_finalizers(
    client: &Client,
    env: &Env,
    namespace: Option<&str>,
) -> Result<usize, UninstallError> {
    let (mut owners, mut all) = (Owners::default(), Owners::default());
    let images: Api<VmDiskImage> = api_for_namespace(client, namespace);
    let listed = list_served(&images, WatchScope::default(), |image: VmDiskImage| {
        all.add(&image);
        if image.metadata.deletion_timestamp.is_none() {
            owners.add(&image);
        }
    });
    if !listed.await? {
        return Ok(0);
    }
    patch_until_unchanged::<ImageVolumeKind>(client, env, namespace, |object| {
        data_owner_patch(object, &owners)
    })
    .await?;
    patch_until_unchanged::<ImageSnapshotKind>(client, env, namespace, |object| {
        data_owner_patch(object, &owners)
    })
    .await?;
    patch_until_unchanged::<ImageSourceKind>(client, env, namespace, |object| {
        data_owner_patch(object, &owners)
    })
    .await?;
    patch_until_unchanged::<RoleBinding>(client, env, namespace, |object| {
        permission_owner_patch(object, &all)
    })
    .await?;
    patch_until_unchanged::<Role>(client, env, namespace, |object| permission_owner_patch(object, &all))
        .await?;
    let of_grants = patch_until_unchanged(client, env, namespace, |grant: &VmDiskImageGrant| {
        finalizer_removal_patch(grant.metadata.finalizers.as_deref(), GRANT_PROTECTION)
    });
    let of_images = patch_until_unchanged(client, env, namespace, |image: &VmDiskImage| {
        finalizer_removal_patch(image.metadata.finalizers.as_deref(), IMAGE_PROTECTION)
    });
    Ok(of_images.await? + of_grants.await?)
}

/// Removes the finalizer of all instance types or preferences of a kind.
async fn remove_type_finalizers<K: ApiObject>(
    client: &Client,
    env: &Env,
    namespace: Option<&str>,
) -> Result<usize, UninstallError> {
    let remove = |object: &K| {
        type_protection::finalizer_removal_json_patch(object.meta().finalizers.as_deref().unwrap_or_default())
    };
    patch_until_unchanged(client, env, namespace, remove).await
}

async fn patch_until_unchanged<K: ApiObject>(
    client: &Client,
    env: &Env,
    namespace: Option<&str>,
    remove: impl Fn(&K) -> Option<Value>,
) -> Result<usize, UninstallError> {
    let all = api_for_namespace(client, namespace);
    let (mut removed, mut left) = (0, 0);
    for _ in 0..ROUNDS {
        let swept = patch_listed_objects(client, &all, &remove).await?;
        removed += swept.0;
        left = swept.1;
        if left == 0 {
            return Ok(removed);
        }
        env.sleep(PAUSE).await;
    }
    Err(UninstallError::Remain(left))
}

/// An image that is to own objects.
struct Owner {
    name: String,
    reference: Value,
}

/// Images, and what belongs to them.
#[derive(Default)]
struct Owners {
    /// By namespace and UID.
    images: BTreeMap<(String, String), Owner>,
    /// The UIDs of images, by the namespace of both and the UIDs of the objects in their status. A user or a
    /// tool may have removed the label of such an object.
    recorded: BTreeMap<(String, String), String>,
}

impl Owners {
    fn add(&mut self, image: &VmDiskImage) {
        let metadata = &image.metadata;
        let uid = metadata.uid.clone().unwrap_or_default();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let backing = image.status.iter().flat_map(|status| {
            let volume = status.data_volume.as_ref().map(|one| &one.uid);
            let snapshot = status.snapshot.as_ref().map(|one| &one.uid);
            let source = status.data_source.as_ref().map(|one| &one.uid);
            [volume, snapshot, source].into_iter().flatten()
        });
        self.recorded.extend(backing.map(|object| ((namespace.clone(), object.clone()), uid.clone())));
        let owner =
            Owner { name: metadata.name.clone().unwrap_or_default(), reference: owner_reference(image) };
        self.images.insert((namespace, uid), owner);
    }

    /// UID and image of the label, or else of the status that records the object. The image is in the
    /// namespace of the object.
    fn of<K: ApiObject>(&self, object: &K) -> Option<(&str, &Owner)> {
        let metadata = object.meta();
        let place = |uid: &String| (metadata.namespace.clone().unwrap_or_default(), uid.clone());
        let labeled = metadata.labels.as_ref().and_then(|labels| labels.get(IMAGE_UID));
        let recorded = metadata.uid.as_ref().and_then(|uid| self.recorded.get(&place(uid)));
        let mut found = [labeled, recorded].into_iter().flatten();
        let image = found.find_map(|uid| self.images.get_key_value(&place(uid)));
        image.map(|((_, uid), image)| (uid.as_str(), image))
    }
}

/// A JSON patch that makes the image the owner of an object with its data.
fn data_owner_patch<K: ApiObject>(object: &K, owners: &Owners) -> Option<Value> {
    object_owner_patch(object, owners, |_, image| image.name.clone())
}

/// A JSON patch that makes the image the owner of a permission to clone it.
fn permission_owner_patch<K: ApiObject>(object: &K, owners: &Owners) -> Option<Value> {
    object_owner_patch(object, owners, |uid, _| clone_permission::clone_permission_name(uid))
}

/// A JSON patch that makes the image the owner of an object that belongs to it and has this name, and fails
/// if the object has changed. The garbage collector would delete an object of another namespace at once,
/// because its owner would not be there.
fn object_owner_patch<K: ApiObject>(
    object: &K,
    owners: &Owners,
    name: impl Fn(&str, &Owner) -> String,
) -> Option<Value> {
    let metadata = object.meta();
    let (uid, image) = owners.of(object)?;
    let has_name = metadata.name.as_ref() == Some(&name(uid, image));
    if !has_name || metadata.owner_references.as_ref().is_some_and(|all| !all.is_empty()) {
        return None;
    }
    Some(json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version },
        { "op": "add", "path": "/metadata/ownerReferences", "value": [image.reference] },
    ]))
}

/// A JSON patch that removes the finalizer, and fails if the finalizers have changed.
fn finalizer_removal_patch(finalizers: Option<&[String]>, name: &str) -> Option<Value> {
    let index = finalizers?.iter().position(|finalizer| finalizer == name)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(json!([
        { "op": "test", "path": path, "value": name },
        { "op": "remove", "path": path },
    ]))
}

/// Whether another controller may serve the pools.
async fn other_may_run<P: Platform>(client: &Client) -> Result<bool, UninstallError> {
    let installations = Api::all(client.clone()).list(&ListParams::default()).await;
    match installations {
        Ok(list) => Ok(P::OtherController::blocker(&list.items).is_some()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(UninstallError::OtherController(error)),
    }
}

/// Removes the finalizers of all objects. Returns how many were removed, and how many objects changed
/// meanwhile.
async fn patch_listed_objects<K: ApiObject>(
    client: &Client,
    all: &Api<K>,
    mut remove: impl FnMut(&K) -> Option<Value>,
) -> Result<(usize, usize), UninstallError> {
    let mut patches = Vec::new();
    list_served(all, WatchScope::default(), |object: K| {
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let name = object.meta().name.clone().unwrap_or_default();
        patches.extend(remove(&object).map(|patch| (namespace, name, patch)));
    })
    .await?;
    let (mut removed, mut changed) = (0, 0);
    let send = |(namespace, name, patch): (String, String, Value)| async move {
        let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
        let api: Api<K> = api_for_namespace(client, (!namespace.is_empty()).then_some(&*namespace));
        api.patch_metadata(&name, &PatchParams::default(), &Patch::<()>::Json(patch)).await
    };
    let mut results = stream::iter(patches).map(send).buffer_unordered(PATCHES);
    while let Some(result) = results.next().await {
        match result {
            Ok(_) => removed += 1,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            // A test in the patch failed: the object changed.
            Err(kube::Error::Api(status)) if [409, 422].contains(&status.code) => changed += 1,
            Err(error) => return Err(UninstallError::Patch(error)),
        }
    }
    Ok((removed, changed))
}

#[cfg(test)]
mod tests;

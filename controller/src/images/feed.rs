//! The watches that keep the store up to date.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImage, VmDiskImageGrant, labels};
use vmpool_api::kubevirt;
use vmpool_diskimage::model::{ObjectKey, ReferrerKind};
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::sink::{Sink, WatchChange, Watched};
use vmpool_kit::watch::{WatchScope, list_and_watch};
use vmpool_platforms::ApiObject;
use vmpool_runtime::env::Task;

use super::context::ImageContext;
use super::kinds::UntypedObject;
use super::store::{Changed, ImageStore, ObservationTime, Served};
use super::table::{ObjectOrigin, VersionedTable, metadata_version, object_key};

/// How the objects of one kind get into the store.
struct Feed<K> {
    begins: fn(&mut ImageStore),
    set: fn(&mut ImageStore, K, ObservationTime) -> Changed,
    /// The object was deleted.
    unset: fn(&mut ImageStore, &K) -> Changed,
    /// The objects that a complete list must contain.
    expected: fn(&ImageStore) -> Vec<ObjectKey>,
    /// A complete list lacks the object.
    missing: fn(&mut ImageStore, &ObjectKey) -> Changed,
}

struct StoreSink<K> {
    context: Arc<ImageContext>,
    feed: Feed<K>,
    listed: BTreeSet<ObjectKey>,
    is_synced: bool,
}

impl<K: Watched> Sink<K> for StoreSink<K> {
    fn list_begins(&mut self) {
        self.listed.clear();
        (self.feed.begins)(&mut self.context.store.lock());
    }

    fn listed(&mut self, object: K) {
        self.listed.insert(object_key(object.meta()));
        self.context.update(|store, now| (self.feed.set)(store, object, now));
    }

    fn list_ends(&mut self) {
        self.context.update(|store, _| {
            let mut changed = Changed::new();
            for key in (self.feed.expected)(store) {
                if !self.listed.contains(&key) {
                    changed.extend((self.feed.missing)(store, &key));
                }
            }
            changed
        });
        self.listed.clear();
        if !std::mem::replace(&mut self.is_synced, true) {
            self.context.list_ended();
        }
    }

    fn changed(&mut self, change: WatchChange<K>) {
        self.context.update(|store, now| match change {
            WatchChange::Applied(object) => (self.feed.set)(store, object, now),
            WatchChange::Deleted(object) => (self.feed.unset)(store, &object),
        });
    }
}

/// A kind whose objects are in a table of the store.
macro_rules! table {
    ($table:ident, $set:expr) => {
        Feed {
            begins: |store| store.$table.list_begins(),
            set: $set,
            unset: |store, object| {
                let key = object_key(object.meta());
                let gone = store.$table.deleted(&key, metadata_version(object.meta()));
                gone.map(|_| key).into_iter().collect()
            },
            expected: |store| store.$table.expected(),
            missing: |store, key| store.$table.missing(key).map(|_| key.clone()).into_iter().collect(),
        }
    };
}

/// A kind whose objects may refer to images.
macro_rules! referrers {
    ($kind:expr, $set:expr) => {
        Feed {
            begins: |_| {},
            set: $set,
            unset: |store, object| {
                store.unset_referrer($kind, &object_key(object.meta()), Some(metadata_version(object.meta())))
            },
            expected: |store| store.referrers($kind),
            missing: |store, key| store.unset_referrer($kind, key, None),
        }
    };
}

/// A kind whose objects give a permission to clone.
macro_rules! permissions {
    ($table:ident) => {
        Feed {
            begins: |store| store.$table.list_begins(),
            set: |store, object, _| {
                let object = Arc::new(object);
                let set = store.$table.set(
                    object_key(&object.metadata),
                    metadata_version(&object.metadata),
                    object.clone(),
                );
                if set.is_ok() { store.touch_permission(&*object) } else { Changed::new() }
            },
            unset: |store, object| {
                store.$table.deleted(&object_key(&object.metadata), metadata_version(&object.metadata));
                store.image_of(object)
            },
            expected: |store| store.$table.expected(),
            missing: |store, key| {
                store.$table.missing(key).map(|object| store.image_of(&*object)).unwrap_or_default()
            },
        }
    };
}

/// Starts the watches of the kinds that the cluster serves.
pub(super) fn start_image_watches(context: &Arc<ImageContext>) -> Vec<Task> {
    let served = context.store.lock().served;
    let mut watches = Watches { context, tasks: Vec::new() };
    if served.images {
        watches.of_images();
    }
    watches.namespaced::<PersistentVolumeClaim>(
        "watch of claims",
        WatchScope::default(),
        Feed {
            unset: |store, claim: &PersistentVolumeClaim| {
                let key = object_key(claim.meta());
                let gone = store.claims.deleted(&key, metadata_version(claim.meta()));
                store.touch_disk(&key);
                gone.map(|_| key).into_iter().collect()
            },
            missing: |store, key| {
                let gone = store.claims.missing(key);
                store.touch_disk(key);
                gone.map(|_| key.clone()).into_iter().collect()
            },
            ..table!(claims, |store, claim, _| store.set_claim(&claim))
        },
    );
    if served.wrappers {
        watches.of_wrappers();
    }
    if served.grants {
        watches.of_grants();
    }
    let permissions = WatchScope { label: Some(labels::IMAGE_UID), ..WatchScope::default() };
    watches.namespaced::<Role>("watch of roles", permissions, permissions!(roles));
    watches.namespaced::<RoleBinding>("watch of role bindings", permissions, permissions!(bindings));
    watches.of_data(served);
    watches.of_referrers(served);
    if context.leader.namespace.is_none() {
        watches.of_cluster(served.snapshots);
    }
    watches.tasks
}

struct Watches<'c> {
    context: &'c Arc<ImageContext>,
    tasks: Vec<Task>,
}

impl Watches<'_> {
    /// The images.
    fn of_images(&mut self) {
        self.namespaced::<VmDiskImage>(
            "watch of images",
            WatchScope::default(),
            Feed {
                begins: |store| store.images.list_begins(),
                set: |store, image, _| store.set_image(image, ObjectOrigin::Watched),
                unset: |store, image| {
                    store.unset_image(&object_key(image.meta()), Some(metadata_version(image.meta())))
                },
                expected: |store| store.images.expected(),
                missing: |store, key| store.unset_image(key, None),
            },
        );
    }

    /// The wrappers.
    fn of_wrappers(&mut self) {
        self.namespaced::<Wrapper>(
            "watch of wrappers",
            WatchScope::default(),
            Feed {
                begins: |store| {
                    if let Some(wrapped) = &mut store.wrapped {
                        wrapped.wrappers.list_begins();
                    }
                },
                set: |store, wrapper, _| store.set_wrapper(wrapper, ObjectOrigin::Watched),
                unset: |store, wrapper| {
                    let (key, version) = (object_key(wrapper.meta()), metadata_version(wrapper.meta()));
                    store.unset_referrer(ReferrerKind::Wrapper, &key, Some(version))
                },
                expected: |store| store.referrers(ReferrerKind::Wrapper),
                missing: |store, key| store.unset_referrer(ReferrerKind::Wrapper, key, None),
            },
        );
    }

    /// The grants.
    fn of_grants(&mut self) {
        self.namespaced::<VmDiskImageGrant>(
            "watch of grants",
            WatchScope::default(),
            Feed {
                begins: |store| store.grants_list_begins(),
                set: |store, grant, _| store.set_grant(grant, ObjectOrigin::Watched),
                unset: |store, grant| {
                    store.unset_grant(&object_key(grant.meta()), Some(metadata_version(grant.meta())))
                },
                expected: ImageStore::grants,
                missing: |store, key| store.unset_grant(key, None),
            },
        );
    }

    /// The objects with the data of images.
    fn of_data(&mut self, served: Served) {
        if served.importer {
            self.namespaced::<kubevirt::DataVolume>(
                "watch of imports",
                WatchScope::default(),
                Feed {
                    begins: |store| store.volumes.list_begins(),
                    set: |store, volume, now| store.set_volume(&volume, now, ObjectOrigin::Watched),
                    unset: |store, volume| {
                        let (key, version) = (object_key(volume.meta()), metadata_version(volume.meta()));
                        let mut changed = store.unset_referrer(ReferrerKind::DataVolume, &key, Some(version));
                        let gone = store.volumes.deleted(&key, version);
                        store.touch_disk(&key);
                        changed.extend(gone.map(|_| key));
                        changed
                    },
                    expected: |store| store.volumes.expected(),
                    missing: |store, key| {
                        let mut changed = store.unset_referrer(ReferrerKind::DataVolume, key, None);
                        changed.extend(store.volumes.missing(key).map(|_| key.clone()));
                        store.touch_disk(key);
                        changed
                    },
                },
            );
            self.namespaced::<kubevirt::DataSource>(
                "watch of sources",
                WatchScope::default(),
                Feed {
                    unset: |store, source: &kubevirt::DataSource| {
                        store.unset_source(&object_key(source.meta()), Some(metadata_version(source.meta())))
                    },
                    missing: |store, key| store.unset_source(key, None),
                    ..table!(sources, |store, source, _| store.set_source(&source, ObjectOrigin::Watched))
                },
            );
        }
        if served.snapshots {
            self.namespaced::<kubevirt::VolumeSnapshot>(
                "watch of snapshots",
                WatchScope::default(),
                table!(snapshots, |store, snapshot, now| store.set_snapshot(
                    &snapshot,
                    now,
                    ObjectOrigin::Watched
                )),
            );
        }
    }

    fn namespaced<K: ApiObject>(&mut self, task: &'static str, scope: WatchScope, feed: Feed<K>) {
        let api =
            api_for_namespace::<K>(&self.context.leader.client, self.context.leader.namespace.as_deref());
        self.follow(task, api, scope, feed);
    }

    /// The kinds that can refer to images, but for wrappers and DataVolumes.
    fn of_referrers(&mut self, served: Served) {
        if served.machines {
            self.namespaced::<UntypedObject<kubevirt::VirtualMachine>>(
                "watch of machines that use images",
                WatchScope::default(),
                referrers!(ReferrerKind::Machine, |store, machine, _| store
                    .set_machine(&machine, ObjectOrigin::Watched)),
            );
        }
        if served.pools {
            self.namespaced::<UntypedObject<kubevirt::VirtualMachinePool>>(
                "watch of pools that use images",
                WatchScope::default(),
                referrers!(ReferrerKind::Pool, |store, pool, _| store.set_pool(&pool)),
            );
            self.namespaced::<UntypedObject<ControllerRevision>>(
                "watch of revisions that use images",
                WatchScope::default(),
                Feed {
                    begins: |_| {},
                    set: |store, revision, _| store.set_revision(&revision),
                    unset: |store, revision| {
                        store.unset_revision(
                            &object_key(revision.meta()),
                            Some(metadata_version(revision.meta())),
                        )
                    },
                    expected: ImageStore::revisions,
                    missing: |store, key| store.unset_revision(key, None),
                },
            );
        }
    }

    /// The kinds without a namespace. A controller of one namespace has no right to read them.
    fn of_cluster(&mut self, snapshots: bool) {
        let client = self.context.leader.client.clone();
        let metadata = WatchScope { metadata_only: true, ..WatchScope::default() };
        self.follow(
            "watch of namespaces",
            Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
            metadata,
            Feed {
                begins: |_| {},
                set: |store, namespace, _| store.set_namespace(&namespace, true),
                unset: |store, namespace| store.set_namespace(namespace, false),
                expected: ImageStore::namespaces,
                missing: |store, key| store.unset_namespace(key),
            },
        );
        if snapshots {
            let contents = Api::<UntypedObject<kubevirt::VolumeSnapshotContent>>::all(client);
            self.follow(
                "watch of snapshot contents",
                contents,
                WatchScope::default(),
                Feed {
                    begins: |_| {},
                    set: |store, content, _| store.set_content(&content, true),
                    unset: |store, content| store.set_content(content, false),
                    expected: |store| {
                        store.contents.as_ref().map(VersionedTable::expected).unwrap_or_default()
                    },
                    missing: |store, key| {
                        // Which snapshot had it is not known anymore.
                        let gone = store.contents.as_mut().and_then(|contents| contents.missing(key));
                        gone.map(|()| store.all()).unwrap_or_default()
                    },
                },
            );
        }
    }

    fn follow<K: Watched>(&mut self, task: &'static str, api: Api<K>, scope: WatchScope, feed: Feed<K>) {
        let context = self.context;
        context.list_expected();
        let sink = StoreSink { context: context.clone(), feed, listed: BTreeSet::new(), is_synced: false };
        self.tasks.push(
            context.leader.env.spawn(task, list_and_watch::<K>(api, context.leader.env.clone(), scope, sink)),
        );
    }
}

//! The objects that refer to images, and what permits references from other namespaces.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use vmpool_api::diskimage::labels::WRAPPER_UID;
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImageGrant};
use vmpool_api::kubevirt;
use vmpool_diskimage::grants::Grant;
use vmpool_diskimage::model::{ObjectKey, ReferrerKind};
use vmpool_diskimage::read::{self, referrer};
use vmpool_diskimage::references::Referrer;

use super::super::kinds::UntypedObject;
use super::super::table::{self, VersionedTable, metadata_version, object_key};
use super::{Changed, ImageStore};

impl ImageStore {
    pub(crate) fn set_wrapper(&mut self, object: Wrapper, origin: table::ObjectOrigin) -> Changed {
        let (key, version) = (object_key(&object.metadata), metadata_version(&object.metadata));
        let referrer = referrer::read_wrapper_referrer(&object);
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.set(origin, key, version, Arc::new(object));
        }
        self.set_referrer(version, referrer)
    }

    pub(crate) fn set_machine(
        &mut self,
        object: &UntypedObject<kubevirt::VirtualMachine>,
        origin: table::ObjectOrigin,
    ) -> Changed {
        if let Some(wrapped) = &mut self.wrapped {
            let metadata = &object.metadata;
            let labels = metadata.labels.as_ref();
            let is_labeled = labels.is_some_and(|labels| labels.contains_key(WRAPPER_UID));
            let machine = read::wrapper::read_wrapper_machine(metadata, &object.spec, &object.status);
            wrapped.set_machine(
                origin,
                object_key(metadata),
                metadata_version(metadata),
                is_labeled,
                machine,
            );
        }
        self.set_referrer(
            metadata_version(&object.metadata),
            referrer::read_machine_referrer(&object.metadata, &object.spec),
        )
    }

    pub(crate) fn set_pool(&mut self, object: &UntypedObject<kubevirt::VirtualMachinePool>) -> Changed {
        self.set_referrer(
            metadata_version(&object.metadata),
            referrer::read_pool_referrer(&object.metadata, &object.spec),
        )
    }

    /// Only objects that name an image are in the index.
    pub(super) fn set_referrer(&mut self, version: u64, referrer: Referrer) -> Changed {
        let table = self.referrers.entry(referrer.kind).or_default();
        match table.set(referrer.key.clone(), version, referrer.uid.clone()) {
            Err(_older) => Changed::new(),
            Ok(former) => self.replace(former, referrer),
        }
    }

    fn replace(&mut self, former: Option<String>, referrer: Referrer) -> Changed {
        let mut affected = Changed::new();
        if let Some(former) = former.filter(|former| *former != referrer.uid) {
            affected.extend(self.index.remove(&former));
        }
        let names_images = !referrer.images.is_empty() || referrer.mark.is_some();
        affected.extend(if names_images {
            self.index.update(referrer)
        } else {
            self.index.remove(&referrer.uid)
        });
        affected
    }

    /// Objects of other controllers are ignored.
    pub(crate) fn set_revision(&mut self, object: &UntypedObject<ControllerRevision>) -> Changed {
        let Some(referrer) = referrer::read_revision_referrer(&object.metadata, &object.data) else {
            return Changed::new();
        };
        let set = self.revisions.set(
            object_key(&object.metadata),
            metadata_version(&object.metadata),
            referrer.uid.clone(),
        );
        match set {
            Err(_older) => Changed::new(),
            Ok(former) => self.replace(former, referrer),
        }
    }

    pub(crate) fn unset_revision(&mut self, key: &ObjectKey, version: Option<u64>) -> Changed {
        self.revisions.remove(key, version).map(|uid| self.index.remove(&uid)).unwrap_or_default()
    }

    pub(crate) fn revisions(&self) -> Vec<ObjectKey> {
        self.revisions.expected()
    }

    /// An object that may refer to images is gone: deleted at this version, or missing in a list.
    pub(crate) fn unset_referrer(
        &mut self,
        kind: ReferrerKind,
        key: &ObjectKey,
        version: Option<u64>,
    ) -> Changed {
        if let Some(wrapped) = &mut self.wrapped {
            match kind {
                ReferrerKind::Wrapper => wrapped.unset(key, version),
                ReferrerKind::Machine => wrapped.unset_machine(key, version),
                ReferrerKind::DataVolume => wrapped.unset_disk(key, version),
                ReferrerKind::Pool => {}
            }
        }
        let Some(table) = self.referrers.get_mut(&kind) else { return Changed::new() };
        table.remove(key, version).map(|uid| self.index.remove(&uid)).unwrap_or_default()
    }

    /// The referrers of a kind that a complete list must contain.
    pub(crate) fn referrers(&self, kind: ReferrerKind) -> Vec<ObjectKey> {
        self.referrers.get(&kind).map(VersionedTable::expected).unwrap_or_default()
    }

    pub(crate) fn set_grant(&mut self, object: VmDiskImageGrant, origin: table::ObjectOrigin) -> Changed {
        let (key, version) = (object_key(&object.metadata), metadata_version(&object.metadata));
        let grant = read::read_grant(&object);
        match self.grants.put(origin, key.clone(), version, (grant.clone(), Arc::new(object))) {
            Err(_older) => Changed::new(),
            Ok(former) => {
                self.touched_grants.insert(key.clone());
                // The finalizer alone permits nothing.
                let permits_the_same = former.is_some_and(|(former, _)| former.permits_as(&grant));
                if permits_the_same { Changed::new() } else { self.grants_changed(&key.namespace) }
            }
        }
    }

    pub(crate) fn unset_grant(&mut self, key: &ObjectKey, version: Option<u64>) -> Changed {
        if self.grants.remove(key, version).is_some() {
            self.grants_changed(&key.namespace)
        } else {
            Changed::new()
        }
    }

    pub(crate) fn grants(&self) -> Vec<ObjectKey> {
        self.grants.expected()
    }

    pub(crate) fn grants_list_begins(&mut self) {
        self.grants.list_begins();
    }

    /// A grant, as stored.
    pub(crate) fn grant(&self, key: &ObjectKey) -> Option<Arc<VmDiskImageGrant>> {
        self.grants.get(key).map(|(_, object)| object.clone())
    }

    /// The grants of a namespace that are in effect.
    pub(super) fn grants_of(&self, namespace: &str) -> Vec<Grant> {
        let terminating = self.terminating.get(namespace).copied();
        let all = self.grants.of_namespace(namespace).map(|(_, (grant, _))| grant);
        all.filter(|grant| grant.is_in_effect(terminating)).cloned().collect()
    }

    /// Whether a namespace is being deleted, so that the API server refuses new objects in it.
    pub(crate) fn is_terminating(&self, namespace: &str) -> bool {
        self.terminating.contains_key(namespace)
    }

    /// A change concerns the grants of a namespace.
    pub(super) fn touch_grants(&mut self, namespace: &str) {
        let all = self.grants.of_namespace(namespace).map(|(key, _)| key.clone());
        self.touched_grants.extend(all);
    }

    fn grants_changed(&mut self, namespace: &str) -> Changed {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.touch_of_other_namespaces(Some(namespace));
        }
        self.images.of_namespace(namespace).map(|(key, _)| key.clone()).collect()
    }

    /// Labels decide which namespaces a grant means, so a change of them may concern every image. The
    /// deletion of a namespace concerns its grants.
    pub(crate) fn set_namespace(&mut self, object: &PartialObjectMeta<Namespace>, exists: bool) -> Changed {
        let name = object.metadata.name.clone().unwrap_or_default();
        let deleted = read::deletion_time(&object.metadata).filter(|_| exists);
        let mut changed = self.set_terminating(&name, deleted);
        let labels = object.metadata.labels.clone().filter(|_| exists);
        let before = match &labels {
            Some(labels) => self.labels.insert(name, labels.clone()),
            None => self.labels.remove(&name),
        };
        if before != labels {
            changed.extend(self.all_after_labels());
        }
        changed
    }

    fn set_terminating(&mut self, namespace: &str, deleted: Option<Timestamp>) -> Changed {
        let before = match deleted {
            Some(since) => self.terminating.insert(namespace.to_owned(), since),
            None => self.terminating.remove(namespace),
        };
        if before == deleted {
            return Changed::new();
        }
        self.touch_grants(namespace);
        self.grants_changed(namespace)
    }

    fn all_after_labels(&mut self) -> Changed {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.touch_of_other_namespaces(None);
        }
        self.all()
    }

    /// The namespaces of which something is known.
    pub(crate) fn namespaces(&self) -> Vec<ObjectKey> {
        let names: BTreeSet<&String> = self.labels.keys().chain(self.terminating.keys()).collect();
        names.into_iter().map(|name| ObjectKey::new("", name)).collect()
    }

    pub(crate) fn unset_namespace(&mut self, key: &ObjectKey) -> Changed {
        let mut changed = self.set_terminating(&key.name, None);
        if self.labels.remove(&key.name).is_some() {
            changed.extend(self.all_after_labels());
        }
        changed
    }
}

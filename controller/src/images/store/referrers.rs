//! The objects that refer to images, and what permits references from other namespaces.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use vmpool_api::diskimage::labels::WRAPPER_UID;
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImageGrant};
use vmpool_api::kubevirt;
use vmpool_diskimage::model::{Key, ReferrerKind};
use vmpool_diskimage::read::{self, referrer};
use vmpool_diskimage::references::Referrer;

use super::super::kinds::Loose;
use super::super::table::{self, Table, key, version};
use super::{Changed, Store};

impl Store {
    pub(in crate::images) fn set_wrapper(&mut self, object: Wrapper, origin: table::Origin) -> Changed {
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        let referrer = referrer::wrapper(&object);
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.set(origin, key, version, Arc::new(object));
        }
        self.set_referrer(version, referrer)
    }

    pub(in crate::images) fn set_machine(
        &mut self,
        object: &Loose<kubevirt::VirtualMachine>,
        origin: table::Origin,
    ) -> Changed {
        if let Some(wrapped) = &mut self.wrapped {
            let metadata = &object.metadata;
            let labels = metadata.labels.as_ref();
            let is_labeled = labels.is_some_and(|labels| labels.contains_key(WRAPPER_UID));
            let machine = read::wrapper::machine(metadata, &object.spec, &object.status);
            wrapped.set_machine(origin, key(metadata), version(metadata), is_labeled, machine);
        }
        self.set_referrer(version(&object.metadata), referrer::machine(&object.metadata, &object.spec))
    }

    pub(in crate::images) fn set_pool(&mut self, object: &Loose<kubevirt::VirtualMachinePool>) -> Changed {
        self.set_referrer(version(&object.metadata), referrer::pool(&object.metadata, &object.spec))
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
    pub(in crate::images) fn set_revision(&mut self, object: &Loose<ControllerRevision>) -> Changed {
        let Some(referrer) = referrer::revision(&object.metadata, &object.data) else {
            return Changed::new();
        };
        let set = self.revisions.set(key(&object.metadata), version(&object.metadata), referrer.uid.clone());
        match set {
            Err(_older) => Changed::new(),
            Ok(former) => self.replace(former, referrer),
        }
    }

    pub(in crate::images) fn unset_revision(&mut self, key: &Key, version: Option<u64>) -> Changed {
        self.revisions.remove(key, version).map(|uid| self.index.remove(&uid)).unwrap_or_default()
    }

    pub(in crate::images) fn revisions(&self) -> Vec<Key> {
        self.revisions.expected()
    }

    /// An object that may refer to images is gone: deleted at this version, or missing in a list.
    pub(in crate::images) fn unset_referrer(
        &mut self,
        kind: ReferrerKind,
        key: &Key,
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
    pub(in crate::images) fn referrers(&self, kind: ReferrerKind) -> Vec<Key> {
        self.referrers.get(&kind).map(Table::expected).unwrap_or_default()
    }

    pub(in crate::images) fn set_grant(&mut self, object: &VmDiskImageGrant) -> Changed {
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        let namespace = key.namespace.clone();
        let set = self.grants.set(key, version, read::grant(object));
        if set.is_ok() { self.grants_changed(&namespace) } else { Changed::new() }
    }

    pub(in crate::images) fn unset_grant(&mut self, key: &Key, version: Option<u64>) -> Changed {
        if self.grants.remove(key, version).is_some() {
            self.grants_changed(&key.namespace)
        } else {
            Changed::new()
        }
    }

    pub(in crate::images) fn grants(&self) -> Vec<Key> {
        self.grants.expected()
    }

    fn grants_changed(&mut self, namespace: &str) -> Changed {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.touch_of_other_namespaces(Some(namespace));
        }
        self.images.of_namespace(namespace).map(|(key, _)| key.clone()).collect()
    }

    /// Labels decide which namespaces a grant means, so a change of them may concern every image.
    pub(in crate::images) fn set_labels(
        &mut self,
        object: &PartialObjectMeta<Namespace>,
        exists: bool,
    ) -> Changed {
        let name = object.metadata.name.clone().unwrap_or_default();
        let labels = object.metadata.labels.clone().filter(|_| exists);
        let before = match &labels {
            Some(labels) => self.labels.insert(name, labels.clone()),
            None => self.labels.remove(&name),
        };
        if before == labels { Changed::new() } else { self.all_after_labels() }
    }

    fn all_after_labels(&mut self) -> Changed {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.touch_of_other_namespaces(None);
        }
        self.all()
    }

    /// The namespaces whose labels are known.
    pub(in crate::images) fn labeled(&self) -> Vec<Key> {
        self.labels.keys().map(|name| Key::new("", name)).collect()
    }

    pub(in crate::images) fn unset_labels(&mut self, key: &Key) -> Changed {
        if self.labels.remove(&key.name).is_some() { self.all_after_labels() } else { Changed::new() }
    }
}

//! What a disk requires before it is provisioned, its capacity, and when provisioning fails.

use super::model::{DvpModel, SimulatedDisk, matching_keys};
use crate::{
    objects::{BindingMode, ClassView, DiskDataSourceKind, DvpObjectKind, ImageView, NamespacedKey},
    quantity,
};
use std::sync::Arc;

impl DvpModel {
    /// Why a disk cannot be provisioned.
    pub(super) fn blocker(&self, key: &NamespacedKey, disk: &SimulatedDisk) -> ProvisioningBlocker {
        let spec = &disk.view.spec;
        if let Some(class) = spec.class().filter(|class| !self.classes.contains_key(*class)) {
            return ProvisioningBlocker::Wait(format!("StorageClass {class} does not exist"));
        }
        if let Some(size) = spec.size().filter(|size| quantity::parse_bytes(size).is_none()) {
            return ProvisioningBlocker::Fatal(format!("{size} is not a size"));
        }
        let Some(source) = &spec.data_source else {
            return match spec.size() {
                Some(_) => ProvisioningBlocker::None,
                None => ProvisioningBlocker::Fatal("a blank disk needs a size".to_owned()),
            };
        };
        match source.type_ {
            DiskDataSourceKind::Http | DiskDataSourceKind::ContainerImage => ProvisioningBlocker::None,
            DiskDataSourceKind::Upload => ProvisioningBlocker::Upload,
            DiskDataSourceKind::ObjectRef => match source.object() {
                Some((kind, name)) if self.source(key, disk).is_none() => {
                    ProvisioningBlocker::Wait(format!("{kind} {name} does not exist or is not ready"))
                }
                Some(_) => ProvisioningBlocker::None,
                None => ProvisioningBlocker::Fatal("the data source has no object reference".to_owned()),
            },
        }
    }

    /// The image that a disk copies, if it is ready.
    fn source(&self, key: &NamespacedKey, disk: &SimulatedDisk) -> Option<&ImageView> {
        let (kind, name) = disk.view.spec.data_source.as_ref()?.object()?;
        let kind = match kind {
            "VirtualImage" => DvpObjectKind::Image,
            "ClusterVirtualImage" => DvpObjectKind::ClusterImage,
            // Snapshots are not simulated: a disk waits for them forever.
            _ => return None,
        };
        self.image(kind, &key.namespace, name).filter(|image| image.is_ready())
    }

    pub(super) fn wanted_capacity(&self, key: &NamespacedKey, disk: &SimulatedDisk) -> Option<String> {
        let wanted = disk.view.spec.size();
        let content = self.source(key, disk).and_then(|image| image.size.clone());
        let larger = |size: &String| quantity::parse_bytes(size);
        [wanted, content, disk.capacity.clone()].into_iter().flatten().max_by_key(larger)
    }

    pub(super) fn waits_for_first_consumer(&self, disk: &SimulatedDisk) -> bool {
        self.class(disk).is_some_and(|class| class.binding == BindingMode::WaitForFirstConsumer)
    }

    fn class(&self, disk: &SimulatedDisk) -> Option<&ClassView> {
        match disk.view.spec.class() {
            Some(name) => self.classes.get(name),
            None => self.classes.values().find(|class| class.is_default),
        }
    }

    /// Whether the requested size is larger than the capacity.
    pub(super) fn needs_expansion(disk: &SimulatedDisk) -> bool {
        let wanted = disk.view.spec.size().and_then(|size| quantity::parse_bytes(&size));
        let has = disk.capacity.as_deref().and_then(quantity::parse_bytes);
        disk.is_usable() && wanted > has
    }

    /// Whether the storage class allows expansion; always without a class.
    pub(super) fn may_expand(&self, disk: &SimulatedDisk) -> bool {
        self.class(disk).is_none_or(|class| class.expands)
    }

    /// Whether this disk fails because of the knob `fail-provisioning`.
    pub(super) fn must_fail(&self, key: &NamespacedKey, disk: &SimulatedDisk) -> bool {
        if let Some(own) = disk.view.knobs.as_ref().and_then(|knobs| knobs.fail_provisioning) {
            return own > 0;
        }
        self.failures_left(&key.namespace) > 0
    }

    fn failures_left(&self, namespace: &Arc<str>) -> u64 {
        let wanted = self.knobs.get(namespace).and_then(|knobs| knobs.fail_provisioning).unwrap_or(0);
        match self.failures_spent.get(namespace) {
            Some((value, spent)) if *value == wanted => wanted.saturating_sub(*spent),
            // A new value resets the count.
            _ => wanted,
        }
    }

    pub(super) fn spend_failure(&mut self, key: &NamespacedKey) {
        let Some(wanted) = self.knobs.get(&key.namespace).and_then(|knobs| knobs.fail_provisioning) else {
            return;
        };
        let entry = self.failures_spent.entry(key.namespace.clone()).or_insert((wanted, 0));
        if entry.0 != wanted {
            *entry = (wanted, 0);
        }
        entry.1 += 1;
    }

    pub(super) fn disks_of_image(&self, namespace: &str) -> Vec<NamespacedKey> {
        matching_keys(&self.disks, |key, disk| {
            disk.is_pending() && (namespace.is_empty() || *key.namespace == *namespace)
        })
    }
}

/// Why a disk cannot be provisioned.
pub(super) enum ProvisioningBlocker {
    None,
    /// The content must be uploaded.
    Upload,
    /// It may be resolved.
    Wait(String),
    /// It is permanent.
    Fatal(String),
}

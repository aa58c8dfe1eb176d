//! What a leader knows of wrappers: the wrappers, their machines, and the disks of these.

use std::collections::BTreeSet;
use std::sync::Arc;

use vmpool_api::diskimage::VirtualMachine as Wrapper;
use vmpool_diskimage::model::{FoundObject, ObjectKey};
use vmpool_diskimage::read::wrapper::{StoredWrapperDisk, StoredWrapperMachine};
use vmpool_diskimage::wrapper::{WrapperDisk, WrapperMachine, objects};

use super::table::{ObjectOrigin, VersionedTable};

/// The newest known wrappers, machines and disks, and the wrappers that a change concerns.
#[derive(Debug, Default)]
pub(super) struct WrapperStore {
    pub(super) wrappers: VersionedTable<Arc<Wrapper>>,
    /// Machines of wrappers, and machines that have the name of a wrapper.
    machines: VersionedTable<StoredWrapperMachine>,
    /// The DataVolumes of the machines of wrappers.
    disks: VersionedTable<StoredWrapperDisk>,
    touched: BTreeSet<ObjectKey>,
}

impl WrapperStore {
    /// The wrappers that changes concern since the last call.
    pub(super) fn take_touched(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.touched)
    }

    /// A change concerns these wrappers.
    pub(super) fn touch(&mut self, wrappers: impl IntoIterator<Item = ObjectKey>) {
        self.touched.extend(wrappers);
    }

    /// A change concerns the wrappers of other namespaces that name an image of this namespace, or of any if
    /// it is `None`.
    pub(super) fn touch_of_other_namespaces(&mut self, namespace: Option<&str>) {
        let concerned = self.wrappers.iter().filter(|(key, object)| {
            let named = object.spec.vm_disk_image_ref.namespace.as_deref();
            named.is_some_and(|named| *named != key.namespace && namespace.is_none_or(|one| one == named))
        });
        let concerned: Vec<ObjectKey> = concerned.map(|(key, _)| key.clone()).collect();
        self.touch(concerned);
    }

    /// The wrappers whose machines have a disk of this name. Its name is that of the wrapper, a dash, and
    /// that of the disk.
    fn with_disk<'s>(
        &'s self,
        disk: &'s ObjectKey,
    ) -> impl Iterator<Item = (&'s ObjectKey, &'s Arc<Wrapper>)> {
        let names = disk.name.match_indices('-').map(move |(at, _)| &disk.name[..at]);
        names.filter_map(move |name| {
            let (key, wrapper) = self.wrappers.get_entry(&ObjectKey::new(&disk.namespace, name))?;
            (objects::data_volume_name(wrapper) == disk.name).then_some((key, wrapper))
        })
    }

    /// The wrapper whose machine gets the disk of this name: one whose machine exists, else the oldest.
    pub(super) fn first_with_disk(&self, disk: &ObjectKey) -> Option<ObjectKey> {
        let rank = |(key, wrapper): &(&ObjectKey, &Arc<Wrapper>)| {
            let uid = wrapper.metadata.uid.clone().unwrap_or_default();
            let machine = StoredWrapperMachine::found(self.machines.get(key), &uid, "");
            let created = wrapper.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (machine.ours().is_none(), created, uid)
        };
        self.with_disk(disk).min_by_key(rank).map(|(key, _)| key.clone())
    }

    /// A change concerns the wrappers without a machine whose disk has this name.
    pub(super) fn touch_disk(&mut self, disk: &ObjectKey) {
        let waiting = self.with_disk(disk).filter(|(key, _)| self.machines.get(key).is_none());
        let waiting: Vec<ObjectKey> = waiting.map(|(key, _)| key.clone()).collect();
        self.touch(waiting);
    }

    /// Stores a wrapper.
    pub(super) fn set(&mut self, origin: ObjectOrigin, key: ObjectKey, version: u64, object: Arc<Wrapper>) {
        if self.wrappers.put(origin, key.clone(), version, object).is_ok() {
            self.touched.insert(key);
        }
    }

    /// A wrapper is gone: deleted at this version, or missing in a list.
    pub(super) fn unset(&mut self, key: &ObjectKey, version: Option<u64>) {
        if let Some(wrapper) = self.wrappers.remove(key, version) {
            self.touch_disk(&ObjectKey::new(&key.namespace, objects::data_volume_name(&wrapper)));
            self.touched.insert(key.clone());
        }
    }

    /// Stores a machine, if it belongs to a wrapper or has the name of one.
    pub(super) fn set_machine(
        &mut self,
        origin: ObjectOrigin,
        key: ObjectKey,
        version: u64,
        is_labeled: bool,
        mut machine: StoredWrapperMachine,
    ) {
        let former = self.machines.get(&key);
        let is_relevant = is_labeled
            || former.is_some()
            || origin == ObjectOrigin::Written
            || self.wrappers.get(&key).is_some();
        if !is_relevant {
            return;
        }
        if let Some(former) = former {
            machine.remember(former);
        }
        if self.machines.put(origin, key.clone(), version, machine).is_ok() {
            self.touched.insert(key);
        }
    }

    /// A machine is gone.
    pub(super) fn unset_machine(&mut self, key: &ObjectKey, version: Option<u64>) {
        if self.machines.remove(key, version).is_some() {
            self.touched.insert(key.clone());
        }
    }

    /// Stores the disk of a machine.
    pub(super) fn set_disk(&mut self, key: ObjectKey, version: u64, mut disk: StoredWrapperDisk) {
        if let Some(former) = self.disks.get(&key) {
            disk.remember(former);
        }
        let machine = disk.machine.clone();
        if self.disks.set(key, version, disk).is_ok() {
            self.touched.insert(machine);
        }
    }

    /// A disk is gone.
    pub(super) fn unset_disk(&mut self, key: &ObjectKey, version: Option<u64>) {
        let machine = self.disks.get(key).map(|disk| disk.machine.clone());
        if self.disks.remove(key, version).is_some() {
            self.touched.extend(machine);
        }
    }

    /// The claim of this name changed.
    pub(super) fn touch_claim(&mut self, key: &ObjectKey) {
        self.touched.extend(self.disks.get(key).map(|disk| disk.machine.clone()));
    }

    /// The machine of a wrapper that wants the template with this digest.
    pub(super) fn machine(
        &self,
        wrapper: &ObjectKey,
        uid: &str,
        wanted: &str,
    ) -> FoundObject<WrapperMachine> {
        StoredWrapperMachine::found(self.machines.get(wrapper), uid, wanted)
    }

    /// The disk of this machine.
    pub(super) fn disk(&self, key: &ObjectKey, machine: &FoundObject<WrapperMachine>) -> Option<WrapperDisk> {
        self.disks.get(key).and_then(|disk| disk.of(machine)).cloned()
    }
}

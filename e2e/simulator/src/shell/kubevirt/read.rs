//! Reads stored objects.

use crate::kubevirt::objects::{
    ClaimView, ContentView, DataSourceView, DataVolumeView, InstanceView, KubeVirtMachineView, LauncherView,
    ObservedKubeVirtObject, RevisionView, SnapshotView, StoredClaim, StoredContent, StoredCopyRevision,
    StoredDataSource, StoredDataVolume, StoredKubeVirtInstance, StoredKubeVirtMachine, StoredLauncher,
    StoredSnapshot,
};

pub(super) fn read_machine(stored: StoredKubeVirtMachine) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::Machine(Box::new(KubeVirtMachineView::read(stored)))
}

pub(super) fn read_instance(stored: StoredKubeVirtInstance) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::Instance(Box::new(InstanceView::read(stored)))
}

pub(super) fn read_data_volume(stored: StoredDataVolume) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::DataVolume(Box::new(DataVolumeView::read(stored)))
}

pub(super) fn read_claim(stored: StoredClaim) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::Claim(Box::new(ClaimView::read(stored)))
}

pub(super) fn read_pod(stored: StoredLauncher) -> Option<ObservedKubeVirtObject> {
    LauncherView::read(stored).map(|view| ObservedKubeVirtObject::Pod(Box::new(view)))
}

pub(super) fn read_data_source(stored: StoredDataSource) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::DataSource(Box::new(DataSourceView::read(stored)))
}

pub(super) fn read_snapshot(stored: StoredSnapshot) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::Snapshot(Box::new(SnapshotView::read(stored)))
}

pub(super) fn read_snapshot_content(stored: StoredContent) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::Content(Box::new(ContentView::read(stored)))
}

pub(super) fn read_revision(stored: StoredCopyRevision) -> ObservedKubeVirtObject {
    ObservedKubeVirtObject::Revision(Box::new(RevisionView::read(stored)))
}

//! Reads stored objects.

use crate::kubevirt::objects::{
    ClaimView, ContentView, DataSourceView, DataVolumeView, InstanceView, LauncherView, MachineView, Object,
    RevisionView, SnapshotView, StoredClaim, StoredContent, StoredDataSource, StoredDataVolume,
    StoredInstance, StoredLauncher, StoredMachine, StoredRevision, StoredSnapshot,
};

pub(super) fn machine(stored: StoredMachine) -> Object {
    Object::Machine(Box::new(MachineView::read(stored)))
}

pub(super) fn instance(stored: StoredInstance) -> Object {
    Object::Instance(Box::new(InstanceView::read(stored)))
}

pub(super) fn data_volume(stored: StoredDataVolume) -> Object {
    Object::DataVolume(Box::new(DataVolumeView::read(stored)))
}

pub(super) fn claim(stored: StoredClaim) -> Object {
    Object::Claim(Box::new(ClaimView::read(stored)))
}

pub(super) fn pod(stored: StoredLauncher) -> Option<Object> {
    LauncherView::read(stored).map(|view| Object::Pod(Box::new(view)))
}

pub(super) fn data_source(stored: StoredDataSource) -> Object {
    Object::DataSource(Box::new(DataSourceView::read(stored)))
}

pub(super) fn snapshot(stored: StoredSnapshot) -> Object {
    Object::Snapshot(Box::new(SnapshotView::read(stored)))
}

pub(super) fn content(stored: StoredContent) -> Object {
    Object::Content(Box::new(ContentView::read(stored)))
}

pub(super) fn revision(stored: StoredRevision) -> Object {
    Object::Revision(Box::new(RevisionView::read(stored)))
}

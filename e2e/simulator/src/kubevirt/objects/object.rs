//! An object of any kind.

use super::{
    instance::InstanceView,
    launcher::LauncherView,
    machine::KubeVirtMachineView,
    revision::RevisionView,
    snapshot::{ContentView, DataSourceView, SnapshotView},
    volume::{ClaimView, DataVolumeView},
};

/// The last observed state of an object.
#[derive(Clone, Debug)]
pub enum ObservedKubeVirtObject {
    /// VirtualMachine.
    Machine(Box<KubeVirtMachineView>),
    /// VirtualMachineInstance.
    Instance(Box<InstanceView>),
    /// DataVolume.
    DataVolume(Box<DataVolumeView>),
    /// PersistentVolumeClaim.
    Claim(Box<ClaimView>),
    /// A launcher Pod.
    Pod(Box<LauncherView>),
    /// DataSource.
    DataSource(Box<DataSourceView>),
    /// VolumeSnapshot.
    Snapshot(Box<SnapshotView>),
    /// VolumeSnapshotContent.
    Content(Box<ContentView>),
    /// ControllerRevision.
    Revision(Box<RevisionView>),
}

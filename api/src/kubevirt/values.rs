//! The enumerated values of the API as Rust enums.
//!
//! As with the other kinds of this crate, the generated types contain these values as strings.

use crate::enums::{UnknownValue, api_enum};

#[cfg(test)]
mod tests;

api_enum! {
    /// `sortPolicy` of a selection policy: which machines come first.
    SortPolicy ("sort policy") {
        /// The lowest ordinal.
        AscendingOrder,
        /// The highest ordinal.
        DescendingOrder,
        /// The machine that was created last.
        Newest,
        /// The machine that was created first.
        Oldest,
        /// No particular machine.
        Random,
    }
}

api_enum! {
    /// `statePreservation` of a scale-in strategy: what happens to the volumes of a removed machine.
    StatePreservation ("state preservation") {
        /// They are deleted with the machine.
        Disabled,
        /// They are retained, for the next machine with the same ordinal.
        Offline,
        /// The same as `Offline`. KubeVirt plans to retain the memory of the guest too.
        Online,
    }
}

api_enum! {
    /// `spec.runStrategy` of a machine: when it runs.
    RunStrategy ("run strategy") {
        /// KubeVirt starts the machine again after every stop.
        Always,
        /// The machine is kept off.
        Halted,
        /// Users start and stop the machine.
        Manual,
        /// KubeVirt starts the machine again if it failed.
        RerunOnFailure,
        /// KubeVirt starts the machine once.
        Once,
        /// The machine waits for a migration from another cluster.
        WaitAsReceiver,
    }
}

api_enum! {
    /// `status.printableStatus` of a machine.
    PrintableStatus ("status of a machine") {
        /// The machine is off.
        Stopped,
        /// KubeVirt prepares the volumes.
        Provisioning,
        /// The machine is being started.
        Starting,
        /// The guest runs.
        Running,
        /// The guest is paused.
        Paused,
        /// The guest is being shut down.
        Stopping,
        /// The object is being deleted.
        Terminating,
        /// Starts have failed, and KubeVirt waits before the next one.
        CrashLoopBackOff,
        /// The guest runs and moves to another node.
        Migrating,
        /// KubeVirt could not determine the state.
        Unknown,
        /// No node can run the machine.
        ErrorUnschedulable,
        /// An image could not be pulled.
        ErrImagePull,
        /// An image could not be pulled, and KubeVirt waits before the next attempt.
        ImagePullBackOff,
        /// A claim does not exist.
        ErrorPvcNotFound,
        /// A DataVolume failed.
        DataVolumeError,
        /// A volume is not bound.
        WaitingForVolumeBinding,
        /// The machine waits for a migration from another cluster.
        WaitingForReceiver,
    }
}

api_enum! {
    /// `status.phase` of a VirtualMachineInstance. It is absent or empty before `Pending`.
    InstancePhase ("phase of a VirtualMachineInstance") {
        /// The instance has no pod.
        Pending,
        /// The pod has no node.
        Scheduling,
        /// The pod has a node.
        Scheduled,
        /// The guest runs.
        Running,
        /// The guest has shut down. This phase is final.
        Succeeded,
        /// The guest has failed. This phase is final.
        Failed,
        /// The instance waits for the state of a guest that migrates.
        WaitingForSync,
        /// The node does not respond.
        Unknown,
    }
}

api_enum! {
    /// `status.phase` of a DataVolume. It is absent or empty at first.
    DataVolumePhase ("phase of a DataVolume") {
        /// CDI has not started.
        Pending,
        /// The claim is bound.
        PVCBound,
        /// An import waits for its pod.
        ImportScheduled,
        /// Data is imported.
        ImportInProgress,
        /// A copy of a claim waits for its pods.
        CloneScheduled,
        /// A claim is copied.
        CloneInProgress,
        /// The storage system copies a claim.
        CSICloneInProgress,
        /// A snapshot of a claim is made.
        SnapshotForSmartCloneInProgress,
        /// The volume is bound when the first machine with it is scheduled.
        WaitForFirstConsumer,
        /// Another program fills the volume when the first machine with it is scheduled.
        PendingPopulation,
        /// The volume can be used.
        Succeeded,
        /// The copy is paused.
        Paused,
        /// The copy has failed.
        Failed,
        /// CDI could not determine the state.
        Unknown,
    }
}

impl PrintableStatus {
    /// Whether the machine waits for its storage, or cannot get it.
    pub fn waits_for_storage(self) -> bool {
        matches!(self, Self::Provisioning | Self::WaitingForVolumeBinding | Self::DataVolumeError)
    }

    /// Whether the machine cannot start for a reason that its replacement can remedy. Autohealing replaces
    /// such a machine if the state lasts.
    pub const fn is_start_failure(self) -> bool {
        matches!(
            self,
            Self::CrashLoopBackOff
                | Self::ErrorUnschedulable
                | Self::DataVolumeError
                | Self::ErrorPvcNotFound
                | Self::ErrImagePull
                | Self::ImagePullBackOff
        )
    }
}

impl RunStrategy {
    /// When a machine runs, by its fields `spec.runStrategy` and `spec.running`; `None` if neither is set or
    /// if this version does not know the value.
    pub fn of(strategy: Option<&str>, running: Option<bool>) -> Option<Self> {
        match (strategy, running) {
            (Some(strategy), _) => strategy.parse().ok(),
            (None, Some(true)) => Some(Self::Always),
            (None, Some(false)) => Some(Self::Halted),
            (None, None) => None,
        }
    }

    /// Whether KubeVirt starts the machine again if its VirtualMachineInstance is deleted.
    pub const fn restarts(self) -> bool {
        matches!(self, Self::Always | Self::Once)
    }
}

impl DataVolumePhase {
    /// Whether KubeVirt can start a machine with a volume in this phase.
    pub const fn allows_start(self) -> bool {
        matches!(self, Self::Succeeded | Self::WaitForFirstConsumer | Self::PendingPopulation)
    }
}

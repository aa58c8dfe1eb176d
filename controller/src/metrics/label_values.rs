//! The label values of metrics. Every label has a fixed set of values, except the HTTP status.

mod disks;

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use vmpool_engine::condition::ConditionType;
use vmpool_engine::failure::FailureReason;
use vmpool_engine::plan::{LimitedProvisioning, ProvisioningScope};
use vmpool_runtime::metrics::{Values, Word};
use vmpool_runtime::words;

pub(crate) use disks::{ClaimOutcome, Collection, DiskUse};

words!(
    /// What the leader does with the pools of a platform.
    pub(crate) PlatformState {
        /// The cluster lacks a CustomResourceDefinition of the platform.
        Waiting => "waiting",
        /// The account of the controller may not list the pools, so the leader does not reconcile them.
        Forbidden => "forbidden",
        /// Another controller may reconcile the pools, so this one reconciles none.
        Blocked => "blocked",
        /// The leader reconciles the pools.
        Reconciling => "reconciling",
    }
);

words!(
    /// The limit on provisioning that delays creates.
    pub(crate) DelayingLimit {
        /// None delays creates.
        None => "none",
        /// That of the pool: maxProvisioning.
        Pool => "pool",
        /// That of a storage class over all pools.
        StorageClass => "storage_class",
    }
);

words!(
    /// Whether healing replaces unhealthy machines.
    pub(crate) HealingState {
        /// It does.
        Active => "active",
        /// There are too many of them.
        Blocked => "blocked",
    }
);

impl From<Option<&LimitedProvisioning>> for DelayingLimit {
    fn from(limited: Option<&LimitedProvisioning>) -> Self {
        match limited.map(|limited| &limited.scope) {
            None => Self::None,
            Some(ProvisioningScope::Pool) => Self::Pool,
            Some(ProvisioningScope::StorageClass(_)) => Self::StorageClass,
        }
    }
}

words!(
    /// The verb of a request to the API server.
    pub(crate) Verb {
        /// Read one object.
        Get => "get",
        /// List objects.
        List => "list",
        /// Watch objects.
        Watch => "watch",
        /// Create an object.
        Create => "create",
        /// Replace an object.
        Update => "update",
        /// Change parts of an object.
        Patch => "patch",
        /// Delete an object.
        Delete => "delete",
    }
);

words!(
    /// The resource of a request, with names that do not depend on the platform.
    pub(crate) Resource {
        /// Pools.
        Pools => "pools",
        /// The status of pools.
        PoolStatus => "pools/status",
        /// Machines.
        Machines => "machines",
        /// Disks.
        Disks => "disks",
        /// Attachments of disks to machines.
        Attachments => "attachments",
        /// Instances of machines, on a platform where these are objects.
        Instances => "instances",
        /// Revisions of machine templates.
        Revisions => "revisions",
        /// Kubernetes events.
        Events => "events",
        /// The lease of the leader.
        Leases => "leases",
        /// Any other resource.
        Other => "other",
    }
);

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ApiResponseCode {
    /// An HTTP status.
    Status(u16),
    /// There was no response: the connection failed, or the request was canceled.
    NoResponse,
}

impl EncodeLabelValue for ApiResponseCode {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(encoder, "{status}"),
            Self::NoResponse => encoder.write_str("lost"),
        }
    }
}

impl Word for ApiResponseCode {
    fn values() -> Values {
        Values::Open("the HTTP status, or `lost` if there was no response in time")
    }
}

words!(
    /// The kind of a write.
    pub WriteKind {
        /// Create a machine.
        CreateMachine => "create_machine",
        /// Send the create of a machine as a dry run.
        RehearseMachine => "rehearse_machine",
        /// Create a disk.
        CreateDisk => "create_disk",
        /// Delete a retained disk.
        DeleteDisk => "delete_disk",
        /// Allocate, free, mark or expand a disk, or change its owner to a released machine.
        PatchDisk => "patch_disk",
        /// Delete a machine.
        DeleteMachine => "delete_machine",
        /// Repair, mark or release a machine.
        PatchMachine => "patch_machine",
        /// Create a copy of an instance type or a preference for a single machine.
        CreateCopy => "create_copy",
        /// Write the instance type and the preference, or their names from a volume, into a machine.
        ExpandMachine => "expand_machine",
        /// Add or remove the finalizer of an instance type or a preference.
        PatchInstancetype => "patch_instancetype",
        /// Record the copies of a machine in its status.
        PatchMachineStatus => "patch_machine_status",
        /// Write a revision to a machine, or record that it is in effect.
        UpdateMachine => "update_machine",
        /// Start an activated machine.
        StartMachine => "start_machine",
        /// Request a restart of an instance.
        RestartInstance => "restart_instance",
        /// Remove a machine that leaves from the owners of its storage.
        PatchStorage => "patch_storage",
        /// Store a revision.
        CreateRevision => "create_revision",
        /// Change the owners of a copy of an object that a template or a machine refers to.
        PatchRevision => "patch_revision",
        /// Delete a revision that is no longer needed.
        DeleteRevision => "delete_revision",
        /// Record a name block, or remove entries from the removal record.
        PatchPool => "patch_pool",
        /// Publish the status.
        PatchStatus => "patch_status",
        /// Create an object for a disk image.
        CreateImageObject => "create_image_object",
        /// Change an object of a disk image.
        PatchImageObject => "patch_image_object",
        /// Delete an object of a disk image.
        DeleteImageObject => "delete_image_object",
        /// Add or remove the finalizer of a disk image.
        PatchImage => "patch_image",
        /// Add or remove the finalizer of a grant for disk images.
        PatchImageGrant => "patch_image_grant",
        /// Publish the status of a disk image.
        PatchImageStatus => "patch_image_status",
        /// Delete a disk image whose time to live is over.
        DeleteImage => "delete_image",
        /// Create the disk image of a wrapper.
        CreateImage => "create_image",
        /// Create the machine of a wrapper.
        CreateWrappedMachine => "create_wrapped_machine",
        /// Write a changed template to the machine of a wrapper.
        PatchWrappedMachine => "patch_wrapped_machine",
        /// Delete the disk of the machine of a wrapper, because its clone does not begin.
        DeleteWrappedDisk => "delete_wrapped_disk",
        /// Publish the status of a wrapper.
        PatchWrapperStatus => "patch_wrapper_status",
        /// Set the replicas of a pool for an autoscaler.
        ScalePool => "scale_pool",
        /// Remove free machines of a pool with the policy Explicit for an autoscaler.
        RemoveMachines => "remove_machines",
        /// Publish the status of an autoscaler.
        PatchAutoscalerStatus => "patch_autoscaler_status",
        /// Create or repeat an event.
        Event => "event",
    }
);

words!(
    /// The result of a pass.
    pub(crate) PassResult {
        /// The plan contained no action.
        Idle => "idle",
        /// All actions succeeded.
        Acted => "acted",
        /// A write failed.
        Failed => "failed",
        /// The state differed from the one that the plan used.
        Outdated => "outdated",
        /// The lease ended too soon for a write.
        Fenced => "fenced",
        /// A live read failed.
        Unread => "unread",
        /// The pool is gone or is being deleted.
        Gone => "gone",
        /// The pass panicked because of a defect.
        Panicked => "panicked",
    }
);

words!(
    /// A step of a pass.
    pub(crate) PassStep {
        /// Reads: the snapshot of the caches, and live reads.
        Observe => "observe",
        /// Decisions.
        Plan => "plan",
        /// Writes to machines and disks.
        Apply => "apply",
        /// Status and events.
        Report => "report",
    }
);

words!(
    /// The outcome of a wakeup.
    pub(crate) WakeOutcome {
        /// It made a pool due, or due sooner.
        Queued => "queued",
        /// The pool was already due at that time.
        Merged => "merged",
    }
);

words!(
    /// The state of a pool.
    pub(crate) PoolState {
        /// The desired number of machines exists, and all are ready.
        Ready => "ready",
        /// The desired number of machines exists, and some are not ready.
        Unready => "unready",
        /// The number of machines differs from the desired number.
        Progressing => "progressing",
        /// Its condition ReplicaFailure is True.
        Failing => "failing",
        /// Another client keeps overwriting its status, so the controller writes nothing to it.
        Disputed => "disputed",
        /// It is being deleted.
        Deleting => "deleting",
    }
);

words!(
    /// A condition of a pool about what its template refers to.
    pub(crate) TemplateProblem {
        /// An object that the template refers to is missing or does not fit.
        Unresolved => "TemplateResolved",
        /// Machines refer to other objects than the revision that was written to them.
        Drifted => "MembersDrifted",
        /// The cluster does not let machines share copies.
        Unavailable => "PinningUnavailable",
        /// A disk image that the template names cannot be cloned.
        Images => "ImagesReady",
    }
);

impl TemplateProblem {
    /// The type of the condition. The condition exists only while there is the problem.
    pub(super) fn condition(self) -> ConditionType {
        match self {
            Self::Unresolved => ConditionType::TemplateResolved,
            Self::Drifted => ConditionType::MembersDrifted,
            Self::Unavailable => ConditionType::PinningUnavailable,
            Self::Images => ConditionType::ImagesReady,
        }
    }
}

words!(
    /// Which machines are counted.
    pub(crate) MachineState {
        /// The desired number of machines.
        Desired => "desired",
        /// Machines that exist.
        Replicas => "replicas",
        /// Machines that run and are not being deleted.
        Ready => "ready",
        /// Machines in which the current revision is in effect.
        Updated => "updated",
        /// Machines with the current revision that need a restart for it.
        RestartPending => "restart_pending",
        /// Machines that have a deletion timestamp.
        Terminating => "terminating",
        /// Machines that can be claimed now: ready, not protected, not being removed or restarted, not
        /// draining, and not claimed `recycle.maxClaims` times.
        Free => "free",
        /// Protected machines that were claimed through the aggregated API.
        Claimed => "claimed",
        /// Protected machines.
        Protected => "protected",
    }
);

words!(
    /// Why the controller deletes a machine.
    pub(crate) Deletion {
        /// The pool had more machines than desired.
        Surplus => "surplus",
        /// It is the target of a targeted removal.
        Targeted => "named",
        /// The storage in its template changed.
        StorageChanged => "storage_changed",
        /// It did not start.
        Unhealthy => "unhealthy",
        /// It was not ready for too long, and another machine takes its place.
        NotReady => "not_ready",
        /// Its annotation requested its replacement.
        RecycledByRequest => "recycled_by_request",
        /// It reached `recycle.maxLifetime`, and another machine takes its place.
        RecycledByLifetime => "recycled_by_lifetime",
        /// It was claimed `recycle.maxClaims` times, and another machine takes its place.
        RecycledByClaims => "recycled_by_claims",
        /// Its disks were from earlier content of their source, and another machine takes its place.
        RecycledByImage => "recycled_by_image",
        /// Its hooks released it, and another machine takes its place.
        RecycledByHooks => "recycled_by_hooks",
        /// The pool had more standby machines than desired.
        StandbySurplus => "standby_surplus",
        /// Another standby machine takes its place.
        StandbyReplaced => "standby_replaced",
    }
);

words!(
    /// The state of a target of a targeted removal.
    pub(crate) RemovalState {
        /// A request has reserved it. It is neither replaced nor deleted yet.
        Reserved => "reserved",
        /// Its removal is accepted, and the machine is not known to be gone.
        Accepted => "accepted",
    }
);

words!(
    /// Why a target was removed from the removal record.
    pub(crate) SettledOutcome {
        /// Its removal was accepted, and the machine is gone.
        Removed => "removed",
        /// Its reservation expired because it was not accepted in time.
        Expired => "expired",
    }
);

words!(
    /// The resource of a ledger.
    pub(crate) LedgerResource {
        /// Machines.
        Machines => "machines",
        /// Disks.
        Disks => "disks",
    }
);

words!(
    /// A resource with a watch and a cache.
    pub(crate) WatchResource {
        /// Pools.
        Pools => "pools",
        /// Machines.
        Machines => "machines",
        /// Disks.
        Disks => "disks",
        /// Attachments of disks to machines.
        Attachments => "attachments",
        /// Stored revisions of templates.
        Revisions => "revisions",
        /// Instances of machines, on a platform where these are objects.
        Instances => "instances",
    }
);

words!(
    /// A change of the leadership of this process.
    pub(crate) LeadershipChange {
        /// It became the leader.
        Acquired => "acquired",
        /// It released the lease, for example on shutdown.
        Released => "released",
        /// It lost the lease.
        Lost => "lost",
    }
);

/// Why writes failed: the reasons of the condition `ReplicaFailure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FailureReasonLabel(pub(super) FailureReason);

impl FailureReasonLabel {
    pub(super) const ALL: [Self; 10] = [
        Self(FailureReason::FailedCreate),
        Self(FailureReason::MachineLost),
        Self(FailureReason::DiskLost),
        Self(FailureReason::FailedDelete),
        Self(FailureReason::DiskFailure),
        Self(FailureReason::FailedRepair),
        Self(FailureReason::FailedTemplateUpdate),
        Self(FailureReason::FailedRevisionPruning),
        Self(FailureReason::FailedRead),
        Self(FailureReason::StatusDisputed),
    ];
}

impl EncodeLabelValue for FailureReasonLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0.as_str())
    }
}

impl Word for FailureReasonLabel {
    fn known_values() -> Vec<Self> {
        Self::ALL.to_vec()
    }

    fn values() -> Values {
        Values::Fixed(
            Self::ALL
                .iter()
                .map(|failed| match failed.0 {
                    reason @ FailureReason::FailedCreate => (reason.as_str(), "Creating a machine."),
                    reason @ FailureReason::MachineLost => {
                        (reason.as_str(), "A created machine does not belong to its pool.")
                    }
                    reason @ FailureReason::DiskLost => {
                        (reason.as_str(), "A created disk does not have its owner.")
                    }
                    reason @ FailureReason::FailedDelete => (reason.as_str(), "Deleting a machine."),
                    reason @ FailureReason::DiskFailure => {
                        (reason.as_str(), "Creating a disk, or changing the disk that a machine refers to.")
                    }
                    reason @ FailureReason::FailedRepair => {
                        (reason.as_str(), "Restoring labels, or writing the removal record.")
                    }
                    reason @ FailureReason::FailedRevisionPruning => {
                        (reason.as_str(), "Deleting revisions that no machine needs.")
                    }
                    reason @ FailureReason::FailedRead => {
                        (reason.as_str(), "Reading objects that the plan of a pool depends on.")
                    }
                    reason @ FailureReason::StatusDisputed => (
                        reason.as_str(),
                        "Another client keeps overwriting the status of a pool, so the controller writes nothing to it.",
                    ),
                    reason @ FailureReason::FailedTemplateUpdate => {
                        (reason.as_str(), "Writing a revision to a machine.")
                    }
                })
                .collect(),
        )
    }
}

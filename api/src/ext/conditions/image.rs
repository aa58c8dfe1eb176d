//! Types and reasons of the conditions of a disk image.

use crate::ext::constants::text_constants;

text_constants! {
    "All types of conditions that vmpool publishes in an image.";
    /// Whether machines can clone the image. Its reason is [`reason::SYNCED`] if it is True, and the cause
    /// otherwise.
    READY = "Ready";
    /// Whether objects refer to the image.
    IN_USE = "InUse";
    /// Present and True while the deletion waits.
    DELETION_BLOCKED = "DeletionBlocked";
    /// Whether the claim of the image is bound.
    SOURCE_VOLUME_HEALTHY = "SourceVolumeHealthy";
    /// Present and False while an object of another owner prevents the permission to clone. Its reason is
    /// [`reason::NAME_CONFLICT`].
    CLONE_PERMITTED = "ClonePermitted";
}

/// Reasons of the conditions of a disk image.
pub mod reason {
    use crate::ext::constants::text_constants;

    text_constants! {
        "All reasons of conditions that vmpool publishes in an image.";
        /// `Ready` is True: the image is ready.
        SYNCED = "Synced";
        /// `Ready` is False: the import waits for its turn.
        QUEUED = "Queued";
        /// `Ready` is False: the import transfers data.
        SYNCING = "Syncing";
        /// `Ready` is False: an object of the image could not be created.
        RESOURCE_CREATION_FAILED = "ResourceCreationFailed";
        /// `Ready` is False: an object of the image could not be changed.
        RESOURCE_UPDATE_FAILED = "ResourceUpdateFailed";
        /// `Ready` is False: the transfer was restarted too often.
        RETRY_LIMIT_EXCEEDED = "RetryLimitExceeded";
        /// `Ready` is False: the source has no such file or container image.
        MISSING_SOURCE_ARTIFACT = "MissingSourceArtifact";
        /// `Ready` is False: the attempt took too long.
        SYNC_ATTEMPT_DURATION_EXCEEDED = "SyncAttemptDurationExceeded";
        /// `Ready` is False: the attempt failed for another reason, which the message describes.
        UNKNOWN_SYNC_FAILURE = "UnknownSyncFailure";
        /// `Ready` is False: the data is imported, and its snapshot is not ready yet.
        SNAPSHOT_PENDING = "SnapshotPending";
        /// `Ready` is False: the snapshot failed.
        SNAPSHOT_FAILED = "SnapshotFailed";
        /// `Ready` is False: the snapshot of a ready image was lost. The controller takes another one.
        SNAPSHOT_LOST = "SnapshotLost";
        /// `Ready` is False: snapshot and claim of a ready image were lost. The controller imports the data
        /// again.
        BACKING_DATA_LOST = "BackingDataLost";
        /// `Ready` is False: an object with the name of the image exists, and does not belong to it.
        NAME_CONFLICT = "NameConflict";
        /// `Ready` is False: all attempts together took too long.
        SYNC_DEADLINE_EXCEEDED = "SyncDeadlineExceeded";
        /// `Ready` is False: data of the image was lost too often.
        HEAL_LIMIT_EXCEEDED = "HealLimitExceeded";
        /// `Ready` is False: the image is being deleted.
        TERMINATING = "Terminating";
        /// `InUse` is True.
        REFERENCED = "Referenced";
        /// `InUse` is False.
        UNREFERENCED = "Unreferenced";
        /// `DeletionBlocked` is True: objects refer to the image.
        IN_USE = "InUse";
        /// `DeletionBlocked` is True: objects with the data of the image are not gone yet.
        CLEANUP_PENDING = "CleanupPending";
        /// `SourceVolumeHealthy` is True.
        BOUND = "Bound";
        /// `SourceVolumeHealthy` is False.
        SOURCE_VOLUME_LOST = "SourceVolumeLost";
    }
}

//! The enumerated values of the API as Rust enums.
//!
//! As with the other kinds of this crate, the generated types contain these values as strings.

use crate::enums::{UnknownValue, api_enum};

#[cfg(test)]
mod tests;

api_enum! {
    /// `spec.sourceType` of an image: kind of the source.
    SourceType ("source type") {
        /// An object in S3 storage.
        S3 = "s3",
        /// A file on a web server.
        Http = "http",
        /// A container image.
        Registry = "registry",
        /// No source: an empty disk.
        Blank = "blank",
        /// An object in Google Cloud Storage.
        Gcs = "gcs",
        /// A PersistentVolumeClaim of the namespace of the image.
        Pvc = "pvc",
        /// A VolumeSnapshot of the namespace of the image.
        Snapshot = "snapshot",
        /// A user sends the data.
        Upload = "upload",
    }
}

api_enum! {
    /// `spec.pullMethod` of an image: what downloads a container image.
    PullMethod ("pull method") {
        /// A Pod of CDI.
        Pod = "pod",
        /// The container runtime of a node.
        Node = "node",
    }
}

impl SourceType {
    /// Whether the data is downloaded from a URL.
    #[must_use]
    pub const fn has_url(self) -> bool {
        match self {
            Self::S3 | Self::Http | Self::Registry | Self::Gcs => true,
            Self::Blank | Self::Pvc | Self::Snapshot | Self::Upload => false,
        }
    }

    /// Whether the data is cloned from an object of the namespace of the image, which `spec.sourceName`
    /// names.
    #[must_use]
    pub const fn has_source_name(self) -> bool {
        match self {
            Self::Pvc | Self::Snapshot => true,
            Self::S3 | Self::Http | Self::Registry | Self::Gcs | Self::Blank | Self::Upload => false,
        }
    }
}

api_enum! {
    /// `status.phase` of an image.
    ImagePhase ("phase of an image") {
        /// The import waits for its turn.
        Queued,
        /// The import runs.
        Syncing,
        /// Machines can clone the image.
        Ready,
        /// An attempt failed. The controller tries again.
        RetryableFailure,
        /// The controller does not try again.
        Failed,
    }
}

api_enum! {
    /// `spec.mode` of a wrapper: what the controller does if the image does not exist.
    Mode ("mode") {
        /// It creates the image from `vmDiskImageTemplate`.
        CreateIfNotExist,
        /// It waits until the image exists, and reports the failure.
        FailIfNotExist,
    }
}

api_enum! {
    /// `status.phase` of a wrapper.
    WrapperPhase ("phase of a wrapper") {
        /// Image and machine were not yet ready at the same time.
        Provisioning,
        /// Image and machine were ready at the same time.
        Ready,
        /// A user must do something. The conditions describe what.
        Failed,
    }
}

//! Keys of labels and annotations, and finalizers, of disk images.

/// Prefix of all keys of the group.
pub const PREFIX: &str = "vmpool.dev/";

/// Labels.
pub mod labels {
    /// On DataVolumes, claims, snapshots and DataSources of an image: its UID.
    pub const IMAGE_UID: &str = "vmpool.dev/vmdiskimage-uid";
    /// On machines of a wrapper, and on the DataVolumes with their disks: its UID.
    pub const WRAPPER_UID: &str = "vmpool.dev/wrapper-uid";
}

/// Annotations.
pub mod annotations {
    /// On images: each new value starts the import of a failed image again.
    pub const RETRY: &str = "vmpool.dev/retry";
    /// On images, with the value `true`: a deletion does not wait until the references are gone.
    pub const FORCE_RELEASE: &str = "vmpool.dev/force-release";
    /// On machines of a wrapper: the template that the controller wrote last, as JSON. An update removes what
    /// it set.
    pub const APPLIED_TEMPLATE: &str = "vmpool.dev/applied-template";
    /// On DataVolumes, snapshots and DataSources of an image: the names of the labels that they got from it,
    /// separated by commas.
    pub const COPIED_LABELS: &str = "vmpool.dev/copied-labels";
}

/// Finalizers.
pub mod finalizers {
    /// On images: the controller removes it after the references and the objects of the image are gone.
    pub const IMAGE_PROTECTION: &str = "vmpool.dev/vmdiskimage-protection";
    /// On grants: if their namespace is deleted, the controller removes it after the last image of the
    /// namespace is gone.
    pub const GRANT_PROTECTION: &str = "vmpool.dev/vmdiskimagegrant-protection";
}

//! Types and reasons of the conditions of a wrapper.

use crate::ext::constants::text_constants;

text_constants! {
    "All types of conditions that vmpool publishes in a wrapper.";
    /// Whether image and machine are ready. Its reason is that of what is missing.
    READY = "Ready";
    /// Whether the wrapper can use its image. [`reason`] lists its reasons.
    IMAGE_READY = "ImageReady";
    /// Whether the machine is ready. [`reason`] lists its reasons.
    VIRTUAL_MACHINE_READY = "VirtualMachineReady";
    /// Whether the image is as the template of the wrapper describes it.
    TEMPLATE_MATCHES = "TemplateMatches";
}

/// Reasons of the conditions of a wrapper. The condition `Ready` has the reason of `ImageReady` if that is
/// False, and otherwise the reason of `VirtualMachineReady`.
pub mod reason {
    use crate::ext::constants::text_constants;

    text_constants! {
        "All reasons of conditions that vmpool publishes in a wrapper.";
        /// `ImageReady` is True.
        IMAGE_READY = "ImageReady";
        /// `ImageReady` is False: the image does not exist.
        IMAGE_NOT_FOUND = "ImageNotFound";
        /// `ImageReady` is False: the image did not exist, and the controller created it.
        IMAGE_CREATED = "ImageCreated";
        /// `ImageReady` is False: the data of the image is not there yet.
        IMAGE_SYNCING = "ImageSyncing";
        /// `ImageReady` is False: the import of the image failed.
        IMAGE_FAILED = "ImageFailed";
        /// `ImageReady` is False: the image is being deleted.
        IMAGE_TERMINATING = "ImageTerminating";
        /// `ImageReady` is False: no grant permits the reference.
        REF_NOT_PERMITTED = "RefNotPermitted";
        /// `ImageReady` is False: no grant permits to create the image.
        CREATE_NOT_PERMITTED = "CreateNotPermitted";
        /// `VirtualMachineReady` is True.
        MACHINE_READY = "MachineReady";
        /// `VirtualMachineReady` is False: the machine does not exist.
        NOT_CREATED = "NotCreated";
        /// `VirtualMachineReady` is False: a machine of that name, or an object with the name of its disk,
        /// does not belong to the wrapper.
        NAME_CONFLICT = "NameConflict";
        /// `VirtualMachineReady` is False: the disk of the machine is not ready.
        DISK_NOT_READY = "DiskNotReady";
        /// `VirtualMachineReady` is False: the condition `Ready` of the machine is not True.
        MACHINE_NOT_READY = "MachineNotReady";
        /// `TemplateMatches` is True: the wrapper has no template.
        NO_TEMPLATE = "NoTemplate";
        /// `TemplateMatches` is True: template and image are equal.
        MATCHES = "Matches";
        /// `TemplateMatches` is False. The event has this reason, too.
        TEMPLATE_MISMATCH = "TemplateMismatch";
    }
}

//! What a pass of a wrapper knows and what it decides.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::Quantity;
use vmpool_api::diskimage::values::{ImagePhase, Mode, WrapperPhase};

use crate::grants::ImageCreationRefusal;
use crate::model::{FoundObject, ObjectKey};
use crate::references::ImageMark;

/// The fields of an image that a template can set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageTemplateFields {
    /// `name`.
    pub name: Option<String>,
    /// `url`.
    pub url: Option<String>,
    /// `sourceType`.
    pub source_type: String,
    /// `diskSize`.
    pub disk_size: Quantity,
    /// `storageClass`.
    pub storage_class: Option<String>,
    /// `snapshotClass`.
    pub snapshot_class: Option<String>,
    /// `secretRef`.
    pub secret_ref: Option<String>,
    /// `certConfigMap`.
    pub cert_config_map: Option<String>,
    /// `checksum`.
    pub checksum: Option<String>,
    /// `sourceName`.
    pub source_name: Option<String>,
    /// `pullMethod`.
    pub pull_method: Option<String>,
    /// `insecureSkipVerify`.
    pub insecure_skip_verify: Option<bool>,
    /// `extraHeaders`.
    pub extra_headers: Option<Vec<String>>,
    /// `secretExtraHeaders`.
    pub secret_extra_headers: Option<Vec<String>>,
}

impl ImageTemplateFields {
    /// The names of the fields that the template sets and the image has with another value. Sizes are
    /// compared by value.
    pub fn differences(template: &Self, image: &Self) -> Vec<&'static str> {
        let differs = |wanted: &Option<String>, found: &Option<String>| wanted.is_some() && wanted != found;
        let headers_differ =
            |wanted: &Option<Vec<String>>, found: &Option<Vec<String>>| wanted.is_some() && wanted != found;
        let verifies = |fields: &Self| fields.insecure_skip_verify.map(|skips| !skips);
        let verification_differs =
            verifies(template).is_some_and(|verified| verified != verifies(image).unwrap_or(true));
        let size_differs = match template.disk_size.compare(&image.disk_size) {
            Ok(order) => order.is_ne(),
            Err(_unreadable) => template.disk_size != image.disk_size,
        };
        let fields = [
            ("name", differs(&template.name, &image.name)),
            ("url", differs(&template.url, &image.url)),
            ("sourceType", template.source_type != image.source_type),
            ("diskSize", size_differs),
            ("storageClass", differs(&template.storage_class, &image.storage_class)),
            ("snapshotClass", differs(&template.snapshot_class, &image.snapshot_class)),
            ("secretRef", differs(&template.secret_ref, &image.secret_ref)),
            ("certConfigMap", differs(&template.cert_config_map, &image.cert_config_map)),
            ("checksum", differs(&template.checksum, &image.checksum)),
            ("sourceName", differs(&template.source_name, &image.source_name)),
            ("pullMethod", differs(&template.pull_method, &image.pull_method)),
            ("insecureSkipVerify", verification_differs),
            ("extraHeaders", headers_differ(&template.extra_headers, &image.extra_headers)),
            (
                "secretExtraHeaders",
                headers_differ(&template.secret_extra_headers, &image.secret_extra_headers),
            ),
        ];
        fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// The image that the wrapper names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapperImage {
    /// Its UID.
    pub uid: String,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether it has the finalizer.
    pub protected: bool,
    /// Its phase.
    pub phase: Option<ImagePhase>,
    /// Whether its data can be cloned.
    pub usable: bool,
    /// The message of its status.
    pub message: String,
    /// Its generation.
    pub generation: i64,
    /// Its fields.
    pub source: ImageTemplateFields,
}

/// The machine of the wrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct WrapperMachine {
    /// Its UID.
    pub uid: String,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether its spec is what the wrapper wants.
    pub current: bool,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// Whether users or its run strategy keep it off.
    pub off: bool,
    /// Whether an instance of it exists or existed.
    pub started: bool,
}

/// The DataVolume with the disk of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapperDisk {
    /// Its UID.
    pub uid: String,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether the data is there, or comes with the first consumer.
    pub populated: bool,
    /// Whether CDI reports that it failed.
    pub failed: bool,
    /// Since when it waits because CDI does not find the source, if it does.
    pub stuck_since: Option<Timestamp>,
    /// UID of its claim, if that exists.
    pub claim: Option<String>,
}

/// The disk of a machine that has started, by its UIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDisk {
    /// UID of the DataVolume.
    pub volume: String,
    /// UID of the claim, if it was seen.
    pub claim: Option<String>,
}

/// Who has the name of the disk of a machine that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskNameOwner {
    /// No object, or the disk of a former machine that was deleted without it.
    Free,
    /// The disk of the former machine, which the garbage collector deletes.
    Former,
    /// An object of this kind that does not belong to the wrapper.
    Taken(&'static str),
    /// Another wrapper, whose machine has a disk of the same name.
    Wrapper(String),
}

/// A wrapper, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Namespace and name. The machine has the same.
    pub key: ObjectKey,
    /// The UID.
    pub uid: String,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// The image that it names.
    pub image: ObjectKey,
    /// The image that the controller creates.
    pub template: Option<ImageTemplateFields>,
    /// Whether it creates a missing image.
    pub mode: Mode,
    /// Size of the machine's disk, if the wrapper sets it.
    pub disk_size: Option<Quantity>,
    /// Why no machine can be made from its template, if none can.
    pub unusable: Option<String>,
    /// The stored status.
    pub status: WrapperStatus,
}

impl Wrapper {
    /// Whether the controller creates a missing image.
    pub fn creates_image(&self) -> bool {
        self.mode == Mode::CreateIfNotExist && self.template.is_some()
    }
}

/// Reason of the condition `ImageReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WrapperImageReason {
    /// The condition is True.
    ImageReady,
    /// The image does not exist.
    ImageNotFound,
    /// The controller created it.
    ImageCreated,
    /// Its data is not there yet.
    ImageSyncing,
    /// Its import failed.
    ImageFailed,
    /// It is being deleted.
    ImageTerminating,
    /// No grant permits the reference.
    RefNotPermitted,
    /// No grant permits to create it.
    CreateNotPermitted,
}

impl WrapperImageReason {
    /// All reasons, in the order of the declaration.
    pub const ALL: [Self; 8] = [
        Self::ImageReady,
        Self::ImageNotFound,
        Self::ImageCreated,
        Self::ImageSyncing,
        Self::ImageFailed,
        Self::ImageTerminating,
        Self::RefNotPermitted,
        Self::CreateNotPermitted,
    ];

    /// The reason with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// The text in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ImageReady => "ImageReady",
            Self::ImageNotFound => "ImageNotFound",
            Self::ImageCreated => "ImageCreated",
            Self::ImageSyncing => "ImageSyncing",
            Self::ImageFailed => "ImageFailed",
            Self::ImageTerminating => "ImageTerminating",
            Self::RefNotPermitted => "RefNotPermitted",
            Self::CreateNotPermitted => "CreateNotPermitted",
        }
    }

    /// Whether no grant permits what the wrapper needs.
    pub fn is_denied(self) -> bool {
        matches!(self, Self::RefNotPermitted | Self::CreateNotPermitted)
    }
}

/// Reason of the condition `VirtualMachineReady`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WrapperMachineReason {
    /// The condition is True.
    MachineReady,
    /// The machine does not exist.
    NotCreated,
    /// A machine of that name, or an object with the name of its disk, does not belong to the wrapper.
    NameConflict,
    /// Its disk is not ready.
    DiskNotReady,
    /// Its own condition Ready is not True.
    MachineNotReady,
}

impl WrapperMachineReason {
    /// All reasons, in the order of the declaration.
    pub const ALL: [Self; 5] =
        [Self::MachineReady, Self::NotCreated, Self::NameConflict, Self::DiskNotReady, Self::MachineNotReady];

    /// The reason with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// The text in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MachineReady => "MachineReady",
            Self::NotCreated => "NotCreated",
            Self::NameConflict => "NameConflict",
            Self::DiskNotReady => "DiskNotReady",
            Self::MachineNotReady => "MachineNotReady",
        }
    }

    /// What it means, for users.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::MachineReady => "",
            Self::NotCreated => "the machine does not exist yet",
            Self::NameConflict => "an object with a name that the wrapper needs does not belong to it",
            Self::DiskNotReady => "the disk of the machine is not ready",
            Self::MachineNotReady => "the machine is not ready",
        }
    }
}

/// The status of a wrapper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrapperStatus {
    /// The phase. None before the first pass.
    pub phase: Option<WrapperPhase>,
    /// Details for users.
    pub message: String,
    /// The image that it holds on to, and whether it was read again since.
    pub mark: Option<ImageMark>,
    /// Whether the wrapper is bound to that image.
    pub bound: bool,
    /// UID of the machine.
    pub machine: Option<String>,
    /// Whether this machine has ever started.
    pub started: bool,
    /// The disk of the machine, if it has started. Another one in its place lacks the data of the guest.
    pub disk: Option<RecordedDisk>,
    /// How often its disk was deleted because the clone did not begin.
    pub kicks: u32,
    /// When that was done last.
    pub last_kick: Option<Timestamp>,
    /// Reason of the condition `ImageReady`.
    pub image: Option<WrapperImageReason>,
    /// Reason of the condition `VirtualMachineReady`.
    pub virtual_machine: Option<WrapperMachineReason>,
    /// The fields in which template and image differ. None without a template or image.
    pub differences: Option<Vec<&'static str>>,
    /// The generation of the image that was compared.
    pub compared: i64,
    /// Whether the condition `Ready` is True.
    pub ready: bool,
}

/// All that one pass may know.
#[derive(Clone, Copy, Debug)]
pub struct WrapperPassInput<'a> {
    /// When the pass began.
    pub now: Timestamp,
    /// The wrapper.
    pub wrapper: &'a Wrapper,
    /// The image that it names. None if it does not exist.
    pub image: Option<&'a WrapperImage>,
    /// Whether the image was read from the API server in this pass, after the wrapper.
    pub image_is_live: bool,
    /// Whether the wrapper may refer to the image.
    pub may_refer: bool,
    /// Whether the wrapper may create the image.
    pub may_create: &'a Result<(), ImageCreationRefusal>,
    /// The machine of that name.
    pub machine: &'a FoundObject<WrapperMachine>,
    /// The DataVolume of the machine.
    pub disk: Option<&'a WrapperDisk>,
    /// Who has the name of the disk.
    pub disk_name: &'a DiskNameOwner,
    /// Whether this was read from the API server in this pass.
    pub disk_name_is_live: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrapperAction {
    /// Creates the image from the template. An existing one is a success.
    CreateImage,
    /// Creates the machine.
    CreateMachine,
    /// Applies the template to the machine.
    UpdateMachine {
        /// UID of the machine.
        uid: String,
    },
    /// Deletes the DataVolume, so that KubeVirt makes it again. Only before the machine has ever started.
    Kick {
        /// UID of the DataVolume.
        uid: String,
    },
}

/// What a pass must read from the API server, because a cache may be behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapperRead {
    /// The image.
    Image,
    /// The objects with the name of the disk. KubeVirt uses an existing DataVolume or claim of that name for
    /// the machine.
    DiskName,
}

/// What a pass does. The status is written before the actions if its mark differs from the stored one, else
/// after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapperPlan {
    /// The writes, in their order.
    pub actions: Vec<WrapperAction>,
    /// The status to publish.
    pub status: WrapperStatus,
    /// After which time to look again, if no event comes earlier.
    pub again: Option<Duration>,
}

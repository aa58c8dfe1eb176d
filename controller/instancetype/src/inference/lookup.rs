//! The objects that inference reads, and why it can end without a result.

use crate::tree::Malformed;

/// The kind of an object that inference reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InferenceSourceKind {
    /// A PersistentVolumeClaim.
    Claim,
    /// A DataVolume.
    DataVolume,
    /// A DataSource.
    DataSource,
    /// A VolumeSnapshot.
    Snapshot,
}

impl InferenceSourceKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Claim, Self::DataVolume, Self::DataSource, Self::Snapshot];

    /// The kind of the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "PersistentVolumeClaim",
            Self::DataVolume => "DataVolume",
            Self::DataSource => "DataSource",
            Self::Snapshot => "VolumeSnapshot",
        }
    }
}

/// An object that inference needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferenceLookup {
    /// Its kind.
    pub source: InferenceSourceKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why nothing was inferred.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    /// The machine has no volume of that name.
    #[error("the machine has no volume {0:?}")]
    NoVolume(String),
    /// An object that the volume leads to does not exist.
    #[error("{kind} {namespace}/{name} was not found", kind = .0.source.as_str(), namespace = .0.namespace, name = .0.name)]
    NotFound(InferenceLookup),
    /// An object of another namespace does not exist, or may not be used. Which of the two is no fact for
    /// users of this namespace.
    #[error("{kind} {namespace}/{name} does not exist, or machines of namespace {from} may not clone it",
        kind = .lookup.source.as_str(), namespace = .lookup.namespace, name = .lookup.name)]
    NotAvailable {
        /// The object.
        lookup: InferenceLookup,
        /// The namespace of the machine.
        from: String,
    },
    /// The volume, or what it leads to, is of a kind that has no labels for inference.
    #[error("{0} is not supported for inference")]
    Unsupported(String),
    /// The object at the end has no label with a name.
    #[error("{object} has no label {label}")]
    NoLabel {
        /// The object.
        object: String,
        /// The label.
        label: &'static str,
    },
    /// A field has the wrong type.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl InferenceError {
    /// Whether the failure policy `Ignore` applies. Failed lookups are never ignored: another attempt may
    /// find the object.
    pub const fn is_ignorable(&self) -> bool {
        matches!(self, Self::Unsupported(_) | Self::NoLabel { .. })
    }
}

//! Whether a machine may use a copy that its spec or its status names.

use crate::model::InstanceTypeKind;

use super::{DecodedCopy, InstanceTypeCopy, StoredVersion, labels};

/// What a machine refers to, and how it came to the copy.
#[derive(Debug, Clone)]
pub struct ExpectedCopy<'a> {
    /// The normalized kind of the matcher.
    pub kind: InstanceTypeKind,
    /// The name in the matcher.
    pub name: &'a str,
    /// Whether the matcher itself names the copy, in `revisionName`.
    pub by_spec: bool,
    /// Whether the status of the machine names the copy.
    pub by_status: bool,
    /// The UID of the machine.
    pub machine_uid: &'a str,
    /// The name of the machine.
    pub machine_name: &'a str,
}

/// What to do with a copy that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// Use it.
    Use,
    /// Use it, and upgrade it: it has no labels or an older version.
    Upgrade,
    /// Do not use it, but the live object: the matcher was changed, and the status still names the old copy.
    Stale,
}

/// The copy does not belong to the matcher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "ControllerRevision {revision} belongs to {found}, but the machine refers to {wanted}; correct or remove revisionName"
)]
pub struct RevisionMismatch {
    /// The name of the ControllerRevision.
    pub revision: String,
    /// Kind and name that it belongs to.
    pub found: String,
    /// Kind and name that the matcher gives.
    pub wanted: String,
}

/// Compares a copy with the matcher. `decoded` is the object of the copy.
///
/// # Errors
/// [`RevisionMismatch`] if the copy is of another kind, or has another name and `revisionName` names it, or
/// has data of which its labels say something else, or has no labels and was not made by KubeVirt for this
/// machine.
pub fn accept_copy(
    copy: &InstanceTypeCopy,
    decoded: &DecodedCopy,
    wanted: &ExpectedCopy<'_>,
) -> Result<Acceptance, RevisionMismatch> {
    let mismatch = |kind: &str, name: &str| RevisionMismatch {
        revision: copy.name.clone(),
        found: format!("{kind} {name:?}"),
        wanted: format!("{} {:?}", wanted.kind, wanted.name),
    };
    let stored = &decoded.object;
    if copy.is_unlabeled() {
        // Old copies of KubeVirt have no labels, and it records each copy that it uses in the status.
        // Anything else is a ControllerRevision that another client wrote.
        let old = wanted.by_status
            && copy.is_owned_by(wanted.machine_name, wanted.machine_uid)
            && stored.kind == wanted.kind;
        return match stored.identity.name == wanted.name {
            true if old => Ok(Acceptance::Upgrade),
            false if old && !wanted.by_spec => Ok(Acceptance::Stale),
            _ => Err(mismatch(stored.kind.as_str(), &stored.identity.name)),
        };
    }
    let label = |key: &str| copy.labels.get(key).map_or("", String::as_str);
    let (kind, name) = (label(labels::KIND), label(labels::NAME));
    // The data must be what the labels say, or a label could pass off one object as another. Not all copies
    // know UID and generation of their object.
    let same = |key: &str, stored: Option<String>| {
        let label = label(key);
        label.is_empty() || stored.is_none_or(|stored| stored == label)
    };
    let consistent = kind == stored.kind.as_str()
        && name == stored.identity.name
        && same(labels::UID, stored.identity.uid.clone())
        && same(labels::GENERATION, stored.identity.generation.map(|generation| generation.to_string()));
    if kind != wanted.kind.as_str() || !consistent {
        return Err(mismatch(kind, name));
    }
    if name != wanted.name {
        return if wanted.by_spec { Err(mismatch(kind, name)) } else { Ok(Acceptance::Stale) };
    }
    let is_later = decoded.stored == StoredVersion::V1;
    let current = is_later || label(labels::VERSION) == crate::model::VERSION;
    Ok(if current { Acceptance::Use } else { Acceptance::Upgrade })
}

//! Reading the data of a copy, in all versions that KubeVirt ever stored, and in the next one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::convert;
use super::name::{CopiedObjectState, parse_copy_name};
use super::object::{InstanceTypeCopy, reduce_metadata};
use crate::model::{self, GROUP, InstanceTypeKind, InstanceTypeObject, ObjectError, TypeFamily, VERSION};
use crate::tree::Malformed;

/// The version in which a copy stores its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredVersion {
    /// `v1`, which a later KubeVirt stores. It is read as the current version, and never replaced.
    V1,
    /// `v1beta1`, the current version.
    V1beta1,
    /// `v1alpha2`.
    V1alpha2,
    /// `v1alpha1`.
    V1alpha1,
    /// `v1alpha1`, without kind and metadata: the spec as base64.
    SpecRevision,
}

impl StoredVersion {
    /// The version, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
            Self::V1alpha2 => "v1alpha2",
            Self::V1alpha1 => "v1alpha1",
            Self::SpecRevision => "v1alpha1-spec",
        }
    }

    /// Whether it is older than the current version.
    pub const fn is_former(self) -> bool {
        match self {
            Self::V1 | Self::V1beta1 => false,
            Self::V1alpha2 | Self::V1alpha1 | Self::SpecRevision => true,
        }
    }
}

/// The object of a copy, converted to the current version.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedCopy {
    /// The object.
    pub object: InstanceTypeObject,
    /// How it was stored.
    pub stored: StoredVersion,
}

/// Why the data of a copy cannot be read. Messages do not quote the data, because a machine can name any
/// ControllerRevision of its namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The data is not one of the four kinds, has an unknown version, or a part of it has the wrong type.
    #[error("decoding ControllerRevision {revision}: {source}")]
    Object {
        /// The name of the ControllerRevision.
        revision: String,
        /// The reason.
        source: ObjectError,
    },
    /// The data has the form of the first version, but contains no spec.
    #[error("decoding ControllerRevision {revision}: it contains neither a preference nor an instance type")]
    SpecRevision {
        /// The name of the ControllerRevision.
        revision: String,
    },
}

/// Reads the object of a copy. `kind` and `name` are those of the matcher: data of the first version does
/// not have them.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_copy(
    copy: &InstanceTypeCopy,
    kind: InstanceTypeKind,
    name: &str,
) -> Result<DecodedCopy, DecodeError> {
    if let Some((api_version, spec)) = spec_revision(&copy.data)
        && api_version == format!("{GROUP}/v1alpha1")
    {
        return from_spec(copy, spec, kind, name)
            .ok_or_else(|| DecodeError::SpecRevision { revision: copy.name.clone() });
    }
    let failed = |source| DecodeError::Object { revision: copy.name.clone(), source };
    let alpha = [("v1alpha2", StoredVersion::V1alpha2), ("v1alpha1", StoredVersion::V1alpha1)];
    for (version, stored) in alpha {
        if let Ok(kind) = model::kind_of(&copy.data, version) {
            let object = convert_alpha_object(&copy.data, kind).map_err(failed)?;
            return Ok(DecodedCopy { object, stored });
        }
    }
    let (mut document, mut stored) = (copy.data.clone(), StoredVersion::V1beta1);
    if model::kind_of(&document, StoredVersion::V1.as_str()).is_ok() {
        document["apiVersion"] = format!("{GROUP}/{VERSION}").into();
        stored = StoredVersion::V1;
    }
    let object = InstanceTypeObject::read(document).map_err(failed)?;
    Ok(DecodedCopy { object, stored })
}

/// The two fields of the first version, if there are exactly these.
fn spec_revision(data: &Value) -> Option<(&str, &str)> {
    let fields = data.as_object().filter(|fields| fields.len() == 2)?;
    Some((fields.get("apiVersion")?.as_str()?, fields.get("spec")?.as_str()?))
}

fn from_spec(copy: &InstanceTypeCopy, spec: &str, kind: InstanceTypeKind, name: &str) -> Option<DecodedCopy> {
    let spec: Value = serde_json::from_slice(&BASE64_STANDARD.decode(spec).ok()?).ok()?;
    let family = spec.is_object().then(|| convert::family_of(&spec)).flatten()?;
    // A spec of the other family keeps its own, so that using it fails with the mismatch.
    let kind = InstanceTypeKind::of(family, kind.is_cluster());
    let mut document = json!({"kind": kind.as_str(), "metadata": {"name": name}, "spec": spec});
    if let Some(CopiedObjectState { uid, generation }) = parse_copy_name(&copy.name) {
        document["metadata"]["uid"] = uid.into();
        document["metadata"]["generation"] = generation.into();
    }
    if !kind.is_cluster() {
        document["metadata"]["namespace"] = copy.namespace.clone().into();
    }
    let object = convert_alpha_object(&document, kind).ok()?;
    Some(DecodedCopy { object, stored: StoredVersion::SpecRevision })
}

/// An object of an alpha version in the current one.
fn convert_alpha_object(document: &Value, kind: InstanceTypeKind) -> Result<InstanceTypeObject, ObjectError> {
    let mut document = reduce_metadata(document);
    let malformed = |source: Malformed| ObjectError::Malformed { kind, name: String::new(), source };
    convert::convert_alpha_spec(kind.family(), &mut document).map_err(malformed)?;
    document["apiVersion"] = format!("{GROUP}/{VERSION}").into();
    InstanceTypeObject::read(document)
}

impl DecodedCopy {
    /// Whether the object is of this family.
    pub fn is(&self, family: TypeFamily) -> bool {
        self.object.kind.family() == family
    }
}

//! Objects of the four kinds.

use serde_json::Value;
pub use vmpool_api::instancetype::{GROUP, VERSION};

use super::{InstanceTypeKind, InstancetypeSpec, PreferenceSpec, TypeFamily};
use crate::tree::{self, Malformed};

/// The longest text of a document that a message quotes. A kind is shorter.
const QUOTED: usize = 64;

/// Why a document is not an object of the four kinds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It has another kind, or another version.
    #[error("the object is of kind {found:?}, which is not a kind of {GROUP}/{VERSION}")]
    OtherKind {
        /// API version and kind of the document, shortened; empty if it has none.
        found: String,
    },
    /// It is of the other family.
    #[error("the object is a {found}, but {wanted} is needed", wanted = wanted.noun())]
    OtherFamily {
        /// What is needed.
        wanted: TypeFamily,
        /// The kind of the object.
        found: InstanceTypeKind,
    },
    /// A field is missing or has the wrong type.
    #[error("{kind} {name}: {source}")]
    Malformed {
        /// The kind of the object.
        kind: InstanceTypeKind,
        /// The name of the object; empty if it has none.
        name: String,
        /// The field.
        source: Malformed,
    },
}

/// What identifies an object, and the version of its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// The name.
    pub name: String,
    /// The namespace; `None` for cluster kinds.
    pub namespace: Option<String>,
    /// The UID; `None` in a copy of KubeVirt's first version, which does not store it.
    pub uid: Option<String>,
    /// The generation; `None` where the UID is.
    pub generation: Option<i64>,
}

/// An object of one of the four kinds, with the document that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTypeObject {
    /// The kind.
    pub kind: InstanceTypeKind,
    /// Name, namespace, UID and generation.
    pub identity: ObjectIdentity,
    document: Value,
}

impl InstanceTypeObject {
    /// Reads an object. The spec is not examined: [`Instancetype::new`] and [`Preference::new`] do that.
    ///
    /// # Errors
    /// [`ObjectError::OtherKind`], or [`ObjectError::Malformed`] in the metadata. Messages do not quote the
    /// document, except for its kind.
    pub fn read(document: Value) -> Result<Self, ObjectError> {
        let kind = kind_of(&document, VERSION)?;
        let identity = read_identity(&document).map_err(|source| ObjectError::Malformed {
            kind,
            name: String::new(),
            source,
        })?;
        Ok(Self { kind, identity, document })
    }

    /// The whole document.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// An object that is being deleted, as it was before: the API server increments the generation when the
    /// deletion begins. `None` if it is not being deleted.
    pub fn before_deletion(&self) -> Option<Self> {
        self.document["metadata"]["deletionTimestamp"].as_str()?;
        let mut earlier = self.clone();
        let generation = self.identity.generation?.checked_sub(1)?;
        earlier.identity.generation = Some(generation);
        earlier.document["metadata"]["generation"] = generation.into();
        Some(earlier)
    }

    /// The spec as it was written; null if it is absent.
    pub fn spec(&self) -> &Value {
        &self.document["spec"]
    }

    fn expect(&self, wanted: TypeFamily) -> Result<(), ObjectError> {
        if self.kind.family() == wanted {
            Ok(())
        } else {
            Err(ObjectError::OtherFamily { wanted, found: self.kind })
        }
    }

    fn malformed(&self, source: Malformed) -> ObjectError {
        ObjectError::Malformed {
            kind: self.kind,
            name: self.identity.name.clone(),
            source: source.below("spec"),
        }
    }
}

/// The kind of a document in this version of the group.
pub(crate) fn kind_of(document: &Value, version: &str) -> Result<InstanceTypeKind, ObjectError> {
    let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let ours = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/')) == Some(version);
    InstanceTypeKind::of_object(kind).filter(|_| ours).ok_or_else(|| {
        let found = format!("{api_version} {kind}");
        ObjectError::OtherKind { found: found.trim().chars().take(QUOTED).collect() }
    })
}

fn read_identity(document: &Value) -> Result<ObjectIdentity, Malformed> {
    let owned = |path| Ok::<_, Malformed>(tree::text_at(document, path)?.map(str::to_owned));
    Ok(ObjectIdentity {
        name: owned("metadata.name")?.ok_or_else(|| Malformed::new("metadata.name", "set"))?,
        namespace: owned("metadata.namespace")?,
        uid: owned("metadata.uid")?,
        generation: tree::i64_at(document, "metadata.generation")?,
    })
}

/// An instance type with its spec.
#[derive(Debug, Clone)]
pub struct Instancetype {
    /// The object.
    pub object: InstanceTypeObject,
    /// Its spec.
    pub spec: InstancetypeSpec,
}

impl Instancetype {
    /// Reads the spec of an object.
    ///
    /// # Errors
    /// [`ObjectError::OtherFamily`] for a preference, [`ObjectError::Malformed`] if the spec cannot be read.
    pub fn new(object: InstanceTypeObject) -> Result<Self, ObjectError> {
        object.expect(TypeFamily::Instancetype)?;
        let spec = InstancetypeSpec::read(object.spec()).map_err(|error| object.malformed(error))?;
        Ok(Self { object, spec })
    }
}

/// A preference with its spec.
#[derive(Debug, Clone)]
pub struct Preference {
    /// The object.
    pub object: InstanceTypeObject,
    /// Its spec.
    pub spec: PreferenceSpec,
}

impl Preference {
    /// Reads the spec of an object.
    ///
    /// # Errors
    /// [`ObjectError::OtherFamily`] for an instance type, [`ObjectError::Malformed`] if the spec cannot be
    /// read.
    pub fn new(object: InstanceTypeObject) -> Result<Self, ObjectError> {
        object.expect(TypeFamily::Preference)?;
        let spec = PreferenceSpec::read(object.spec()).map_err(|error| object.malformed(error))?;
        Ok(Self { object, spec })
    }
}

/// The instance type and the preference of one machine, as far as it has them.
#[derive(Debug, Clone, Default)]
pub struct InstanceTypeAndPreference {
    /// The instance type.
    pub instancetype: Option<Instancetype>,
    /// The preference.
    pub preference: Option<Preference>,
}

impl InstanceTypeAndPreference {
    /// Adds an instance type or a preference.
    ///
    /// # Errors
    /// [`ObjectError::Malformed`] if the spec cannot be read.
    pub fn insert(&mut self, object: InstanceTypeObject) -> Result<(), ObjectError> {
        match object.kind.family() {
            TypeFamily::Instancetype => self.instancetype = Some(Instancetype::new(object)?),
            TypeFamily::Preference => self.preference = Some(Preference::new(object)?),
        }
        Ok(())
    }

    /// The spec of the instance type.
    pub fn instancetype_spec(&self) -> Option<&InstancetypeSpec> {
        self.instancetype.as_ref().map(|instancetype| &instancetype.spec)
    }

    /// The spec of the preference.
    pub fn preference_spec(&self) -> Option<&PreferenceSpec> {
        self.preference.as_ref().map(|preference| &preference.spec)
    }

    /// The object of a family.
    pub fn object(&self, family: TypeFamily) -> Option<&InstanceTypeObject> {
        match family {
            TypeFamily::Instancetype => self.instancetype.as_ref().map(|instancetype| &instancetype.object),
            TypeFamily::Preference => self.preference.as_ref().map(|preference| &preference.object),
        }
    }
}

//! The objects that disk templates name as the sources of their disks.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_api::ObjectKey;

use super::ApiObject;

/// An object that disk templates name, directly or through another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskSourceRef {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, empty for an object without one, and its name.
    pub key: ObjectKey,
}

impl fmt::Display for DiskSourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectKey { namespace, name } = &self.key;
        if namespace.is_empty() {
            write!(f, "{}/{name}", self.kind)
        } else {
            write!(f, "{}/{namespace}/{name}", self.kind)
        }
    }
}

/// A disk template whose disks go with their machines, and the object that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDiskSource {
    /// Name of the template, unique within the pool.
    pub template: Arc<str>,
    /// The object.
    pub source: DiskSourceRef,
}

/// What a stored object says about the content of disks that are created from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSourceState {
    /// It has the content, which never changes.
    Content {
        /// Identity of the content.
        id: Arc<str>,
        /// When the object was created.
        created: Timestamp,
    },
    /// Another object has the content.
    LeadsTo(DiskSourceRef),
    /// It is not ready.
    Unready,
}

/// A kind of objects that disk templates name.
pub trait DiskSourceKind: ApiObject {
    /// Whether objects of this kind are in namespaces.
    const IS_NAMESPACED: bool = true;
    /// Whether each cluster has the kind, without a definition.
    const IS_BUILT_IN: bool = false;
    /// The kind in a [`DiskSourceRef`].
    const KIND: &'static str;

    /// What the object says about content.
    fn state(&self) -> DiskSourceState;
}

/// Visits the kinds of a platform.
pub trait DiskSourceVisitor {
    /// Visits one kind.
    fn visit<K: DiskSourceKind>(&mut self);
}

/// The sources of the disks of a platform.
pub trait DiskSources<Pool>: Send + Sync + 'static {
    /// The disk templates of the pool whose disks go with their machines and that name an object as their
    /// source.
    fn named(pool: &Pool) -> Vec<NamedDiskSource>;

    /// Visits the kinds of objects that disk templates name, directly or through another one.
    fn each_kind(visitor: &mut impl DiskSourceVisitor);
}

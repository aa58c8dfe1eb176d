//! The objects that rules depend on, as data: a platform says what to read, and the webhook reads it.

use serde_json::Value;

/// What an object is to the rules. It determines how much of the object the webhook reads, and labels its metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A class of machines.
    Class,
    /// An image.
    Image,
    /// A snapshot of a disk, or of its volume.
    Snapshot,
    /// A stored revision of a machine template.
    Revision,
    /// A pool.
    Pool,
}

/// One read. Equal lookups read the same object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lookup {
    /// What the object is.
    pub subject: Subject,
    /// `apiVersion` of the object: group and version.
    pub api_version: &'static str,
    /// The resource, in the plural.
    pub plural: &'static str,
    /// Whether the object is in the namespace of the pool.
    pub namespaced: bool,
    /// Name of the object; `None` reads all objects of the resource, as a list.
    pub name: Option<String>,
    /// Paths of the fields to keep, with dots between the names. `items` keeps the list.
    pub fields: &'static [&'static str],
}

impl Lookup {
    /// Whether the verdict reveals the object to the user of the request, who may have no right to read it. The webhook
    /// reads such an object only for the API server.
    pub fn is_revealing(&self) -> bool {
        matches!(self.subject, Subject::Image | Subject::Snapshot)
    }
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    /// The object.
    There(T),
    /// There is no such object.
    Absent,
    /// The read failed, for this reason.
    Failed(String),
}

impl<T> Found<T> {
    /// The same with another object.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::There(value) => Found::There(change(value)),
            Self::Absent => Found::Absent,
            Self::Failed(reason) => Found::Failed(reason),
        }
    }
}

/// A lookup, and the result of it.
pub type LookupResult = (Lookup, Found<Value>);

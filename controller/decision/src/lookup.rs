//! The objects that rules depend on, as data: a rule returns what to read, and the webhook reads it.

/// What an object is to the rules. The metrics of reads have it as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LookupSubject {
    /// A machine class.
    Class,
    /// An image.
    Image,
    /// A snapshot of a disk or of its volume.
    Snapshot,
    /// A stored revision of a machine template.
    Revision,
    /// A storage class.
    StorageClass,
    /// The permissions that a namespace gives to others.
    Grant,
    /// A wrapper of a machine.
    Wrapper,
    /// A namespace.
    Namespace,
    /// A pool.
    Pool,
    /// A machine.
    Machine,
    /// The size of a machine, or defaults for it, as an object that the machine names.
    Instancetype,
    /// What a volume of a machine is made of.
    Volume,
}

/// The namespace of an object that rules depend on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LookupNamespace {
    /// The object is in no namespace.
    Cluster,
    /// That of the reviewed object.
    Reviewed,
    /// The one with this name.
    Named(String),
}

/// One read. Equal lookups read the same object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectLookup {
    /// What the object is.
    pub subject: LookupSubject,
    /// Group and version of the object, such as `apps/v1`.
    pub api_version: &'static str,
    /// The plural name of the resource.
    pub plural: &'static str,
    /// The namespace of the object.
    pub namespace: LookupNamespace,
    /// The name of the object; `None` for the list of all objects of the resource.
    pub name: Option<String>,
    /// Paths of the fields that the rules use, with dots between the names. `items` selects the entries of a
    /// list.
    pub fields: &'static [&'static str],
    /// Whether the verdict shows the requesting user facts of the object, which the user may have no
    /// permission to read. The webhook reads such an object only for an API server that has authenticated
    /// itself.
    pub reveals: bool,
}

/// The result of reading an object.
#[derive(Clone, Debug, PartialEq)]
pub enum LookupOutcome<T> {
    /// The object.
    There(T),
    /// The object does not exist.
    Absent,
    /// The object could not be read. Contains the error.
    Failed(String),
}

impl<T> LookupOutcome<T> {
    /// The same result with another object.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> LookupOutcome<U> {
        match self {
            Self::There(value) => LookupOutcome::There(change(value)),
            Self::Absent => LookupOutcome::Absent,
            Self::Failed(reason) => LookupOutcome::Failed(reason),
        }
    }
}

//! Label values. Each set is fixed.

use vmpool_engine::admission::LookupSubject;
use vmpool_runtime::label_values;

label_values!(
    /// The reviewed resource.
    pub(crate) Path {
        /// A pool.
        Pool => "pool",
        /// A pool whose absent fields are set.
        PoolDefaults => "pool_defaults",
        /// The scale of a pool.
        Scale => "scale",
        /// An image.
        Image => "image",
        /// An image that gets its finalizer.
        ImageProtection => "image_protection",
        /// A wrapper.
        Wrapper => "wrapper",
        /// A grant.
        Grant => "grant",
        /// An autoscaler.
        Autoscaler => "autoscaler",
        /// A machine or pool that names an image.
        References => "references",
        /// The instance type and the preference that the template of a pool names.
        PoolInstancetypes => "pool_instancetypes",
        /// An instance type or a preference.
        Instancetype => "instancetype",
        /// An instance type or a preference that gets its finalizer.
        Protection => "protection",
        /// A machine that names an instance type or a preference.
        Machine => "machine",
        /// A machine that is completed from its preference and its volumes.
        Completion => "completion",
    }
);

label_values!(
    /// The reviewed operation.
    pub(crate) Operation {
        /// A create.
        Create => "create",
        /// An update.
        Update => "update",
        /// Another operation. The webhook always allows it.
        Other => "other",
        /// The body could not be read.
        Unknown => "unknown",
    }
);

label_values!(
    /// The result of a review.
    pub(crate) Verdict {
        /// The request is allowed.
        Allowed => "allowed",
        /// The request violates a rule: code 403 or 422 in the review.
        Refused => "refused",
        /// The review lacks an object or contains one of another kind: code 400 in the review.
        Malformed => "malformed",
        /// The object exceeds the memory limit for one object: code 413 in the review.
        TooLarge => "too_large",
        /// A read that a rule needs failed: code 500 in the review.
        Undecided => "undecided",
        /// The body is not an admission review, or the client is not accepted: an HTTP error.
        Unreadable => "unreadable",
    }
);

label_values!(
    /// The resource of a read.
    pub(crate) Resource {
        /// A machine class, or all classes to find the default one.
        Class => "class",
        /// An image in the namespace or a cluster-wide image.
        Image => "image",
        /// A snapshot of a disk or of its volume.
        Snapshot => "snapshot",
        /// A stored revision of a machine template.
        Revision => "revision",
        /// A storage class.
        StorageClass => "storage_class",
        /// The grants of a namespace.
        Grant => "grant",
        /// A wrapper that controls a new machine.
        Wrapper => "wrapper",
        /// A namespace, for its labels.
        Namespace => "namespace",
        /// A pool, for the scale guard or as the owner of a machine, or pools, to compare a KubeVirt pool or
        /// an edited type with them.
        Pool => "pool",
        /// An instance type or a preference that a machine names.
        Instancetype => "instancetype",
        /// An object behind a volume, whose labels name an instance type or a preference.
        Volume => "volume",
        /// A machine of a KubeVirt pool, which is created as a dry run, or machines, to compare an edited
        /// instance type with them.
        Machine => "machine",
    }
);

label_values!(
    /// The result of a read, or of a dry run.
    pub(crate) ReadResult {
        /// The object exists, or a dry run showed whether it is valid.
        Found => "found",
        /// The object does not exist.
        Absent => "absent",
        /// The API server returned an error, or no response before the deadline.
        Failed => "failed",
    }
);

impl Operation {
    /// The value for the operation of a review.
    pub(crate) fn named(operation: &str) -> Self {
        match operation {
            "CREATE" => Self::Create,
            "UPDATE" => Self::Update,
            _ => Self::Other,
        }
    }
}

impl Resource {
    /// The value for the subject of a lookup.
    pub(crate) fn of(subject: LookupSubject) -> Self {
        match subject {
            LookupSubject::Class => Self::Class,
            LookupSubject::Image => Self::Image,
            LookupSubject::Snapshot => Self::Snapshot,
            LookupSubject::Revision => Self::Revision,
            LookupSubject::StorageClass => Self::StorageClass,
            LookupSubject::Grant => Self::Grant,
            LookupSubject::Wrapper => Self::Wrapper,
            LookupSubject::Namespace => Self::Namespace,
            LookupSubject::Pool => Self::Pool,
            LookupSubject::Machine => Self::Machine,
            LookupSubject::Instancetype => Self::Instancetype,
            LookupSubject::Volume => Self::Volume,
        }
    }
}

//! The words that label values are made of. Their sets are closed.

use vmpool_engine::admission::Subject;
use vmpool_runtime::words;

use crate::review::Answer;

words!(
    /// What is reviewed.
    pub(crate) Path {
        /// A pool.
        Pool => "pool",
        /// The scale of a pool.
        Scale => "scale",
    }
);

words!(
    /// What is done to it.
    pub(crate) Operation {
        /// It is made.
        Create => "create",
        /// It is changed.
        Update => "update",
        /// Anything else, which is always allowed.
        Other => "other",
        /// The body did not say.
        Unknown => "unknown",
    }
);

words!(
    /// What was answered.
    pub(crate) Verdict {
        /// Go on.
        Allowed => "allowed",
        /// A rule is broken.
        Refused => "refused",
        /// The object is not what it should be: 400 in the review.
        Malformed => "malformed",
        /// The object takes more memory than is spent on one: 413 in the review.
        TooLarge => "too_large",
        /// A read failed that a rule depends on: 500 in the review.
        Undecided => "undecided",
        /// It was no review: an HTTP error.
        Unreadable => "unreadable",
    }
);

words!(
    /// What was read.
    pub(crate) Resource {
        /// A class, or all of them to find the default.
        Class => "class",
        /// An image of either kind.
        Image => "image",
        /// A snapshot of a disk, or of its volume.
        Snapshot => "snapshot",
        /// A stored revision of a machine template.
        Revision => "revision",
        /// A pool, for the scale guard.
        Pool => "pool",
    }
);

words!(
    /// What came of a read.
    pub(crate) ReadResult {
        /// It is there.
        Found => "found",
        /// It is not.
        Absent => "absent",
        /// There was an error, or no answer in time.
        Failed => "failed",
    }
);

impl Resource {
    /// The value for what a lookup is about.
    pub(crate) fn of(subject: Subject) -> Self {
        match subject {
            Subject::Class => Self::Class,
            Subject::Image => Self::Image,
            Subject::Snapshot => Self::Snapshot,
            Subject::Revision => Self::Revision,
            Subject::Pool => Self::Pool,
        }
    }
}

impl Operation {
    /// The word for an operation of a review.
    pub(crate) fn named(operation: &str) -> Self {
        match operation {
            "CREATE" => Self::Create,
            "UPDATE" => Self::Update,
            _ => Self::Other,
        }
    }
}

impl Verdict {
    /// The word for an answer.
    pub(crate) fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Allowed => Self::Allowed,
            Answer::Refused(_) => Self::Refused,
            Answer::Malformed(_) => Self::Malformed,
            Answer::TooLarge => Self::TooLarge,
            Answer::Undecided(_) => Self::Undecided,
        }
    }
}

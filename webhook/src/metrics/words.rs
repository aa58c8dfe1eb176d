//! The words that label values are made of. Their sets are closed.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use vmpool_runtime::metrics::{Values, Word};

use crate::review::Answer;

/// An enum whose values stand for themselves in a label.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $(#[doc = $meaning:literal] $variant:ident => $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum $name { $(#[doc = $meaning] $variant),+ }

        impl $name {
            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in the label.
            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                encoder.write_str(self.as_str())
            }
        }

        impl Word for $name {
            fn values() -> Values {
                let meaning = |word| match word { $(Self::$variant => $meaning.trim_ascii()),+ };
                Values::Words(Self::ALL.iter().map(|word| (word.as_str(), meaning(*word))).collect())
            }
        }
    };
}

words!(
    /// What is reviewed.
    Path {
        /// A pool.
        Pool => "pool",
        /// The scale of a pool.
        Scale => "scale",
    }
);

words!(
    /// What is done to it.
    Operation {
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
    Verdict {
        /// Go on.
        Allowed => "allowed",
        /// A rule is broken.
        Refused => "refused",
        /// The object is not what it should be: 400 in the review.
        Malformed => "malformed",
        /// A read failed that a rule depends on: 500 in the review.
        Undecided => "undecided",
        /// It was no review: an HTTP error.
        Unreadable => "unreadable",
    }
);

words!(
    /// What was read.
    Resource {
        /// A class, or all of them to find the default.
        Class => "class",
        /// An image of either kind.
        Image => "image",
        /// A snapshot of a disk, or of its volume.
        Snapshot => "snapshot",
        /// A pool, for the scale guard.
        Pool => "pool",
    }
);

words!(
    /// What came of a read.
    ReadResult {
        /// It is there.
        Found => "found",
        /// It is not.
        Absent => "absent",
        /// There was an error, or no answer in time.
        Failed => "failed",
    }
);

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
            Answer::Undecided(_) => Self::Undecided,
        }
    }
}

//! The words that label values are made of. Their sets are closed, but for the HTTP status.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use vmpool_runtime::metrics::{Values, Word};

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
    /// What is asked of this server.
    Verb {
        /// Read one object or document.
        Get => "get",
        /// Make an object.
        Create => "create",
        /// Anything else.
        Other => "other",
    }
);

words!(
    /// What a request is about.
    Resource {
        /// The metadata of a pool.
        Pools => "virtualmachinepools",
        /// The removal of named machines.
        Removal => "virtualmachinepools/scaledownwith",
        /// Discovery, OpenAPI and the version.
        Documents => "documents",
        /// Health checks.
        Health => "health",
        /// Anything else.
        Other => "other",
    }
);

words!(
    /// What came of a removal.
    Outcome {
        /// Machines leave, and replicas went down for them.
        Removed => "removed",
        /// All machines had been removed by earlier requests.
        Repeated => "repeated",
        /// It was a dry run, and would have worked.
        DryRun => "dry_run",
        /// The request does not fit the pool, its machines or its admission, or others kept changing the pool.
        Refused => "refused",
        /// The pool has too many open removals, or too many requests wait.
        Full => "full",
        /// The API server did not do what it was asked.
        Failed => "failed",
    }
);

words!(
    /// Where the answer came from.
    CheckSource {
        /// It was remembered.
        Cache => "cache",
        /// The API server was asked.
        Review => "review",
    }
);

/// What a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Code(pub(super) u16);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        write!(encoder, "{}", self.0)
    }
}

impl Word for Code {
    fn values() -> Values {
        Values::Open("the HTTP status")
    }
}

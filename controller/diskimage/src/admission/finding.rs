//! What a review finds.

/// The effect of breaking a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingSeverity {
    /// The request is rejected, because a value is invalid.
    Invalid,
    /// The request is rejected, because it is not permitted.
    Forbidden,
    /// The request is allowed with a warning.
    Warning,
}

macro_rules! rules {
    ($($name:ident $id:literal $severity:ident $text:literal;)+) => {
        /// A rule about images, wrappers and grants.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ImageRule {
            $(#[doc = $text] $name,)+
        }

        impl ImageRule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The identifier in messages and documentation.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }

            /// The effect of breaking the rule.
            pub const fn severity(self) -> FindingSeverity {
                match self { $(Self::$name => FindingSeverity::$severity),+ }
            }

            /// The rule as a sentence.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

rules! {
    Url "V1" Invalid "The URL of an image, or of the template of a wrapper, is one that the controller may import";
    Prefix "V2" Invalid "Every urlPrefix of a grant is a URL that programs read in the same way";
    Reference "V3" Forbidden "A grant permits a reference to an image in another namespace";
    Create "V4" Forbidden "One grant permits a wrapper to create a missing image in another namespace";
    Terminating "V5" Forbidden "A new reference does not name an image that is being deleted";
    DiskSize "V6" Invalid "The disk of a machine is not smaller than its image";
    Deletion "V7" Warning "No object uses an image that is deleted";
    Password "V8" Warning "A wrapper contains no password in clear text";
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionFinding {
    /// The rule.
    pub rule: ImageRule,
    /// Path of the field in the object.
    pub field: String,
    /// Why the value is refused.
    pub reason: String,
    /// What to do.
    pub way_out: &'static str,
}

impl AdmissionFinding {
    pub(super) fn new(rule: ImageRule, field: &str, reason: String, way_out: &'static str) -> Self {
        Self { rule, field: field.to_owned(), reason, way_out }
    }
}

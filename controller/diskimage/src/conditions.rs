//! Conditions in the status of images and wrappers.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Declares an enum whose variants have texts in conditions.
macro_rules! condition_texts {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])+ $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$meaning])+ $variant),+ }

        impl $name {
            /// The texts of all values, in the order of the declaration.
            #[cfg(test)]
            const TEXTS: &'static [&'static str] = &[$($text),+];

            /// The text in the condition.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

condition_texts!(
    /// Type of a condition of an image.
    ImageConditionType {
        /// Whether machines can clone the image. Its reason is a
        /// [`DiskImageReason`](crate::failure::DiskImageReason).
        Ready => "Ready",
        /// Whether objects refer to the image.
        InUse => "InUse",
        /// Present and True while the deletion waits.
        DeletionBlocked => "DeletionBlocked",
        /// Whether the claim of the image is bound.
        SourceVolumeHealthy => "SourceVolumeHealthy",
        /// Present and False while an object of another owner prevents the permission to clone.
        ClonePermitted => "ClonePermitted",
    }
);

condition_texts!(
    /// Reason of a condition of an image that has no
    /// [`DiskImageReason`](crate::failure::DiskImageReason).
    ImageConditionReason {
        /// `InUse` is True.
        Referenced => "Referenced",
        /// `InUse` is False.
        Unreferenced => "Unreferenced",
        /// `DeletionBlocked` is True: objects refer to the image.
        InUse => "InUse",
        /// `DeletionBlocked` is True: objects with the data of the image are not gone yet.
        CleanupPending => "CleanupPending",
        /// `SourceVolumeHealthy` is True.
        Bound => "Bound",
        /// `SourceVolumeHealthy` is False.
        SourceVolumeLost => "SourceVolumeLost",
    }
);

condition_texts!(
    /// Type of a condition of a wrapper.
    WrapperConditionType {
        /// Whether image and machine are ready. Its reason is that of what is missing.
        Ready => "Ready",
        /// Whether the wrapper can use its image. Its reason is a
        /// [`WrapperImageReason`](crate::wrapper::WrapperImageReason).
        ImageReady => "ImageReady",
        /// Whether the machine is ready. Its reason is a
        /// [`WrapperMachineReason`](crate::wrapper::WrapperMachineReason).
        VirtualMachineReady => "VirtualMachineReady",
        /// Whether the image is as the template of the wrapper describes it. Its reason is a
        /// [`TemplateMatchReason`].
        TemplateMatches => "TemplateMatches",
    }
);

condition_texts!(
    /// Reason of the condition `TemplateMatches` of a wrapper.
    TemplateMatchReason {
        /// The condition is True: the wrapper has no template.
        NoTemplate => "NoTemplate",
        /// The condition is True: template and image are equal.
        Matches => "Matches",
        /// The condition is False. The event has this reason, too.
        TemplateMismatch => "TemplateMismatch",
    }
);

/// The stored conditions of one object, and what new ones contain.
pub(crate) struct ConditionBuilder<'s> {
    pub(crate) stored: Option<&'s Vec<Condition>>,
    /// `metadata.generation`.
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

/// The condition with this type.
pub(crate) fn find_condition<'s>(stored: Option<&'s Vec<Condition>>, kind: &str) -> Option<&'s Condition> {
    stored.into_iter().flatten().find(|condition| condition.type_ == kind)
}

impl ConditionBuilder<'_> {
    /// A condition. It keeps the time of its transition if the stored one has the same status.
    pub(crate) fn condition(&self, kind: &str, holds: bool, reason: &str, message: String) -> Condition {
        let status = if holds { "True" } else { "False" };
        let since = find_condition(self.stored, kind).filter(|before| before.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: self.generation,
            last_transition_time: since.map_or(Time(self.now), |before| before.last_transition_time.clone()),
        }
    }
}

#[cfg(test)]
mod tests;

//! The enumerated values of a pool as Rust enums.
//!
//! The generated types contain these values as strings, so that an object with an unknown value stays
//! readable. A program decides how to handle an unknown value when it parses the string.

#[cfg(test)]
mod tests;

/// A value that the API does not define.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {what}; known are {}", known.join(", "))]
pub struct UnknownValue {
    /// What the value stands for, for example `scale-down policy`.
    pub what: &'static str,
    /// The unknown value.
    pub found: String,
    /// All known values.
    pub known: &'static [&'static str],
}

/// An enum whose values are texts in objects: the name of the variant, unless every variant has a text of its
/// own.
macro_rules! api_enum {
    (
        $(#[$meta:meta])*
        $name:ident ($what:literal) { $($(#[$doc:meta])* $variant:ident),+ $(,)? }
    ) => {
        $crate::enums::api_enum! {
            $(#[$meta])*
            $name ($what) { $($(#[$doc])* $variant = stringify!($variant)),+ }
        }
    };
    (
        $(#[$meta:meta])*
        $name:ident ($what:literal) { $($(#[$doc:meta])* $variant:ident = $text:expr),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All values, in the order of the API.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value in objects.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.iter().find(|value| value.as_str() == text);
                known.copied().ok_or_else(|| UnknownValue {
                    what: $what,
                    found: text.to_owned(),
                    known: &[$($text,)+],
                })
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }
    };
}

pub(crate) use api_enum;

api_enum! {
    /// `spec.scaleDownPolicy` of a pool: which machines a scale-down removes.
    ScaleDownPolicy ("scale-down policy") {
        /// The machine that was created last.
        NewestFirst,
        /// The machine that was created first.
        OldestFirst,
        /// Only the targets of a targeted removal.
        Explicit,
    }
}

api_enum! {
    /// `spec.imageRefresh` of a pool: what the controller does if a source of the disks leads to other
    /// content.
    ImageRefreshMode ("mode of image refresh") {
        /// It does not follow the sources.
        Off,
        /// It reports machines with disks from other content.
        Report,
        /// It replaces them, too.
        Recreate,
    }
}

api_enum! {
    /// `reclaim.onScaleDown` of a disk template: what happens to the disk of a removed machine.
    ReclaimPolicy ("reclaim policy") {
        /// It is deleted with its machine.
        Delete,
        /// It is retained with its data, for another machine of the pool.
        Retain,
    }
}

api_enum! {
    /// Kind of a block device of a machine.
    DeviceKind ("kind of block device") {
        /// A disk that one running machine can use.
        VirtualDisk,
        /// A read-only image in the namespace.
        VirtualImage,
        /// A read-only cluster-wide image.
        ClusterVirtualImage,
    }
}

api_enum! {
    /// `spec.runPolicy` of a machine: when it runs.
    RunPolicy ("run policy") {
        /// It is started again after every shutdown.
        AlwaysOn,
        /// It is kept off.
        AlwaysOff,
        /// Operations start and stop it.
        Manual,
        /// It is started once and then stays off after a shutdown.
        AlwaysOnUnlessStoppedManually,
    }
}

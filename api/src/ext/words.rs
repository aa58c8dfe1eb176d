//! The fixed words of the API as enums.
//!
//! The generated types hold these words as strings: an object with a word that this crate does not know yet must
//! stay readable. Parsing is where a program decides what to do with such a word.

#[cfg(test)]
mod tests;

/// A word that is none of those the API defines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {what}; known are {}", known.join(", "))]
pub struct UnknownWord {
    /// What the word should have been, for example `scale-down policy`.
    pub what: &'static str,
    /// The word that was found.
    pub found: String,
    /// All words that are known.
    pub known: &'static [&'static str],
}

macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident ($what:literal) { $($(#[$doc:meta])* $word:ident),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $word,)+
        }

        impl $name {
            /// All words, in the order of the API.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// The word as it stands in objects.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $(stringify!($word) => Ok(Self::$word),)+
                    _ => Err(UnknownWord {
                        what: $what,
                        found: word.to_owned(),
                        known: &[$(stringify!($word),)+],
                    }),
                }
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.as_str().to_owned()
            }
        }
    };
}

words! {
    /// `spec.scaleDownPolicy` of a pool: which machines leave when it shrinks.
    ScaleDownPolicy ("scale-down policy") {
        /// The machine that was created last.
        NewestFirst,
        /// The machine that was created first.
        OldestFirst,
        /// Only machines that somebody names.
        Explicit,
    }
}

words! {
    /// `reclaim.onScaleDown` of a disk template: what becomes of the disk of a machine that leaves.
    ReclaimPolicy ("reclaim policy") {
        /// It is deleted with its machine.
        Delete,
        /// It stays, with its data, for another machine of the pool.
        Retain,
    }
}

words! {
    /// Kind of a block device of a machine.
    DeviceKind ("kind of block device") {
        /// A disk that one running machine writes to.
        VirtualDisk,
        /// A read-only image of the namespace.
        VirtualImage,
        /// A read-only image of the cluster.
        ClusterVirtualImage,
    }
}

words! {
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

words! {
    /// `spec.disruptions.restartApprovalMode` of a machine: who decides about a restart that a change needs.
    RestartApprovalMode ("restart approval mode") {
        /// A person.
        Manual,
        /// Nobody, the machine is restarted at once.
        Automatic,
    }
}

words! {
    /// `status.phase` of a machine.
    MachinePhase ("machine phase") {
        /// Something that the machine needs is missing.
        Pending,
        /// The machine is being started.
        Starting,
        /// The guest runs.
        Running,
        /// The guest runs and moves to another node.
        Migrating,
        /// The guest is paused.
        Pause,
        /// The guest is being shut down.
        Stopping,
        /// The machine is off.
        Stopped,
        /// The object is being deleted.
        Terminating,
        /// The machine failed.
        Degraded,
    }
}

impl MachinePhase {
    /// Whether the guest runs; it does so during a live migration too.
    pub const fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Migrating)
    }
}

words! {
    /// `status.phase` of a disk.
    DiskPhase ("disk phase") {
        /// It waits for its data source, its storage class or quota.
        Pending,
        /// Its volume is made, its data is copied.
        Provisioning,
        /// It waits for somebody to upload its data.
        WaitForUserUpload,
        /// Its volume is bound when the first machine with it is scheduled.
        WaitForFirstConsumer,
        /// It can be used.
        Ready,
        /// It can be used and grows.
        Resizing,
        /// It could not be made.
        Failed,
        /// Its volume is gone, and the data with it.
        PVCLost,
        /// Its data is being read out.
        Exporting,
        /// It moves to other storage.
        Migrating,
        /// The object is being deleted.
        Terminating,
    }
}

words! {
    /// `status.phase` of an image of either kind.
    ImagePhase ("image phase") {
        /// It waits for its data source, its storage or quota.
        Pending,
        /// Its data is copied.
        Provisioning,
        /// It waits for somebody to upload its data.
        WaitForUserUpload,
        /// It can be used.
        Ready,
        /// Its data is gone from the registry.
        ImageLost,
        /// Its volume is gone.
        PVCLost,
        /// It could not be made.
        Failed,
        /// The object is being deleted.
        Terminating,
    }
}

words! {
    /// `spec.type` of an operation on a machine.
    OperationType ("operation") {
        /// Switch the machine on.
        Start,
        /// Shut the machine down.
        Stop,
        /// Shut the machine down and switch it on again.
        Restart,
        /// Move the running machine to another node.
        Migrate,
        /// Move the running machine away from its node.
        Evict,
    }
}

words! {
    /// `status.phase` of an operation on a machine.
    OperationPhase ("operation phase") {
        /// It waits for its turn.
        Pending,
        /// It is carried out.
        InProgress,
        /// It succeeded. Final.
        Completed,
        /// It did not succeed. Final.
        Failed,
        /// The object is being deleted.
        Terminating,
    }
}

words! {
    /// `status.phase` of an attachment of a block device.
    AttachmentPhase ("attachment phase") {
        /// Something that it needs is missing.
        Pending,
        /// The device is being attached.
        InProgress,
        /// The machine has the device.
        Attached,
        /// The device could not be attached.
        Failed,
        /// The device is being detached and the object deleted.
        Terminating,
    }
}

//! The enumerated values of the API as Rust enums.
//!
//! The generated types contain these values as strings, so that an object with an unknown value stays readable. A program
//! decides how to handle an unknown value when it parses the string.

#[cfg(test)]
mod tests;

/// A value that the API does not define.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {what}; known are {}", known.join(", "))]
pub struct UnknownWord {
    /// What the value stands for, for example `scale-down policy`.
    pub what: &'static str,
    /// The unknown value.
    pub found: String,
    /// All known values.
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
            /// All values, in the order of the API.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            /// The value in objects.
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

pub(crate) use words;

words! {
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

words! {
    /// `reclaim.onScaleDown` of a disk template: what happens to the disk of a removed machine.
    ReclaimPolicy ("reclaim policy") {
        /// It is deleted with its machine.
        Delete,
        /// It is retained with its data, for another machine of the pool.
        Retain,
    }
}

words! {
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
    /// `spec.disruptions.restartApprovalMode` of a machine: whether a restart for a change needs an approval.
    RestartApprovalMode ("restart approval mode") {
        /// A user approves the restart.
        Manual,
        /// The machine is restarted at once.
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
    /// Whether the guest runs; it also does during a live migration.
    pub const fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Migrating)
    }
}

words! {
    /// `status.phase` of a disk.
    DiskPhase ("disk phase") {
        /// It waits for its data source, storage class or quota.
        Pending,
        /// Its volume is being created and filled.
        Provisioning,
        /// It waits until a user uploads its data.
        WaitForUserUpload,
        /// Its volume is bound when the first machine with it is scheduled.
        WaitForFirstConsumer,
        /// It can be used.
        Ready,
        /// It can be used and is being expanded.
        Resizing,
        /// It could not be created.
        Failed,
        /// Its volume and data are lost.
        PVCLost,
        /// Its data is being exported.
        Exporting,
        /// It is being migrated to other storage.
        Migrating,
        /// The object is being deleted.
        Terminating,
    }
}

words! {
    /// `status.phase` of an image of either kind.
    ImagePhase ("image phase") {
        /// It waits for its data source, storage or quota.
        Pending,
        /// Its data is being copied.
        Provisioning,
        /// It waits until a user uploads its data.
        WaitForUserUpload,
        /// It can be used.
        Ready,
        /// Its data is missing in the registry.
        ImageLost,
        /// Its volume is lost.
        PVCLost,
        /// It could not be created.
        Failed,
        /// The object is being deleted.
        Terminating,
    }
}

words! {
    /// `spec.type` of an operation on a machine.
    OperationType ("operation") {
        /// Starts the machine.
        Start,
        /// Shuts the machine down.
        Stop,
        /// Shuts the machine down and starts it again.
        Restart,
        /// Migrates the running machine to another node.
        Migrate,
        /// Migrates the running machine away from its node.
        Evict,
    }
}

words! {
    /// `status.phase` of an operation on a machine.
    OperationPhase ("operation phase") {
        /// It has not started.
        Pending,
        /// It is running.
        InProgress,
        /// It succeeded. This phase is final.
        Completed,
        /// It failed. This phase is final.
        Failed,
        /// The object is being deleted.
        Terminating,
    }
}

words! {
    /// `status.phase` of an attachment of a block device.
    AttachmentPhase ("attachment phase") {
        /// Something that the attachment needs is missing.
        Pending,
        /// The device is being attached.
        InProgress,
        /// The machine has the device.
        Attached,
        /// The device could not be attached.
        Failed,
        /// The device is being detached and the object is being deleted.
        Terminating,
    }
}

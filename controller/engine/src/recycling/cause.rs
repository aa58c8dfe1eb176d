//! Why a machine is replaced.

/// Why another machine takes the place of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecycleCause {
    /// Its annotation requests it.
    Requested,
    /// It is older than the lifetime of the machines of its pool.
    Lifetime,
    /// It was claimed as often as its pool allows.
    Claims,
    /// Its disks are from earlier content of their source.
    Image,
    /// The owner of a hook released it for a step that does not follow any more.
    Released,
}

impl RecycleCause {
    /// The cause as a clause, for sentences such as `deleted machine NAME, because ...`.
    pub const fn clause(self) -> &'static str {
        match self {
            Self::Requested => "because its replacement was requested",
            Self::Lifetime => "because it reached recycle.maxLifetime",
            Self::Claims => "because it was claimed recycle.maxClaims times",
            Self::Image => "because its image has other content",
            Self::Released => "because its hooks released it",
        }
    }
}

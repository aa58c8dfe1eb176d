//! The four kinds and the names that a matcher may use for them.

use std::fmt;

/// What a matcher refers to: an instance type or a preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypeFamily {
    /// `spec.instancetype`.
    Instancetype,
    /// `spec.preference`.
    Preference,
}

impl TypeFamily {
    /// The name of the matcher's field in the spec of a machine.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Instancetype => "instancetype",
            Self::Preference => "preference",
        }
    }

    /// The name of the reference's field in the status of a machine.
    pub const fn status_field(self) -> &'static str {
        match self {
            Self::Instancetype => "instancetypeRef",
            Self::Preference => "preferenceRef",
        }
    }

    /// What messages call it.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Instancetype => "instance type",
            Self::Preference => "preference",
        }
    }
}

/// One of the four kinds of the group `instancetype.kubevirt.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceTypeKind {
    /// `VirtualMachineInstancetype`, in a namespace.
    Instancetype,
    /// `VirtualMachineClusterInstancetype`, without a namespace.
    ClusterInstancetype,
    /// `VirtualMachinePreference`, in a namespace.
    Preference,
    /// `VirtualMachineClusterPreference`, without a namespace.
    ClusterPreference,
}

/// The kind in a matcher is none of the kinds that the matcher can refer to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind {kind:?} of {noun}; use {namespaced} or {cluster}", noun = family.noun(),
        namespaced = InstanceTypeKind::of(*family, false), cluster = InstanceTypeKind::of(*family, true))]
pub struct UnknownKind {
    /// What the matcher refers to.
    pub family: TypeFamily,
    /// The kind that it gives.
    pub kind: String,
}

impl InstanceTypeKind {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::Instancetype, Self::ClusterInstancetype, Self::Preference, Self::ClusterPreference];

    /// The kind of a family, for the cluster or for a namespace.
    pub const fn of(family: TypeFamily, cluster: bool) -> Self {
        match (family, cluster) {
            (TypeFamily::Instancetype, false) => Self::Instancetype,
            (TypeFamily::Instancetype, true) => Self::ClusterInstancetype,
            (TypeFamily::Preference, false) => Self::Preference,
            (TypeFamily::Preference, true) => Self::ClusterPreference,
        }
    }

    /// Reads the kind of a matcher: the singular or plural name of the resource, regardless of case. An empty
    /// kind is that of the cluster.
    ///
    /// # Errors
    /// [`UnknownKind`] for anything else, also for the kinds of the other family.
    pub fn of_matcher(family: TypeFamily, kind: &str) -> Result<Self, UnknownKind> {
        if kind.is_empty() {
            return Ok(Self::of(family, true));
        }
        let lower = kind.to_ascii_lowercase();
        let named = |candidate: &Self| lower == candidate.singular() || lower == candidate.plural();
        let known = Self::ALL.into_iter().filter(|candidate| candidate.family() == family).find(named);
        known.ok_or_else(|| UnknownKind { family, kind: kind.to_owned() })
    }

    /// Reads the `kind` of an object, which has exactly one spelling.
    pub fn of_object(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|candidate| candidate.as_str() == kind)
    }

    /// Whether it is an instance type or a preference.
    pub const fn family(self) -> TypeFamily {
        match self {
            Self::Instancetype | Self::ClusterInstancetype => TypeFamily::Instancetype,
            Self::Preference | Self::ClusterPreference => TypeFamily::Preference,
        }
    }

    /// Whether its objects have no namespace.
    pub const fn is_cluster(self) -> bool {
        matches!(self, Self::ClusterInstancetype | Self::ClusterPreference)
    }

    /// The `kind` of its objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instancetype => "VirtualMachineInstancetype",
            Self::ClusterInstancetype => "VirtualMachineClusterInstancetype",
            Self::Preference => "VirtualMachinePreference",
            Self::ClusterPreference => "VirtualMachineClusterPreference",
        }
    }

    /// The singular name of the resource.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Instancetype => "virtualmachineinstancetype",
            Self::ClusterInstancetype => "virtualmachineclusterinstancetype",
            Self::Preference => "virtualmachinepreference",
            Self::ClusterPreference => "virtualmachineclusterpreference",
        }
    }

    /// The plural name of the resource.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Instancetype => "virtualmachineinstancetypes",
            Self::ClusterInstancetype => "virtualmachineclusterinstancetypes",
            Self::Preference => "virtualmachinepreferences",
            Self::ClusterPreference => "virtualmachineclusterpreferences",
        }
    }

    /// The annotation of an instance that names the object it was made with.
    pub const fn name_annotation(self) -> &'static str {
        match self {
            Self::Instancetype => "kubevirt.io/instancetype-name",
            Self::ClusterInstancetype => "kubevirt.io/cluster-instancetype-name",
            Self::Preference => "kubevirt.io/preference-name",
            Self::ClusterPreference => "kubevirt.io/cluster-preference-name",
        }
    }
}

impl fmt::Display for InstanceTypeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

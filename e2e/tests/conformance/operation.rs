//! The operations that both servers perform.

use crate::kind::{ConformanceKind, Name, ObjectTarget};

/// An operation with its number, by which later operations refer to it.
#[derive(Clone, Debug)]
pub(crate) struct NumberedOperation {
    pub(crate) id: usize,
    pub(crate) op: ConformanceOperation,
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum ConformanceOperation {
    Create {
        kind: ConformanceKind,
        name: Option<&'static str>,
        shape: u64,
        with: Vec<ConformanceChange>,
        dry: bool,
    },
    Get {
        target: ObjectTarget,
        subresource: &'static str,
    },
    List {
        kind: ConformanceKind,
        selector: SelectorWithLabels,
        name: Option<Name>,
        limit: u64,
    },
    /// The next page of the last paginated list.
    Continue {
        limit: u64,
    },
    Put {
        target: ObjectTarget,
        subresource: &'static str,
        change: ConformanceChange,
        uid: Precondition,
        version: Precondition,
        dry: bool,
    },
    Patch {
        target: ObjectTarget,
        subresource: &'static str,
        format: PatchFormat,
        change: ConformanceChange,
        uid: Precondition,
        version: Precondition,
        dry: bool,
    },
    Scale {
        target: ObjectTarget,
        method: ScaleMethod,
        replicas: i64,
        uid: Precondition,
        version: Precondition,
    },
    Delete {
        target: ObjectTarget,
        policy: Option<&'static str>,
        uid: Precondition,
        version: Precondition,
        dry: bool,
    },
    Watch {
        kind: ConformanceKind,
        since: Since,
        selector: SelectorWithLabels,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchFormat {
    Merge,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleMethod {
    Put,
    Patch(PatchFormat),
}

/// A precondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    None,
    /// The current value.
    Current,
    /// The first version of this object, or a UID of no object.
    Outdated,
}

/// The version at which a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Before the first step.
    Start,
    /// The version in the response to this step.
    Step(usize),
    /// An expired version.
    TooOld,
    /// The existing objects.
    Now,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) enum ConformanceChange {
    Nothing,
    Labels(&'static [(&'static str, &'static str)]),
    Annotation(Option<u64>),
    Finalizers(&'static [&'static str]),
    /// Owner references, each with its `blockOwnerDeletion`; `None` refers to an owner that does not exist.
    Owners(Vec<(Option<ObjectTarget>, bool)>),
    /// Two controlling owners.
    TwoControllers,
    /// An owner of an unknown kind.
    UnknownOwner,
    Content(u64),
    Status(u64),
    Both(u64),
    /// Metadata that only the server may set.
    ServerSet(ServerField),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerField {
    Generation,
    Created,
    Deleted,
    Name,
    Namespace,
    SelfLink,
    Version,
    Uid,
}

/// A label selector, and labels that match it.
#[derive(Clone, Copy)]
pub(crate) struct SelectorWithLabels(
    pub(crate) &'static str,
    pub(crate) &'static [(&'static str, &'static str)],
);

impl std::fmt::Debug for SelectorWithLabels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl ConformanceChange {
    /// Whether the change may prevent the object's deletion.
    pub(crate) fn adds_finalizers(&self) -> bool {
        matches!(self, Self::Finalizers(all) if !all.is_empty())
    }
}

//! What both servers are asked to do.

use crate::kind::{Kind, Name, Target};

/// One operation, with the number by which later ones refer to it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) id: usize,
    pub(crate) op: Op,
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Create {
        kind: Kind,
        name: Option<&'static str>,
        shape: u64,
        with: Vec<Change>,
        dry: bool,
    },
    Get {
        target: Target,
        subresource: &'static str,
    },
    List {
        kind: Kind,
        selector: Selector,
        name: Option<Name>,
        limit: u64,
    },
    /// The next page of the last list that had one.
    Continue {
        limit: u64,
    },
    Put {
        target: Target,
        subresource: &'static str,
        change: Change,
        uid: Lock,
        version: Lock,
        dry: bool,
    },
    Patch {
        target: Target,
        subresource: &'static str,
        language: Language,
        change: Change,
        uid: Lock,
        version: Lock,
        dry: bool,
    },
    Scale {
        target: Target,
        how: Scaling,
        replicas: i64,
        uid: Lock,
        version: Lock,
    },
    Delete {
        target: Target,
        policy: Option<&'static str>,
        uid: Lock,
        version: Lock,
        dry: bool,
    },
    Watch {
        kind: Kind,
        since: Since,
        selector: Selector,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Merge,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaling {
    Put,
    Patch(Language),
}

/// A precondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Unnamed,
    Right,
    /// The first version that this object was seen with; a UID that nobody has.
    Wrong,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Before the first step.
    Start,
    /// What this step answered.
    Step(usize),
    /// Long ago.
    TooOld,
    /// With what there is.
    Now,
}

/// What is changed of an object.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Nothing,
    Labels(&'static [(&'static str, &'static str)]),
    Annotation(Option<u64>),
    Finalizers(&'static [&'static str]),
    /// These own it, and whether they wait for it; `None` owns it and does not exist.
    Owners(Vec<(Option<Target>, bool)>),
    /// Two controllers.
    TwoControllers,
    /// An owner of a kind that there is not.
    UnknownOwner,
    Substance(u64),
    Status(u64),
    Both(u64),
    /// Metadata of the server's own.
    Forged(Forgery),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Forgery {
    Generation,
    Created,
    Deleted,
    Name,
    Namespace,
    SelfLink,
    Version,
    Uid,
}

/// A label selector, and labels that it lets through.
#[derive(Clone, Copy)]
pub(crate) struct Selector(pub(crate) &'static str, pub(crate) &'static [(&'static str, &'static str)]);

impl std::fmt::Debug for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Change {
    /// Whether an object may stay for it.
    pub(crate) fn adds_finalizers(&self) -> bool {
        matches!(self, Self::Finalizers(all) if !all.is_empty())
    }
}

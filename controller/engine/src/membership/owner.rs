//! The owners of objects.

use crate::ids::ObjectId;

/// Group and kind of an owner, as far as decisions depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerKind {
    /// A pool of the platform.
    Pool,
    /// A machine of the platform.
    Machine,
    /// Any other group or kind.
    Other,
}

/// The controller owner of an object.
///
/// A user can write any UID into an owner reference. An owner therefore counts only if group, kind, name and
/// UID are those of the object that it is compared with, and that object is in the same namespace: an owner
/// reference names none. Facts do not contain their namespace, so all caches, indexes and lookups have the
/// namespace in their keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Group and kind.
    pub kind: OwnerKind,
    /// Name and UID.
    pub id: ObjectId,
}

impl Owner {
    /// This pool as an owner.
    pub fn pool(id: &ObjectId) -> Self {
        Self { kind: OwnerKind::Pool, id: id.clone() }
    }

    /// This machine as an owner.
    pub fn machine(id: &ObjectId) -> Self {
        Self { kind: OwnerKind::Machine, id: id.clone() }
    }

    /// Whether it is this pool.
    pub fn is_pool(&self, pool: &ObjectId) -> bool {
        self.kind == OwnerKind::Pool && self.id == *pool
    }

    /// Whether it is this machine.
    pub fn is_machine(&self, machine: &ObjectId) -> bool {
        self.kind == OwnerKind::Machine && self.id == *machine
    }

    /// The pool, if it is one.
    pub fn as_pool(&self) -> Option<&ObjectId> {
        (self.kind == OwnerKind::Pool).then_some(&self.id)
    }

    /// The machine, if it is one.
    pub fn as_machine(&self) -> Option<&ObjectId> {
        (self.kind == OwnerKind::Machine).then_some(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_pool(OwnerKind::Pool, "web", "p", true)]
    #[case::another_kind_or_group(OwnerKind::Other, "web", "p", false)]
    #[case::a_machine(OwnerKind::Machine, "web", "p", false)]
    #[case::another_name(OwnerKind::Pool, "db", "p", false)]
    #[case::an_earlier_pool_of_the_name(OwnerKind::Pool, "web", "q", false)]
    fn an_owner_is_a_pool_only_with_kind_name_and_uid(
        #[case] kind: OwnerKind,
        #[case] name: &str,
        #[case] uid: &str,
        #[case] expected: bool,
    ) {
        let owner = Owner { kind, id: ObjectId::new(name, uid) };
        assert_eq!(owner.is_pool(&ObjectId::new("web", "p")), expected);
        assert_eq!(owner.is_machine(&owner.id), kind == OwnerKind::Machine);
        assert_eq!(owner.as_pool().is_some(), kind == OwnerKind::Pool);
        assert_eq!(owner.as_machine().is_some(), kind == OwnerKind::Machine);
    }
}

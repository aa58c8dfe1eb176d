//! Scale-down policies: one table with all decisions that depend on the policy.
//!
//! Selection, order, status, plans for users and admission ask the table. To add a policy, add a variant and
//! its row.

use std::cmp::{Ordering, Reverse};

use crate::ids::hash_bytes;
use crate::model::{Machine, MachineActivity};

/// Which machines a scale-down deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleDownPolicy {
    /// The youngest first.
    NewestFirst,
    /// The oldest first.
    OldestFirst,
    /// The smallest ordinal first.
    LowestOrdinalFirst,
    /// The greatest ordinal first, as a StatefulSet does.
    HighestOrdinalFirst,
    /// In a random order, which does not change between two passes.
    Random,
    /// Only machines that are stopped, in a random order. The others stay until a user stops or deletes them.
    StoppedOnly,
    /// None. The controller deletes only the targets of targeted removals.
    Explicit,
}

/// The part of the surplus that a scale-down may delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeletableSurplus {
    /// All machines.
    All,
    /// Machines that are stopped.
    Stopped,
    /// No machine.
    Nothing,
}

/// The row of a policy.
struct PolicyRow {
    /// The value of `scaleDownPolicy` in a pool; `None` if that field does not have the policy. A platform
    /// then reads it from other fields.
    value: Option<&'static str>,
    /// Which machines of the surplus it deletes.
    deletes: DeletableSurplus,
    /// Which of two machines it deletes first.
    order: fn(&Machine, &Machine) -> Ordering,
    /// Whether the number of a machine decides.
    is_by_ordinal: bool,
    /// Which machines it deletes, as a plan for users says it.
    description: &'static str,
    /// The first machine in the order, as a plan for users says it.
    first: &'static str,
}

impl ScaleDownPolicy {
    /// All policies.
    pub const ALL: [Self; 7] = [
        Self::NewestFirst,
        Self::OldestFirst,
        Self::LowestOrdinalFirst,
        Self::HighestOrdinalFirst,
        Self::Random,
        Self::StoppedOnly,
        Self::Explicit,
    ];

    /// The table.
    const fn row(self) -> PolicyRow {
        match self {
            Self::NewestFirst => PolicyRow {
                value: Some("NewestFirst"),
                deletes: DeletableSurplus::All,
                order: compare_newest_first,
                is_by_ordinal: false,
                description: "the newest first",
                first: "the newest",
            },
            Self::OldestFirst => PolicyRow {
                value: Some("OldestFirst"),
                deletes: DeletableSurplus::All,
                order: compare_oldest_first,
                is_by_ordinal: false,
                description: "the oldest first",
                first: "the oldest",
            },
            Self::LowestOrdinalFirst => PolicyRow {
                value: None,
                deletes: DeletableSurplus::All,
                order: compare_lowest_ordinal_first,
                is_by_ordinal: true,
                description: "the smallest ordinal first",
                first: "the one with the smallest ordinal",
            },
            Self::HighestOrdinalFirst => PolicyRow {
                value: None,
                deletes: DeletableSurplus::All,
                order: compare_highest_ordinal_first,
                is_by_ordinal: true,
                description: "the greatest ordinal first",
                first: "the one with the greatest ordinal",
            },
            Self::Random => PolicyRow {
                value: None,
                deletes: DeletableSurplus::All,
                order: compare_at_random,
                is_by_ordinal: false,
                description: "in a random order",
                first: "the first one",
            },
            Self::StoppedOnly => PolicyRow {
                value: None,
                deletes: DeletableSurplus::Stopped,
                order: compare_at_random,
                is_by_ordinal: false,
                description: "those that are stopped",
                first: "the first one",
            },
            Self::Explicit => PolicyRow {
                value: Some("Explicit"),
                deletes: DeletableSurplus::Nothing,
                order: compare_oldest_first,
                is_by_ordinal: false,
                description: "none",
                first: "the first one",
            },
        }
    }

    /// The policy with this value of `scaleDownPolicy`; `None` if there is none.
    pub fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.value() == Some(value))
    }

    /// The value of `scaleDownPolicy`; `None` if that field does not have the policy.
    pub const fn value(self) -> Option<&'static str> {
        self.row().value
    }

    /// Which machines it deletes, for users, such as `the newest first`.
    pub const fn description(self) -> &'static str {
        self.row().description
    }

    /// The first machine in its order, for users, such as `the newest`.
    pub const fn description_of_first(self) -> &'static str {
        self.row().first
    }

    /// Whether the number of a machine decides, so that its state does not matter: the pool keeps the
    /// ordinals without a gap.
    pub const fn is_by_ordinal(self) -> bool {
        self.row().is_by_ordinal
    }

    /// Whether only targets of targeted removals leave.
    pub fn deletes_only_targets(self) -> bool {
        self.row().deletes == DeletableSurplus::Nothing
    }

    /// Whether the whole surplus leaves, in whatever state its machines are.
    pub fn deletes_whole_surplus(self) -> bool {
        self.row().deletes == DeletableSurplus::All
    }

    /// Whether a scale-down may delete the machine.
    pub(crate) fn may_delete(self, machine: &Machine) -> bool {
        match self.row().deletes {
            DeletableSurplus::All => true,
            DeletableSurplus::Stopped => machine.runs_no_guest(),
            DeletableSurplus::Nothing => false,
        }
    }

    /// The order of deletion. Among machines of the same age, those that do not run come first, and then the
    /// name decides. The same state therefore always yields the same result.
    pub fn compare(self, a: &Machine, b: &Machine) -> Ordering {
        (self.row().order)(a, b)
    }
}

fn compare_newest_first(a: &Machine, b: &Machine) -> Ordering {
    b.created.cmp(&a.created).then(compare_activity(a, b)).then_with(|| b.id.name.cmp(&a.id.name))
}

fn compare_oldest_first(a: &Machine, b: &Machine) -> Ordering {
    a.created.cmp(&b.created).then(compare_activity(a, b)).then_with(|| a.id.name.cmp(&b.id.name))
}

fn compare_lowest_ordinal_first(a: &Machine, b: &Machine) -> Ordering {
    (ordinal_of_machine(a), &a.id.name).cmp(&(ordinal_of_machine(b), &b.id.name))
}

fn compare_highest_ordinal_first(a: &Machine, b: &Machine) -> Ordering {
    (Reverse(ordinal_of_machine(a)), &a.id.name).cmp(&(Reverse(ordinal_of_machine(b)), &b.id.name))
}

fn compare_at_random(a: &Machine, b: &Machine) -> Ordering {
    (random_order_key(a), &a.id.name).cmp(&(random_order_key(b), &b.id.name))
}

/// Machines that do not run come first.
fn compare_activity(a: &Machine, b: &Machine) -> Ordering {
    (a.activity == MachineActivity::Running).cmp(&(b.activity == MachineActivity::Running))
}

/// The number after the last dash; 0 if there is none.
fn ordinal_of_machine(machine: &Machine) -> u64 {
    machine.id.name.rsplit('-').next().and_then(|tail| tail.parse().ok()).unwrap_or(0)
}

/// A number that looks random and does not change: a hash of the UID, which the API server chose at random.
fn random_order_key(machine: &Machine) -> u64 {
    hash_bytes(machine.id.uid.as_str().bytes())
}

#[cfg(test)]
mod tests;

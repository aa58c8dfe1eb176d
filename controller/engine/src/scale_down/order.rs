//! The order in which machines leave.

use std::cmp::{Ordering, Reverse};

use crate::model::{Machine, MachineActivity, ScaleDownPolicy};

/// The order of deletion. Among machines of the same age, those that do not run come first, and then the name
/// decides. The same state therefore always yields the same result.
pub(crate) fn leaving_order(policy: ScaleDownPolicy, a: &Machine, b: &Machine) -> Ordering {
    let idle_first = (a.activity == MachineActivity::Running).cmp(&(b.activity == MachineActivity::Running));
    match policy {
        ScaleDownPolicy::NewestFirst => {
            b.created.cmp(&a.created).then(idle_first).then_with(|| b.id.name.cmp(&a.id.name))
        }
        ScaleDownPolicy::OldestFirst | ScaleDownPolicy::Explicit => {
            a.created.cmp(&b.created).then(idle_first).then_with(|| a.id.name.cmp(&b.id.name))
        }
        ScaleDownPolicy::Random | ScaleDownPolicy::StoppedOnly => {
            (random_order_key(a), &a.id.name).cmp(&(random_order_key(b), &b.id.name))
        }
        ScaleDownPolicy::LowestOrdinalFirst => {
            (ordinal_of_machine(a), &a.id.name).cmp(&(ordinal_of_machine(b), &b.id.name))
        }
        ScaleDownPolicy::HighestOrdinalFirst => {
            (Reverse(ordinal_of_machine(a)), &a.id.name).cmp(&(Reverse(ordinal_of_machine(b)), &b.id.name))
        }
    }
}

/// The number after the last dash; 0 if there is none.
fn ordinal_of_machine(machine: &Machine) -> u64 {
    machine.id.name.rsplit('-').next().and_then(|tail| tail.parse().ok()).unwrap_or(0)
}

/// A number that looks random and does not change: a hash of the UID, which the API server chose at random.
fn random_order_key(machine: &Machine) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    machine.id.uid.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, hash)
}

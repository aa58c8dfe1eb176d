//! Names of ephemeral disks.

use std::sync::Arc;

use crate::plan::observed::ObservedPool;

/// The name of an ephemeral disk. It is computed from machine and template, so a repeated create gets
/// `AlreadyExists` for it.
pub(crate) fn disk_name(machine: &str, template: &str) -> Arc<str> {
    format!("{machine}-{template}").into()
}

/// The same name, or the first variation that is not in use. For an existing machine, whose disk map then
/// records the name.
pub(super) fn free_name(observed: &ObservedPool<'_>, machine: &str, template: &str) -> Arc<str> {
    let plain = disk_name(machine, template);
    let is_taken = |name: &str| observed.names_in_use.has_disk(name) || observed.disks.contains_key(name);
    if !is_taken(&plain) {
        return plain;
    }
    (2..=u64::MAX)
        .map(|attempt| format!("{plain}-{attempt}"))
        .find(|name| !is_taken(name))
        .expect("the numbers do not end")
        .into()
}

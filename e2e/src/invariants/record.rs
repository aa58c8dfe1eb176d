//! The pool's own record of machines that are removed by name, read without the code that writes it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::{Object, REMOVAL_ANNOTATION};

/// Who is named on a pool, by UID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The count was lowered for them.
    pub(super) accepted: BTreeSet<String>,
    /// Somebody may be about to remove them: they count as present, even if they are gone.
    pub(super) reserved: BTreeSet<String>,
}

impl Record {
    /// What is written on a pool; nothing if it cannot be read.
    pub(super) fn of(pool: &Object) -> Self {
        let mut record = Self::default();
        let text = pool.annotation(REMOVAL_ANNOTATION).unwrap_or("[]");
        let entries: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        for entry in entries {
            let uid = entry["uid"].as_str().unwrap_or_default().to_owned();
            let reserved = entry.get("reserved").is_some();
            if reserved { &mut record.reserved } else { &mut record.accepted }.insert(uid);
        }
        // Whoever was accepted counts as that, whoever else reserves it.
        let Self { accepted, reserved } = &mut record;
        reserved.retain(|uid| !accepted.contains(uid));
        record
    }
}

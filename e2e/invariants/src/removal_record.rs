//! Parses the removal record of a pool, without the code that writes it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vmpool_api::{annotations, kubevirt};

use crate::object::JsonObject;

/// The targets of a pool, by UID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedRemovalRecord {
    /// Targets for which `replicas` was lowered.
    pub(super) accepted: BTreeSet<String>,
    /// Targets whose removal may be about to be accepted: they count as existing, even if they are gone.
    pub(super) reserved: BTreeSet<String>,
    /// Targets of forced removals.
    pub(super) forced: BTreeSet<String>,
    /// The users who requested the accepted removals, by target.
    requested_by: BTreeMap<String, String>,
}

impl ParsedRemovalRecord {
    /// The annotation that contains the record of a pool.
    pub(super) fn key(pool: &JsonObject) -> &'static str {
        if pool.is_kubevirt() {
            kubevirt::annotations::SCALE_IN_TARGETS
        } else {
            annotations::SCALE_DOWN_TARGETS
        }
    }

    /// The record of a pool; empty if it cannot be parsed.
    pub(super) fn of(pool: &JsonObject) -> Self {
        let mut record = Self::default();
        let text = pool.annotation(Self::key(pool)).unwrap_or("[]");
        let entries: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        let mut user = String::new();
        for entry in entries {
            // Consecutive entries of one user have the name once.
            if let Some(named) = entry["by"].as_str() {
                named.clone_into(&mut user);
            }
            let uid = entry["uid"].as_str().unwrap_or_default().to_owned();
            let reserved = entry.get("reserved").is_some();
            if entry["force"] == true {
                record.forced.insert(uid.clone());
            }
            if !reserved {
                record.requested_by.insert(uid.clone(), user.clone());
            }
            if reserved { &mut record.reserved } else { &mut record.accepted }.insert(uid);
        }
        // An accepted target counts as accepted, even if another request reserves it.
        let Self { accepted, reserved, forced: _, requested_by: _ } = &mut record;
        reserved.retain(|uid| !accepted.contains(uid));
        record
    }

    /// The accepted targets whose removal this user requested.
    pub(super) fn accepted_for(&self, user: &str) -> impl Iterator<Item = &str> {
        let of_user = self.requested_by.iter().filter(move |(_, requested_by)| requested_by.as_str() == user);
        of_user.map(|(uid, _)| uid.as_str())
    }
}
